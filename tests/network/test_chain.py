"""A silo that changes its key stays one silo, in the federation file and in every ledger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fairsilo.errors import FairSiloError
from fairsilo.network.chain import Past, change, short
from fairsilo.network.federation_file import FILE, FederationFile
from fairsilo.network.ledger import admit, read
from fairsilo.network.member import Member
from fairsilo.network.ops.keys import make_key
from fairsilo.secagg import ProtocolError, load_node_key
from fairsilo.secagg.static import StaticSumGuard
from tests.network.silos import Town, TownTransport, confirm, make_town, train_with

TABLE = "table"


def rotated(town: Town, name: str, chained: bool = True) -> Member:
    """The silo with a new key, which its folder has from now on."""
    own = town.folder / name
    old = next(silo for silo in town.agreed.silos if silo.name == name)
    before = load_node_key(own / "node.key")
    (own / "node.key").rename(own / "old.key")
    line = make_key(own / "node.key", name)
    past = change(before, load_node_key(own / "node.key"))
    return Member(name=name, public_key=line, past=(*old.past, past) if chained else ())


def next_file(town: Town, *silos: Member, **changes: Any) -> Town:
    """The town after a change of members, every silo with the new file."""
    agreed = FederationFile(**{**dict(town.agreed), "silos": silos, **changes})
    for silo in silos:
        (town.folder / silo.name / FILE).write_text(agreed.text)
        confirm(town.settings(silo.name))
    return Town(town.folder, agreed, town.table)


def counts_of(town: Town, folder: Path, run: str) -> Any:
    """What the server learns of the cells of all silos."""
    _, _, engine = train_with(town, TownTransport(town, run=run), folder)
    return next(entry.vector for entry in engine.entries if entry.kind == "counts")


def own_counts(town: Town, name: str) -> list[int]:
    """The true cells of a silo's training rows, in the order of the vector's cells."""
    rows = town.table[(town.table["client"] == name) & (town.table["part"] == "train")]
    table = town.agreed.table
    return [
        int(((rows["group"] == s) & (rows["label"].astype(str) == y)).sum())
        for s in table.groups
        for y in table.classes
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("chained", "guarded"), [(True, True), (False, True), (False, False)])
def test_two_changed_keys_do_not_open_a_third_silos_counts(
    chained: bool, guarded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums over {0, 1, 2, 3} and over {0', 1', 2}: where both are opened the counts of 3 follow.

    Silos 0 and 1 are accomplices, or lost their ledgers; only silo 2 is left to refuse.
    """
    town = make_town(tmp_path / "town")
    before = counts_of(town, tmp_path / "one", "1")
    later = [rotated(town, name, chained) for name in ("silo0", "silo1")]
    for name in ("silo0", "silo1"):
        (town.folder / name / "ledger.json").unlink()
    town = next_file(town, *later, town.agreed.silos[2])
    if guarded:
        with pytest.raises(FairSiloError, match="one silo's share by subtraction"):
            counts_of(town, tmp_path / "two", "2")
        return
    monkeypatch.setattr(StaticSumGuard, "admit", StaticSumGuard.note)
    after = counts_of(town, tmp_path / "two", "2")
    stolen = [round(cell) for cell in (before - after).tolist()]
    truth = own_counts(town, "silo3")
    assert any(stolen[k : k + len(truth)] == truth for k in range(len(stolen)))


@pytest.mark.slow
def test_an_honest_silo_does_not_take_part_under_a_key_that_nothing_ties_to_its_old_one(
    tmp_path: Path,
) -> None:
    """The same attack by a coordinator who leaves the chain out of the file."""
    town = make_town(tmp_path / "town")
    counts_of(town, tmp_path / "one", "1")
    later = [rotated(town, name, chained=False) for name in ("silo0", "silo1")]
    town = next_file(town, *later, town.agreed.silos[2])
    with pytest.raises(FairSiloError, match="opened when it had another key"):
        counts_of(town, tmp_path / "two", "2")


