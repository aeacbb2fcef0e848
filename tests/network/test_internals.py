"""What is relied upon inside Flower: as expected in the installed version, and noticed if not."""

from __future__ import annotations

import importlib
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from fairsilo.errors import FairSiloError
from fairsilo.network.ops import internals
from fairsilo.network.ops.pace import pause


def test_the_installed_flower_is_as_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    internals.expect_names()
    loop = importlib.import_module(internals.LOOP)
    defaults = importlib.import_module(internals.PULLS).pull_objects.__kwdefaults__
    monkeypatch.setattr(loop, "time", loop.time)
    monkeypatch.setitem(defaults, internals.BACKOFF, defaults[internals.BACKOFF])
    internals.shorten_node()
    assert defaults[internals.BACKOFF] == internals.FIRST_WAIT
    waited: list[float] = []
    clock = SimpleNamespace(sleep=waited.append, monotonic=time.monotonic)
    monkeypatch.setattr(internals, "time", clock)
    loop.time.sleep(3)
    loop.time.sleep(0.5)
    assert len(waited) == 2
    assert max(waited) <= internals.LOOK_NODE
    assert waited[1] == internals.LOOK_ANSWER


@pytest.mark.parametrize(
    "source",
    [
        "def start_client_internal():\n    time.sleep(2)",
        "def start_client_internal():\n    time.sleep(3)\n    time.monotonic()",
        "def start_client_internal():\n    time.sleep(3)\n    time.sleep(3)",
        "",
    ],
)
def test_other_waits_in_the_nodes_loop_are_noticed(source: str) -> None:
    known = {"_push_messages": "time.sleep(0.5)\ntime.sleep(0.5)"}
    internals.expect_sleeps({**known, "start_client_internal": "time.sleep(3)  # all the time."})
    with pytest.raises(FairSiloError, match=r"Flower 1\.\d+.* does not sleep 3 s any more"):
        internals.expect_sleeps({**known, "start_client_internal": source})


def test_a_missing_name_is_one_sentence() -> None:
    with pytest.raises(FairSiloError, match=r"\(flwr\.app has no Sentence\): pip install"):
        internals.expect_names({"flwr.app": ("Message", "Sentence")})
    with pytest.raises(FairSiloError, match=r"there is no flwr\.nowhere"):
        internals.expect_names({"flwr.nowhere": ()})


@pytest.mark.slow
def test_where_the_loop_has_changed_flowers_own_node_runs() -> None:
    code = """
import flwr.supernode.start_client_internal as loop, sys
del loop._push_messages
sys.argv = ["node", "--version"]
from fairsilo.network.ops.node import main
main()
"""
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code],
        # Held open: a node without its program ends.
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.wait(60)
        assert "Flower version" in child.stdout.read()
        told = child.stderr.read()
    assert "does not sleep 0.5 and 0.5 s any more" in told
    assert "rounds take seconds longer" in told


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["pull_messages", "push_object"])
def test_a_silos_room_is_limited_where_messages_are_not_sent_whole(missing: str) -> None:
    """Each is said by itself, and what can be done is."""
    code = f"""
from flwr.superlink.servicer.fleet import fleet_handlers as handlers
before = handlers.push_messages
del handlers.{missing}
from fairsilo.network.ops.link import prepare
prepare()
print(handlers.push_messages is before)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "rounds take longer until then" in done.stderr
    limited = missing == "pull_messages"
    assert (done.stdout == "False\n") is limited
    assert ("the SuperLink's memory has no limit until then" in done.stderr) is not limited


def test_the_longer_nothing_came_the_longer_is_the_wait() -> None:
    waits = [pause(idle, most=1.0) for idle in (0.0, 0.1, 1.0, 2.0, 60.0)]
    assert waits == sorted(waits)
    assert waits[0] == 0.05
    assert waits[-1] == 1.0
