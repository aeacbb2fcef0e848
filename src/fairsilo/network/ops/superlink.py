"""`fairsilo flower superlink`: Flower's SuperLink on loopback, the gateway at the address."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fairsilo.errors import FairSiloError
from fairsilo.network.ops.certificates import CA, SERVER, SERVER_KEY, days_left, ended, ending
from fairsilo.network.ops.control import unregister_former
from fairsilo.network.ops.gateway import Gateway, check_flower
from fairsilo.network.ops.health import Health, Metric, serving
from fairsilo.network.ops.processes import Processes, environment, free_ports, listens, processes
from fairsilo.network.ops.runs import DATABASE, PATIENCE, controlled, home
from fairsilo.network.ops.workspace import CONTROL, Workspace

NAME = "flower"
HEAD = 30.0
"""Seconds that a client has for the head of a request."""
KEEP = 75.0
"""Seconds that a silo's connection stays open without a request."""
CLIENTS = 1000
"""Connections at once; more are told to come again."""
LEAVING = 30.0
"""Seconds that the SuperLink of a command that was killed has to end."""
DAY = 86400.0
"""Seconds between two warnings of a certificate that ends."""
OTHER_PORTS = ("FLWR_INTERNAL_GRPC_CONTROL_API", "FLWR_INTERNAL_GRPC_FLEET_API")
"""Variables by which Flower opens more ports, to everybody."""


def run_superlink(
    space: Workspace,
    listen: str | None = None,
    control_port: int = 0,
    health_port: int | None = None,
) -> None:
    """Run both until a signal comes or one of them ends; the other is ended with it.

    `listen`: where to listen if not at the host of the folder's address; `control_port`: the
    SuperLink's own port on loopback, 0 for one that is free; `health_port`: see `health`.
    """
    logging.basicConfig(format="%(asctime)s gateway: %(message)s", level=logging.WARNING)
    if told := ended(space.certificates):
        raise FairSiloError("; ".join(told))
    host, _, port = space.address.rpartition(":")
    own = control_port or free_ports(1)[0]
    with _bound(listen or host.strip("[]"), int(port)) as door, processes(None) as group:
        _nobody_left(space)
        _heed_hangup()
        _start(space, own, group)
        try:
            check_flower()
            _wait(group, own)
            gateway = Gateway(own, str(space.certificates / CA))
            look = partial(_health, space, own, gateway)
            with serving(health_port, look):
                _serve(space, own, door, gateway, lambda: group.alive(NAME))
        finally:
            (space.folder / CONTROL).unlink(missing_ok=True)
        if not group.alive(NAME):
            raise FairSiloError(
                "the SuperLink ended, and the gateway with it: its last lines say why"
            )
    raise FairSiloError("the gateway ended, and the SuperLink with it: its last lines say why")


def _start(space: Workspace, port: int, group: Processes) -> None:
    arguments = [
        *(sys.executable, "-P", "-W", "ignore", "-m", "fairsilo.network.ops.link"),
        *("--enable-supernode-auth", "--disable-runtime-dependency-installation"),
        *("--ssl-ca-certfile", str(space.certificates / CA)),
        *("--ssl-certfile", str(space.certificates / SERVER)),
        *("--ssl-keyfile", str(space.certificates / SERVER_KEY)),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--database", str(space.folder / DATABASE)),
    ]
    # Only the start of a run waits for its looks.
    env = environment(home(space), look=0.5)
    kept = {name: value for name, value in env.items() if name not in OTHER_PORTS}
    group.start(NAME, arguments, kept, space.folder, tied=True)


def _nobody_left(space: Workspace) -> None:
    """Wait for the SuperLink of a command that was killed: it has the database until it ends."""
    deadline = time.monotonic() + LEAVING
    while controlled(space) and time.monotonic() < deadline:
        time.sleep(0.2)
    if controlled(space):
        raise FairSiloError(
            f"at {space.control} somebody still listens, and {CONTROL} says that it is this "
            f"folder's SuperLink: end that process, or remove {CONTROL} if it is another one"
        )
    (space.folder / CONTROL).unlink(missing_ok=True)


