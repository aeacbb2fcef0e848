"""Silos and servers lost in a private run: exactly the answered questions are charged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fairsilo.data import build_labels
from fairsilo.errors import FairSiloError
from fairsilo.network.aggregate import Patience
from fairsilo.network.client import reply_to
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Record
from fairsilo.run import save
from tests.network.private import make, set_budget, spent_by
from tests.network.silos import TownTransport, largest_gap, simulate, train

pytestmark = pytest.mark.slow


class KilledError(BaseException):
    """Stands for kill -9."""


def test_a_question_asked_twice_costs_a_round(tmp_path: Path) -> None:
    """Killed in the second round: the silos answered, so the lost answer is charged."""
    town = make(tmp_path / "town", rounds=3, secure_aggregation=False)

    def kill(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == 4 and name == "silo3":
            raise KilledError
        return None

    with pytest.raises(KilledError):
        train(town, TownTransport(town, kill), tmp_path / "journal")
    run, _ = train(town, TownTransport(town, run="2"), tmp_path / "journal", resume=True)
    metrics = run.metrics
    assert metrics["rounds"] == 2
    assert "1 of 3 planned rounds were not made" in metrics["notes"][1]
    assert metrics["dp"]["epsilon_spent"] <= 8
    ledger = {one["release"]: one["times"] for one in metrics["dp"]["ledger"]}
    assert ledger == {
        "encoder": 1, "counts": 1, "gradients": 3, "losses": 3, "curvature": 1, "outcomes": 1
    }  # fmt: skip
    assert [one.name for one in spent_by(town)].count("gradients") == 3


def test_killed_within_the_very_first_question_it_is_paid_for_all_the_same(tmp_path: Path) -> None:
    town = make(tmp_path / "town", rounds=3, secure_aggregation=False)

    def kill(name: str, exchange: int, record: Record) -> Record | Fault | None:
        raise KilledError

    with pytest.raises(KilledError):
        train(town, TownTransport(town, kill), tmp_path / "journal")
    set_budget(town, 16.0)
    run, _ = train(town, TownTransport(town, run="2"), tmp_path / "journal", resume=True)
    metrics = run.metrics
    ledger = {one["release"]: one["times"] for one in metrics["dp"]["ledger"]}
    assert ledger["encoder"] == 2
    assert ledger["gradients"] == metrics["rounds"] == 2
    assert metrics["dp"]["epsilon_spent"] <= 8
    assert [one.name for one in spent_by(town)].count("encoder") == 2


def test_a_round_out_of_turn_costs_nothing(tmp_path: Path) -> None:
    """Used or missing masks reveal nothing, so nothing is charged."""
    town = make(tmp_path / "town", rounds=2)
    refused: list[str] = []

    def again(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if name == "silo0" and record["step"] == "masked":
            before = spent_by(town)
            for number in (post.last["silo0"]["round"], 0, 48, "none"):
                memory = dict(post.memories["silo0"])
                letter = {**post.last["silo0"], "round": number}
                reply = reply_to(letter, str(town.settings("silo0")), memory, "1")
                refused.append(reply["refused"])
                assert memory["answers"] == post.memories["silo0"]["answers"]
            assert spent_by(town) == before
        return None

    post = TownTransport(town, again)
    train(town, post, tmp_path / "journal")
    assert len(refused) == 6 * 4, "columns, counts, two rounds, outcomes, evaluation"
    assert all(refused)


def lose(silo: str, *exchanges: int) -> Callable[[str, int, Record], Record | Fault | None]:
    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        return Fault("is gone") if exchange in exchanges and name == silo else None

    return change


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("secure", [True, False])
def test_lost_within_the_first_round_it_is_the_simulation_of_the_others_with_fewer_rounds(
    tmp_path: Path, secure: bool
) -> None:
    """The sum over the silos that answered is used; a recount costs the budget of one round."""
    town = make(tmp_path / "town", rounds=4, secure_aggregation=secure)
    # Before the first round: 1 advertise, 2 share, 3-5 columns, 6-8 counts; in the clear two.
    post = TownTransport(town, lose("silo1", 9 if secure else 3))
    run, _ = train(town, post, tmp_path / "journal")
    metrics = run.metrics
    assert run.client_names == ("silo0", "silo2", "silo3")
    assert metrics["rounds"] == 3
    assert "silo1 is gone" in metrics["notes"][0]
    assert "1 of 4 planned rounds were not made" in metrics["notes"][1]
    ledger = {one["release"]: one["times"] for one in metrics["dp"]["ledger"]}
    assert ledger == {
        "encoder": 1, "counts": 2, "gradients": 3, "losses": 3, "curvature": 1, "outcomes": 1
    }  # fmt: skip
    assert metrics["dp"]["epsilon_spent"] <= 8
    rows = town.table.query("client != 'silo1' and part == 'train'")
    assert metrics["train"]["rows"] == len(rows)
    x, (y, s) = run.prepared.encoder.transform(rows), build_labels(rows, town.agreed.table)
    losses = np.minimum(run.trained.predictors[0].losses(x, y, s), 4.0)
    assert metrics["train"]["loss"] == pytest.approx(losses.mean(), abs=1e-6)
    means = [losses[(s == g) & (y == 1)].mean() for g in (0, 1)]
    assert metrics["train"]["dgeo_pooled"] == pytest.approx(abs(means[0] - means[1]), abs=1e-6)
    # Encoder and ridge are those of four silos and four rounds; the result is the same.
    shorter = replace(town, agreed=town.agreed.model_copy(update={"rounds": 3}))
    assert largest_gap(town, run, simulate(shorter, tmp_path, without=("silo1",))) < 0.05


@pytest.mark.parametrize("secure", [True, False])
def test_two_losses_one_of_them_while_counting_again(tmp_path: Path, secure: bool) -> None:
    """The round is then repeated, because its sum is over more silos than the counts."""
    town = make(tmp_path / "town", silos=6, rows=1200, rounds=4, secure_aggregation=secure)
    first, count = (9, 11) if secure else (4, 5)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        gone = {"silo1": first}.get(name, count if name == "silo4" else 10**6)
        return Fault("is gone") if exchange >= gone else None

    post = TownTransport(town, change)
    if secure:
        # Of six silos t = 5 by default, so the loss of two is one too many.
        with pytest.raises(FairSiloError, match="use `resume` when the silos are back"):
            train(town, post, tmp_path / "journal")
        return
    run, _ = train(town, post, tmp_path / "journal")
    metrics = run.metrics
    assert run.client_names == ("silo0", "silo2", "silo3", "silo5")
    ledger = {one["release"]: one["times"] for one in metrics["dp"]["ledger"]}
    assert ledger["counts"] == 2
    assert ledger["gradients"] == metrics["rounds"] + 1
    assert metrics["dp"]["epsilon_spent"] <= 8


def test_a_private_run_with_a_loss_is_resumed_to_the_same_model(tmp_path: Path) -> None:
    town = make(tmp_path / "town", rounds=4, secure_aggregation=False)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == 7 and name == "silo2":
            raise KilledError
        return lose("silo1", 4)(name, exchange, record)

    with pytest.raises(KilledError):
        train(town, TownTransport(town, change), tmp_path / "journal")
    run, events = train(town, TownTransport(town, run="2"), tmp_path / "journal", resume=True)
    assert run.client_names == ("silo0", "silo2", "silo3")
    first = [event["loss"] for event in events if event["event"] == "round"]
    again, events = train(town, TownTransport(town, run="3"), tmp_path / "journal", resume=True)
    assert [event["loss"] for event in events if event["event"] == "round"] == first
    assert (again.trained.outcome.theta == run.trained.outcome.theta).all()
    assert again.metrics["dp"]["epsilon_spent"] <= 8


def test_lost_at_the_evaluation_the_training_rows_are_not_spoken_of(tmp_path: Path) -> None:
    """Sums over three silos do not match counts over four; those of the test rows do."""
    town = make(tmp_path / "town", rounds=2, secure_aggregation=False)
    run, _ = train(town, TownTransport(town, lose("silo1", 5)), tmp_path / "journal")
    assert run.metrics["train"]["loss"] is None
    assert run.metrics["test"]["rows"] == len(
        town.table.query("client != 'silo1' and part == 'test'")
    )
    assert run.metrics["rounds"] == 2
    assert run.metrics["dp"]["epsilon_spent"] <= 8
    save(run, tmp_path / "run")


def test_nobody_whose_answer_was_lost_is_asked_again(tmp_path: Path) -> None:
    """In the clear, too: the silo has paid for its answer, whoever received it."""
    town = make(tmp_path / "town", rounds=1, secure_aggregation=False)
    asked: list[int] = []

    def lose(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if name == "silo1" and exchange >= 3:
            asked.append(exchange)
            return Fault("is no longer connected", gone=True)
        return None

    post = TownTransport(town, lose)
    run, events = train(town, post, tmp_path / "journal", patience=Patience(60.0))
    assert asked == [3]
    assert not any(event["event"] == "missing" for event in events)
    assert run.client_names == ("silo0", "silo2", "silo3")
