"""The gateway against Flower's own table of paths, and as a server before another real server."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES
from flwr.superlink.routers.fleet.router import router
from flwr.supernode import fleet_http_client

from fairsilo.errors import FairSiloError
from fairsilo.network.ops import gateway, superlink
from fairsilo.network.ops.certificates import CA, SERVER, SERVER_KEY, make_certificates
from fairsilo.network.ops.gateway import PATHS, Gateway, Message, Receive, Send
from fairsilo.network.ops.processes import free_ports
from fairsilo.network.ops.superlink import Punctual

PULL = "/v1/fleet/pull-messages"
OWN = {"/v1/fleet/register-node", "/v1/fleet/unregister-node"}
"""What only nodes without keys ask for, and a SuperLink that knows its nodes refuses."""


def test_it_lets_through_what_the_installed_nodes_ask_for_and_nothing_else() -> None:
    asked = set(re.findall(r'path="([^"]+)"', Path(fleet_http_client.__file__).read_text()))
    served = {path for _, path in PROTOBUF_REQUEST_TYPES if path.startswith("/v1/fleet/")}
    routes = {route.path for route in router.routes}  # type: ignore[attr-defined]
    let_through = {path.decode() for path in PATHS}
    assert asked == served == routes == let_through | OWN
    gateway.check_flower()


def test_a_path_that_flower_renamed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "PATHS", PATHS | {b"/v1/fleet/fetch"})
    with pytest.raises(FairSiloError, match=r"Flower [0-9.]+ has no /v1/fleet/fetch, .* install"):
        gateway.check_flower()


async def echo(scope: Message, receive: Receive, send: Send) -> None:
    """Answers with the method, path and headers that it got, then with the body."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    lines = [f"{scope['method']} {scope['raw_path'].decode()}?".encode()]
    lines += [name + b": " + value for name, value in scope["headers"]]
    headers = [(b"X-Own", b"kept"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": b"\n".join(lines), "more_body": True})
    await send({"type": "http.response.body", "body": b"\n\n" + body})


@contextmanager
def served(app: object, folder: Path, **how: object) -> Iterator[int]:
    """A server with TLS in a thread; the port."""
    port = free_ports(1)[0]
    how = {"ssl_certfile": folder / SERVER, "ssl_keyfile": folder / SERVER_KEY, **how}
    config = uvicorn.Config(app, port=port, lifespan="off", ws="none", log_level="error", **how)  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("certificates")
    make_certificates(found, "127.0.0.1")
    return found


@pytest.fixture(scope="module")
def door(folder: Path) -> Iterator[tuple[Gateway, int, httpx.Client]]:
    """A gateway before `echo`, its port, and a client that knows its authority."""
    with served(echo, folder) as behind:
        app = Gateway(behind, str(folder / CA))
        context = ssl.create_default_context(cafile=str(folder / CA))
        how = {"http": Punctual, "proxy_headers": False, "timeout_graceful_shutdown": 1}
        with (
            served(app, folder, **how) as port,
            httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=context) as client,
        ):
            yield app, port, client


Door = tuple[Gateway, int, httpx.Client]


def test_headers_and_body_arrive_as_they_were_sent(door: Door) -> None:
    app, _, client = door
    body = bytes(range(256)) * 20_000
    sent = {"flwr-signature": "a+/=", "Flwr-Timestamp": "2026-01-01T00:00:00+00:00"}
    lies = {"x-forwarded-for": "6.6.6.6", "forwarded": "for=6.6.6.6", "te": "trailers"}
    for content in (body, iter([body[:7], body[7:]]), b""):
        answer = client.post(PULL, content=content, headers=sent | lies)
        assert answer.status_code == 401
        assert answer.headers["x-own"] == "kept"
        head, _, back = answer.content.partition(b"\n\n")
        lines = head.decode().splitlines()
        assert lines[0] == f"POST {PULL}?"
        assert {f"{name.lower()}: {value}" for name, value in sent.items()} <= set(lines)
        assert [line for line in lines if "forwarded" in line] == ["x-forwarded-for: 127.0.0.1"]
        assert "te: trailers" not in lines
        assert back == (b"" if content == b"" else body)
    assert app.held == 0


@pytest.mark.parametrize(
    "target",
    [
        *("/", "/health", "/docs", "/openapi.json", "/v1/fleet/register-node"),
        *("/v1/control/start-run", "/v1/control/list-runs", "/v1/control/list-nodes"),
        *("/v1/runtime/acquire-task", "/v1/runtime/push-task-output", "/v1/fleet/"),
        *(f"{PULL}/", f"{PULL}?a=b", f"{PULL}/../../control/list-runs", f"/{PULL}"),
        *("/v1/fleet/%2e%2e/control/list-runs", "/v1/fleet/pull%2Dmessages", PULL.upper()),
    ],
)
def test_all_else_is_refused(door: Door, target: str, caplog: pytest.LogCaptureFixture) -> None:
    """Sent as it stands: a client would tidy it up."""
    _, port, _ = door
    context = ssl._create_unverified_context()
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port), 60)) as stranger:
        stranger.sendall(f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
        answer = b"".join(iter(lambda: stranger.recv(4096), b"")).decode()
    assert answer.startswith("HTTP/1.1 403")
    assert "this port is for the silos' nodes only" in answer
    assert f"POST {target.partition('?')[0][:10]}" in caplog.text
    assert "from 127.0.0.1 (403)" in caplog.text


def test_other_methods_are_refused(door: Door) -> None:
    for method in ("GET", "HEAD", "PUT", "OPTIONS"):
        assert door[2].request(method, PULL).status_code == 403


def test_what_is_too_large_is_refused(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    app, _, client = door
    monkeypatch.setattr(gateway, "LARGEST", 1000)
    assert client.post(PULL, content=b"x" * 1000).status_code == 401
    for content in (b"x" * 1001, iter([b"x" * 600] * 2)):
        answer = client.post(PULL, content=content)
        assert answer.status_code == 413
        assert answer.json() == {"detail": "a request has at most 1,000 bytes"}
    monkeypatch.setattr(gateway, "TOGETHER", 500)
    assert client.post(PULL, content=b"x" * 501).status_code == 503
    assert app.held == 0


@pytest.mark.slow
def test_who_is_slow_is_let_go(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    app, port, _ = door
    monkeypatch.setattr(gateway, "PATIENCE", 0.4)
    context = ssl._create_unverified_context()
    head = f"POST {PULL} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
    slow_heads = ((0.4, "", ""), (0.4, head[:20], ""), (60.0, head + "four", "HTTP/1.1 504"))
    for patience, sent, answered in slow_heads:
        monkeypatch.setattr(superlink, "HEAD", patience)
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port))) as slow:
            slow.settimeout(60)
            slow.sendall(sent.encode())
            answer = b"".join(iter(lambda: slow.recv(4096), b"")).decode()
        assert answer[:12] == answered
    assert app.held == 0


def test_without_a_superlink_nodes_are_told_to_come_again(folder: Path) -> None:
    app = Gateway(free_ports(1)[0], str(folder / CA))
    with served(app, folder) as port, httpx.Client(verify=False) as client:
        assert client.post(f"https://127.0.0.1:{port}{PULL}").status_code == 502


def test_a_stranger_on_the_superlinks_port_is_not_spoken_to(folder: Path, tmp_path: Path) -> None:
    """Another user of the machine could have taken it; the authority is not theirs."""
    make_certificates(tmp_path, "127.0.0.1")
    with served(echo, tmp_path) as behind:
        app = Gateway(behind, str(folder / CA))
        with served(app, folder) as port, httpx.Client(verify=False) as client:
            assert client.post(f"https://127.0.0.1:{port}{PULL}").status_code == 502
