"""`fairsilo flower superlink` as a process: how it ends, and that nothing stays behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from fairsilo.errors import FairSiloError
from fairsilo.network.ops import runs, superlink
from fairsilo.network.ops.control import nodes
from fairsilo.network.ops.demo import make_demo
from fairsilo.network.ops.launch import await_superlink, start_superlink
from fairsilo.network.ops.processes import command, free_ports, processes
from fairsilo.network.ops.runs import DATABASE, PATIENCE, RunConfig, register, submit
from fairsilo.network.ops.superlink import run_superlink
from fairsilo.network.ops.workspace import CONTROL, Workspace
from tests.network.members import run
from tests.network.network import PATIENT, command_lines, wait_until
from tests.network.test_health import well_formed

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.usefixtures("bounded")]


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    return make_demo(tmp_path / "work", 3, rows=900, rounds=2)


def open_ports(space: Workspace, control: str) -> list[str]:
    """Those of its two addresses where somebody listens."""
    found = []
    for address in (space.address, control):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", int(address.rpartition(":")[2]))) == 0:
                found.append(address)
    return found


def superlinks(space: Workspace) -> list[str]:
    return [line for line in command_lines() if str(space.folder) in line]


def test_a_signal_ends_both_and_then_it_starts_again(tmp_path: Path) -> None:
    """Started by its script, with a port for control of the operator's choice.

    Meanwhile a silo leaves while it does not run, and comes back with the same key.
    """
    space = make_demo(tmp_path / "work", 4, rows=1200, rounds=2)
    folder = ("--folder", space.folder)

    def register_all() -> None:
        register(space, PATIENCE)
        assert set(nodes(space)) == set(space.agreed.names)

    def come_back() -> None:
        key = space.former / "silo-4" / "node.key.pub"
        run("add", "silo-4", "--key", key, *folder)
        with pytest.raises(
            FairSiloError, match=r"silo-4 left and came back .*superlink\.db, start"
        ):
            register(space, PATIENCE)

    def remove() -> None:
        told = run("remove", "silo-4", *folder)
        assert "no SuperLink runs here: it refuses silo-4's key from its next start on" in told

    def forget() -> None:
        (space.folder / DATABASE).unlink()

    meanwhile = (register_all, come_back, register_all)
    afterwards = (remove, forget, forget)
    port, health = free_ports(2)
    # Tests that run in the background or under nohup ignore some signals, and so would the child.
    heed = "import signal, os, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    heed += "signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    script = [str(space.folder / "start-superlink.sh"), "--control-port", str(port)]
    script += ["--health-port", str(health)]
    path = f"{Path(command('fairsilo')).parent}{os.pathsep}{os.environ['PATH']}"
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    refused = (False, True, False)
    for sent, do, then, said in zip(signals, meanwhile, afterwards, refused, strict=True):
        child = subprocess.Popen(
            [sys.executable, "-c", f"{heed}os.execv(sys.argv[1], sys.argv[1:])", *script],
            env={**os.environ, "PATH": path},
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            wait_until(lambda: space.control)
            assert space.control == f"127.0.0.1:{port}"
            assert open_ports(space, space.control) == [space.address, space.control]
            _healthy(space, health)
            do()
            os.kill(child.pid, sent)
            out, told = child.communicate(timeout=PATIENT)
        finally:
            child.kill()
            child.communicate()
        assert child.returncode == 130
        assert "Traceback" not in told
        assert ("silo-4 left: its key is refused\n" in out) == said
        assert not space.control
        assert not superlinks(space)
        then()


def _healthy(space: Workspace, port: int) -> None:
    """It says so, and counts what the gateway refused."""
    refused = httpx.get(f"https://{space.address}/", verify=False, timeout=PATIENT)
    assert refused.status_code == 403
    found = httpx.get(f"http://127.0.0.1:{port}/health", timeout=PATIENT)
    assert (found.status_code, found.json()["answered"]) == (200, {"403": 1})
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=PATIENT).text
    assert well_formed(text)["fairsilo_gateway_requests_total"] == "counter"
    assert 'fairsilo_gateway_requests_total{status="403"} 1\n' in text


def test_where_one_dies_the_other_is_ended_and_the_command_says_so(
    space: Workspace, tmp_path: Path
) -> None:
    with pytest.raises(FairSiloError, match=r"did not start: no SuperLink runs for .* on this"):
        submit(space, RunConfig(out=tmp_path / "run"))
    with processes(tmp_path / "logs") as group:
        start_superlink(space, group)
        wait_until(lambda: space.control)
        control = space.control
        with pytest.raises(
            FairSiloError, match=r"cannot listen on 127\.0\.0\.1, .* running already"
        ):
            run_superlink(space)
        flower = [p for p in group.pids("superlink") if p != group.running["superlink"].pid]
        os.kill(min(flower), signal.SIGKILL)
        wait_until(lambda: not group.alive("superlink"))
        assert group.running["superlink"].returncode == 2
        assert "fairsilo: the SuperLink ended, and the gateway with it" in group.log("superlink")
        assert not open_ports(space, control)
        assert not superlinks(space)


def test_killed_it_leaves_nothing_but_a_file_and_starts_again(
    space: Workspace, tmp_path: Path
) -> None:
    with processes(tmp_path / "logs") as group:
        start_superlink(space, group)
        await_superlink(space, group)
        # SuperLink and SuperExec: nobody ends them, they notice by themselves.
        assert len(group.pids("superlink")) >= 3
        before = space.control
        os.kill(group.running["superlink"].pid, signal.SIGKILL)
        # At once, while the old one may still have the database.
        with processes(tmp_path / "again") as again:
            start_superlink(space, again)
            wait_until(lambda: not group.pids("superlink"))
            wait_until(lambda: space.control not in ("", before))
            await_superlink(space, again)
    assert not superlinks(space)


def test_a_stranger_where_the_superlink_was_is_named(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(superlink, "LEAVING", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        space.say_control(f"127.0.0.1:{stranger.getsockname()[1]}")
        with pytest.raises(FairSiloError, match=r"somebody still listens, .* end that process"):
            run_superlink(space)
    assert (space.folder / CONTROL).exists()


def test_without_a_superlink_registering_ends_soon_with_a_sentence(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where none was started, and where one was killed, whose file is left. How long it waits is
    counted by its own sleeps."""
    slept: list[float] = []
    clock = SimpleNamespace(sleep=slept.append, monotonic=lambda: sum(slept))
    for control in ("", f"127.0.0.1:{free_ports(1)[0]}"):
        if control:
            space.say_control(control)
        begun = sum(slept)
        with monkeypatch.context() as patch:
            patch.setattr(runs, "time", clock)
            with pytest.raises(FairSiloError, match="no SuperLink runs"):
                register(space)
        assert 0 < sum(slept) - begun < 3
        told = subprocess.run(
            [command("fairsilo"), "flower", "register", "--folder", str(space.folder)],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENT,
        )
        assert told.returncode == 2
        assert told.stderr.count("\n") == 1
        assert "no key was registered: no SuperLink runs for" in told.stderr


def test_two_federations_of_one_machine_do_not_meet(space: Workspace, tmp_path: Path) -> None:
    other = make_demo(tmp_path / "other", 3, rows=900, rounds=2)
    with processes(tmp_path / "logs") as group, processes(tmp_path / "more") as more:
        start_superlink(space, group)
        start_superlink(other, more)
        wait_until(lambda: space.control and other.control)
        ports = {one.rpartition(":")[2] for s in (space, other) for one in (s.address, s.control)}
        assert len(ports) == 4
        assert group.alive("superlink")
        assert more.alive("superlink")
    assert not superlinks(space)
    assert not superlinks(other)
