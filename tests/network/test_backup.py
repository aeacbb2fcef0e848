"""A silo's backup, and what putting it back leaves alone."""

from __future__ import annotations

import io
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from fairsilo.dp import Budget, Release
from fairsilo.errors import FairSiloError
from fairsilo.network import ledger
from fairsilo.network.federation_file import FILE
from fairsilo.network.ledger import read, spend
from fairsilo.network.ops.backup import restore, save
from fairsilo.network.ops.keys import make_key
from tests.network.members import at, run


@pytest.fixture
def silo(work: Path) -> Path:
    own = at(work, "bank")
    (own / "table.csv").write_text("secret rows\n")
    spend(own / "ledger.json", Budget(8.0, 1e-5), [Release("counts", 5.0)])
    (own / "left.jsonl").write_text('{"one": 1}\n')
    (own / "models" / "st").mkdir(parents=True)
    (own / "models" / "st" / "model.json").write_text("{}")
    return own


def test_a_backup_is_put_back_on_a_new_machine(silo: Path, tmp_path: Path) -> None:
    told = run("backup", tmp_path / "b.tar", "--settings", silo / "silo.toml")
    assert "ledger.json" in told
    assert stat.S_IMODE((tmp_path / "b.tar").stat().st_mode) == 0o600
    assert b"secret rows" not in (tmp_path / "b.tar").read_bytes()
    told = run("restore", tmp_path / "b.tar", "--folder", tmp_path / "new")
    assert "the ledger is as it was on 20" in told
    for name in ("silo.toml", FILE, "node.key", "node.key.pub", "ledger.json", "left.jsonl"):
        assert (tmp_path / "new" / name).read_bytes() == (silo / name).read_bytes()
    assert (tmp_path / "new" / "models" / "st" / "model.json").read_text() == "{}"
    start = tmp_path / "new" / "start-silo.sh"
    assert start.read_text() == (silo / "start-silo.sh").read_text()
    assert start.stat().st_mode & 0o700 == 0o700
    assert stat.S_IMODE((tmp_path / "new" / "node.key").stat().st_mode) == 0o600
    assert not (tmp_path / "new" / "table.csv").exists()
    again = ("backup", tmp_path / "b.tar", "--settings", silo / "silo.toml")
    run(*again, sentence="not overwritten")


def test_a_ledger_that_has_counted_more_is_never_replaced(silo: Path, tmp_path: Path) -> None:
    save(silo / "silo.toml", tmp_path / "old.tar")
    spend(silo / "ledger.json", Budget(8.0, 1e-5), [Release("counts", 5.0)])
    (silo / "left.jsonl").write_text('{"one": 1}\n{"two": 2}\n')
    newer = (silo / "ledger.json").read_bytes()
    found = restore(tmp_path / "old.tar", silo)
    assert "stays" in found.files["ledger.json"]
    assert "stays" in found.files["left.jsonl"]
    assert found.ledger_since is None
    assert (silo / "ledger.json").read_bytes() == newer
    assert len(read(silo / "ledger.json").releases) == 2
    # The other way round: a ledger of which the backup has all.
    save(silo / "silo.toml", tmp_path / "new.tar")
    (silo / "ledger.json").unlink()
    restore(tmp_path / "old.tar", silo)
    assert restore(tmp_path / "new.tar", silo).files["ledger.json"] == "restored"
    assert (silo / "ledger.json").read_bytes() == newer


def test_where_the_disk_is_full_in_between_no_key_is_without_its_ledger(
    silo: Path, tmp_path: Path
) -> None:
    save(silo / "silo.toml", tmp_path / "b.tar")
    new = tmp_path / "new"
    for name in ("ca.pem", "node.key.pub"):
        # Nothing can be written there.
        (new / name).mkdir(parents=True)
        with pytest.raises(FairSiloError, match=rf"cannot write .*{name}"):
            restore(tmp_path / "b.tar", new)
        assert (new / "ledger.json").read_bytes() == (silo / "ledger.json").read_bytes()
        assert (new / "node.key").exists() == (name == "node.key.pub")
        (new / name).rmdir()
    found = restore(tmp_path / "b.tar", new).files
    assert (found["ledger.json"], found["node.key.pub"]) == ("is there already", "restored")


