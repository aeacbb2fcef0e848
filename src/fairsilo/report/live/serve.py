"""The live page on loopback: three paths, read from a progress file, with the standard library.

A page of somebody else's site must not read it through the visitor's browser, not even where its
name is made to point to 127.0.0.1 (DNS rebinding): a request must name this machine.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from fairsilo.errors import FairSiloError
from fairsilo.progress import Tail, advance, standing, until
from fairsilo.report.live.page import frame, parts

HOST = "127.0.0.1"
LOOK = 0.25
"""Seconds between two looks at the file, so at most four pages a second are sent."""
TICK = 1.0
"""Seconds after which the clock of a run that goes on is shown anew where nothing happens."""
BEAT = 10.0
"""Seconds after which a line is sent even if nothing happened: a reader that left is noticed."""
READERS = 16
"""Pages that are fed at once."""
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
Dead = Callable[[dict[str, Any]], bool]
Words = Callable[[str], str]


class Watching(ThreadingHTTPServer):
    """Serves the page of one run; `path` is its progress file, which need not be there yet.

    `words`: how settings in its sentences are named where it is served.
    """

    daemon_threads = True

    def __init__(
        self, path: Path, port: int = 0, dead: Dead = lambda state: False, words: Words = str
    ) -> None:
        self.path, self.dead, self.words = path, dead, words
        self.readers = threading.BoundedSemaphore(READERS)
        self.ending = threading.Event()
        try:
            super().__init__((HOST, port), Answers)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise FairSiloError(
                f"`port` {port} cannot be used ({why}): give another, or none"
            ) from None

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://{HOST}:{self.server_port}/"

    @property
    def report(self) -> Path:
        """The report beside the progress file."""
        return self.path.parent / "report.html"


class Answers(BaseHTTPRequestHandler):
    """One request."""

    server: Watching
    server_version, sys_version = "fairsilo", ""

    def do_GET(self) -> None:
        """Answer; anything but the three paths does not exist."""
        port = self.server.server_port
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            self._send(403, "text/plain", b"this page is for a browser on this machine only\n")
        elif self.path == "/":
            self._send(200, "text/html; charset=utf-8", frame().encode())
        elif self.path == "/events":
            self._stream()
        elif self.path == "/report.html" and self.server.report.is_file():
            self._send(200, "text/html; charset=utf-8", self.server.report.read_bytes())
        else:
            self._send(404, "text/plain", b"there is nothing here\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not worth a line."""

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self._head(status, kind, **{"Content-Length": str(len(body))})
        self.wfile.write(body)

    def _head(self, status: int, kind: str, **more: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **HEADERS, **more}.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self) -> None:
        """Send the parts of the page that changed, as they change (server-sent events)."""
        if not self.server.readers.acquire(blocking=False):
            self._send(503, "text/plain", b"too many pages are open: close one\n")
            return
        try:
            self._head(200, "text/event-stream; charset=utf-8")
            with contextlib.suppress(OSError):
                self._feed()
        finally:
            self.server.readers.release()

    def _feed(self) -> None:
        tail, state, sent = Tail(self.server.path), standing(()), dict[str, str]()
        said = made_at = 0.0
        beside = (False, False)
        while not self.server.ending.wait(LOOK if sent else 0.0):
            events = tail.read()
            for event in events:
                advance(state, event)
            before, beside = beside, (self.server.dead(state), self.server.report.is_file())
            changed: dict[str, str] = {}
            ticks = state["time"] and not (state["end"] or beside[0])
            due = ticks and time.monotonic() - made_at >= TICK
            if events or beside != before or not sent or due:
                now = until(state, time.time()) if ticks else state
                made, made_at = parts(now, *beside), time.monotonic()
                new = {name: self.server.words(part) for name, part in made.items()}
                changed = {name: part for name, part in new.items() if sent.get(name) != part}
                sent = new
            if changed:
                self.wfile.write(f"data: {json.dumps(changed)}\n\n".encode())
            elif time.monotonic() - said > BEAT:
                self.wfile.write(b": still here\n\n")
            else:
                continue
            self.wfile.flush()
            said = time.monotonic()


@contextlib.contextmanager
def watching(path: Path, port: int = 0, words: Words = str) -> Iterator[Watching]:
    """Serve within the block, from threads of this process."""
    server = Watching(path, port, words=words)
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ending.set()
        server.shutdown()
        server.server_close()
        thread.join()
