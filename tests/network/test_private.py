"""Differential privacy over silos: same result as in simulation, charged to each silo's ledger."""

from __future__ import annotations

import json
import logging
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fairsilo.data import build_labels
from fairsilo.dp import Budget, BudgetSpent, Plan, Release, epsilon_of
from fairsilo.errors import FairSiloError
from fairsilo.network.audit import audit
from fairsilo.network.client import reply_to
from fairsilo.network.federation_file import FederationFile, Privacy
from fairsilo.network.ledger import read, spend
from fairsilo.network.server import aggregate_for
from fairsilo.network.settings import read_settings
from fairsilo.network.silo import answer
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Ask, Record, unpack
from fairsilo.question import Cells, Counts, Evaluate, Local, NoisyCounts, Outcomes, Question
from fairsilo.run import load, save
from tests.network.private import PROMISE, make, set_budget, spent_by
from tests.network.silos import Town, TownTransport, largest_gap, make_town, simulate, train


@pytest.mark.slow
@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize(
    ("secure", "settings"),
    [
        (True, {}),
        (False, {}),
        (True, {"method": "fedavg"}),
        (True, {"solver": "agp", "rounds": 4}),
        (False, {"solver": "agp", "model": "mlp", "rounds": 3}),
        (True, {"model": "additive", "pairs": "x0:c0"}),
    ],
    ids=["masks", "clear", "fedavg", "agp", "mlp", "additive"],
)
def test_without_noise_it_is_the_simulation(
    tmp_path: Path, secure: bool, settings: dict[str, Any]
) -> None:
    town = make(tmp_path / "town", secure_aggregation=secure, **settings)
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    metrics, other = run.metrics, simulate(town, tmp_path)
    assert largest_gap(town, run, other) < 1e-9
    assert metrics["train"] == pytest.approx(other.metrics["train"], abs=1e-9)
    assert metrics["dp"] == other.metrics["dp"]
    assert metrics["reason"] == other.metrics["reason"]
    for key in ("accuracy", "deo", "dgeo_pooled", "rows"):
        assert metrics["test"][key] == pytest.approx(other.metrics["test"][key], abs=1e-9)
    assert set(metrics) - {"network"} == set(other.metrics)
    # Each silo's ledger equals the one that the simulation keeps for all.
    counted = [(one["release"], one["times"]) for one in other.metrics["dp"]["ledger"]]
    names = [release.name for release in spent_by(town)]
    assert [(name, names.count(name)) for name, _ in counted] == counted