@pytest.mark.slow
def test_after_a_change_of_keys_the_federation_goes_on(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town")
    before = counts_of(town, tmp_path / "one", "1")
    town = next_file(town, rotated(town, "silo0"), *town.agreed.silos[1:])
    assert (counts_of(town, tmp_path / "two", "2") == before).all()
    town = next_file(town, rotated(town, "silo0"), *town.agreed.silos[1:])
    assert len(town.agreed.silos[0].past) == 2
    assert (counts_of(town, tmp_path / "three", "3") == before).all()
    assert len(read(town.folder / "silo1" / "ledger.json").keys) == 2


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return make_town(tmp_path / "town", silos=5, rows=500)


def test_a_ledger_remembers_a_chain_that_a_later_file_leaves_out(
    town: Town, tmp_path: Path
) -> None:
    ledger, names = tmp_path / "ledger.json", town.agreed.names
    admit(ledger, town.agreed, TABLE, names)
    later = [rotated(town, name) for name in names[:2]]
    told = next_file(town, *later, *town.agreed.silos[2:])
    admit(ledger, told.agreed, TABLE, names)
    bare = [silo.model_copy(update={"past": ()}) for silo in later]
    untold = next_file(town, *bare, *town.agreed.silos[2:4])
    with pytest.raises(ProtocolError, match="by subtraction"):
        admit(ledger, untold.agreed, TABLE, untold.agreed.names)


def test_a_chain_that_is_told_late_counts_for_what_was_before(town: Town, tmp_path: Path) -> None:
    ledger, silos = tmp_path / "ledger.json", town.agreed.silos
    later = [rotated(town, silo.name) for silo in silos[:2]]
    bare = [silo.model_copy(update={"past": ()}) for silo in later]
    admit(ledger, next_file(town, *bare, *silos[2:]).agreed, TABLE, town.agreed.names)
    told = next_file(town, *later, *silos[2:]).agreed
    with pytest.raises(ProtocolError, match="by subtraction"):
        admit(ledger, told, TABLE, told.names[:4])
    admit(ledger, told, TABLE, told.names)
    (shown,) = json.loads(ledger.read_text())["shown"][TABLE]
    assert shown == sorted(short(silo.public_key) for silo in silos)


def test_a_silo_is_not_counted_twice_under_two_of_its_keys(town: Town, tmp_path: Path) -> None:
    ledger, first = tmp_path / "ledger.json", town.agreed.silos[0]
    later = rotated(town, first.name)
    told = next_file(town, later, *town.agreed.silos[1:]).agreed
    admit(ledger, told, TABLE, told.names)
    twice = later.model_copy(update={"past": (), "name": "silo1"})
    agreed = next_file(town, first, twice, *town.agreed.silos[2:]).agreed
    with pytest.raises(ProtocolError, match="are one"):
        admit(ledger, agreed, TABLE, agreed.names)
    with pytest.raises(ValidationError, match="the same public key"):
        next_file(town, first, later.model_copy(update={"name": "silo1"}))


def test_nobody_takes_a_silos_place_or_claims_its_key(town: Town, tmp_path: Path) -> None:
    """A silo that signs another's key, and is then taken for it, could leave it out of a sum."""
    mine = load_node_key(town.folder / "silo0" / "node.key")
    line = make_key(tmp_path / "new.key", "silo0")
    new = load_node_key(tmp_path / "new.key")
    good = change(mine, new)
    assert Member(name="a", public_key=line, past=(good,)).keys[0].split()[1] in (
        town.agreed.silos[0].public_key
    )
    victim = town.agreed.silos[1].public_key
    stranger = change(new, new)
    for past, key in (
        (good, victim),
        (good.model_copy(update={"accepted": good.signature}), line),
        (good.model_copy(update={"signature": "?"}), line),
        (good.model_copy(update={"public_key": victim}), line),
        (Past(**{**dict(stranger), "public_key": good.public_key}), line),
    ):
        with pytest.raises(ValidationError, match="not signed by the one before it"):
            Member(name="a", public_key=key, past=(past,))


def test_a_file_without_changed_keys_keeps_its_fingerprint(town: Town) -> None:
    assert "past" not in town.agreed.text
    assert FederationFile.model_validate_json(town.agreed.text) == town.agreed
    told = next_file(town, rotated(town, "silo0"), *town.agreed.silos[1:]).agreed
    assert FederationFile.model_validate_json(told.text) == told


@pytest.mark.parametrize("mark", ["~", "=", "!"])
def test_a_key_in_another_spelling_is_no_other_silo(tmp_path: Path, mark: str) -> None:
    """A ledger knows silos by their keys: OpenSSH's reader takes these for the same key."""
    silo = make_town(tmp_path).agreed.silos[0]
    kind, key = silo.public_key.split()[:2]
    other = f"{kind} {key[:40]}{mark}{key[40:]}" if mark != "=" else f"{kind} {key}{mark}"
    assert short(other) != short(silo.public_key)
    with pytest.raises(ValidationError, match=r"not spelled as in the \.pub file|cannot be read"):
        Member(name=silo.name, public_key=other)
