"""Downloads from a server on this machine: whole, cut short, altered, absent, too large."""

import dataclasses
import hashlib
import io
import socket
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from fairsilo.data import DATASETS, check, fetch, load
from fairsilo.data import fetch as fetch_function
from fairsilo.data.source import RawFile, raw_bytes
from fairsilo.errors import FairSiloError

GOOD = b"1,2,3\n" * 1000


class Server(HTTPServer):
    """Serves `pages`; a Content-Length above the bytes sent makes a truncated answer."""

    pages: dict[str, bytes]
    promise_more = 0


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        content = self.server.pages.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content) + self.server.promise_more))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with Server(("127.0.0.1", 0), Handler) as running:
        running.pages = {"/good": GOOD, "/bad": GOOD[:-1] + b"!", "/short": GOOD[:100]}
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> str:
    """DRUG with a small published file."""
    file = RawFile("tiny.data", len(GOOD), hashlib.sha256(GOOD).hexdigest())
    dataset = dataclasses.replace(DATASETS["drug"], files=(file,))
    monkeypatch.setattr("fairsilo.data.datasets.DATASETS", {**DATASETS, "drug": dataset})
    return "drug"


def at(server: Server, page: str) -> str:
    return f"http://127.0.0.1:{server.server_port}{page}"


def packed(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), content)
    return buffer.getvalue()


def test_whole_file(server: Server, tiny: str, tmp_path: Path) -> None:
    folder = fetch(tiny, data_dir=tmp_path / "new", url=at(server, "/good"))
    assert folder == tmp_path / "new"
    assert [p.name for p in folder.iterdir()] == ["tiny.data"]
    assert (folder / "tiny.data").read_bytes() == GOOD


def test_member_of_an_archive(server: Server, tiny: str, tmp_path: Path) -> None:
    server.pages["/zip"] = packed(Index=b"x", sub__tiny_data=GOOD)
    fetch(tiny, data_dir=tmp_path, url=at(server, "/zip"))
    assert (tmp_path / "tiny.data").read_bytes() == GOOD


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("/bad", "is not the published file"),
        ("/short", "is not the published file"),
        ("/gone", "answered 404 for DRUG"),
        ("/zip", "is not the published file"),
        ("/other", "is not a zip archive with tiny.data"),
        ("/cut", "is not a zip archive with tiny.data"),
    ],
)
def test_wrong_content_leaves_what_was_there(
    server: Server, tiny: str, tmp_path: Path, page: str, message: str
) -> None:
    server.pages["/zip"] = packed(tiny_data=GOOD + b"more")
    server.pages["/other"] = packed(else_data=GOOD)
    server.pages["/cut"] = packed(tiny_data=GOOD)[:-30]
    (tmp_path / "tiny.data").write_bytes(b"old")
    with pytest.raises(FairSiloError, match=message) as error:
        fetch(tiny, data_dir=tmp_path, url=at(server, page))
    assert "\n" not in str(error.value)
    assert [p.name for p in tmp_path.iterdir()] == ["tiny.data"]
    assert (tmp_path / "tiny.data").read_bytes() == b"old"


def test_an_answer_that_breaks_off(server: Server, tiny: str, tmp_path: Path) -> None:
    server.promise_more = 500
    with pytest.raises(FairSiloError, match=r"broke off after 6000 of 6500 bytes"):
        fetch(tiny, data_dir=tmp_path / "new", url=at(server, "/good"))
    assert not (tmp_path / "new").exists()


def test_an_answer_without_end(
    server: Server, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fetch_function.__globals__, "MAX_BYTES", 1000)
    with pytest.raises(FairSiloError, match="sends more than 1000 bytes"):
        fetch(tiny, data_dir=tmp_path, url=at(server, "/good"))


def test_offline(tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(FairSiloError, match=r"cannot reach .*; go online, or") as error:
        fetch(tiny, data_dir=tmp_path / "new", url=f"http://127.0.0.1:{port}/x", timeout=5)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("url", ["ftp://example.org/x", "tiny.data", "http://[bad/x"])
def test_addresses_that_are_none(tiny: str, tmp_path: Path, url: str) -> None:
    with pytest.raises(FairSiloError, match=r"cannot (download from|reach) "):
        fetch(tiny, data_dir=tmp_path, url=url)


def test_adult_archive_has_two_files(server: Server, tmp_path: Path) -> None:
    adult = DATASETS["adult"]
    train, test = (raw_bytes(adult, file) for file in adult.files)
    server.pages["/adult.zip"] = packed(adult_data=train, adult_test=test)
    fetch("adult", data_dir=tmp_path, url=at(server, "/adult.zip"))
    assert (tmp_path / "adult.data").read_bytes() == train
    assert (tmp_path / "adult.test").read_bytes() == test
    with pytest.raises(FairSiloError, match=r"zip archive with adult\.data and adult\.test"):
        fetch("adult", data_dir=tmp_path, url=at(server, "/good"))


def test_addresses_are_the_publishers() -> None:
    hosts = {name: d.url.split("/")[2] for name, d in DATASETS.items()}
    assert hosts["compas"] == "raw.githubusercontent.com"
    assert hosts["adult"] == hosts["drug"] == "archive.ics.uci.edu"


@pytest.mark.parametrize("name", ["compas", "drug"])
def test_real_files_from_a_local_address(name: str, raw_data_dir: Path, tmp_path: Path) -> None:
    source = raw_data_dir / DATASETS[name].files[0].name
    assert not check(name, tmp_path).present
    fetch(name, data_dir=tmp_path, url=source.resolve().as_uri())
    result = check(name, tmp_path)
    assert result.ok
    assert result.rows == result.expected_rows == len(load(name, data_dir=tmp_path))


def test_check_says_what_is_wrong(tmp_path: Path) -> None:
    assert check("adult", tmp_path).ok
    absent = check("compas", tmp_path)
    assert (absent.present, absent.sha256_ok, absent.rows, absent.ok) == (False, False, None, False)
    (tmp_path / "drug_consumption.data").write_bytes(GOOD)
    changed = check("drug", tmp_path)
    assert (changed.present, changed.sha256_ok, changed.ok) == (True, False, False)
    assert "sha256" in (changed.problem or "")