@pytest.mark.slow
def test_noise_is_in_everything_that_is_said_of_the_training_rows(tmp_path: Path) -> None:
    town = make(tmp_path / "town", rounds=2)
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    save(run, tmp_path / "run")
    metrics = load(tmp_path / "run").metrics
    assert metrics["dp"]["epsilon_spent"] == pytest.approx(8, abs=0.01)
    assert metrics["dp"]["epsilon_spent"] <= 8
    assert metrics["dp"]["noise"] == "shared"
    assert metrics["dp"]["smallest_sum"] == 3
    rows = town.table.query("part == 'train'")
    x, y = run.prepared.encoder.transform(rows), build_labels(rows, town.agreed.table)[0]
    exact = run.trained.predictors[0].losses(x, y, y).mean()
    assert 0 < abs(metrics["train"]["loss"] - exact) < 0.5
    assert metrics["train"]["dgeo_noise"] > 0
    assert metrics["by_client"] == []
    assert "for the noise of differential privacy" in (tmp_path / "run/report.html").read_text()
    # A silo's ledger contains the questions, but nothing about its rows.
    content = json.loads((town.folder / "silo0" / "ledger.json").read_text())
    assert set(content) == {
        "version", "shown", "released", "tables", "keys", "points", "asked", "trained", "split"
    }  # fmt: skip
    assert {key for line in content["released"] for key in line} == {
        "training", "release", "noise_multiplier", "times"
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("secure", [True, False])
def test_the_second_run_is_refused_by_every_silos_own_ledger(tmp_path: Path, secure: bool) -> None:
    town = make(tmp_path / "town", rounds=2, secure_aggregation=secure)
    train(town, TownTransport(town), tmp_path / "first")
    once = spent_by(town)
    assert epsilon_of(tuple(once), 1e-5) <= 8
    with pytest.raises(FairSiloError, match="silo's own privacy budget for all runs together"):
        train(town, TownTransport(town, run="2"), tmp_path / "second")
    assert spent_by(town) == once, "what is refused costs nothing"
    for name in town.agreed.names:
        path = town.settings(name)
        path.write_text(path.read_text().replace("= 8.0", "= 16.0"))
    train(town, TownTransport(town, run="3"), tmp_path / "third")
    assert len(spent_by(town)) == 2 * len(once)


def ask_of(town: Town, question: Question | None = None) -> Ask:
    scalings = np.tile([0.0, 1.0, 0.0], len(town.agreed.table.numbers))
    asked = question or NoisyCounts()
    return Ask(asked, 1, town.agreed.fingerprint, "fedfair", True, scalings, training="one")


def ask(town: Town, question: Question | None = None, training: str = "one") -> Record:
    asked = replace(ask_of(town, question), training=training)
    return reply_to(asked.to_record(), str(town.settings("silo0")), {}, "1")


def planned(town: Town) -> Plan:
    promise = town.agreed.problem(None).promise
    assert promise is not None
    return promise.plan


@pytest.mark.slow
def test_the_noise_of_an_answer_has_the_promised_variance(tmp_path: Path) -> None:
    """In the clear each silo adds all of the noise; under masks the same code has t > 1."""
    town = make(tmp_path, rows=200, secure_aggregation=False)
    set_budget(town, 1e6)
    rows = town.table.query("client == 'silo0' and part == 'train'")
    exact = rows.groupby(["group", "label"]).size().to_numpy()
    noise = np.concatenate(
        [unpack(ask(town, training=str(i))["vector"]) - exact for i in range(250)]
    )
    assert noise.std() == pytest.approx(planned(town).counts, rel=4 / math.sqrt(2 * 1000))
    assert len({release.multiplier for release in spent_by(town)}) == 1
    assert len(spent_by(town)) == 250


@pytest.mark.parametrize(
    ("secure", "threshold", "t"), [(False, None, 1), (True, None, 3), (True, 4, 4)]
)
def test_the_share_is_dealt_by_the_fewest_that_can_be_summed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secure: bool, threshold: int | None, t: int
) -> None:
    """With every draw exactly one standard deviation, sigma / sqrt(t) is added."""
    monkeypatch.setattr("fairsilo.dp.noise.discrete_gaussian", lambda size, s, _: np.full(size, s))
    town = make(tmp_path, rows=200, secure_aggregation=secure, threshold=threshold)
    vector = answer(read_settings(town.settings("silo0")), town.agreed, ask_of(town), {})
    rows = town.table.query("client == 'silo0' and part == 'train'")
    noise = vector - rows.groupby(["group", "label"]).size().to_numpy()
    np.testing.assert_allclose(noise, planned(town).counts / math.sqrt(t), rtol=1e-5)


@pytest.mark.slow
def test_the_server_does_not_choose_the_noise(tmp_path: Path) -> None:
    """Neither another federation file nor out-of-order questions exceed the budget."""
    town = make(tmp_path, rows=200, secure_aggregation=False)
    softer = town.agreed.model_copy(update={"dp": Privacy(epsilon=500.0)})
    asked = replace(ask_of(town), fingerprint=softer.fingerprint)
    reply = reply_to(asked.to_record(), str(town.settings("silo0")), {}, "1")
    assert "fingerprints differ" in reply["refused"]
    replies = [ask(town, training=str(i)) for i in range(200)]
    answered = sum(not reply["refused"] for reply in replies)
    assert 0 < answered < 200
    assert epsilon_of(tuple(spent_by(town)), 1e-5) <= 8
    assert "privacy budget" in replies[-1]["refused"]
    assert replies[-1]["vector"] == b""


