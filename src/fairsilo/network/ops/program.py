"""A silo's own program: Flower's SuperNode, which runs nothing, and beside it one worker.

The worker alone holds the secret with which the SuperNode lets tasks be claimed, so nothing else
is done with what came than `worker` does. Both are started again when they end.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from fairsilo.errors import FairSiloError
from fairsilo.network.ops.certificates import CA
from fairsilo.network.ops.health import serving
from fairsilo.network.ops.node import CONTACT, EXPIRED, REJECTED
from fairsilo.network.ops.parent import HOPELESS, STUCK
from fairsilo.network.ops.processes import environment, free_ports
from fairsilo.network.ops.silo_health import SiloHealth
from fairsilo.network.ops.wake import VARIABLE, ends
from fairsilo.network.settings import Settings, read_settings
from fairsilo.progress import locked

HOST = "127.0.0.1"
SETTLED = 20.0
"""Seconds after which a child that ends is started again at once."""
LONGEST = 30.0
"""Seconds that are waited at most before a child is started again."""
WHY = {
    REJECTED: "the SuperLink does not know this silo's key, and the coordinator has to register it "
    "(./register-silos.sh); or it still takes this silo for connected: for a minute after its "
    "program was killed, and as long as another program has the same key",
    EXPIRED: "the SuperLink's certificate has ended, or ca.pem here: the coordinator has to renew "
    "it (`fairsilo flower renew`), and to send a new ca.pem where that one ended",
}
"""What an exit code means, where that is known."""
PAUSED = "the SuperNode took its worker for dead, as after a long pause, and is started again, too"
RUNS = "this silo's program runs already in {folder}{process}: end that one first"
PATIENCE = 4.0
"""Seconds that children have to end by themselves."""


class Child:
    """One of the two processes; `hopeless`: exit codes after which a new start is no use; `wake`:
    its end of what both wake each other by."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        env: dict[str, str],
        hopeless: int | None = None,
        wake: socket.socket | None = None,
    ) -> None:
        self.name, self.arguments, self.hopeless = name, arguments, hopeless
        self.kept = () if wake is None else (wake.fileno(),)
        self.env = env if wake is None else {**env, VARIABLE: str(wake.fileno())}
        self.due, self.delay, self.ends, self.why = 0.0, 0.0, 0, ""
        self.start()

    def start(self) -> None:
        """Start it, in a session of its own: Control-C reaches the program alone."""
        self.process = subprocess.Popen(
            self.arguments,
            env=self.env,
            stdin=subprocess.PIPE,
            start_new_session=True,
            pass_fds=self.kept,
        )
        self.began, self.ended = time.monotonic(), False

    def look(self) -> None:
        """Start it again where it has ended, later each time that it ended soon."""
        code, now = self.process.poll(), time.monotonic()
        if code is None:
            return
        if code == self.hopeless:
            raise FairSiloError(f"the {self.name} cannot run: its output says why")
        if not self.ended:
            self.close()
            self.ended = True
            soon = now - self.began < SETTLED
            self.delay = min(max(2 * self.delay, 1.0), LONGEST) if soon else 0.0
            self.due = now + self.delay
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            self.why = WHY.get(code, f"the {self.name} ended ({how})")
            self.ends += 1
            say(f"{self.why}; it is started again in {self.delay:g} s")
        if now >= self.due:
            self.start()

    def close(self) -> None:
        """Let go of the pipe by which the child knows that this program is there."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def stop(self, deadline: float) -> None:
        """End it, gently until the deadline."""
        try:
            self.process.wait(max(deadline - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        self.close()


def run_silo(
    path: Path,
    port: int | None = None,
    superlink: str | None = None,
    health_port: int | None = None,
) -> None:
    """Take part with the silo whose settings these are, until Control-C or SIGTERM.

    `health_port`: where to tell how the program is, on loopback; see `health`.
    """
    settings = read_settings(path)
    arguments = node_arguments(settings, path.resolve(), superlink)
    beside = path.resolve().parent
    with locked(beside, "silo", RUNS):
        chosen = free_ports(1)[0] if port is None else free_port(port)
        env = environment(beside / ".flwr")
        _run(settings, arguments, chosen, env, health_port, moves=port is None)


def _run(
    settings: Settings,
    arguments: Sequence[str],
    port: int,
    env: dict[str, str],
    health_port: int | None,
    moves: bool,
) -> None:
    """Both processes, until a signal comes; `moves`: they may take another port."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    children: list[Child] = []
    first, second = ends()
    with first, second, secret_file() as secret:
        contact = secret.with_name("contact")
        env[CONTACT] = str(contact)
        look = SiloHealth(settings, children, contact)
        try:
            own = ["--port", str(port)]
            node = [*arguments, "--host", HOST, *own, "--superexec-auth-secret-file", str(secret)]
            children.append(Child("SuperNode", _module("node", node), env, wake=first))
            worker = [*own, "--secret-file", str(secret)]
            children.append(Child("worker", _module("worker", worker), env, HOPELESS, second))
            say(f"silo {settings.name}: SuperNode and worker started, Control-C ends them")
            with serving(health_port, look):
                while True:
                    start_anew(*children)
                    if moves:
                        make_way(*children)
                    for child in children:
                        child.look()
                    time.sleep(0.2)
        except KeyboardInterrupt:
            say("the silo stops")
        finally:
            # A second Control-C must not leave children behind.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            for child in children:
                child.process.terminate()
            deadline = time.monotonic() + PATIENCE
            for child in children:
                child.stop(deadline)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, before)


