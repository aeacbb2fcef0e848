"""What is relied upon inside Flower, beyond what it documents; all of it is in this file.

waits    literals and a default by which a SuperNode and a ServerApp wait for seconds. They are
         shortened. Where they are not found, Flower's own waits stay: slower, nothing else.
words    of the SuperNode's log, by which `node` knows that its key is not registered. Where they
         changed, the silo's log does not say so in a sentence; it keeps trying all the same.
names    through which `runtime` claims and answers what a SuperNode received. Where one is
         missing a silo cannot answer at all, and says so.
control  names through which the coordinator's commands speak to the SuperLink.
tidying  of tasks that gave no sign of life, which a SuperLink does before every request of a node,
         two milliseconds each, and holding its database. It is done once a second.
parts    of messages, which `whole` sends along with them, so that nobody has to ask for each.
room     for what one silo leaves there, which `room` limits. Where it cannot, the log says so.
store    of those parts, which a SuperLink keeps in its database. Here it is one of Flower's own
         that keeps them in memory: a run whose SuperLink ends is over in either case.
layers   of Starlette, which a request passes in both servers: see `layers`. Where they are not as
         expected they stay: slower, nothing else.

Seen in flwr 1.41. All but the words are compared with the installed version at the start and in
the tests.
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
from fairsilo.network.ops.wake import Wake
from fairsilo.network.ops.whole import BAG

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
    "flwr.cli.build": ("build_fab_from_disk",),
    "flwr.common.serde": ("fab_to_proto", "user_config_to_proto"),
    "flwr.proto.control_pb2": (
        *("ListNodesRequest", "ListRunsRequest", "RegisterNodeRequest"),
        *("StartRunRequest", "StopRunRequest", "UnregisterNodeRequest"),
    ),
    "flwr.supercore.control": ("ControlHttpClient",),
    "flwr.supercore.error": ("FlowerError",),
    "flwr.supercore.fab": ("Fab",),
    "flwr.supercore.interceptors": ("RuntimeVersionHttpInterceptor",),
}
"""Through which the coordinator registers silos with its SuperLink, starts and stops runs, and asks
who is connected and how a run ended."""
STATE = "flwr.supercore.corestate.sql_corestate", "SqlCoreState", "_cleanup_expired_task_tokens"
"""The SuperLink's database and its tidying; a task expires a minute after its last sign of life."""
WHOLE = {
    "flwr.superlink.servicer.fleet.fleet_handlers": (
        *("pull_messages", "push_messages", "push_object"),
    ),
    "flwr.superlink.servicer.runtime.runtime_handlers": ("pull_messages", "push_messages"),
    "flwr.supernode.servicer.runtime.runtime_handlers": ("pull_messages", "push_messages"),
    "flwr.supernode.fleet_http_client": ("FleetHttpClient",),
    "flwr.supercore.inflatable.inflatable_object": (
        *("get_all_nested_objects", "iterate_object_tree", "no_object_id_recompute"),
        "is_valid_sha256_hash",
    ),
    "flwr.proto.message_pb2": ("ConfirmMessageReceivedResponse", "PullObjectResponse"),
}
"""Handlers of three servers, whose first arguments are a request and the server's state."""
ROOM = {
    "flwr.superlink.servicer.fleet.fleet_handlers": ("push_messages", "push_object"),
    "flwr.supercore.inflatable.inflatable_object": (
        *("is_valid_sha256_hash", "iterate_object_tree"),
    ),
}
"""What `room` needs of it."""
CALLS = ("PullMessages", "PullObject", "ConfirmMessageReceived", "PushMessages")
"""What their clients call."""
STORES = "flwr.superlink.config_loader", "ObjectStoreFactory"
"""Made by the SuperLink with the path of its database; without one, it keeps parts in memory."""
TIDY_EVERY = 1.0
"""Seconds between two of them."""
LOOK_NODE = 1.0
"""At most so many seconds pass until an idle SuperNode asks the SuperLink again."""
PATIENT = 4.0
"""It waits at least so many times as long as the SuperLink took to say that there is nothing."""
HELD = 0.5
"""Seconds after which an answer that there is nothing was a wait for something."""
LOOK_ANSWER = 0.02
"""And until a busy one looks for its worker's answer, in its own memory."""
LOOK_UNWOKEN = 0.25
"""The same where the worker wakes it."""
REMIND = 5.0
"""Seconds after which a worker that has not answered is woken again."""
CONTACT_EVERY = 1.0
"""Seconds between two touches of the file that says when the SuperLink answered last."""
FIRST_WAIT = 0.03
"""Seconds to wait for a part of a message at first; Flower doubles them every time."""