def test_a_damaged_ledger_is_never_taken_for_empty(tmp_path: Path) -> None:
    town = make(tmp_path, rows=200, secure_aggregation=False)
    assert not ask(town)["refused"]
    path = town.folder / "silo0" / "ledger.json"
    content = json.loads(path.read_text())
    content["released"][0]["noise_multiplier"] = "none"
    path.write_text(json.dumps(content))
    assert ask(town)["refused"]
    with pytest.raises(FairSiloError, match="is damaged"):
        read(path)


def test_two_runs_at_once_do_not_find_the_same_room_in_the_budget(tmp_path: Path) -> None:
    path, budget = tmp_path / "ledger.json", Budget(8.0, 1e-5)
    most = int(budget.total / Release("counts", 5.0).cost)

    def one(_: int) -> bool:
        try:
            spend(path, budget, [Release("counts", 5.0)])
        except BudgetSpent:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        answered = list(pool.map(one, range(most + 20)))
    assert sum(answered) == len(read(path).releases) == most


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dp", "line", "told"),
    [
        (None, "dp_budget_epsilon = 4.0", "answers only where the federation file has"),
        (PROMISE, "", "give no budget for it"),
    ],
)
def test_budget_and_promise_go_together(
    tmp_path: Path, dp: Privacy | None, line: str, told: str
) -> None:
    town = make(tmp_path, rows=200, secure_aggregation=False, dp=dp)
    path = town.settings("silo0")
    kept = [one for one in path.read_text().splitlines() if not one.startswith("dp_")]
    path.write_text("\n".join([*kept, line]) + "\n")
    question = Counts() if dp is None else NoisyCounts()
    assert told in ask(town, question)["refused"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "told"),
    [
        (Local(np.zeros(10), 1.0, 0, np.ones(6)), "has no question 'local'"),
        (Cells(np.zeros(2), True), "theta of the question 'cells' does not fit"),
        (Cells(np.full(10, np.nan), False), "theta of the question 'cells' does not fit"),
        (Outcomes(np.zeros(11)), "theta of the question 'outcomes' does not fit"),
    ],
)
def test_questions_that_do_not_fit_cost_nothing(
    tmp_path: Path, question: Question, told: str
) -> None:
    town = make(tmp_path, rows=200, secure_aggregation=False)
    assert told in ask(town, question)["refused"]
    assert not spent_by(town)
    assert not ask(town, Cells(np.zeros(10), True))["refused"]


def test_only_newton_asks_for_a_curvature(tmp_path: Path) -> None:
    town = make(tmp_path, rows=200, secure_aggregation=False, solver="agp")
    assert "only the solver newton" in ask(town, Cells(np.zeros(10), True))["refused"]
    assert not spent_by(town)
    assert not ask(town, Cells(np.zeros(10), False))["refused"]


@pytest.mark.slow
def test_an_audit_sees_test_rows_only_and_costs_nothing(tmp_path: Path) -> None:
    town = make(tmp_path / "town", rounds=2, secure_aggregation=False)
    save(train(town, TownTransport(town), tmp_path / "journal")[0], tmp_path / "run")
    before = spent_by(town)
    gather = aggregate_for(town.agreed, TownTransport(town, run="2"), "2", 1.0)
    found = audit(town.agreed, gather, town.agreed.names, load(tmp_path / "run"))
    assert "train" not in found
    assert 0 < found["rows"] <= len(town.table.query("part == 'test'")), "less small cells"
    training = Evaluate(np.zeros(0), audit=True)
    asked = Ask(training, 1, town.agreed.fingerprint, "audit", encoded=True)
    told = reply_to(asked.to_record(), str(town.settings("silo0")), {}, "3")["refused"]
    assert told == "under differential privacy an audit is of test rows only"
    assert spent_by(town) == before


