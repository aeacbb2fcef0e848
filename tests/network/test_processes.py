"""All child processes are ended, including those whose parent ended before them."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from fairsilo.errors import FairSiloError
from fairsilo.network.ops.processes import (
    LOOK,
    environment,
    free_ports,
    is_alive,
    processes,
    wait_for_port,
)

ORPHAN = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
"""


def wait_until(done: object, seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not done():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.process
@pytest.mark.parametrize("killed", [False, True])
def test_an_orphan_is_ended_with_the_rest(tmp_path: Path, killed: bool) -> None:
    with processes(tmp_path) as group:
        group.start("node", [sys.executable, "-c", ORPHAN], dict(os.environ), tmp_path)
        wait_until(lambda: group.log("node").strip() and not group.alive("node"))
        orphan = int(group.log("node"))
        assert is_alive(orphan)
        if killed:
            group.kill("node")
            assert not is_alive(orphan)
    assert not is_alive(orphan)


def test_a_port_that_stays_closed_is_one_sentence() -> None:
    port = free_ports(1)[0]
    with pytest.raises(FairSiloError, match=f"nobody listens on port {port}"):
        wait_for_port(port, 0.0)


def test_how_often_nodes_look_for_work_is_the_operators_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(LOOK, raising=False)
    assert environment(tmp_path)[LOOK] == "0.2"
    monkeypatch.setenv(LOOK, "2")
    assert environment(tmp_path)[LOOK] == "2"