def _wait(group: Processes, port: int) -> None:
    """Until the SuperLink listens: silos that come earlier wait at the door."""
    deadline = time.monotonic() + PATIENCE
    while not listens(port):
        if not group.alive(NAME) or time.monotonic() > deadline:
            raise FairSiloError("the SuperLink did not come up: its last lines say why")
        time.sleep(0.1)


def _bound(host: str, port: int) -> socket.socket:
    """A socket at the federation's address; taken first, so that a folder is served once."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=CLIENTS)
    except OSError as error:
        raise FairSiloError(
            f"cannot listen on {host}, port {port} ({error.strerror}): is its SuperLink running "
            "already, or does this machine have another address (`listen`)?"
        ) from None


def _heed_hangup() -> None:
    """A closed terminal ends the command like SIGTERM, unless nohup says otherwise."""
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: os.kill(os.getpid(), signal.SIGTERM))


def _health(space: Workspace, port: int, gateway: Gateway) -> Health:
    """How the SuperLink and the gateway are; where either ends, so does this program."""
    problems = [] if listens(port) else ["the SuperLink does not answer on its port"]
    problems += ended(space.certificates)
    words = "Requests at the federation's address, by the status of their answer."
    metrics = [
        Metric("fairsilo_gateway_requests_total", count, words, "counter", {"status": str(status)})
        for status, count in sorted(gateway.answered.items())
    ]
    left = {name: days_left(space.certificates / name) for name in (SERVER, CA)}
    words = "Days until a certificate ends."
    metrics += [
        Metric("fairsilo_certificate_days_left", days, words, labels={"certificate": name})
        for name, days in left.items()
    ]
    facts: dict[str, Any] = {"federation": space.agreed.name, "address": space.address}
    facts |= {"certificate_days_left": left, "warnings": ending(space.certificates)}
    answered = {str(status): count for status, count in sorted(gateway.answered.items())}
    return Health(problems, {**facts, "answered": answered}, metrics)


def _serve(
    space: Workspace, port: int, door: socket.socket, gateway: Gateway, alive: Callable[[], bool]
) -> None:
    config = uvicorn.Config(
        gateway,
        http=Punctual,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        # The gateway says itself who asks, and takes nobody's word for it.
        proxy_headers=False,
        server_header=False,
        date_header=False,
        limit_concurrency=CLIENTS,
        timeout_keep_alive=int(KEEP),
        timeout_graceful_shutdown=1,
        ssl_certfile=str(space.certificates / SERVER),
        ssl_keyfile=str(space.certificates / SERVER_KEY),
    )

    def up() -> None:
        space.say_control(f"127.0.0.1:{port}")
        # Before any request is let through.
        for name in unregister_former(space):
            print(f"{name} left: its key is refused", flush=True)
        print(f"silos: {space.address}; control: 127.0.0.1:{port}, this machine only", flush=True)

    def remind() -> None:
        # Nothing that is wrong with the files ends a SuperLink that serves.
        with contextlib.suppress(FairSiloError):
            for told in ending(space.certificates):
                print(f"fairsilo: warning: {told}", file=sys.stderr, flush=True)

    Server(config, alive, up, remind).run(sockets=[door])


class Server(uvicorn.Server):
    """Serves as long as the SuperLink lives; `up` is called once it does, and heeds signals;
    `remind` then, and once a day."""

    def __init__(
        self,
        config: uvicorn.Config,
        alive: Callable[[], bool],
        up: Callable[[], None],
        remind: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self.alive, self.up, self.remind, self.due = alive, up, remind, 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        self.up()

    async def on_tick(self, counter: int) -> bool:
        """Whether to end; asked ten times a second."""
        if time.time() >= self.due:
            self.due = time.time() + DAY
            self.remind()
        return await super().on_tick(counter) or not self.alive()


class Punctual(HttpToolsProtocol):
    """Closes a connection whose next head is not complete in time, once it has begun."""

    late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The first head is awaited from here on."""
        super().connection_made(transport)
        self._await_head()

    def on_message_begin(self) -> None:
        """Another one began."""
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        """It is there."""
        self._stop()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more."""
        self._stop()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._stop()
        self.late = self.loop.call_later(HEAD, self.transport.close)

    def _stop(self) -> None:
        if self.late is not None:
            self.late.cancel()