@pytest.mark.slow
def test_that_a_training_row_came_or_went_shows_in_no_refusal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither within a run, nor when it is resumed, nor over other silos than before."""
    town = make(tmp_path / "town", rounds=1)
    for name in town.agreed.names:
        path = town.settings(name)
        path.write_text(path.read_text().replace("= 8.0", "= 80.0"))
    logging.getLogger("flwr").propagate = True
    table = town.folder / "silo0" / "table.csv"
    rows = table.read_text().splitlines(keepends=True)
    assert rows[1].strip().endswith("train")

    def drop(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == 4:
            table.write_text("".join(rows[:1] + rows[2:]))
        return None

    with caplog.at_level(logging.WARNING, logger="flwr"):
        run, _ = train(town, TownTransport(town, drop), tmp_path / "first")
    assert len(run.client_names) == 4
    assert "the table changed since the run began" in caplog.text
    # Noisy counts of training rows may be opened over any silos ...
    fewer = TownTransport(town, absent=("silo1",), run="2")
    steps = {True: [], False: []}  # type: dict[bool, list[str]]
    for changed in (False, True):
        if changed:
            table.write_text("".join(rows))
        with pytest.raises(FairSiloError, match=r"one silo's share by subtraction"):
            train(town, fewer, tmp_path / "second")
        steps[changed] = [f"{name} {r['step']} {bool(r['refused'])}" for name, r in fewer.seen]
        fewer = TownTransport(town, absent=("silo1",), run="3")
    # ... and the exact ones of test rows are refused whether or not a training row changed.
    assert steps[True] == steps[False]


def test_no_second_model_beside_it(tmp_path: Path) -> None:
    town = make(tmp_path / "town", rows=200)
    with pytest.raises(FairSiloError, match="`baseline` would spend the privacy budget"):
        train(town, TownTransport(town), tmp_path / "journal", baseline=True)
    assert not spent_by(town)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"estimator": "mean"}, "use `estimator` pooled"),
        ({"method": "lco"}, "`method` lco has no differential privacy"),
        ({"solver": "lbfgs"}, "does not train lr under noise"),
        ({"split": None}, "needs a split column"),
        ({"dp": {"epsilon": 0.0}}, "greater than 0"),
        ({"dp": {"epsilon": 1.0, "split": (0.5, 0.5, 0.5)}}, "add up to 1"),
    ],
)
def test_a_federation_file_that_cannot_be_kept_is_refused(
    tmp_path: Path, values: dict[str, Any], told: str
) -> None:
    agreed = json.loads(make(tmp_path, rows=200).agreed.text)
    with pytest.raises(ValidationError, match=told):
        FederationFile.model_validate({**agreed, **values})
    for feature in agreed["table"]["features"]:
        feature.pop("bounds", None)
    with pytest.raises(ValidationError, match="no declared bounds"):
        FederationFile.model_validate(agreed)


def test_rows_once_used_under_privacy_give_no_exact_sums_later(tmp_path: Path) -> None:
    town = make_town(tmp_path, secure_aggregation=False)
    assert not ask(town, Counts())["refused"]
    spend(town.folder / "silo0" / "ledger.json", Budget(8.0, 1e-5), [Release("counts", 5.0)])
    assert "exact sums would undo" in str(ask(town, Counts())["refused"])


def test_a_ledger_that_is_not_named_lies_beside_the_table(tmp_path: Path) -> None:
    words = 'name = "a"\nfederation = "federation.json"\ndata = "../tables/bank.csv"\n'
    for folder, more in (("first", ""), ("second", 'ledger = "mine.json"\n')):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "silo.toml").write_text(words + more)
    first = read_settings(tmp_path / "first" / "silo.toml")
    assert first.ledger.resolve() == tmp_path / "tables" / "ledger.json"
    assert read_settings(tmp_path / "second" / "silo.toml").ledger.name == "mine.json"


def test_shares_of_noise_suffice_for_the_smallest_sum_that_can_be_opened(
    tmp_path: Path,
) -> None:
    agreed = make(tmp_path).agreed
    member = agreed.silos[0]

    def smallest(silos: int, **values: Any) -> int:
        many = tuple(member.model_copy(update={"name": str(i)}) for i in range(silos))
        return agreed.model_copy(update={"silos": many, **values}).smallest_sum

    # The threshold, whatever the server tells: see tests/secagg/test_lying_server.py.
    assert [smallest(n) for n in (3, 4, 7, 10, 50)] == [3, 3, 5, 7, 34]
    assert smallest(50, threshold=40) == 40
    assert smallest(50, secure_aggregation=False) == 1
