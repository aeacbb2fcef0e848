"""`GET /health` and `GET /metrics` of a program, on loopback: for supervisors and Prometheus.

Nothing secret is told, and nothing about rows. Requests by another name than loopback's are
refused, so that a page in a browser on this machine reads nothing here.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from fairsilo import __version__
from fairsilo.errors import FairSiloError

HOST = "127.0.0.1"
HOSTS = ("127.0.0.1", "localhost")
SECONDS = 5
"""For a request; a client that sends none is let go."""
TEXT = "text/plain; version=0.0.4; charset=utf-8"
"""The type of Prometheus' text format."""


@dataclass(frozen=True)
class Metric:
    """One sample. Samples of one name have one kind and one help, those of the first."""

    name: str
    value: float
    help: str
    kind: Literal["gauge", "counter"] = "gauge"
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Health:
    """What a program says of itself: what is wrong, in sentences, facts for people, metrics."""

    problems: list[str]
    facts: dict[str, Any]
    metrics: list[Metric]


Look = Callable[[], Health]


@contextmanager
def serving(port: int | None, look: Look) -> Iterator[None]:
    """Answer on this port of loopback until the block is left; None: do not."""
    if port is None:
        yield
        return
    try:
        server = ThreadingHTTPServer((HOST, port), _handler(look))
    except (OSError, OverflowError) as error:
        raise FairSiloError(
            f"`health_port` {port} cannot be used ({error}): give another, or none"
        ) from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(look: Look) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = SECONDS

        def do_GET(self) -> None:
            name = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
            if name not in HOSTS:
                self._send(HTTPStatus.FORBIDDEN, "ask at 127.0.0.1 or localhost\n")
                return
            if self.path not in ("/health", "/metrics"):
                self._send(HTTPStatus.NOT_FOUND, "there are /health and /metrics\n")
                return
            try:
                found = look()
            except (FairSiloError, OSError) as error:
                found = Health([f"it cannot be told how it is ({type(error).__name__})"], {}, [])
            good = not found.problems
            if self.path == "/metrics":
                self._send(HTTPStatus.OK, metrics_text(found))
                return
            status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
            told = {"healthy": good, "problems": found.problems, "version": __version__}
            text = json.dumps({**told, **found.facts}, indent=1) + "\n"
            self._send(status, text, "application/json")

        def _send(self, status: HTTPStatus, text: str, kind: str = TEXT) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def version_string(self) -> str:
            return "fairsilo"

        def log_message(self, format: str, *args: Any) -> None:
            """Not a line for every look."""

    return Handler


def metrics_text(found: Health) -> str:
    """Prometheus' text format: help and type once for each name, then its samples."""
    up = Metric("fairsilo_healthy", not found.problems, "Whether the program is healthy.")
    info = Metric("fairsilo_info", 1, "The version of fairsilo.", labels={"version": __version__})
    families: dict[str, list[Metric]] = {}
    for metric in (up, info, *found.metrics):
        families.setdefault(metric.name, []).append(metric)
    lines: list[str] = []
    for name, samples in families.items():
        lines += [f"# HELP {name} {_escaped(samples[0].help)}", f"# TYPE {name} {samples[0].kind}"]
        for one in samples:
            labels = ",".join(f'{k}="{_escaped(v, quoted=True)}"' for k, v in one.labels.items())
            lines.append(f"{name}{f'{{{labels}}}' if labels else ''} {float(one.value):.17g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str, quoted: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quoted else text