def start_anew(node: Child, worker: Child) -> None:
    """End the node where the worker found that it waits for a reply that nobody can give it."""
    if worker.process.poll() == STUCK and not worker.ended and not node.ended:
        say(PAUSED)
        node.process.terminate()


def make_way(node: Child, worker: Child) -> None:
    """Let both go to another port where somebody took theirs while the node was down."""
    port = node.arguments[node.arguments.index("--port") + 1]
    if not node.ended or _is_free(int(port)):
        return
    another = str(free_ports(1)[0])
    for child in (node, worker):
        place = list(child.arguments).index("--port") + 1
        child.arguments = [*child.arguments[:place], another, *child.arguments[place + 1 :]]
    worker.process.terminate()


def node_arguments(settings: Settings, path: Path, superlink: str | None) -> list[str]:
    """What the SuperNode is told, but for its port and secret; what is missing is an error here."""
    address = superlink or settings.superlink
    if address is None:
        raise FairSiloError(
            f'{path} names no SuperLink: add superlink = "HOST:PORT" or give `superlink`'
        )
    if settings.key is None:
        raise FairSiloError(f"{path} names no key: make one with `fairsilo flower keygen`")
    for needed in (settings.key, path.parent / CA):
        if not needed.exists():
            raise FairSiloError(f"{needed} is missing: put it where the silo's settings say")
    if "'" in str(path):
        raise FairSiloError(f"{path} has a quotation mark in its name: move the silo's folder")
    return [
        *("--isolation", "process", "--root-certificates", str(path.parent / CA)),
        *("--auth-supernode-private-key", str(settings.key), "--superlink", address),
        *("--node-config", f"silo='{path}'"),
    ]


@contextlib.contextmanager
def secret_file() -> Iterator[Path]:
    """A fresh secret that only this user can read, gone at the end."""
    with tempfile.TemporaryDirectory(prefix="fairsilo-") as folder:
        path = Path(folder) / "secret"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as stream:
            stream.write(secrets.token_bytes(32))
        yield path


def free_port(port: int) -> int:
    """The port, if nobody has it: another silo's SuperNode would get this one's questions."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise FairSiloError(
                f"`port` {port} cannot be used ({why}): give another, or none"
            ) from None
    return port


def _is_free(port: int) -> bool:
    try:
        return free_port(port) == port
    except FairSiloError:
        return False


def say(sentence: str) -> None:
    """A line in the silo's log."""
    print(f"fairsilo: {sentence}", file=sys.stderr, flush=True)


def _module(name: str, arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-P", "-W", "ignore", "-m", f"fairsilo.network.ops.{name}", *arguments]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
