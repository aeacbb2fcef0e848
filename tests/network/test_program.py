"""A silo's own program: what it refuses to start with, its secret, its children, its end."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from fairsilo.errors import FairSiloError
from fairsilo.network.ops.bundle import own_digest, refusal
from fairsilo.network.ops.demo import make_demo
from fairsilo.network.ops.node import REJECTED
from fairsilo.network.ops.parent import HOPELESS, STUCK
from fairsilo.network.ops.processes import free_ports
from fairsilo.network.ops.program import Child, make_way, run_silo, secret_file, start_anew
from fairsilo.network.ops.workspace import Workspace
from fairsilo.progress import locked
from tests.network.network import PATIENT, command_lines, wait_until


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return make_demo(tmp_path_factory.mktemp("program") / "work", 2, rows=200)


# Flower names its patterns in a way that pathspec is giving up.
@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
def test_any_other_app_is_refused_in_one_sentence() -> None:
    own = own_digest()
    assert refusal(own, own) == ""
    assert own == own_digest()
    why = refusal("0" * 64, own)
    assert "the one that came is another (000000000000), of which nothing was run" in why
    assert "\n" not in why


def test_the_secret_is_fresh_its_owners_alone_and_gone_at_the_end() -> None:
    with secret_file() as one, secret_file() as other:
        assert one.stat().st_mode & 0o777 == 0o600
        assert one.parent.stat().st_mode & 0o777 == 0o700
        assert len(one.read_bytes()) == 32
        assert one.read_bytes() != other.read_bytes()
    assert not one.parent.exists()


@pytest.mark.parametrize(
    ("removed", "told"),
    [
        ('superlink = "', "names no SuperLink"),
        ('key = "', "names no key: make one with `fairsilo flower keygen`"),
        ("node.key", "node.key is missing"),
        ("ca.pem", "ca.pem is missing"),
    ],
)
def test_what_is_missing_is_named(
    space: Workspace, tmp_path: Path, removed: str, told: str
) -> None:
    own = tmp_path / "silo"
    shutil.copytree(space.silo("silo-1"), own)
    settings = own / "silo.toml"
    if (own / removed).exists():
        (own / removed).unlink()
    else:
        lines = settings.read_text().splitlines(keepends=True)
        settings.write_text("".join(line for line in lines if not line.startswith(removed)))
    with pytest.raises(FairSiloError, match=told):
        run_silo(settings)


def test_a_port_that_another_silo_has_is_named(space: Workspace) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(FairSiloError, match=f"`port` {port} cannot be used"):
            run_silo(space.silo("silo-1") / "silo.toml", port)


def test_a_silos_program_runs_once(space: Workspace) -> None:
    own = space.silo("silo-1")
    with (
        locked(own, "silo"),
        pytest.raises(
            FairSiloError, match=rf"runs already in {own} \(process {os.getpid()}\): end"
        ),
    ):
        run_silo(own / "silo.toml")
    with locked(own, "silo"):
        pass


def test_both_causes_of_a_rejection_are_told() -> None:
    """Flower has the same words for a key that it does not know and for one that is connected."""
    child = Child("SuperNode", [sys.executable, "-c", f"raise SystemExit({REJECTED})"], {})
    child.process.wait(60)
    child.look()
    child.close()
    assert "the SuperLink does not know this silo's key" in child.why
    assert "it still takes this silo for connected" in child.why


def test_a_child_that_ends_soon_is_started_later_each_time(
    capfd: pytest.CaptureFixture[str],
) -> None:
    child = Child("worker", [sys.executable, "-c", "raise SystemExit(1)"], dict(os.environ), 2)
    first = child.process.pid
    delays = []
    for _ in range(2):
        child.process.wait(60)
        child.look()
        delays.append(child.delay)
        child.due = 0.0
        child.look()
    assert delays == [1.0, 2.0]
    assert child.process.pid != first
    child.process.wait(60)
    child.close()
    assert "the worker ended (exit code 1); it is started again in 2 s" in capfd.readouterr().err


def test_a_port_that_somebody_took_meanwhile_is_left_to_him() -> None:
    idle = "import sys; sys.stdin.read()"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        made = [[sys.executable, "-c", idle, "--port", port, "--more"] for _ in range(2)]
        node, worker = (Child(name, line, {}) for name, line in zip("nw", made, strict=True))
        make_way(node, worker)
        assert node.arguments == worker.arguments == made[0]
        node.process.kill()
        node.process.wait(60)
        node.look()
        make_way(node, worker)
        assert node.arguments == worker.arguments
        *begin, another, more = node.arguments
        assert [*begin, port, more] == made[0]
        assert another != port
        assert worker.process.wait(60) == -signal.SIGTERM
        node.due = 0.0
        node.look()
        # Up again: nothing more happens.
        make_way(node, worker)
        assert node.arguments[-2] == another
    worker.look()
    for child in (node, worker):
        child.stop(0.0)


@pytest.mark.parametrize("code", [STUCK, 1])
def test_a_node_that_would_wait_for_ever_is_started_anew(code: int) -> None:
    idle = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    node = Child("SuperNode", idle, {})
    worker = Child("worker", [sys.executable, "-c", f"raise SystemExit({code})"], {}, HOPELESS)
    worker.process.wait(60)
    start_anew(node, worker)
    if code == STUCK:
        assert node.process.wait(60) == -signal.SIGTERM
    assert (node.process.poll() is None) is (code != STUCK)
    for child in (node, worker):
        child.stop(0.0)


def test_a_worker_that_cannot_run_ends_the_program() -> None:
    child = Child("worker", [sys.executable, "-c", "raise SystemExit(2)"], dict(os.environ), 2)
    child.process.wait(60)
    with pytest.raises(FairSiloError, match="the worker cannot run"):
        child.look()
    child.close()


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_the_program(
    space: Workspace, tmp_path: Path, how: signal.Signals
) -> None:
    """Without a SuperLink, too; killed, its children notice by themselves."""
    own, (port, health) = space.silo("silo-2"), free_ports(2)
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
    child = subprocess.Popen(
        [
            *(sys.executable, "-c", f"{code}; from fairsilo.cli import main; main()"),
            *("flower", "silo", "--settings", str(own / "silo.toml"), "--port", str(port)),
            *("--health-port", str(health)),
        ],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    try:
        assert any("Uvicorn running" in line for line in child.stderr)
        secret = next(tmp_path.glob("fairsilo-*/secret")).read_bytes()
        mine = [line for line in command_lines() if f"--port {port}" in line]
        assert len(mine) == 3
        assert not any(repr(secret)[2:-1] in line or secret.hex() in line for line in mine)
        found = httpx.get(f"http://127.0.0.1:{health}/health", timeout=PATIENT)
        assert found.status_code == 503
        assert found.json()["problems"] == ["the SuperLink has not answered yet"]
        os.kill(child.pid, how)
        code_at_end = child.wait(PATIENT)
    finally:
        child.kill()
        child.stderr.close()
    wait_until(lambda: not [line for line in command_lines() if f"--port {port}" in line])
    if how != signal.SIGKILL:
        assert code_at_end == 0
        assert not list(tmp_path.glob("fairsilo-*"))
