"""Silos in one process, through the real handler: parity, faults, resuming, what is on the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.errors import FairSiloError
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Record, pack
from fairsilo.run import Run, execute, load, save
from fairsilo.solver import Status
from tests.network.silos import Town, TownTransport, largest_gap, make_town, simulate, train


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {"estimator": "pooled"},
        {"estimator": "mean"},
        {"method": "fedavg"},
        {"decide_at": "f1"},
        {"decide_at": "0.3", "target_deo": 0.05},
        {"solver": "lbfgs"},
        {"solver": "agp", "rounds": 8},
        {"model": "mlp", "solver": "lbfgs", "rounds": 5},
        {"model": "additive", "pairs": 2},
        {"model": "additive", "pairs": 2, "weight": "times", "class_weight": "balanced"},
        {"penalty": "validation"},
    ],
    ids=lambda s: "-".join(map(str, s.values())),
)
def test_equals_the_simulation(tmp_path: Path, secure: bool, settings: dict[str, Any]) -> None:
    town = make_town(tmp_path / "town", secure_aggregation=secure, **settings)
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    other = simulate(town, tmp_path)
    assert largest_gap(town, run, other) < 1e-6
    for key in ("loss", "dgeo_mean", "dgeo_pooled", "accuracy"):
        assert run.metrics["train"][key] == pytest.approx(other.metrics["train"][key], abs=1e-9)
    for key in ("accuracy", "deo", "harmonic_mean", "dgeo_pooled", "rows", "balanced_accuracy"):
        assert run.metrics["test"][key] == pytest.approx(other.metrics["test"][key], abs=1e-7)
    assert run.metrics["constant"] == pytest.approx(other.metrics["constant"])
    assert run.metrics["rounds"] == other.metrics["rounds"]
    assert run.metrics["converged"] == other.metrics["converged"]
    assert run.metrics["setup_exchanges"] == other.metrics["setup_exchanges"]
    if settings.get("model") == "additive":
        assert largest_gap(town, run, other) < 1e-8
        # The fit without a limit chose the penalty: its bands need no further sums.
        told = [{one["name"]: one for one in each.terms} for each in (run, other)]
        for name, one in told[0].items():
            bands = () if "weight" in settings else ("low", "high")
            for key in ("height", "free", *bands):
                assert one[key] == pytest.approx(told[1][name][key], abs=1e-4)


@pytest.mark.slow
def test_integer_weights_equal_repeated_rows_behind_masks(tmp_path: Path) -> None:
    runs: list[Run] = []
    each: tuple[dict[str, Any], ...] = ({"weight": "times"}, {"repeated": True})
    for settings in each:
        town = make_town(
            tmp_path / f"town{len(runs)}", rows=320, class_weight="balanced", **settings
        )
        runs.append(train(town, TownTransport(town), tmp_path / f"journal{len(runs)}")[0])
        if not runs[1:]:
            assert largest_gap(town, runs[0], simulate(town, tmp_path)) < 1e-9
    for part, names in {"train": ("loss", "dgeo_mean"), "test": ("accuracy", "deo", "auc")}.items():
        for name in names:
            found = [run.metrics[part][name] for run in runs]
            assert found[0] == pytest.approx(found[1], abs=1e-9)
    assert largest_gap(town, *runs) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
def test_three_classes_three_groups_and_missing_cells(tmp_path: Path, secure: bool) -> None:
    table = {"classes": 3, "groups": 3, "missing": 0.1}
    town = make_town(tmp_path / "town", table=table, rows=1600, secure_aggregation=secure)
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    assert largest_gap(town, run, simulate(town, tmp_path)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("private", [None, {"epsilon": 100.0}])
def test_rows_without_a_group_equal_the_simulation(tmp_path: Path, private: Any) -> None:
    town = make_town(tmp_path / "town", groupless=9, dp=private, rounds=12)
    assert town.agreed.table.groups == ("g0", "g1", "(none)")
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    assert run.metrics["test"]["without_group"] > 0
    assert run.prepared.groups == ("g0", "g1")
    if private is None:
        other = simulate(town, tmp_path)
        assert largest_gap(town, run, other) < 1e-6
        for part in ("train", "test"):
            assert run.metrics[part]["without_group"] == other.metrics[part]["without_group"]


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
def test_a_silo_that_never_came_equals_the_simulation_without_it(
    tmp_path: Path, secure: bool
) -> None:
    town = make_town(tmp_path / "town", secure_aggregation=secure)
    post = TownTransport(town, absent=("silo2",))
    run, _ = train(town, post, tmp_path / "journal")
    assert run.client_names == ("silo0", "silo1", "silo3")
    assert run.metrics["notes"] == [
        "silo silo2 was not connected when the run began and took no part in it"
    ]
    assert largest_gap(town, run, simulate(town, tmp_path, without=("silo2",))) < 1e-6


@pytest.mark.slow
def test_beside_the_model_one_without_limit_and_every_silo_where_it_is_seen(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", secure_aggregation=False)
    post = TownTransport(town)
    run, _ = train(town, post, tmp_path / "journal", baseline=True)
    found = run.metrics
    expected = execute(simulate(town, tmp_path).options).metrics
    assert found["unconstrained"]["test"] == pytest.approx(expected["unconstrained"]["test"])
    for one, other in zip(found["by_client"], expected["by_client"], strict=True):
        assert one == pytest.approx(other)
    assert found["rounds"] == expected["rounds"]
    assert set(expected) <= set(found)
    # A killed run that is resumed at its end still has every silo's own tallies.
    again, _ = train(town, TownTransport(town), tmp_path / "journal", resume=True, baseline=True)
    assert again.metrics["by_client"]


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
def test_the_keys_are_those_of_the_simulation(tmp_path: Path, secure: bool) -> None:
    town = make_town(tmp_path / "town", secure_aggregation=secure, rounds=1)
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    found = run.metrics
    expected = simulate(town, tmp_path).metrics
    assert set(found) - {"network"} == set(expected)
    for part in ("train", "test", "constant"):
        assert set(found[part]) == set(expected[part])
    assert bool(found["by_client"]) is not secure


@pytest.mark.slow
def test_the_run_folder_reads_back(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town")
    post = TownTransport(town)
    run, _ = train(town, post, tmp_path / "journal")
    save(run, tmp_path / "out")
    saved = load(tmp_path / "out")
    assert saved.metrics["network"]["fingerprint"] == town.agreed.fingerprint
    assert saved.metrics["bytes_up"] == post.traffic.up
    assert (saved.predictors[0].theta == run.trained.outcome.theta).all()  # type: ignore[attr-defined]
    assert "silo0" in (tmp_path / "out" / "model.json").read_text()
    assert (tmp_path / "out" / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_a_silo_lost_before_the_evaluation(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", secure_aggregation=False, rounds=2)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        return Fault("is gone") if name == "silo0" and exchange == 5 else None

    post = TownTransport(town, change)
    run, _ = train(town, post, tmp_path / "journal")
    assert "the evaluation is over the other 3" in run.metrics["notes"][0]
    metrics = run.metrics
    # The remaining silos send with their gaps how many of them have both cells.
    assert metrics["train"]["dgeo_mean"] > 0
    left = town.table.query("client != 'silo0' and part == 'train'")
    assert metrics["train"]["rows"] == len(left)
    save(run, tmp_path / "out")


def test_silos_that_leave_small_cells_out_are_counted_and_not_named(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", secure_aggregation=False, rounds=1)
    path = town.settings("silo2")
    path.write_text(path.read_text() + "minimum_cell = 500\n")
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    (note,) = run.metrics["notes"]
    assert note.startswith("1 of 4 clients have no rows, or fewer than they demand of themselves")
    assert "silo2" not in note


def spoil(vector: bytes, how: str) -> bytes:
    values = np.frombuffer(vector, "<f8").copy()
    if how == "nan":
        values[0] = np.nan
    if how == "shape":
        values = values[:-1]
    return pack(values)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("nan", "not finite"),
        ("shape", "numbers instead of"),
        ("round", "answered question"),
        ("garbage", "cannot be read"),
        ("dead", "is no longer connected"),
    ],
)
def test_a_silo_that_fails_within_a_round_is_left_out(tmp_path: Path, how: str, told: str) -> None:
    town = make_town(tmp_path / "town", secure_aggregation=False)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if name != "silo1" or exchange < 4:
            return None
        if how == "dead":
            return Fault("is no longer connected")
        if how == "round":
            return {**record, "number": record["number"] - 1}
        if how == "garbage":
            return {"version": 2, "vector": b"abc"}
        return {**record, "vector": spoil(record["vector"], how)}

    run, events = train(town, TownTransport(town, change), tmp_path / "journal")
    assert run.client_names == ("silo0", "silo2", "silo3")
    assert run.trained.outcome.status is Status.CONVERGED
    assert any(told in note and "silo1" in note for note in run.metrics["notes"])
    assert [e["silo"] for e in events if e["event"] == "lost"] == ["silo1"]
    # The encoder still has silo1's scaling in it; the optimum does not depend on it.
    other = simulate(town, tmp_path, without=("silo1",))
    assert largest_gap(town, run, other) < 1e-5
    assert run.trained.outcome.last.loss == pytest.approx(other.metrics["train"]["loss"], abs=1e-9)


@pytest.mark.slow
def test_too_few_silos_stop_the_run_in_one_sentence(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", secure_aggregation=False, minimum_silos=4)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        return Fault("did not answer within 1 s") if name == "silo3" and exchange == 5 else None

    with pytest.raises(FairSiloError, match="3 of at least 4 silos are left"):
        train(town, TownTransport(town, change), tmp_path / "journal")
    # Nothing of the failed exchange is kept: resumed with all silos, the run ends normally.
    run, events = train(town, TownTransport(town), tmp_path / "journal", resume=True)
    assert sum(event["event"] == "replayed" for event in events) == 4
    undisturbed, _ = train(town, TownTransport(town), tmp_path / "other")
    assert (run.trained.outcome.theta == undisturbed.trained.outcome.theta).all()


class KilledError(BaseException):
    """Stands for kill -9: nothing of the session survives it."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("solver", "killed_at"), [("newton", 1), ("newton", 3), ("newton", 6), ("lbfgs", 7), ("agp", 7)]
)
def test_resuming_ends_at_the_same_model(tmp_path: Path, solver: str, killed_at: int) -> None:
    town = make_town(tmp_path / "town", solver=solver, rounds=12, secure_aggregation=False)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == killed_at and name == "silo2":
            raise KilledError
        return None

    with pytest.raises(KilledError):
        train(town, TownTransport(town, change), tmp_path / "journal")
    if killed_at == 1:
        with pytest.raises(FairSiloError, match="nothing to resume"):
            train(town, TownTransport(town), tmp_path / "journal", resume=True)
        return
    again = TownTransport(town, run="2")
    run, _ = train(town, again, tmp_path / "journal", resume=True)
    undisturbed, _ = train(town, TownTransport(town), tmp_path / "other")
    one, two = run.trained.outcome, undisturbed.trained.outcome
    assert (one.theta == two.theta).all()
    assert one.rounds == two.rounds
    np.testing.assert_array_equal(one.history.loss, two.history.loss)