def test_a_list_that_was_moved_away_stays_as_it_was_begun_anew(silo: Path, tmp_path: Path) -> None:
    save(silo / "silo.toml", tmp_path / "b.tar")
    (silo / "left.jsonl").write_text('{"three": 3}\n')
    (silo / "ca.pem").unlink()
    found = restore(tmp_path / "b.tar", silo).files
    assert "begun anew" in found["left.jsonl"]
    assert found["ca.pem"] == "restored"
    assert (silo / "left.jsonl").read_text() == '{"three": 3}\n'


def test_a_training_that_is_too_old_to_be_counted_still_is_the_ledgers_past(
    silo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "TRAININGS", 3)
    for k in range(2):
        ledger.count(silo / "ledger.json", f"training {k}", "masked", 9, 1)
    save(silo / "silo.toml", tmp_path / "b.tar")
    for k in range(2, 5):
        ledger.count(silo / "ledger.json", f"training {k}", "masked", 9, 1)
    assert set(read(silo / "ledger.json").asked) == {f"training {k}" for k in (2, 3, 4)}
    newer = (silo / "ledger.json").read_bytes()
    assert "has grown" in restore(tmp_path / "b.tar", silo).files["ledger.json"]
    # One that began anew has not had more than the backup's.
    (silo / "ledger.json").unlink()
    spend(silo / "ledger.json", Budget(8.0, 1e-5), [Release("counts", 5.0)])
    for k in range(7, 10):
        ledger.count(silo / "ledger.json", f"training {k}", "masked", 9, 1)
    assert (silo / "ledger.json").read_bytes() != newer
    with pytest.raises(FairSiloError, match="went another way"):
        restore(tmp_path / "b.tar", silo)


def test_ledgers_that_went_two_ways_are_left_alone(silo: Path, tmp_path: Path) -> None:
    save(silo / "silo.toml", tmp_path / "one.tar")
    (silo / "ledger.json").unlink()
    spend(silo / "ledger.json", Budget(8.0, 1e-5), [Release("gradients", 9.0)])
    (silo / "models" / "st" / "model.json").unlink()
    here = (silo / "ledger.json").read_bytes()
    with pytest.raises(FairSiloError, match="went another way"):
        restore(tmp_path / "one.tar", silo)
    assert (silo / "ledger.json").read_bytes() == here
    assert not (silo / "models" / "st" / "model.json").exists()


def test_another_key_is_not_overwritten(silo: Path, tmp_path: Path) -> None:
    save(silo / "silo.toml", tmp_path / "b.tar")
    (silo / "node.key").unlink()
    make_key(silo / "node.key", "bank")
    with pytest.raises(FairSiloError, match="is another one, and nothing was restored"):
        restore(tmp_path / "b.tar", silo)


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "models/../../evil", "models/@/evil", ""])
def test_a_backup_cannot_write_elsewhere(name: str, silo: Path, tmp_path: Path) -> None:
    save(silo / "silo.toml", tmp_path / "b.tar")
    # A name with the whole path of another folder within.
    name = name.replace("@", str(tmp_path))
    forged(tmp_path / "b.tar", tarfile.TarInfo(name or "link"), link=not name)
    with pytest.raises(FairSiloError, match="no backup of a silo"):
        restore(tmp_path / "b.tar", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "evil").exists()
    (tmp_path / "noise").write_bytes(b"noise")
    with pytest.raises(FairSiloError, match="no backup of a silo"):
        restore(tmp_path / "noise", tmp_path / "new")


def forged(file: Path, entry: Any, link: bool) -> None:
    content = b"evil"
    entry.size = 0 if link else len(content)
    if link:
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(file, "a") as archive:
        archive.addfile(entry, None if link else io.BytesIO(content))
