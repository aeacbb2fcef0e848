"""Owners confirm each other's keys: a coordinator cannot put its own beside others' names."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fairsilo.cli.flower import app
from fairsilo.errors import FairSiloError
from fairsilo.network import vouch
from fairsilo.network.client import reply_to
from fairsilo.network.federation_file import FILE, FederationFile
from fairsilo.network.introduction import introduce, misfit
from fairsilo.network.member import Member
from fairsilo.network.ops.check import check_table
from fairsilo.network.ops.keys import make_key
from fairsilo.network.settings import read_settings
from fairsilo.network.vouch import CHANGED, CONFIRMED, OWN, UNKNOWN, words_of
from tests.network.members import members
from tests.network.silos import Town, TownTransport, confirm, make_town, train_with
from tests.network.test_chain import own_counts, rotated
from tests.network.test_silo import ask_of, set_line

SILO = "silo0"
OTHERS = ["silo1", "silo2", "silo3"]


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return make_town(tmp_path, secure_aggregation=False)


def states(town: Town, agreed: FederationFile | None = None) -> list[str]:
    settings = read_settings(town.settings(SILO))
    return [one.state for one in vouch.standings(settings, agreed or town.agreed)]


def with_keys(town: Town, *new: Member) -> FederationFile:
    """The federation file with other members, put into the silo's folder; its owner says yes."""
    agreed = FederationFile(**{**dict(town.agreed), "silos": new})
    (town.folder / SILO / FILE).write_text(agreed.text)
    return agreed


def command(town: Town, *arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments, "--settings", str(town.settings(SILO))])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_words_are_proquints_of_the_fingerprint_that_ssh_keygen_shows(tmp_path: Path) -> None:
    # The example of the proposal (Wilkerson, arXiv:0901.4016): 127.0.0.1 is lusab-babad.
    assert [vouch._proquint(number) for number in (0x7F00, 0x0001)] == ["lusab", "babad"]
    line = make_key(tmp_path / "node.key", "bank")
    words = words_of(line).split()
    assert len(words) == 8
    assert words_of(line.rsplit(" ", 1)[0]) == words_of(line)
    bits = {vouch._proquint(number): number for number in range(1 << 16)}
    assert len(bits) == 1 << 16
    head = b"".join(bits[word].to_bytes(2, "big") for word in words)
    assert bytes.fromhex(vouch.digest_of(line)).startswith(head)
    if shutil.which("ssh-keygen"):
        told = subprocess.check_output(["ssh-keygen", "-lf", tmp_path / "node.key.pub"], text=True)
        shown = told.split()[1].removeprefix("SHA256:")
        assert base64.b64decode(shown + "=").startswith(head)


def test_a_silo_answers_nobody_before_its_owner_confirmed_the_others(town: Town) -> None:
    settings = read_settings(town.settings(SILO))
    kept = json.loads(settings.approvals.read_text())
    settings.approvals.write_text(json.dumps({k: v for k, v in kept.items() if k != "members"}))
    assert states(town) == [OWN, UNKNOWN, UNKNOWN, UNKNOWN]
    where, letter = str(town.settings(SILO)), ask_of(town).to_record()
    told = reply_to(letter, where, {}, "1")
    assert "its owner has not confirmed silo1, silo2, silo3" in told["refused"]
    assert not told["vector"]
    assert "has not confirmed" in misfit(town.agreed, SILO, json.loads(introduce(where)["content"]))
    assert "fairsilo flower confirm silo1 silo2 silo3" in command(town, "approve")
    shown = command(town, "check")
    for one in town.agreed.silos:
        assert f"silo {one.name}  {words_of(one.public_key)}" in shown
    assert words_of(town.agreed.silos[1].public_key) in command(town, "confirm", "silo1", "silo2")
    assert "has not confirmed silo3" in reply_to(letter, where, {}, "1")["refused"]
    assert CONFIRMED in command(town, "confirm", "--all")
    assert not reply_to(letter, where, {}, "1")["refused"]
    # Other words over the telephone: it is taken back. A yes to a file forgets nobody.
    assert UNKNOWN in command(town, "confirm", "silo2", "--refuse")
    command(town, "approve", town.agreed.fingerprint)
    assert states(town) == [OWN, CONFIRMED, UNKNOWN, CONFIRMED]
    set_line(town, 'members = "any"')
    assert not reply_to(letter, where, {}, "1")["refused"]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], "name the silos to confirm"),
        (["silo1", "--all"], "name the silos to confirm"),
        (["nobody"], "has no silo 'nobody'"),
        ([SILO], "is this silo itself"),
    ],
)
def test_who_is_confirmed_must_be_named(town: Town, names: list[str], told: str) -> None:
    with pytest.raises(FairSiloError, match=told):
        command(town, "confirm", *names)


