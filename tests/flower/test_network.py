"""Real processes on loopback: SuperLink, nodes, TLS, keys; and what is left when some are killed.

A round costs seconds here, so runs are of one or two rounds, which is enough: rounds are a pure
function of the sums, and the simulation is stopped after as many.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairsilo.errors import FairSiloError
from fairsilo.flower.certificates import CA, make_certificates
from fairsilo.flower.charter import FILE
from fairsilo.flower.demo import compare, make_demo, start_all
from fairsilo.flower.keys import make_key
from fairsilo.flower.launch import RunConfig, follow, run_and_follow, start_node, submit
from fairsilo.flower.launch import start_superlink as restart_superlink
from fairsilo.flower.processes import Processes, free_ports, processes
from fairsilo.flower.workspace import Workspace
from fairsilo.run import load

pytestmark = [pytest.mark.network, pytest.mark.slow]
ROWS = 1600


def metrics_of(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "metrics.json").read_text())
    return found


def wait_for(log: Callable[[], str], text: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while text not in log():
        assert time.monotonic() < deadline, f"{text!r} never came in:\n{log()[-2000:]}"
        time.sleep(0.3)


def start_stranger(space: Workspace, group: Processes, name: str, port: int) -> None:
    """A node beside the silos, with the settings of silo-1 and a key or CA of its own."""
    own = space.silo(name)
    shutil.copytree(space.silo("silo-1"), own, ignore=shutil.ignore_patterns("*.key*", ".flwr"))
    make_key(own / "node.key", name)
    if name == "other-ca":
        (own / CA).unlink()
        make_certificates(own / "other", "127.0.0.1")
        shutil.copy(own / "other" / CA, own / CA)
    start_node(space, name, port, group)


def test_behind_masks_with_a_late_silo_and_strangers_at_the_door(tmp_path: Path) -> None:
    space = make_demo(tmp_path / "work", 4, rows=ROWS, rounds=1)
    out, late = tmp_path / "run", space.charter.names[-1]
    with processes(tmp_path / "logs") as group:
        start_all(space, group, space.charter.names[:-1])
        run = submit(space, RunConfig(out=out, wait=90))
        ports = free_ports(3)
        start_node(space, late, ports[0], group)
        start_stranger(space, group, "no-key", ports[1])
        start_stranger(space, group, "other-ca", ports[2])
        events: list[dict[str, Any]] = []
        follow(space, run, out, events.append)
        wait_for(lambda: group.log("other-ca"), "CERTIFICATE_VERIFY_FAILED")
        assert not group.alive("no-key") or "SuperNode ID" not in group.log("no-key")
        for name in ("no-key", "other-ca"):
            if group.alive(name):
                group.kill(name)
        log = group.log("superlink")
    found = compare(space, out)
    assert found.probabilities < 1e-6
    assert found.loss < 1e-9
    metrics = metrics_of(out)
    assert metrics["network"]["secure_aggregation"]
    assert metrics["clients"] == 4
    assert "PRIVATE KEY" not in log
    assert not (out / "journal").exists()
    assert load(out).description["client_names"] == list(space.charter.names)


def test_server_and_superlink_killed_then_silos(tmp_path: Path) -> None:
    space = make_demo(tmp_path / "work", 3, rows=ROWS, rounds=2, secure_aggregation=False)
    out, again = tmp_path / "run", tmp_path / "again"
    with processes(tmp_path / "logs") as group:
        start_all(space, group)

        def kill_server(event: dict[str, Any]) -> None:
            pid.append(event["pid"]) if "pid" in event else None
            if event["event"] == "round":
                os.kill(pid[-1], signal.SIGKILL)

        pid: list[int] = []
        with pytest.raises(FairSiloError, match="ended before the run did: use --resume"):
            run_and_follow(space, RunConfig(out=out), kill_server)

        def kill_superlink(event: dict[str, Any]) -> None:
            if event["event"] == "replayed" and group.alive("superlink"):
                group.kill("superlink")

        with pytest.raises(FairSiloError, match="use --resume"):
            run_and_follow(space, RunConfig(out=out, resume=True), kill_superlink)
        restart_superlink(space, group)
        run_and_follow_patiently(space, RunConfig(out=out, resume=True, wait=90))
        assert compare(space, out).probabilities < 1e-6
        assert metrics_of(out)["rounds"] == 2
        run_and_follow(space, RunConfig(out=out, audit=out), lambda event: None)
        found = json.loads((out / "audit.json").read_text())
        assert found["accuracy"]["value"] == metrics_of(out)["test"]["accuracy"]

        def kill_silo(event: dict[str, Any]) -> None:
            if event["event"] == "round" and group.alive("silo-3"):
                group.kill("silo-3")

        run_and_follow(space, RunConfig(out=again, timeout=40, wait=60), kill_silo)
    metrics = metrics_of(again)
    assert metrics["clients"] == 2
    assert "silo-3" in metrics["notes"][0]
    assert "training went on with the other 2" in metrics["notes"][0]


def run_and_follow_patiently(space: Workspace, config: RunConfig) -> None:
    """As soon as the SuperLink is up again."""
    for _ in range(60):
        try:
            run_and_follow(space, config, lambda event: None)
        except FairSiloError as error:
            if "did not start" not in str(error):
                raise
            time.sleep(1)
        else:
            return
    pytest.fail("the SuperLink did not come up again")


MISBEHAVE = """
    import os
    import fairsilo.flower.client as client
    honest = client.reply_to

    def reply_to(record, path, memory, run):
        import numpy as np
        import time
        reply = honest(record, path, memory, run)
        if record["kind"] != "round":
            return reply
        vector = np.frombuffer(reply["vector"], "<f8").copy()
        how = open(path).readline().strip("# \\n")
        if how == "nan":
            vector[0] = np.nan
        if how == "shape":
            vector = np.tile(vector, 100)
        if how == "silent":
            time.sleep(600)
        return {**reply, "vector": vector.tobytes()}

    client.reply_to = reply_to
