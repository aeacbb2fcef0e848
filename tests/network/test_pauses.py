"""A pause of a minute ends nothing: silo, SuperLink and server stopped in turn (SIGSTOP).

Flower takes a process for dead after 40 to 60 seconds without a sign of life.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fairsilo.network.ops.demo import compare
from tests.network.network import federation, metrics_of

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.long]
PAUSE = 62.0


def pause(pids: Sequence[int]) -> None:
    """Stop processes for a while."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(PAUSE)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def test_a_minute_of_silence_ends_nothing(tmp_path: Path) -> None:
    with federation(tmp_path, 3) as net:
        net.agree(rounds=6)
        net.start_all()
        paused: list[str] = []
        pid = 0

        def watch(event: dict[str, Any]) -> None:
            nonlocal pid
            pid = event.get("pid", pid)
            due = {1: "silo", 2: "SuperLink", 3: "server"}.get(event.get("round", 0))
            if event["event"] != "round" or due is None or due in paused:
                return
            paused.append(due)
            link = [p for p in net.group.pids("superlink") if p != pid]
            stopped = {"silo": net.group.pids("silo-2"), "SuperLink": link, "server": [pid]}[due]
            threading.Thread(target=pause, args=(stopped,)).start()

        net.run(tmp_path / "run", watch, wait=120, wait_lost=300)
        assert paused == ["silo", "SuperLink", "server"]
        metrics = metrics_of(tmp_path / "run")
        assert metrics["clients"] == 3
        assert any("silo-2 was lost for" in note for note in metrics["notes"])
        assert any("the run was interrupted after" in note for note in metrics["notes"])
        found = compare(net.space, tmp_path / "run")
        assert found.probabilities < 1e-6
        assert found.loss < 1e-9
