"""Silos join, leave and change keys; keys with a passphrase."""

from __future__ import annotations

import importlib.util
import json
import os
import select
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairsilo.cli.flower import app
from fairsilo.errors import FairSiloError
from fairsilo.network.federation_file import FILE, read_federation_file
from fairsilo.network.ledger import admit
from fairsilo.network.ops import runs
from fairsilo.network.ops.keys import for_flower, make_key, unlock
from fairsilo.network.ops.workspace import Workspace, changing
from fairsilo.network.settings import read_settings
from fairsilo.secagg import load_node_key
from fairsilo.secagg.keys import PASSPHRASE, public_bytes
from tests.network.members import at, run
from tests.network.silos import TownTransport, make_town, train

WORD = "correct horse battery"


def test_a_silo_joins(work: Path, tmp_path: Path) -> None:
    before = read_federation_file(work / FILE)
    (work / "silos" / "bank" / "silo.toml").write_text("# edited here\n")
    make_key(tmp_path / "mill.key", "mill")
    told = run("add", "mill", "--key", tmp_path / "mill.key.pub", "--folder", work)
    after = read_federation_file(work / FILE)
    assert after.names == (*before.names, "mill")
    assert {after.fingerprint} == {
        read_federation_file(work / "silos" / name / FILE).fingerprint for name in after.names
    }
    assert (work / "keys" / "mill.pub").read_text().strip() == after.silos[-1].public_key
    assert read_settings(work / "silos" / "mill" / "silo.toml").name == "mill"
    assert (work / "silos" / "bank" / "silo.toml").read_text() == "# edited here\n"
    assert "with or without mill" in told
    assert after.fingerprint[:4] in (work / "README.md").read_text()
    (kept,) = (work / "former").glob("*.json")
    assert read_federation_file(kept) == before
    run("add", "mill", "--key", tmp_path / "mill.key.pub", "--folder", work, sentence="already")
    again = ("add", "two", "--key", tmp_path / "mill.key.pub", "--folder", work)
    run(*again, sentence="two silos have the same public key")
    run("add", "x", "--key", tmp_path / "mill.key", "--folder", work, sentence="PRIVATE")


def test_a_silo_leaves(work: Path, tmp_path: Path) -> None:
    (work / "silos" / "shop" / "table.csv").write_text("rows")
    told = run("remove", "shop", "--folder", work)
    assert read_federation_file(work / FILE).names == ("bank", "clinic", "farm")
    assert "with or without shop" in told
    assert (work / "former" / "shop" / "table.csv").read_text() == "rows"
    assert not (work / "silos" / "shop").exists()
    assert not (work / "keys" / "shop.pub").exists()
    # Masks need three silos: what cannot be is refused, and nothing changes.
    before = (work / FILE).read_bytes()
    run("remove", "bank", "--folder", work, sentence="3")
    assert (work / FILE).read_bytes() == before
    assert (work / "silos" / "bank").exists()
    run("remove", "nobody", "--folder", work, sentence="has no silo or witness 'nobody'")