"""


def test_silos_that_misbehave_are_left_out_and_named(tmp_path: Path) -> None:
    """NaN, a vector a hundred times too long, silence, and another federation file."""
    space = make_demo(
        tmp_path / "work", 5, rows=ROWS, rounds=1, secure_aggregation=False, minimum_silos=1
    )
    # The app that the nodes run is the server's: here it comes with misbehaviour for some.
    package = space.app / "fairsilo_app" / "client_app.py"
    package.write_text(textwrap.dedent(MISBEHAVE) + package.read_text())
    for name, how in (("silo-2", "nan"), ("silo-3", "shape"), ("silo-4", "silent")):
        path = space.silo(name) / "silo.toml"
        path.write_text(f"# {how}\n{path.read_text()}")
    other = space.silo("silo-5") / FILE
    charter = space.charter.model_copy(update={"epsilon": 0.5})
    other.write_text(charter.to_json())
    with processes(tmp_path / "logs") as group:
        start_all(space, group)
        run_and_follow(space, RunConfig(out=tmp_path / "run", timeout=40), lambda event: None)
    metrics = metrics_of(tmp_path / "run")
    told = " ".join(metrics["notes"])
    assert "silo-2 sent a number that is not finite" in told
    assert "silo-3 sent" in told
    assert "silo-4 did not answer within 40 s" in told
    assert "silo-5 refused: the server's federation file is not the one" in told
    assert metrics["clients"] == 1
    left_out = ("silo-2", "silo-3", "silo-4", "silo-5")
    assert compare(space, tmp_path / "run", left_out).loss < 1e-9


def test_control_c_leaves_nothing_running(tmp_path: Path) -> None:
    code = "from fairsilo.cli import main; main()"
    child = subprocess.Popen(
        [
            *(sys.executable, "-W", "ignore", "-c", code, "flower", "demo", "--silos", "3"),
            *("--rows", "900", "--out", str(tmp_path / "demo")),
        ],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stderr is not None
    try:
        for line in child.stderr:
            if "started" in line:
                break
        time.sleep(2)
        os.kill(child.pid, signal.SIGINT)
        assert child.wait(timeout=60) == 130
    finally:
        child.kill()
        child.stderr.close()
    assert not [line for line in _command_lines() if str(tmp_path) in line]


def _command_lines() -> list[str]:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return lines
