"""The layers of Flower's HTTP servers without their streams: a request costs half as much.

A SuperLink passes every request through nine layers of Starlette's `BaseHTTPMiddleware`, a
SuperNode through three. Each starts a task and a stream, a millisecond of CPU, so that an answer
may come bit by bit. For the requests of nodes and apps, whose answers are one piece, a layer is
here a call and nothing more. What the layers themselves do, who may ask among it, stays theirs.
"""

from __future__ import annotations

from typing import Any

PLAIN = frozenset(
    [
        *(
            f"/v1/fleet/{name}"
            for name in (
                *("send-node-heartbeat", "pull-messages", "push-messages"),
                *("pull-object", "push-object", "confirm-message-received"),
            )
        ),
        *(
            f"/v1/runtime/{name}"
            for name in (
                *("acquire-task", "send-task-heartbeat", "pull-task-input", "push-task-output"),
                *("pull-messages", "push-messages", "get-nodes", "push-logs"),
                *("pull-object", "push-object", "confirm-message-received"),
            )
        ),
    ]
)
"""The requests that come many times in a round; none is answered by a stream."""


def thin_layers() -> bool:
    """Do so in this process; False where Starlette's layers are not as expected."""
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.requests import Request
    from starlette.responses import Response

    if not {"app", "dispatch_func"} <= set(BaseHTTPMiddleware.__init__.__code__.co_names):
        return False
    whole: Any = BaseHTTPMiddleware.__call__

    async def call(self: Any, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] not in PLAIN:
            await whole(self, scope, receive, send)
            return
        request = Request(scope, receive)

        async def body() -> dict[str, Any]:
            return {"type": "http.request", "body": await request.body()}

        async def call_next(_: Any) -> Response:
            head, parts = {}, []

            async def collect(message: Any) -> None:
                if message["type"] == "http.response.start":
                    head.update(message)
                else:
                    parts.append(message.get("body", b""))

            await self.app(scope, body, collect)
            response = Response(b"".join(parts), head["status"])
            response.raw_headers = list(head["headers"])
            return response

        response = await self.dispatch_func(request, call_next)
        await response(scope, body, send)

    BaseHTTPMiddleware.__call__ = call  # type: ignore[method-assign]
    return True