def test_a_silo_that_left_does_not_hide_who_took_part(
    work: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever its name was, the SuperLink starts and refuses the keys of all who left."""
    for name in ("federation-x.json", "federation-0123456789abcdef.json"):
        make_key(tmp_path / name, name)
        run("add", name, "--key", tmp_path / f"{name}.pub", "--folder", work)
        run("remove", name, "--folder", work)
        assert (work / "former" / name).is_dir()
    old, space = read_federation_file(work / FILE), Workspace(work)
    members = {"silos": [one.model_dump() for one in old.silos], "format": 1, "of old": 0}
    (work / "former" / "federation-00000000000000aa.json").write_text(json.dumps(members))
    (work / "former" / "federation-00000000000000bb.json").write_text("{")
    capfd.readouterr()
    found = [{one.name for one in parties} for parties in space.earlier]
    assert set(old.names) in found
    assert {"federation-x.json", "federation-0123456789abcdef.json"} <= set.union(*found)
    (told,) = capfd.readouterr().err.splitlines()
    assert "cannot read who took part" in told
    assert "00bb.json" in told


def test_who_left_is_refused_also_where_another_comes_back(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Workspace] = []
    # The SuperLink of tests/network/test_superlink.py takes long to start.
    monkeypatch.setattr(runs, "controlled", lambda space: True)
    monkeypatch.setattr(runs, "register_key", lambda space, name: None)
    monkeypatch.setattr(runs, "nodes", lambda space: {"bank": None, "clinic": None, "farm": None})
    monkeypatch.setattr(runs, "unregister_former", asked.append)
    with pytest.raises(FairSiloError, match="shop left and came back with the same key"):
        runs.register(Workspace(work))
    assert len(asked) == 1


def test_a_silo_changes_its_key(work: Path, tmp_path: Path) -> None:
    own = at(work, "bank")
    before, settings = load_node_key(own / "node.key"), own / "silo.toml"
    told = run("rotate-key", "--settings", settings)
    assert "bank-new-key.json" in told
    note = own / "bank-new-key.json"
    assert "PRIVATE" not in note.read_text()
    # Nothing changes at the silo until the federation file has the new key.
    run("rotate-key", "--settings", settings)
    assert public_bytes(load_node_key(own / "node.key").public_key()) == public_bytes(
        before.public_key()
    )
    told = run("accept-key", note, "--folder", work)
    check = CliRunner().invoke(app, ["check", "--settings", str(at(work, "bank") / "silo.toml")])
    assert "this silo is changing its key" in check.output
    assert "with or without" not in told
    agreed = read_federation_file(work / FILE)
    assert agreed.silos[0].past[0].public_key.split()[1] in str(public_bytes(before.public_key()))
    run("accept-key", note, "--folder", work, sentence="follows another key")
    told = run("rotate-key", "--settings", at(work, "bank") / "silo.toml")
    assert "the new key is now" in told
    new = public_bytes(load_node_key(own / "node.key").public_key()).decode()
    assert new.split()[1] == agreed.silos[0].public_key.split()[1]
    assert stat.S_IMODE((own / "node.key").stat().st_mode) == 0o600
    assert len(list(own.glob("node.key.old-*"))) == 1
    # The next change follows this one.
    run("rotate-key", "--settings", settings)
    run("accept-key", note, "--folder", work)
    assert len(read_federation_file(work / FILE).silos[0].past) == 2


def test_a_witness_joins_changes_its_key_and_leaves(work: Path, tmp_path: Path) -> None:
    make_key(tmp_path / "at" / "office" / "node.key", "office")
    key = tmp_path / "at" / "office" / "node.key.pub"
    told = run("add", "office", "--witness", "--key", key, "--folder", work)
    assert "witnesses:   office" in told
    assert "silos:       bank, clinic, shop, farm" in told
    own = at(work, "office")
    assert (own / "start-witness.sh").exists()
    run("rotate-key", "--settings", own / "silo.toml")
    run("accept-key", own / "office-new-key.json", "--folder", work)
    agreed = read_federation_file(work / FILE)
    (office,) = agreed.witnesses
    assert len(office.past) == 1
    at(work, "office")
    assert "is now" in run("rotate-key", "--settings", own / "silo.toml")
    assert public_bytes(load_node_key(own / "node.key").public_key()).decode() in office.public_key
    (own / "witnessed" / "one").mkdir(parents=True)
    (own / "witnessed" / "one" / "state.json").write_text("{}")
    run("backup", tmp_path / "w.tar", "--settings", own / "silo.toml")
    (own / "witnessed" / "one" / "state.json").write_text('{"signed": 1}')
    assert "the witness went on" in run("restore", tmp_path / "w.tar", "--folder", own)
    run("restore", tmp_path / "w.tar", "--folder", tmp_path / "new")
    assert (tmp_path / "new" / "witnessed" / "one" / "state.json").read_text() == "{}"
    run("remove", "office", "--folder", work)
    assert not read_federation_file(work / FILE).witnesses


def test_nobody_else_can_change_a_silos_key(work: Path, tmp_path: Path) -> None:
    own = at(work, "bank")
    run("rotate-key", "--settings", own / "silo.toml")
    note = json.loads((own / "bank-new-key.json").read_text())
    for change, sentence in (
        ({"silo": "clinic"}, "follows another key"),
        ({"public_key": make_key(tmp_path / "evil.key", "bank")}, "not signed"),
        ({"past": {}}, "cannot be read"),
    ):
        (tmp_path / "forged.json").write_text(json.dumps({**note, **change}))
        run("accept-key", tmp_path / "forged.json", "--folder", work, sentence=sentence)


def test_what_ledgers_allow_after_a_change_of_members(tmp_path: Path) -> None:
    """One silo alone that comes or goes would be shown; two at once, or new rows, are not."""
    agreed = make_town(tmp_path / "town", silos=6, rows=600).agreed
    six, ledger = agreed.names, tmp_path / "ledger.json"
    admit(ledger, agreed, "rows", six[:4])
    for alone in (six[:5], six[:3], (*six[:3], six[4])):
        with pytest.raises(FairSiloError, match="by subtraction"):
            admit(ledger, agreed, "rows", alone)
    admit(ledger, agreed, "rows", six)
    # Also in two steps, over both: five silos less four are one.
    with pytest.raises(FairSiloError, match="by subtraction"):
        admit(ledger, agreed, "rows", six[:5])
    admit(ledger, agreed, "other rows", six[:5])


# Keys with a passphrase.


def test_a_key_with_a_passphrase(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSPHRASE, "")
    told = run("keygen", "--out", tmp_path / "k", "--passphrase", stdin=f"{WORD}\n{WORD}\n")
    assert WORD not in told
    content = (tmp_path / "k").read_text()
    assert "ENCRYPTED" in content
    with pytest.raises(FairSiloError, match=f"{PASSPHRASE} is not set"):
        load_node_key(tmp_path / "k")
    with pytest.raises(FairSiloError, match="nobody can be asked"):
        unlock(tmp_path / "k")
    word = tmp_path / "word"
    word.write_text(f"{WORD}\n")
    with pytest.raises(FairSiloError, match="chmod 600"):
        unlock(tmp_path / "k", word)
    word.chmod(0o600)
    with pytest.raises(FairSiloError, match="is not its passphrase"):
        unlock(tmp_path / "k", ask=lambda what: "wrong")
    assert PASSPHRASE not in os.environ
    unlock(tmp_path / "k", word)
    assert os.environ[PASSPHRASE] == WORD
    assert public_bytes(load_node_key(tmp_path / "k").public_key()).decode() in (
        (tmp_path / "k.pub").read_text()
    )
    # A new key has the same passphrase.
    own = at(work, "bank")
    for ending in ("", ".pub"):
        (own / f"node.key{ending}").write_bytes((tmp_path / f"k{ending}").read_bytes())
    run("rotate-key", "--settings", own / "silo.toml")
    assert "ENCRYPTED" in (own / "node.key.new").read_text()


@pytest.mark.process
def test_a_key_that_ssh_keygen_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")
    make = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", WORD, "-f", str(tmp_path / "k")]
    subprocess.run(make, check=True)
    monkeypatch.setenv(PASSPHRASE, WORD)
    if importlib.util.find_spec("bcrypt") is None:
        with pytest.raises(FairSiloError, match="needs the package bcrypt"):
            load_node_key(tmp_path / "k")
    else:
        load_node_key(tmp_path / "k")


@pytest.mark.process
def test_the_passphrase_is_asked_for_at_a_terminal(work: Path, tmp_path: Path) -> None:
    own = at(work, "bank")
    for path in own.glob("node.key*"):
        path.unlink()
    make_key(own / "node.key", "bank", WORD)
    code = (
        # A session's first terminal becomes its own: where a passphrase is typed.
        "import os, sys; os.open(os.ttyname(0), os.O_RDWR); from fairsilo.cli import main;"
        "sys.argv = ['fairsilo', 'flower', 'rotate-key', '--settings', sys.argv[1]]; main()"
    )
    keyboard, terminal = os.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(own / "silo.toml")],
        env={key: value for key, value in os.environ.items() if key != PASSPHRASE},
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )
    try:
        # What is typed before the question is thrown away.
        assert select.select([keyboard], [], [], 60.0)[0], "nobody asked"
        assert b"Passphrase" in os.read(keyboard, 1000)
        time.sleep(0.5)
        os.write(keyboard, f"{WORD}\n".encode())
        told, _ = child.communicate(timeout=60)
    finally:
        child.kill()
        child.wait(60)
        for one in (keyboard, terminal):
            os.close(one)
    assert child.returncode == 0, told
    assert "bank-new-key.json" in told
    assert WORD not in told
    assert "ENCRYPTED" in (own / "node.key.new").read_text()


def test_a_passphrase_that_is_wrong_is_no_passphrase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_key(tmp_path / "k", "bank", WORD)
    monkeypatch.setenv(PASSPHRASE, "wrong")
    with pytest.raises(FairSiloError, match="is not its passphrase") as caught:
        load_node_key(tmp_path / "k")
    assert "wrong" not in str(caught.value)


@pytest.mark.process
def test_flower_reads_such_a_key_from_memory_alone(tmp_path: Path) -> None:
    """As the silo's node does; in a process of its own, which holds the key until it ends."""
    make_key(tmp_path / "k", "bank", WORD)
    code = (
        "import sys; from pathlib import Path; from fairsilo.network.ops.keys import for_flower;"
        "from flwr.supernode.cli.flower_supernode import load_ssh_private_key as load;"
        "place = for_flower(sys.argv[1]); key = load(Path(place).read_bytes(), None);"
        "print(place, key.key_size)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "k")],
        env={**os.environ, PASSPHRASE: WORD},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[0].startswith("/proc/self/fd/")
    assert done.stdout.split()[1] == "384"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k", "k.pub"]
    make_key(tmp_path / "open", "bank")
    assert for_flower(str(tmp_path / "open")) == str(tmp_path / "open")


@pytest.mark.slow
def test_silos_answer_with_such_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSPHRASE, WORD)
    town = make_town(tmp_path / "town", rounds=1)
    own = town.folder / "silo0" / "node.key"
    from cryptography.hazmat.primitives import serialization

    locked = load_node_key(own).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(WORD.encode()),
    )
    own.write_bytes(locked)
    train(town, TownTransport(town), tmp_path / "journal")
    monkeypatch.delenv(PASSPHRASE)
    with pytest.raises(FairSiloError, match="silo0 refused"):
        train(town, TownTransport(town, run="2"), tmp_path / "journal")


def test_the_folder_is_opened(work: Path) -> None:
    assert Workspace(work).former == work / "former"


def test_a_folder_is_changed_by_one_command_at_a_time(work: Path, tmp_path: Path) -> None:
    """Else the second would write a federation file without what the first one did."""
    make_key(tmp_path / "k", "mill")
    told = f"another command changes {work} (process {os.getpid()}): wait"
    folder, before = ("--folder", work), (work / FILE).read_bytes()
    join = ("add", "mill", "--key", tmp_path / "k.pub", *folder)
    with changing(Workspace(work)):
        for command in (join, ("remove", "farm", *folder), ("renew", *folder)):
            run(*command, sentence=told)
    assert (work / FILE).read_bytes() == before
    run(*join)
    run("renew", "--folder", tmp_path / "nowhere", sentence="not a working folder")
    assert not (tmp_path / "nowhere").exists()
