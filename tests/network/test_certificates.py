"""Certificates: how long they are valid, how they are renewed, and what is said before they end."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from fairsilo.errors import FairSiloError
from fairsilo.network.federation_file import read_federation_file
from fairsilo.network.ops import certificates
from fairsilo.network.ops.certificates import CA, CA_KEY, SERVER, SERVER_KEY, days_left
from fairsilo.network.ops.check import check_table
from fairsilo.network.ops.control import nodes
from fairsilo.network.ops.demo import make_demo
from fairsilo.network.ops.gateway import Gateway
from fairsilo.network.ops.superlink import _health, run_superlink
from fairsilo.network.ops.workspace import Workspace
from fairsilo.network.settings import read_settings
from tests.network.members import at, run


@contextmanager
def server(folder: Path, port: int = 0) -> Iterator[int]:
    """Answers TLS with the folder's certificate, on loopback; its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / SERVER, folder / SERVER_KEY)
    with ThreadingHTTPServer(("127.0.0.1", port), BaseHTTPRequestHandler) as made:
        made.socket = context.wrap_socket(made.socket, server_side=True)
        threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
        yield made.server_port
        made.shutdown()


def answers(folder: Path, ca: Path, host: str = "localhost") -> bool:
    """Whether who has `ca` trusts the server there."""
    with server(folder) as port:
        context = ssl.create_default_context(cafile=ca)
        try:
            httpx.get(f"https://{host}:{port}/", verify=context)
        except httpx.ConnectError:
            return False
        return True


def lasting(monkeypatch: pytest.MonkeyPatch, **days: float) -> None:
    """How long certificates are valid that are made from here on."""
    for name, value in days.items():
        monkeypatch.setattr(certificates, f"{name.upper()}_DAYS", value)


def test_the_authority_lasts_ten_years_and_signs_anew(work: Path, tmp_path: Path) -> None:
    folder = work / "certificates"
    assert days_left(folder / CA) == 10 * 365 + 1
    assert days_left(folder / SERVER) == 2 * 365 - 1
    kept = Path(shutil.copy(folder / CA, tmp_path / "kept.pem"))
    before = (folder / SERVER).read_bytes(), (folder / SERVER_KEY).read_bytes()
    moved = shutil.move(folder / CA_KEY, tmp_path / "stick.key")
    run("renew", "--folder", work, sentence="ca.key: give `ca_key` the place to which it was moved")
    told = run("renew", "--folder", work, "--ca-key", moved)
    assert "start it again" in told
    assert "ca.pem" not in told
    assert (folder / SERVER).read_bytes() != before[0]
    assert (folder / SERVER_KEY).read_bytes() != before[1]
    assert (folder / SERVER_KEY).stat().st_mode & 0o777 == 0o600
    assert (folder / CA).read_bytes() == kept.read_bytes()
    assert answers(folder, kept)
    other = tmp_path / "other"
    certificates.make_certificates(other, "localhost")
    wrong = "is not that of"
    run("renew", "--folder", work, "--ca-key", other / CA_KEY, sentence=wrong)
    run("renew", "--folder", work, "--ca-key", kept, sentence="is no private key")
    assert answers(folder, kept)


def test_a_server_moves_to_another_host(work: Path) -> None:
    own = work / "silos" / "bank" / "silo.toml"
    own.write_text(own.read_text() + "# an owner's remark\n")
    told = run("renew", "--folder", work, "--host", "hub.example.org")
    assert 'every silo writes superlink = "hub.example.org:8000"' in told
    assert Workspace(work).address == "hub.example.org:8000"
    assert 'superlink = "hub.example.org:8000"' in own.read_text()
    assert own.read_text().endswith("# an owner's remark\n")
    for name in ("README.md", "start-superlink.sh"):
        assert "hub.example.org:8000" in (work / name).read_text()
        assert "127.0.0.1:8000" not in (work / name).read_text()
    names = x509.load_pem_x509_certificate((work / "certificates" / SERVER).read_bytes())
    found = names.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert found.get_values_for_type(x509.DNSName) == ["hub.example.org", "localhost"]