class Pace:
    """In the place of `time` in the SuperNode's loop: short waits while there is work."""

    def __init__(self, contact: str | None = None, worker: Wake | None = None) -> None:
        self.worked = time.monotonic()
        self.contact, self.told = contact, 0.0
        self.worker, self.woken = worker, -REMIND
        self.slept = time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait less than the loop asks for; it does so only after the SuperLink answered."""
        if self.contact and time.monotonic() - self.told > CONTACT_EVERY:
            self.told = time.monotonic()
            Path(self.contact).touch()
        if seconds < 1:
            self.worked = time.monotonic()
            self._await_answer()
        else:
            now = time.monotonic()
            if BAG.held and now - self.slept > HELD:
                # The SuperLink has waited in its place.
                self.slept = now
                return
            # A SuperLink that is slow to answer has many who ask.
            least = max(0.1, PATIENT * (now - self.slept))
            time.sleep(pause(now - self.worked, LOOK_NODE, least))
        self.slept = time.monotonic()

    def _await_answer(self) -> None:
        """The message has come whole: wake the worker, once, and wait for its word."""
        if self.worker is None:
            time.sleep(LOOK_ANSWER)
            return
        if time.monotonic() - self.woken >= REMIND:
            self.woken = time.monotonic()
            self.worker.tell()
        if self.worker.wait(LOOK_UNWOKEN):
            # The answer is there; or that to the message before, and the worker is woken next.
            self.woken = -REMIND


def shorten_node(contact: str | None = None, worker: Wake | None = None) -> None:
    """Shorten the waits of a SuperNode in this process, or say what is not as expected.

    `contact`: a file to touch when the SuperLink answered; `worker`: wakes the silo's worker.
    """
    loop = _module(LOOP)
    sources = {
        name: inspect.getsource(getattr(loop, name)) for name in SLEEPS if hasattr(loop, name)
    }
    expect_sleeps(sources)
    shorten_pulls()
    vars(loop)["time"] = Pace(contact, worker)
    if worker is not None:
        # From now on it need not look by itself.
        worker.tell()


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


def tidy_seldom() -> None:
    """Let a SuperLink in this process tidy up its tasks once a second, not before every request."""
    module, owner, name = STATE
    states = getattr(_module(module), owner, None)
    tidy: Any = getattr(states, name, None)
    if tidy is None or list(inspect.signature(tidy).parameters) != ["self"]:
        raise _changed(f"{module}.{owner} has no {name} without arguments")
    due: dict[int, float] = {}

    def seldom(self: Any) -> None:
        now = time.monotonic()
        if now >= due.get(id(self), now):
            due[id(self)] = now + TIDY_EVERY
            tidy(self)

    setattr(states, name, seldom)


def expect_whole() -> None:
    """Compare what `whole` wraps with the installed Flower."""
    _expect_handlers(WHOLE)
    for call in CALLS:
        if not hasattr(_module("flwr.supernode.fleet_http_client").FleetHttpClient, call):
            raise _changed(f"FleetHttpClient has no {call}")


def expect_room() -> None:
    """Compare what `room` wraps with the installed Flower."""
    _expect_handlers(ROOM)


def _expect_handlers(names: Mapping[str, tuple[str, ...]]) -> None:
    """Names, of which those of handlers take a request and the server's state."""
    expect_names(names)
    for module, wanted in names.items():
        for name in wanted if module.endswith("_handlers") else ():
            first = list(inspect.signature(getattr(_module(module), name)).parameters)[:2]
            if first != ["request", "state"]:
                raise _changed(f"{module}.{name} has other arguments")


def keep_in_memory() -> None:
    """Let a SuperLink in this process keep the parts of messages in memory."""
    module, name = STORES
    made: Any = getattr(_module(module), name, None)
    if made is None or not hasattr(made, "store"):
        raise _changed(f"{module} has no {name}")
    setattr(_module(module), name, lambda database: made())


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
