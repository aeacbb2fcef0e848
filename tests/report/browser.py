"""A real headless Chromium, controlled over a pipe (DevTools protocol): no driver, no network.

Every console message, exception and request is recorded, so that tests can check for them.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
)
PATIENCE = 60.0


def find_chromium() -> str | None:
    """The first Chromium or Chrome on the path."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


class Browser:
    """One page at a time; use as a context manager."""

    def __init__(self, program: str, profile: Path) -> None:
        theirs_in, self._write = os.pipe()
        self._read, theirs_out = os.pipe()
        # The shell moves our ends to the numbers 3 and 4, where Chromium looks for them.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (theirs_in, theirs_out)]
        shell = f'exec "$0" "$@" 3<&{ends[0]} 4>&{ends[1]}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=ends,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (theirs_in, theirs_out, *ends):
            os.close(end)
        self._buffer = b""
        self._next = 0
        self._session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._attach()

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._write)
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)

    def open(
        self, path: Path, *, width: int = 1200, dark: bool = False, media: str = "screen"
    ) -> None:
        """Load a file and clear the records of earlier pages."""
        self.visit(path.as_uri(), width=width, dark=dark, media=media)

    def visit(
        self, url: str, *, width: int = 1200, dark: bool = False, media: str = "screen"
    ) -> None:
        """Load an address of this machine."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.send("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.send("Page.navigate", url="about:blank")
        self.wait("document.readyState === 'complete' && location.protocol === 'about:'")
        self.errors.clear()
        self.requests.clear()
        self.send("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.protocol !== 'about:'")

    def eval(self, expression: str) -> Any:
        """The value of a JavaScript expression on the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def key(self, name: str) -> None:
        """Press a key."""
        code = {"Tab": 9, "ArrowRight": 39, "ArrowLeft": 37, "Home": 36}[name]
        for kind in ("rawKeyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code
            )

    def point(self, selector: str, at: float = 0.5) -> None:
        """Move the mouse over an element, at a share of its width."""
        found = json.dumps(selector)
        how = "{block: 'center', behavior: 'instant'}"
        self.eval(f"document.querySelector({found}).scrollIntoView({how})")
        spot = self.eval(
            f"(() => {{ const b = document.querySelector({found}).getBoundingClientRect();"
            f" return [b.left + b.width * {at}, b.top + b.height / 2]; }})()"
        )
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=spot[0], y=spot[1])

    def send(self, method: str, **params: object) -> dict[str, Any]:
        """Send a command and wait for its answer, recording events on the way."""
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._next:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    def _attach(self) -> None:
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._read], [], [], max(left, 0))
            if not ready:
                raise TimeoutError("Chromium does not answer")
            chunk = os.read(self._read, 1 << 16)
            if not chunk:
                raise ConnectionError("Chromium ended")
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        self._record(message)
        return message

    def _record(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.errors.append(json.dumps(params["args"]))
            case "Log.entryAdded":
                self.errors.append(params["entry"]["text"])

    def wait(self, expression: str) -> None:
        """Until a JavaScript expression is true on the page."""
        deadline = time.monotonic() + PATIENCE
        while not self.eval(expression):
            if time.monotonic() > deadline:
                raise TimeoutError(expression)
            time.sleep(0.02)
