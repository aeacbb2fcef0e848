"""The live page in a real browser: a run of real handlers, in which a silo dies on screen."""

from __future__ import annotations

import http.client
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairsilo.cli.flags import as_typed
from fairsilo.errors import FairSiloError
from fairsilo.network.server import about, coordinate
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Record
from fairsilo.progress import PROGRESS, Progress, standing
from fairsilo.report.live import watching
from fairsilo.report.live.page import parts
from tests.network.silos import TownTransport, make_town
from tests.network.test_faults import CONFIG
from tests.report.browser import Browser
from tests.report.samples import HOSTILE

DIES = 12
"""The exchange in which the silo dies: within the rounds."""


def run_in_thread(
    folder: Path, dies: int = DIES, **more: Any
) -> tuple[TownTransport, threading.Thread, Progress]:
    """Four silos behind masks; silo1 is gone from exchange `dies` until it is brought back."""
    town = make_town(folder / "town", **more)
    progress = Progress(folder / PROGRESS, fresh=True)
    post = TownTransport(town)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange != dies or name != "silo1":
            return None
        post.absent = ("silo1",)
        return Fault("is no longer connected", gone=True)

    post.change = change

    def work() -> None:
        start = {"event": "started", "pid": os.getpid(), "silos": town.agreed.names}
        progress.say({"event": "submitting", "phase": "start"})
        progress.say({**start, "about": about(town.agreed, False)})
        notes = coordinate(town.agreed, post, "1", CONFIG, folder, progress.say)
        progress.say({"event": "finished", "notes": notes})

    return post, threading.Thread(target=work), progress


def text(browser: Browser) -> str:
    return str(browser.eval("document.body.innerText"))


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_a_silo_dies_on_screen_and_comes_back(browser: Browser, tmp_path: Path, dark: bool) -> None:
    post, work, _ = run_in_thread(tmp_path)
    with watching(tmp_path / PROGRESS, words=as_typed) as server:
        browser.visit(server.address, dark=dark)
        browser.wait("document.querySelector('h1').textContent === 'No run yet'")
        work.start()
        browser.wait("document.querySelector('h1').textContent === 'Waiting for silo1'")
        away = "document.querySelector('.silo.is-unsure')"
        assert browser.eval(f"{away}.innerText").startswith("silo1\naway\n")
        assert "is not connected" in browser.eval(f"{away}.innerText")
        assert "waiting for up to 600 s (--wait-lost)" in text(browser)
        others = "[...document.querySelectorAll('.silo.is-good .badge')].map(b => b.innerText)"
        # They have answered.
        assert browser.eval(others) == ["idle"] * 3
        assert browser.eval("document.querySelector('.happened').innerText").count("silo1") == 1
        rounds = browser.eval("document.querySelectorAll('#rounds tbody tr').length")
        assert rounds >= 1
        assert "Gaps between groups" in text(browser)
        browser.point("#rounds .mark")
        assert browser.eval("document.querySelector('.tip').hidden") is False
        post.absent = ()
        browser.wait("document.querySelector('h1').textContent === 'Finished'")
        work.join()
        assert "silo silo1 was lost for" in text(browser)
        assert browser.eval("document.querySelectorAll('.happened li').length") == 2
        assert browser.eval("document.querySelectorAll('#rounds tbody tr').length") > rounds
        assert browser.eval("document.documentElement.scrollWidth") <= 1200
        link = browser.eval("document.querySelector('a.done').href")
        own = (server.address, f"{server.address}events")
        assert link == f"{server.address}report.html"
        assert {url for url in browser.requests if not url.startswith("data:")} == set(own)
        assert browser.errors == []
        browser.visit(link)
        assert "How training went" in text(browser)
        assert browser.errors == []


def test_text_of_silos_is_text(browser: Browser, tmp_path: Path) -> None:
    """Names and reasons come from elsewhere; the page has no script but its own."""
    progress = Progress(tmp_path / PROGRESS, fresh=True)
    progress.say({"event": "started", "pid": 1, "silos": list(HOSTILE), "phase": "connect"})
    for name in HOSTILE:
        progress.say({"event": "lost", "silo": name, "why": name})
    with watching(tmp_path / PROGRESS) as server:
        browser.visit(server.address, width=390)
        browser.wait("document.documentElement.dataset.live === 'true'")
        names = browser.eval("[...document.querySelectorAll('.silo h3')].map(h => h.innerText)")
        assert len(names) == len(HOSTILE)
        assert browser.eval("document.documentElement.scrollWidth") <= 390
        assert browser.errors == []
    browser.wait("!document.getElementById('gone').hidden")


def ask(port: int, path: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def test_only_this_machine_is_answered(tmp_path: Path) -> None:
    """A name that an attacker lets point to 127.0.0.1 is not this machine's."""
    (tmp_path / "report.html").write_text("secret")
    (tmp_path / "model.json").write_text("secret")
    with watching(tmp_path / PROGRESS) as server:
        port = server.server_port
        for path in ("/", "/events", "/report.html"):
            for host in (f"evil.example:{port}", "127.0.0.1", f"127.0.0.1.evil.example:{port}", ""):
                found = ask(port, path, Host=host)
                assert found.status == 403
                assert b"secret" not in found.read()
        found = ask(port, "/", Host=f"localhost:{port}")
        assert found.status == 200
        assert found.headers["X-Frame-Options"] == "DENY"
        assert b"default-src 'none'" in found.read()
        assert ask(port, "/report.html").read() == b"secret"
        for path in ("/model.json", "/../model.json", "/report.html?x", "//etc/passwd"):
            assert ask(port, path).status == 404
        with (
            pytest.raises(FairSiloError, match=f"`port` {port} cannot be used"),
            watching(tmp_path / PROGRESS, port),
        ):
            pass
        assert server.server_address[0] == "127.0.0.1"


def test_readers_are_few_and_those_who_left_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairsilo.report.live.serve.BEAT", 0.1)
    with watching(tmp_path / PROGRESS) as server:
        port = server.server_port
        open_ones = [ask(port, "/events") for _ in range(16)]
        assert ask(port, "/events").status == 503
        for one in open_ones:
            one.close()
        wait_until(lambda: ask(port, "/events").status == 200)


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("events", "dead", "headline"),
    [
        ([], False, "No run yet"),
        ([{"event": "submitting", "phase": "start"}], False, "Starting"),
        ([{"event": "waiting", "silos": 1, "of": 3, "phase": "connect"}], False, "Connecting"),
        ([{"event": "started", "pid": 1, "phase": "start"}], True, "process has ended"),
        ([{"event": "failed", "why": "no silo"}], False, "The run failed"),
        ([{"event": "stopped", "why": "Control-C"}], False, "The run was stopped"),
    ],
)
def test_every_state_has_its_headline(
    events: list[dict[str, Any]], dead: bool, headline: str
) -> None:
    state = standing({**event, "time": 5.0} for event in events)
    assert headline in parts(state, dead, False)["h1"]
