"""What is relied upon inside Flower, beyond what it documents; all of it is in this file.

waits    literals and a default by which a SuperNode and a ServerApp wait for seconds. They are
         shortened. Where they are not found, Flower's own waits stay: slower, nothing else.
words    of the SuperNode's log, by which `node` knows that its key is not registered. Where they
         changed, the silo's log does not say so in a sentence; it keeps trying all the same.
names    through which `runtime` claims and answers what a SuperNode received. Where one is
         missing a silo cannot answer at all, and says so.
control  names through which `fairsilo flower status` asks the SuperLink.

Seen in flwr 1.41. Waits and names are compared with the installed version at the start and in the
tests.
"""

from __future__ import annotations

import importlib
import inspect
import re
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fairsilo.errors import FairSiloError
from fairsilo.network.ops.pace import pause

LOOP = "flwr.supernode.start_client_internal"
"""The SuperNode's loop: sleeps 3 s after a look without a message, and looks for the worker's
answer every 0.5 s."""
SLEEPS = {"start_client_internal": ["3"], "_push_messages": ["0.5", "0.5"]}
"""The arguments of `time.sleep` in its functions, which use nothing else of `time`."""
PULLS = "flwr.supercore.inflatable.inflatable_utils"
BACKOFF = "initial_backoff"
"""Keyword of `pull_objects`, 1 s: the wait for a part of a message that is not there yet. A task
is created before the parts of its message are fetched, so a quick worker always meets it."""
NAMES = {
    "flwr.app": ("Context", "Error", "Message"),
    "flwr.cli.build": ("build_fab_from_files",),
    "flwr.common.constant": ("ErrorCode", "SubStatus"),
    "flwr.common.serde": ("context_from_proto", "message_from_proto"),
    "flwr.proto.message_pb2": ("Message", "ObjectTree"),
    "flwr.proto.node_pb2": ("Node",),
    "flwr.proto.runtime_pb2": ("AcquireTaskRequest", "PullAppMessagesRequest"),
    "flwr.supercore.constant": ("TASK_TOKEN_HEADER", "TaskType"),
    "flwr.supercore.inflatable.inflatable_protobuf_utils": (
        "make_confirm_message_received_fn_protobuf",
        "make_pull_object_fn_protobuf",
    ),
    "flwr.supercore.interceptors": (
        "RuntimeVersionHttpInterceptor",
        "SuperExecAuthHttpInterceptor",
    ),
    "flwr.supercore.runtime": ("RuntimeHttpClient",),
    "flwr.supernode.runtime.run_clientapp": ("push_message", "push_task_output"),
    PULLS: ("ObjectPullError", "pull_and_inflate_object_from_tree", "pull_objects"),
}

CONTROL = {
    "flwr.proto.control_pb2": ("ListNodesRequest", "ListRunsRequest"),
    "flwr.supercore.control": ("ControlHttpClient",),
    "flwr.supercore.interceptors": ("RuntimeVersionHttpInterceptor",),
}
"""Through which the coordinator asks its SuperLink who is connected and how a run ended."""
LOOK_NODE = 1.0
"""At most so many seconds pass until an idle SuperNode asks the SuperLink again."""
LOOK_ANSWER = 0.02
"""And until a busy one looks for its worker's answer, in its own memory."""
CONTACT_EVERY = 1.0
"""Seconds between two touches of the file that says when the SuperLink answered last."""
FIRST_WAIT = 0.03
"""Seconds to wait for a part of a message at first; Flower doubles them every time."""


class Pace:
    """In the place of `time` in the SuperNode's loop: short waits while there is work."""

    def __init__(self, contact: str | None = None) -> None:
        self.worked = time.monotonic()
        self.contact, self.told = contact, 0.0

    def sleep(self, seconds: float) -> None:
        """Wait less than the loop asks for; it does so only after the SuperLink answered."""
        if self.contact and time.monotonic() - self.told > CONTACT_EVERY:
            self.told = time.monotonic()
            Path(self.contact).touch()
        if seconds < 1:
            self.worked = time.monotonic()
            time.sleep(LOOK_ANSWER)
        else:
            time.sleep(pause(time.monotonic() - self.worked, LOOK_NODE, least=0.1))


def shorten_node(contact: str | None = None) -> None:
    """Shorten the waits of a SuperNode in this process, or say what is not as expected.

    `contact`: a file to touch when the SuperLink answered.
    """
    loop = _module(LOOP)
    sources = {
        name: inspect.getsource(getattr(loop, name)) for name in SLEEPS if hasattr(loop, name)
    }
    expect_sleeps(sources)
    shorten_pulls()
    vars(loop)["time"] = Pace(contact)


def expect_sleeps(sources: Mapping[str, str]) -> None:
    """Compare the sleeps in the loop's functions with those that `Pace` stands for."""
    for name, expected in SLEEPS.items():
        source = sources.get(name, "")
        found = re.findall(r"\btime\.sleep\((.*?)\)", source)
        if found != expected or len(re.findall(r"\btime\.\w", source)) != len(found):
            raise _changed(f"{LOOP}.{name} does not sleep {' and '.join(expected)} s any more")


def shorten_pulls() -> None:
    """Shorten the first wait for parts of a message in this process."""
    defaults: dict[str, Any] = getattr(_module(PULLS).pull_objects, "__kwdefaults__", None) or {}
    if not isinstance(defaults.get(BACKOFF), int | float):
        raise _changed(f"{PULLS}.pull_objects has no number as {BACKOFF}")
    defaults[BACKOFF] = FIRST_WAIT


def expect_names(names: Mapping[str, tuple[str, ...]] = NAMES) -> None:
    """Compare the names that a silo's worker needs with the installed Flower."""
    for module, wanted in names.items():
        found = _module(module)
        for name in wanted:
            if not hasattr(found, name):
                raise _changed(f"{module} has no {name}")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise _changed(f"there is no {name}") from None


def _changed(what: str) -> FairSiloError:
    return FairSiloError(
        f"Flower {version('flwr')} is not as fairsilo knows it ({what}): "
        "pip install 'fairsilo[flower]' with flwr 1.41"
    )
