"""A silo audits models that it saw trained or its owner allowed, and not many."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from fairsilo.cli.flower import app
from fairsilo.errors import FairSiloError
from fairsilo.network import audited, ledger
from fairsilo.network.approval import MOST
from fairsilo.network.approval import read as approvals
from fairsilo.network.audit import audit
from fairsilo.network.audited import model_digest
from fairsilo.network.federation_file import Privacy
from fairsilo.network.ledger import admit
from fairsilo.network.ops.backup import restore, save
from fairsilo.network.server import aggregate_for
from fairsilo.network.settings import read_settings
from fairsilo.network.wire import Record
from fairsilo.question import Evaluate
from tests.network.silos import Town, TownTransport, make_town
from tests.network.test_audit import trained
from tests.network.test_silo import ask, ask_of, set_line

SILO = "silo0"


def of(town: Town, first: float, **values: Any) -> Any:
    """The question for an audit of some model that nobody trained."""
    theta = np.full(10, 0.1)
    theta[0] = first
    return ask_of(town, Evaluate(theta, audit=True, **values), purpose="audit", training="")


def evaluated(town: Town, first: float) -> Record:
    """The end of a training with that model."""
    ask_ = of(town, first)
    more = {"purpose": "fedfair", "training": f"of {first}"}
    return ask(town, replace(ask_, question=Evaluate(ask_.question.theta), **more))


def approve(town: Town, *words: str) -> str:
    where = ["approve", *words, "--settings", str(town.settings(SILO))]
    done = CliRunner().invoke(app, where)
    if done.exception:
        raise done.exception
    return done.output


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return make_town(tmp_path, secure_aggregation=False)


@pytest.mark.parametrize("guarded", [False, True])
def test_only_models_that_were_trained_here_are_audited(
    guarded: bool, town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: theta of the server's choice, as often as it likes; it needs no training."""
    if not guarded:
        monkeypatch.setattr(audited, "admit", lambda *given: None)
        assert not any(ask(town, of(town, float(k)))["refused"] for k in range(12))
        return
    told = ask(town, of(town, 1.0))
    assert "has not seen the model" in told["refused"]
    assert model_digest(of(town, 1.0))[:16] in told["refused"]
    assert not told["vector"]
    assert not evaluated(town, 1.0)["refused"]
    assert not ask(town, of(town, 1.0))["refused"]
    # One number more, or another encoder, is another model.
    assert "has not seen" in ask(town, of(town, 1.0 + 1e-12))["refused"]
    other = replace(of(town, 1.0), scalings=np.tile([0.1, 1.0, 0.0], 4))
    assert "has not seen" in ask(town, other)["refused"]


def test_the_owner_allows_a_model_by_its_digest(town: Town) -> None:
    digest = model_digest(of(town, 2.0))
    with pytest.raises(FairSiloError, match="nor a model whose audit was asked for"):
        approve(town, digest[:16])
    ask(town, of(town, 2.0))
    assert f"fairsilo flower approve {digest[:16]}" in approve(town)
    assert approve(town, digest[:16]) == f"yes to audits of model {digest}\n"
    assert digest[:16] not in approve(town)
    assert not ask(town, of(town, 2.0))["refused"]
    assert "has not seen" in ask(town, of(town, 3.0))["refused"]
    approve(town, digest[:16], "--refuse")
    assert "has not seen" in ask(town, of(town, 2.0))["refused"]
    # A yes to a model is none to a run, nor to a federation file.
    assert list(approvals(read_settings(town.settings(SILO)))["decided"]) == [
        town.agreed.fingerprint
    ]


def test_ten_models_are_audited_on_a_table_unless_the_settings_say_more(town: Town) -> None:
    for k in range(11):
        evaluated(town, float(k))
    for k in range(10):
        assert not ask(town, of(town, float(k)))["refused"]
    assert "at most 10 different models" in ask(town, of(town, 10.0))["refused"]
    assert not ask(town, of(town, 3.0))["refused"]
    set_line(town, "maximum_audits = 11")
    assert not ask(town, of(town, 10.0))["refused"]
    set_line(town, "maximum_audits = 10")
    # Other rows are another table.
    path = town.folder / SILO / "table.csv"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    evaluated(town, 11.0)
    assert not ask(town, of(town, 11.0))["refused"]


