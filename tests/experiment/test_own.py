"""compare and sweep on a table of one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsilo.cli.shared_options import OPTIONS, TABLE
from fairsilo.cli.studies import cell_of
from fairsilo.data import make_table
from fairsilo.errors import FairSiloError
from fairsilo.evaluate import Tally
from fairsilo.evaluate.intervals import LEVEL, newcombe, wilson
from fairsilo.experiment.cell import (
    Draw,
    check_measurable,
    constant_rows,
    hold_out,
    prepare_cell,
    refused,
    run_local,
    run_method,
)
from fairsilo.experiment.details import group_rates, intervals
from fairsilo.experiment.grid import METHODS, Cell, local_title, settings, solver_of
from fairsilo.experiment.page_parts import about
from fairsilo.experiment.pages import _without
from fairsilo.experiment.reproduce import Tables
from fairsilo.experiment.summary import compare_summary
from fairsilo.question.base import Work
from fairsilo.run import Options, execute
from fairsilo.solver.penalty import Penalty
from tests.cli.conftest import Program


def given(**said: object) -> dict[str, object]:
    """The options of a table, all others at their defaults."""
    return {**{name: OPTIONS[name].default for name in TABLE}, **said}


@pytest.fixture
def own(tmp_path: Path) -> Cell:
    """Three groups, two classes, three clients by a column."""
    table = make_table(rows=600, silos=3, groups=3, seed=1)
    table.to_csv(tmp_path / "own.csv", index=False)
    columns = {"label": "label", "group": "group", "protected_class": "1", "client": "client"}
    return cell_of(given(data=str(tmp_path / "own.csv"), **columns), "lr")


def test_only_the_papers_own_options_are_its_cells() -> None:
    assert cell_of(given(data="adult"), "lr").name == "adult-lr-iid"
    assert cell_of(given(data="adult", partition="skewed", data_dir=Path("x")), "mlp").own is None
    other = cell_of(given(data="adult", clients=7), "lr")
    assert other.own is not None
    assert other.options(3).clients == 7
    assert other.options(3).seed == 3
    assert cell_of(given(data="adult", partition="dirichlet"), "lr").own is not None
    for method in METHODS:
        assert settings(other, method)


def test_methods_for_one_pair_are_left_out_with_the_reason(own: Cell) -> None:
    draw = Draw(0, "test", prepare_cell(own, 0, None))
    why = {method: refused(own, method, draw) for method in (*METHODS, "constant")}
    assert {method for method, text in why.items() if text} == {"eo", "eo-conditional", "ceo", "af"}
    assert all("there are 3 pairs" in text for text in why.values() if text)
    assert own.own is not None
    two = replace(own, own=replace(own.own, groups=("g0", "g1")))
    pair = Draw(0, "test", prepare_cell(two, 0, None))
    assert not any(refused(two, method, pair) for method in METHODS)


def test_intervals_and_rates_of_several_pairs(own: Cell) -> None:
    prepared = prepare_cell(own, 0, None)
    y, s = prepared.test_y, prepared.test_s
    labels = np.where(np.arange(len(y)) % 3 == 0, 1 - y, y)
    tally = Tally.of(y, s, labels, np.zeros(len(y)), groups=3, classes=2)
    right = [int(((labels == y) & (s == g) & (y == 1)).sum()) for g in range(3)]
    rows = [int(((s == g) & (y == 1)).sum()) for g in range(3)]
    rates = group_rates(prepared, tally)
    assert list(rates.values()) == pytest.approx([h / m for h, m in zip(right, rows, strict=True)])
    found = intervals(prepared, tally)
    spans = [
        newcombe(right[a], rows[a], right[b], rows[b], LEVEL) for a, b in ((0, 1), (0, 2), (1, 2))
    ]
    widest = max(max(abs(one.low), abs(one.high)) for one in spans if one is not None)
    assert found["fairness_low"] == pytest.approx(1 - widest)
    assert found["fairness_high"] is not None
    assert found["fairness_high"] > 1 - max(rates.values()) + min(rates.values())


def test_rows_without_a_group_to_measure_are_refused(own: Cell) -> None:
    draw = Draw(4, "test", prepare_cell(own, 4, None))
    held = Draw(4, "validation", hold_out(draw.prepared, 4))
    check_measurable([draw, held])
    gone = draw.prepared.test_s == 2
    without = replace(
        draw.prepared,
        test_x=draw.prepared.test_x[~gone],
        test_y=draw.prepared.test_y[~gone],
        test_s=draw.prepared.test_s[~gone],
    )
    with pytest.raises(FairSiloError, match="seed 4 has no validation row"):
        check_measurable([draw, Draw(4, "validation", without)])


def test_a_page_says_what_seeds_mean(own: Cell) -> None:
    assert own.own is not None
    assert "every seed draws anew" in str(about(own))
    fixed = replace(own, own=replace(own.own, split="part"))
    assert "says nothing of the rows" in str(about(fixed))


def test_fedavg_with_local_epochs_has_a_row_of_its_own(
    own: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairsilo.experiment.grid.LOCAL_ROUNDS", 3)
    assert local_title(Work(5)) == "FedAvg (E=5)"
    title = local_title(Work(2, 16))
    assert title == "FedAvg (E=2, B=16)"
    draw = Draw(0, "test", prepare_cell(own, 0, None))
    (row,) = run_local(own, Work(2, 16), [draw])
    (other,) = run_local(own, Work(4, 16), [draw])
    assert row["rounds"] == other["rounds"] == 3
    assert row["loss"] > other["loss"]  # more epochs go further in as many rounds
    line = compare_summary({title: pd.DataFrame([row])}).iloc[0]
    assert line["method"] == title
    assert line["accuracy"] == row["accuracy"]


@pytest.mark.slow
def test_additive_models_are_compared_as_they_are_trained(own: Cell, tmp_path: Path) -> None:
    """Each draw has pairs and a penalty of its own; validation rows had no say in them."""
    assert own.own is not None
    two = replace(own.own, model="additive", pairs=1, groups=("g0", "g1"))
    asked = replace(own, model="additive", own=two)
    tables = Tables(asked, None, range(1))
    (draw,), (held,) = tables.full, tables.held
    solver = solver_of("fast", asked)
    (row,) = run_method(asked, "fedfair", (0.1,), solver, [draw])
    trained = execute(replace(asked.options(0), epsilon=0.1), baseline=False)
    assert row["loss"] == pytest.approx(float(trained.trained.outcome.last.loss), abs=1e-7)
    assert row["accuracy"] == pytest.approx(trained.metrics["test"]["accuracy"])
    assert draw.prepared.encoder_width > draw.plain.encoder_width
    assert isinstance(held.penalty, Penalty)
    assert isinstance(draw.penalty, Penalty)
    assert held.penalty.strengths != draw.penalty.strengths
    assert held.plain.encoder == draw.plain.encoder
    other, *_ = run_method(asked, "eo", (0.0,), solver, [draw])
    assert other["accuracy"] > 0.5
    assert "st has none of that" in refused(asked, "st", draw)


@pytest.mark.parametrize(
    ("model", "lacks"), [("additive", "neither penalty nor pairs of features"), ("lr", "")]
)
def test_the_page_says_who_trains_without_penalty_and_pairs(
    own: Cell, model: str, lacks: str
) -> None:
    assert own.own is not None
    cell = replace(own, model=model, own=replace(own.own, model=model))
    told = [str(one) for one in _without(cell, ["FedFair", "ST"])]
    assert len(told) == bool(lacks)
    assert not lacks or ("ST has" in told[0] and lacks in told[0])
    assert not _without(cell, ["FedFair", "FedAvg"])


@pytest.mark.slow
@pytest.mark.parametrize("model", [(), ("--model", "additive", "--pairs", "1")])
def test_a_sweep_of_an_own_table(
    own: Cell, quick: Program, tmp_path: Path, model: tuple[str, ...]
) -> None:
    done = quick(
        "sweep", "--data", "own.csv", "--label", "label", "--group", "group", "--protected-class",
        "1", "--client", "client", "--epsilons", "0.01,0.3", "--seeds", "1", "--out", "swept",
        *model,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    swept = pd.read_csv(tmp_path / "swept" / "sweep.csv")
    assert swept["epsilon"].tolist() == [0.01, 0.3]
    assert swept.filter(like="rate: ").shape[1] == 3
    page = (tmp_path / "swept" / "report.html").read_text()
    assert "--client client" in page


@pytest.mark.slow
def test_weights_of_rows_and_classes_are_those_of_train(tmp_path: Path) -> None:
    table = make_table(rows=400, silos=3, seed=1).assign(times=1 + np.arange(400) % 3)
    table.to_csv(tmp_path / "own.csv", index=False)
    said: dict[str, Any] = {
        "label": "label", "group": "group", "protected_class": "1", "client": "client",
        "weight": "times", "class_weight": "1=2", "data": str(tmp_path / "own.csv"),
    }  # fmt: skip
    cell = cell_of(given(**said), "lr")
    draw = Draw(0, "test", prepare_cell(cell, 0, None))
    (row,) = run_method(cell, "fedfair", (0.02,), solver_of("fast", cell), [draw])
    (constant,) = constant_rows([draw])
    run = execute(Options(epsilon=0.02, **said), baseline=False).metrics
    for name in ("accuracy", "fairness", "dgeo_pooled", "balanced_accuracy"):
        assert row[name] == pytest.approx(run["test"][name], abs=1e-6)
    assert constant["accuracy"] == pytest.approx(run["constant"]["accuracy"])
    wide = wilson(run["test"]["accuracy"] * 80, 80)
    assert wide is not None
    # Rows with weights say less than as many without.
    assert row["accuracy_high"] - row["accuracy_low"] > wide.high - wide.low
    assert "is for methods that take weights" in refused(cell, "af", draw)
    assert hold_out(draw.prepared, 0).test_weight is not None