def test_an_authority_that_would_end_first_is_made_anew_with_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a folder that an earlier version made: both were valid for two years."""
    lasting(monkeypatch, authority=20, server=20)
    space = make_demo(tmp_path / "work", 2, rows=100)
    old = Path(shutil.copy(space.certificates / CA, tmp_path / "old.pem"))
    assert len(certificates.ending(space.certificates)) == 2
    monkeypatch.undo()
    told = run("renew", "--folder", space.folder)
    assert "send every silo its ca.pem" in told
    assert certificates.ending(space.certificates) == []
    new = space.silo("silo-1") / CA
    assert new.read_bytes() == (space.certificates / CA).read_bytes() != old.read_bytes()
    # Both who have the old one and who have the new one trust the server.
    assert answers(space.certificates, old)
    assert answers(space.certificates, new)
    assert not answers(space.certificates, new, "127.0.0.2")


def test_an_end_that_comes_is_said(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = Workspace(work)
    assert "warning" not in run("status", "--folder", work)
    lasting(monkeypatch, server=certificates.SOON - 1)
    run("renew", "--folder", work)
    words = "the server's certificate (server.pem) ends on 20"
    assert words in (told := run("status", "--folder", work))
    assert "in 28 days: renew it with `fairsilo flower renew`" in told
    assert json.loads(run("status", "--folder", work, "--json"))["certificates"][0] in told
    health = _health(space, 0, Gateway(0, ""))
    assert words in health.facts["warnings"][0]
    assert health.facts["certificate_days_left"] == {SERVER: 28, CA: 3652 - 1}
    assert [one.value for one in health.metrics] == [28, 3651]
    assert len(health.problems) == 1
    lasting(monkeypatch, server=0)
    run("renew", "--folder", work)
    assert "(server.pem) ended on 20" in _health(space, 0, Gateway(0, "")).problems[1]
    with pytest.raises(FairSiloError, match=r"server\.pem\) ended on .*: renew it with `fairsilo"):
        run_superlink(space)


def test_an_authority_that_ended_is_said_at_the_silo(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silo = at(work, "bank")
    settings = read_settings(silo / "silo.toml")
    agreed = read_federation_file(settings.federation)
    assert not any("ca.pem" in one for one in check_table(settings, agreed).remarks)
    lasting(monkeypatch, authority=0)
    certificates.make_certificates(silo / "new", "localhost")
    shutil.copy(silo / "new" / CA, silo / CA)
    (told,) = (one for one in check_table(settings, agreed).remarks if "ca.pem" in one)
    assert "the authority's certificate (ca.pem) ended on 20" in told


def test_a_command_that_fails_by_an_ended_certificate_says_so(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = Workspace(work)
    lasting(monkeypatch, server=0)
    run("renew", "--folder", work)
    with server(space.certificates) as port:
        space.say_control(f"127.0.0.1:{port}")
        with pytest.raises(FairSiloError, match=r"server\.pem\) ended on .*: renew it with"):
            nodes(space)


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.usefixtures("bounded")
def test_a_silo_that_meets_an_ended_certificate_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lasting(monkeypatch, server=0)
    space = make_demo(tmp_path / "work", 2, rows=100)
    code = "from fairsilo.cli import main; main()"
    settings = space.silo("silo-1") / "silo.toml"
    with server(space.certificates, int(space.address.rpartition(":")[2])):
        child = subprocess.Popen(
            [sys.executable, "-c", code, "flower", "silo", "--settings", str(settings)],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert child.stderr is not None
        try:
            assert any("the SuperLink's certificate has ended" in line for line in child.stderr)
        finally:
            child.terminate()
            child.communicate(timeout=120)