def test_a_key_that_follows_a_confirmed_one_is_confirmed_and_another_is_not(town: Town) -> None:
    first, second, *rest = town.agreed.silos
    changed = rotated(town, "silo1")
    assert states(town, with_keys(town, first, changed, *rest)) == [OWN, *[CONFIRMED] * 3]
    # The same new key, but nothing that ties it to the old one; and a silo under another's name.
    alone = Member(name="silo1", public_key=changed.public_key)
    assert states(town, with_keys(town, first, alone, *rest))[1] == CHANGED
    swapped = [
        Member(name=a.name, public_key=b.public_key)
        for a, b in ((second, rest[0]), (rest[0], second))
    ]
    agreed = with_keys(town, first, *swapped, rest[1])
    assert states(town, agreed) == [OWN, CHANGED, CHANGED, CONFIRMED]
    settings = read_settings(town.settings(SILO))
    assert "another key than the owner confirmed for silo1" in " ".join(
        check_table(settings, agreed).problems
    )
    assert states(town, with_keys(town, *town.agreed.silos, *members("new")))[4] == UNKNOWN


def test_a_coordinators_own_key_is_no_witness(tmp_path: Path) -> None:
    """Witnesses are confirmed like silos: else a server would sign its own questions."""
    town = make_town(tmp_path, watched=1)
    named = {"version": 2, "step": "advertise", "first": 0, "last": 1, "purpose": "fedfair"}
    where = str(town.settings(SILO))
    assert not reply_to(named, where, {}, "1")["refused"]
    (own,) = members("witness0")
    agreed = FederationFile(**{**dict(town.agreed), "witnesses": (own,)})
    (town.folder / SILO / FILE).write_text(agreed.text)
    command(town, "approve", agreed.fingerprint)
    assert states(town, agreed) == [OWN, *[CONFIRMED] * 3, CHANGED]
    told = "another key than its owner confirmed is in the federation file for witness0"
    assert told in reply_to(named, where, {}, "2")["refused"]


@pytest.mark.slow
@pytest.mark.parametrize("anybody", [False, True])
def test_a_coordinator_with_all_other_keys_opens_a_silos_totals(
    tmp_path: Path, anybody: bool
) -> None:
    """Attack 3 of the review: the victim is given a file in which all other keys are the
    coordinator's, who plays the other silos, and subtracts what they sent."""
    town = make_town(tmp_path / "town", rounds=1)
    forged = make_town(tmp_path / "forged", rounds=1)
    victim = next(one for one in town.agreed.silos if one.name == SILO)
    agreed = FederationFile(**{**dict(town.agreed), "silos": (victim, *forged.agreed.silos[1:])})
    for name in town.agreed.names:
        own = (town if name == SILO else forged).folder / name
        (own / FILE).write_text(agreed.text)
        confirmed = json.loads((own / "approvals.json").read_text())["members"]
        confirm(own / "silo.toml")
        if name == SILO:
            # The owner said yes to the file, whose names are right; the keys nobody asked about.
            path = own / "approvals.json"
            path.write_text(json.dumps({**json.loads(path.read_text()), "members": confirmed}))
            shutil.rmtree(forged.folder / name)
            shutil.copytree(own, forged.folder / name)
    trap = Town(forged.folder, agreed, town.table)
    if anybody:
        set_line(trap, 'members = "any"')
    post = TownTransport(trap)
    run, _, engine = train_with(trap, post, tmp_path / "journal")
    if not anybody:
        assert "silo silo0 refused: another key than its owner confirmed" in run.metrics["notes"][0]
        assert run.client_names == tuple(OTHERS)
        assert not any(record["content"] for name, record in post.seen if name == SILO)
        return
    total = next(entry.vector for entry in engine.entries if entry.kind == "counts")
    assert total is not None
    played = np.sum([own_counts(town, name) for name in OTHERS], axis=0)
    cells = total[1 : 1 + len(played)] - played
    np.testing.assert_array_equal(cells, own_counts(town, SILO))