@pytest.mark.slow
def test_resuming_after_a_loss(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", secure_aggregation=False)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == 8:
            raise KilledError
        return Fault("is no longer connected") if name == "silo1" and exchange == 4 else None

    with pytest.raises(KilledError):
        train(town, TownTransport(town, change), tmp_path / "journal")
    post = TownTransport(town, absent=("silo1",))
    run, _ = train(town, post, tmp_path / "journal", resume=True)
    assert run.client_names == ("silo0", "silo2", "silo3")
    interrupted, lost = run.metrics["notes"]
    assert interrupted.startswith("the run was interrupted after question 7 and resumed at 20")
    assert "silo1 is no longer connected" in lost
    assert largest_gap(town, run, simulate(town, tmp_path, without=("silo1",))) < 1e-5


@pytest.mark.slow
def test_a_journal_of_another_federation_is_refused(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", secure_aggregation=False)
    train(town, TownTransport(town), tmp_path / "journal")
    other = Town(town.folder, town.agreed.model_copy(update={"epsilon": 0.5}), town.table)
    with pytest.raises(FairSiloError, match="another federation file"):
        train(other, TownTransport(other), tmp_path / "journal", resume=True)
    path = tmp_path / "journal" / "000002.safetensors"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(FairSiloError, match="damaged"):
        train(town, TownTransport(town), tmp_path / "journal", resume=True)


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
def test_resuming_with_another_table_is_refused(tmp_path: Path, secure: bool) -> None:
    """A new Flower run has no state of the old one, but the silo's ledger has."""
    town = make_town(tmp_path / "town", secure_aggregation=secure, minimum_silos=4)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == 8 and name == "silo2":
            raise KilledError
        return None

    with pytest.raises(KilledError):
        train(town, TownTransport(town, change), tmp_path / "journal")
    path = town.folder / "silo1" / "table.csv"
    rows = path.read_text().splitlines(keepends=True)
    path.write_text("".join(rows[:-1]))
    told = "the silo's table changed since the run began"
    with pytest.raises(FairSiloError, match=told):
        train(town, TownTransport(town, run="2"), tmp_path / "journal", resume=True)
    # Another training may use the new table; with the old one the first training continues.
    path.write_text("".join(rows))
    run, _ = train(town, TownTransport(town, run="3"), tmp_path / "journal", resume=True)
    undisturbed, _ = train(town, TownTransport(town, run="4"), tmp_path / "other")
    assert largest_gap(town, run, simulate(town, tmp_path)) < 1e-6
    assert run.trained.outcome.rounds == undisturbed.trained.outcome.rounds
    path.write_text("".join(rows[:-1]))
    train(town, TownTransport(town, run="5"), tmp_path / "third")


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
def test_training_goes_on_from_an_earlier_model(tmp_path: Path, secure: bool) -> None:
    """On new rows, in fewer rounds, to the model that training from zero ends with."""
    town = make_town(tmp_path / "town", secure_aggregation=secure)
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    save(run, tmp_path / "first")
    for name in town.agreed.names:
        path = town.folder / name / "table.csv"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-3]))
    fresh, _ = train(town, TownTransport(town, run="2"), tmp_path / "journal")
    start = tmp_path / "first"
    again, _ = train(town, TownTransport(town, run="3"), tmp_path / "journal", start=start)
    assert largest_gap(town, fresh, again) < 1e-5
    assert largest_gap(town, run, again) > 1e-5
    assert again.trained.outcome.rounds < fresh.trained.outcome.rounds
    assert "training started from the model in first" in again.metrics["notes"]


@pytest.mark.slow
def test_a_run_is_resumed_from_the_model_that_it_began_with(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", rounds=2)
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    save(run, tmp_path / "first")
    begun, journal = tmp_path / "first", tmp_path / "journal"
    train(town, TownTransport(town, run="2"), journal, start=begun)
    with pytest.raises(FairSiloError, match="was begun from another model"):
        train(town, TownTransport(town, run="3"), journal, resume=True)
    train(town, TownTransport(town, run="4"), journal, resume=True, start=begun)


def test_a_model_forgets_a_silo_that_left(tmp_path: Path) -> None:
    """From the old model or from zero, as if the silo had never been there."""
    town = make_town(tmp_path / "town", secure_aggregation=False)
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    save(run, tmp_path / "first")
    left = TownTransport(town, absent=("silo1",), run="2")
    again, _ = train(town, left, tmp_path / "journal", start=tmp_path / "first")
    never = simulate(town, tmp_path, without=("silo1",))
    assert largest_gap(town, again, never) < 1e-5
    assert largest_gap(town, run, never) > 1e-4
