"""The gateway at a federation's address: what a silo's node needs goes on, all else is refused.

Flower serves its nodes, the control of runs and the processes of its apps on one port, without a
login: whoever reaches it starts a run, which is code on this machine. So the SuperLink listens on
loopback, and this application, behind TLS, lets through what `PATHS` names. Nothing of a request
but its headers and its body goes on; the node's signature is in the headers.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import httpcore

from fairsilo.errors import FairSiloError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

PATHS = frozenset(
    f"/v1/fleet/{name}".encode()
    for name in (
        *("activate-node", "deactivate-node", "send-node-heartbeat"),
        *("pull-messages", "push-messages", "confirm-message-received"),
        *("pull-object", "push-object", "get-run", "get-fab"),
    )
)
"""What a node with a registered key asks for. Nodes are registered by the coordinator alone."""
LARGEST = 64 * 2**20
"""Bytes of one request. Flower itself sets no limit; eight million numbers of a silo fit."""
TOGETHER = 512 * 2**20
"""Bytes of all requests that are under way: what strangers can make this machine hold."""
PATIENCE = 120.0
"""Seconds for a request from its head to the end of its answer."""
CONNECTIONS = 32
"""To the SuperLink, at once."""
IDLE = 3.0
"""Seconds that one of them is kept without work: less than the SuperLink's own 5."""
HOP = frozenset(
    b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer "
    b"transfer-encoding upgrade expect forwarded x-forwarded-for x-forwarded-proto".split()
)
"""Headers that are not for the SuperLink: those of one connection, and claims about the sender."""

log = logging.getLogger("fairsilo.gateway")


class Refused(Exception):
    """A status and one sentence."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def check_flower() -> None:
    """An error if the installed Flower has other paths than the gateway knows."""
    from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES
    from flwr.supercore.version import package_version

    known = {path.encode() for method, path in PROTOBUF_REQUEST_TYPES if method == "POST"}
    if unknown := sorted(path.decode() for path in PATHS - known):
        raise FairSiloError(
            f"Flower {package_version} has no {', '.join(unknown)}, which the gateway lets "
            "through: install the version of flwr that this fairsilo was tested with"
        )


class Gateway:
    """An ASGI application in front of the SuperLink on `port` of loopback."""

    def __init__(self, port: int, authority: str) -> None:
        self.upstream = f"https://127.0.0.1:{port}"
        self.pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(cafile=authority),
            max_connections=CONNECTIONS,
            keepalive_expiry=IDLE,
        )
        self.held = 0
        self.answered: Counter[int] = Counter()
        """How often each status was answered."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request; nothing but HTTP comes here."""
        began = False

        async def once(message: Message) -> None:
            nonlocal began
            began = True
            if message["type"] == "http.response.start":
                self.answered[int(message["status"])] += 1
            await send(message)

        try:
            async with asyncio.timeout(PATIENCE):
                _check(scope)
                async with self._body(receive) as body:
                    await self._forward(scope, body, once)
        except Refused as refused:
            _tell(scope, refused.status, str(refused))
            await _answer(once, refused.status, str(refused))
        except (TimeoutError, httpcore.TimeoutException):
            _tell(scope, 504, "it took too long")
            if not began:
                await _answer(once, 504, f"the request took more than {PATIENCE:g} s")
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            _tell(scope, 502, f"the SuperLink does not answer ({error!r})")
            if not began:
                await _answer(once, 502, "the SuperLink does not answer: try again")
        except asyncio.CancelledError:
            # Nothing but the gateway's own end, for which a silo's pull need not wait.
            if not began:
                await _answer(once, 503, "the gateway ends: try again")

    @asynccontextmanager
    async def _body(self, receive: Receive) -> AsyncIterator[bytes]:
        """All of a request's body, which counts as held until it is answered."""
        body, more = bytearray(), True
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "the sender went away")
                part, more = message.get("body", b""), message.get("more_body", False)
                self.held += len(part)
                body += part
                if len(body) > LARGEST:
                    raise Refused(413, f"a request has at most {LARGEST:,} bytes")
                if self.held > TOGETHER:
                    raise Refused(503, "too much is under way: try again")
            yield bytes(body)
        finally:
            self.held -= len(body)

    async def _forward(self, scope: Message, body: bytes, send: Send) -> None:
        """Ask the SuperLink and pass its answer on, part by part."""
        url = self.upstream + scope["raw_path"].decode("ascii")
        headers = [*_kept(scope["headers"]), (b"x-forwarded-for", _sender(scope).encode())]
        async with self.pool.stream("POST", url, headers=headers, content=body) as answer:
            head = {"type": "http.response.start", "status": answer.status}
            await send({**head, "headers": _kept(answer.headers)})
            async for part in answer.aiter_stream():
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _check(scope: Message) -> None:
    """Refuse what is not exactly a node's request."""
    if scope["method"] != "POST" or scope["raw_path"] not in PATHS or scope["query_string"]:
        raise Refused(403, "this port is for the silos' nodes only: runs are controlled elsewhere")
    length = dict(scope["headers"]).get(b"content-length", b"0")
    if not length.isdigit() or int(length) > LARGEST:
        raise Refused(413, f"a request has at most {LARGEST:,} bytes")


def _kept(headers: Headers) -> Headers:
    return [(name, value) for name, value in headers if name.lower() not in HOP]


def _sender(scope: Message) -> str:
    return str(scope["client"][0]) if scope.get("client") else "unknown"


def _tell(scope: Message, status: int, why: str) -> None:
    what = f"{scope['method']} {scope['path']}"[:100]
    log.warning("refused %r from %s (%d): %s", what, _sender(scope), status, why)


async def _answer(send: Send, status: int, why: str) -> None:
    body = json.dumps({"detail": why}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