def test_the_ledger_keeps_what_others_wrote_into_it(town: Town, tmp_path: Path) -> None:
    settings = read_settings(town.settings(SILO))
    evaluated(town, 1.0)
    ask(town, of(town, 1.0))
    content = json.loads(settings.ledger.read_text())
    settings.ledger.write_text(json.dumps({**content, "somebody": [1, 2]}))
    admit(settings.ledger, town.agreed, "table", town.agreed.names)
    evaluated(town, 2.0)
    kept = json.loads(settings.ledger.read_text())
    assert kept["somebody"] == [1, 2]
    assert len(kept["trained"]) == 2
    assert list(kept["audited"].values()) == [[model_digest(of(town, 1.0))]]
    assert kept["shown"]["table"]
    # A backup that knows of fewer models does not take the place of this one.
    save(town.settings(SILO), tmp_path / "backup.tar")
    evaluated(town, 3.0)
    found = restore(tmp_path / "backup.tar", town.folder / SILO)
    assert "has grown" in found.files["ledger.json"]
    assert len(json.loads(settings.ledger.read_text())["trained"]) == 3


def test_models_that_are_asked_for_cannot_fill_the_disk(town: Town) -> None:
    approve_first = model_digest(of(town, 0.0))
    ask(town, of(town, 0.0))
    approve(town, approve_first)
    for k in range(1, MOST + 5):
        ask(town, of(town, float(k)))
    kept = approvals(read_settings(town.settings(SILO)))["models"]
    assert len(kept) == MOST + 1
    assert kept[approve_first] is True


def test_trainings_cannot_fill_the_ledger(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those whose answers are not counted any more no table is kept, but for the newest."""
    monkeypatch.setattr(ledger, "TRAININGS", 3)
    path = read_settings(town.settings(SILO)).ledger
    assert ledger.count(path, "counted", "round", 1, 1)
    for training in ("counted", "1", "2", "3", "4"):
        assert ledger.same_table(path, training, "digest")
    kept = ledger.read(path).tables
    assert len(kept) == 3
    assert {"counted", "4"} <= set(kept)
    assert not ledger.same_table(path, "counted", "other")


@pytest.mark.slow
def test_an_audit_of_a_model_from_elsewhere_says_its_digest(tmp_path: Path) -> None:
    """Behind masks: trained in one town, audited in another, allowed by every owner there."""
    town = make_town(tmp_path / "town", silos=3, rows=600, rounds=1)
    saved = trained(town, tmp_path)
    other = make_town(tmp_path / "other", silos=3, rows=600, rounds=1, table={"seed": 4})
    post = TownTransport(other)
    silos = post.present()
    with pytest.raises(FairSiloError, match=r"flower approve [0-9a-f]{16}") as refused:
        audit(other.agreed, aggregate_for(other.agreed, post, "1", 1.0), silos, saved)
    digest = str(refused.value).split("flower approve ")[1][:16]
    for name in other.agreed.names:
        where = ["approve", digest, "--settings", str(other.settings(name))]
        assert CliRunner().invoke(app, where).exit_code == 0
    post = TownTransport(other, run="2")
    found = audit(other.agreed, aggregate_for(other.agreed, post, "2", 1.0), silos, saved)
    assert found["rows"] > 0


def test_under_differential_privacy_too(tmp_path: Path) -> None:
    town = make_town(tmp_path, secure_aggregation=False, dp=Privacy(epsilon=4.0))
    question = of(town, 1.0, test_only=True)
    assert "has not seen" in ask(town, question)["refused"]
    ended = Evaluate(question.question.theta, test_only=True)
    trained_ = replace(question, question=ended, purpose="fedfair", training="one")
    assert not ask(town, trained_)["refused"]
    assert not ask(town, question)["refused"]
