"""Witnesses sign what follows and nothing else: what they did not sign, no silo answers."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsilo.errors import FairSiloError
from fairsilo.network import masked, silo, witness, witnesses
from fairsilo.network.client import reply_to
from fairsilo.network.encoding import encoder_of
from fairsilo.network.federation_file import FederationFile, Privacy
from fairsilo.network.wire import Ask, Record
from fairsilo.secagg import transcript
from tests.network.silos import (
    Town,
    TownTransport,
    make_town,
    restart_witnesses,
    train,
    train_with,
)

OTHER = "(other)"
"""The column of a category's values that are not declared."""

pytestmark = pytest.mark.usefixtures("restarted")


def lying(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that changes what it is about to ask, before witnesses and silos see it."""
    honest = witnesses.Witnesses.signed

    def signed(self: Any, ask: Ask, *given: Any) -> Ask:
        return honest(self, change(ask), *given)

    monkeypatch.setattr(witnesses.Witnesses, "signed", signed)


@pytest.mark.slow
def test_a_witnessed_training_gives_the_same_model(watched: Town, tmp_path: Path) -> None:
    post = TownTransport(watched)
    run, _ = train(watched, post, tmp_path / "journal", baseline=True)
    plain = make_town(tmp_path / "plain", rounds=30, others=True)
    same, _ = train(plain, TownTransport(plain), tmp_path / "plain-journal", baseline=True)
    np.testing.assert_array_equal(run.trained.outcome.theta, same.trained.outcome.theta)
    signed = [record for name, record in post.seen if name == "witness0"]
    assert all(record["step"] == "witness" and len(record["content"]) > 90 for record in signed)
    asked = [record for name, record in post.seen if record["step"] == "masked"]
    assert len(asked) == 4 * len(signed)


@dataclass
class Cut(TownTransport):
    """The server is killed at this exchange."""

    at: int = 12

    def exchange(self, letters: Any, timeout: float) -> Any:
        if self.traffic.exchanges == self.at:
            raise KeyboardInterrupt
        return super().exchange(letters, timeout)


@pytest.mark.parametrize("guarded", [False, True])
def test_no_silo_answers_what_no_witness_signed(
    guarded: bool, watched: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(witnesses.Witnesses, "signed", lambda self, ask, *given: ask)
    if not guarded:
        monkeypatch.setattr(silo, "require_signatures", lambda *given: None)
    post = Cut(watched)
    match = "0 witnesses signed this question" if guarded else None
    with pytest.raises(FairSiloError if guarded else KeyboardInterrupt, match=match):
        train(watched, post, tmp_path / "journal")
    answers = [record["content"] for _, record in post.seen if record["step"] == "masked"]
    assert any(answers) is not guarded


def other_theta(ask: Ask) -> Ask:
    theta = getattr(ask.question, "theta", np.zeros(0))
    if not theta.any():
        return ask
    return replace(ask, question=replace(ask.question, theta=theta + 1e-6))  # type: ignore[call-arg]


def noting(answer: Any, points: set[bytes]) -> Any:
    """The silos' answers, and the points of the server's choice at which they were given."""

    def noted(settings: Any, agreed: Any, ask: Ask, memory: Any) -> Any:
        theta = getattr(ask.question, "theta", np.zeros(0))
        found = answer(settings, agreed, ask, memory)
        if theta.any():
            points.add(theta.tobytes())
        return found

    return noted


def other_totals(ask: Ask) -> Ask:
    if ask.kind != "round":
        return ask
    totals = ask.question.totals  # type: ignore[attr-defined]
    return replace(ask, question=replace(ask.question, totals=totals * 1.01))  # type: ignore[call-arg]


def other_encoder(ask: Ask) -> Ask:
    return replace(ask, scalings=ask.scalings * 1.001) if ask.encoded else ask


def other_history(ask: Ask) -> Ask:
    return replace(ask, history="0" * 64) if ask.number == 3 else ask


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (other_theta, ""),
        (other_theta, "theta"),
        (other_totals, "totals"),
        (other_encoder, "scalings"),
        (other_history, "history"),
    ],
)
def test_a_question_that_does_not_follow_is_not_signed(
    change: Any, differs: str, watched: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody compares, silos answer at the point of the server's choice."""
    lying(change, monkeypatch)
    if not differs:
        monkeypatch.setattr(witness, "difference", lambda *given: "")
        post, moved = Cut(watched, at=30), set[bytes]()
        monkeypatch.setattr(masked, "answer", noting(silo.answer, moved))
        with pytest.raises(KeyboardInterrupt):
            train(watched, post, tmp_path / "journal")
        assert len(moved) > 1
        assert not any(record["refused"] for _, record in post.seen)
        return
    with pytest.raises(FairSiloError, match=rf"is not the one that follows .*\({differs}"):
        train(watched, TownTransport(watched), tmp_path / "journal")


@pytest.mark.parametrize("guarded", [False, True])
def test_a_made_up_sum_is_noticed(
    guarded: bool, watched: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server steers the solver by a sum of its own, which no signed answers give. A witness
    that asks for no signatures believes it: another question than the honest one follows."""
    if not guarded:
        monkeypatch.setattr(transcript, "require_confirmations", lambda *given: None)
    honest = witnesses.Witnesses.tell

    def tell(self: Any, number: int, told: Record) -> None:
        key = next(key for key in told if "vector " in key)
        words = np.frombuffer(told[key], "<u8").copy()
        words[0] += np.uint64(1 << 40)
        honest(self, number, {**told, key: words.tobytes()})

    monkeypatch.setattr(witnesses.Witnesses, "tell", tell)
    told = (
        "what came of question 1 does not fit: Not signed by"
        if guarded
        else r"question \d \(\w+\) is not the one that follows"
    )
    with pytest.raises(FairSiloError, match=told):
        train(watched, TownTransport(watched), tmp_path / "journal")


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        {"rounds": 30},
        {"solver": "lbfgs", "rounds": 10},
        {"method": "lco", "rounds": 6},
        {"method": "af", "rounds": 8},
    ],
    ids=["newton", "lbfgs", "lco", "af"],
)
def test_another_processor_computes_another_theta_and_the_witness_signs(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sums from which the witness steps are off by more than rounding errors of the steps."""
    from fairsilo.network import replay

    town = make_town(tmp_path / "town", watched=1, rows=600, **values)
    honest = replay.Replay.collect
    rng = np.random.default_rng(0)
    asked: list[int] = []

    def collect(self: Any, ask: Ask, *given: Any) -> Any:
        found = honest(self, ask, *given)
        if not ask.question.moving:
            return found
        asked.append(ask.number)
        noise = 1 + 1e-14 * rng.normal(size=found.vector.shape)
        return replace(found, vector=found.vector * noise)

    monkeypatch.setattr(replay.Replay, "collect", collect)
    monkeypatch.setattr("fairsilo.network.follows.IGNORED", ("question", "signatures", "history"))
    train(town, TownTransport(town), tmp_path / "journal")
    assert len(asked) > 3


def test_a_model_of_the_servers_choice_to_start_from_is_refused(
    watched: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = witnesses.Witnesses.begin

    def begin(self: Any, declared: dict[str, Any], journal: Any) -> None:
        honest(self, {**declared, "start": "abc"}, journal)

    monkeypatch.setattr(witnesses.Witnesses, "begin", begin)
    with pytest.raises(FairSiloError, match="starts where the federation file says"):
        train(watched, TownTransport(watched), tmp_path / "journal")


@pytest.mark.slow
def test_two_of_three_witnesses_are_enough_and_one_is_not(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", watched=3, quorum=2, rounds=3)
    train(town, TownTransport(town, absent=("witness1",)), tmp_path / "journal")
    restart_witnesses()
    few = TownTransport(town, absent=("witness1", "witness2"), run="2")
    with pytest.raises(FairSiloError, match="1 of 2 witnesses signed question 1"):
        train(town, few, tmp_path / "other")


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        {"method": "lco", "rounds": 40},
        pytest.param({"method": "af"}, marks=pytest.mark.long),
        {"method": "af", "rounds": 8, "rows": 240},
        {"method": "thresholds", "target_deo": 0.05, "rows": 400},
        {"model": "mlp", "solver": "agp", "rounds": 3, "rows": 400},
        {"method": "fedavg", "solver": "agp", "local_epochs": 2, "rounds": 3, "rows": 400},
        {"target_deo": 0.05},
        {"model": "additive", "pairs": 1, "weight": "times"},
        {"dp": Privacy(epsilon=8.0), "rounds": 3, "model": "additive", "pairs": "x0:c0"},
    ],
    ids=["lco", "af", "short-af", "thresholds", "mlp", "local-epochs", "target", "additive", "dp"],
)
def test_whatever_is_trained_is_replayed(tmp_path: Path, values: dict[str, Any]) -> None:
    town = make_town(tmp_path / "town", watched=1, **values)
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    assert run.trained.outcome.rounds >= 1
    assert json.loads(next((town.folder / "witness0").rglob("state.json")).read_text())["signed"]


@pytest.mark.parametrize(
    "declared",
    [
        "3",
        '"text"',
        '{"paid": [["a", 1.0, 1000000000], ["a", 1.0, -1000000000]]}',
        '{"paid": [["a", NaN, 1]]}',
        '{"paid": [["a", 0.0, 1]]}',
        '{"paid": [["a", -1.0, 1]]}',
        '{"paid": [["a", 1.0, true]]}',
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(declared: str, tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", watched=1, dp=Privacy(epsilon=8.0), rows=80)
    if declared.startswith("{"):
        rest = {"baseline": False, "start": ""}
        declared = json.dumps({**json.loads(declared), **rest})
    record = {"version": 2, "step": "witness", "training": "a", "declared": declared}
    found = reply_to(record, str(town.settings("witness0")), {}, "1")
    assert found["refused"] == "the server did not declare the training"


def test_a_silo_is_no_witness(tmp_path: Path) -> None:
    """Whoever contributes a vector sees no totals."""
    town = make_town(tmp_path / "town")
    both = replace_member(town.agreed)
    with pytest.raises(ValueError, match="or a silo and a witness"):
        FederationFile.model_validate(both)


def replace_member(agreed: FederationFile) -> dict[str, Any]:
    content = agreed.model_dump()
    return {**content, "witnesses": [{**content["silos"][0], "name": "auditor"}]}


def test_a_file_without_witnesses_has_the_text_of_earlier_versions(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town")
    assert "witness" not in town.agreed.text


@pytest.mark.slow
def test_no_silo_is_shown_a_sum(watched: Town, tmp_path: Path) -> None:
    """A silo that saw totals could steer theta by lying a little, and read another's row."""
    letters: list[Record] = []

    class Post(TownTransport):
        def exchange(self, told: Any, timeout: float) -> Any:
            letters.extend(one for name, one in told.items() if name.startswith("silo"))
            return super().exchange(told, timeout)

    _, _, engine = train_with(watched, Post(watched), tmp_path / "journal")
    seen = b"".join(value for one in letters for value in one.values() if isinstance(value, bytes))
    rounds = [entry.vector for entry in engine.entries if entry.kind == "round"]
    assert len(rounds) > 3
    for vector in rounds:
        assert vector is not None
        told = [number for number in vector[vector != 0] if number.tobytes() in seen]
        assert not told


def test_a_theta_that_only_rows_of_unknown_values_see_is_not_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a category has no column for other values, such rows have none at all."""
    town = make_town(tmp_path / "town", watched=1, others=False, rounds=4)

    def change(ask: Ask) -> Ask:
        theta = getattr(ask.question, "theta", np.zeros(0)).copy()
        if not theta.any():
            return ask
        names = encoder_of(town.agreed.table, ask.scalings).feature_names
        hot = 1 + np.flatnonzero([name.startswith("c0") for name in names])
        assert len(hot) > 1
        theta[0] += 0.5
        theta[hot] -= 0.5
        return replace(ask, question=replace(ask.question, theta=theta))  # type: ignore[call-arg]

    lying(change, monkeypatch)
    with pytest.raises(FairSiloError, match=r"is not the one that follows .*\(theta"):
        train(town, TownTransport(town), tmp_path / "journal")


@pytest.mark.parametrize(
    ("value", "by", "signed"), [(OTHER, 9e-5, True), (OTHER, 2e-4, False), ("a value", 9e-5, False)]
)
def test_rows_of_other_values_may_be_scored_a_little_otherwise(
    value: str, by: float, signed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the rows have a value that is not declared: 1e-4 for these, 1e-8 for all others."""
    town = make_town(tmp_path / "town", watched=1, rows=600, rounds=4)
    for name in town.agreed.names:
        path = town.folder / name / "table.csv"
        rows = pd.read_csv(path, dtype=str)
        rows.loc[::2, "c0"] = "strange"
        rows.to_csv(path, index=False)
    moved = []

    def change(ask: Ask) -> Ask:
        theta = getattr(ask.question, "theta", np.zeros(0)).copy()
        if not theta.any():
            return ask
        names = encoder_of(town.agreed.table, ask.scalings).feature_names
        own = [name for name in names if name.startswith("c0")]
        column = own[-1] if value == OTHER else own[0]
        assert (OTHER in column) is (value == OTHER)
        theta[1 + names.index(column)] += by
        moved.append(ask.number)
        return replace(ask, question=replace(ask.question, theta=theta))  # type: ignore[call-arg]

    lying(change, monkeypatch)
    post = TownTransport(town)
    if signed:
        train(town, post, tmp_path / "journal")
        assert len(moved) > 3
    else:
        with pytest.raises(FairSiloError, match=r"is not the one that follows .*\(theta"):
            train(town, post, tmp_path / "journal")


def test_a_number_where_bytes_belong_is_refused(watched: Town, tmp_path: Path) -> None:
    """`bytes` of it would fill the memory with zeros."""
    for step in ("share", "masked"):
        record = {"version": 2, "step": step, "parcels": 2**37, "round": 0}
        assert reply_to(record, str(watched.settings("silo0")), {}, "1")["refused"]
    whole = {"version": 2, "step": "masked", "parcels": b"{}", "round": 0.0}
    assert reply_to(whole, str(watched.settings("silo0")), {}, "1")["refused"]
