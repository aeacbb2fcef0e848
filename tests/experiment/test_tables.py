"""The choice of settings, and our tables beside the paper's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairsilo.errors import FairSiloError
from fairsilo.experiment.choice import best_setting, chosen
from fairsilo.experiment.figures import curve
from fairsilo.experiment.grid import CELLS, METHODS, TITLES, Cell, find, paper_tables, settings
from fairsilo.experiment.results import Results
from fairsilo.experiment.tables import build, ours, verdict
from fairsilo.method import METHODS as TRAINED
from tests.experiment.parts import part


def test_the_paper_has_78_results_and_we_have_a_cell_for_each() -> None:
    paper = paper_tables()
    assert len(paper) == 78
    ours_too = {
        (cell.setting, cell.data, cell.model, TITLES[method])
        for cell in CELLS
        for method in cell.methods
    }
    for row in paper.to_dict("records"):
        assert (row["setting"], row["dataset"], row["model"], row["method"]) in ours_too


def test_the_papers_columns_are_filled_in_its_own_rows_alone() -> None:
    """In the stored results: FedAvg with local epochs, EO conditional and the constant are ours."""
    stored = Path(__file__).parents[2] / "experiments" / "results" / "tables.csv"
    keys = ["setting", "dataset", "model", "method"]
    printed, found = paper_tables(), pd.read_csv(stored)
    columns = [name for name in printed.columns if name not in keys]
    both = found[keys].merge(printed, on=keys, how="left")
    pd.testing.assert_frame_equal(found[columns], both[columns], check_dtype=False)
    beyond = set(found[found["harmonic_mean"].isna()]["method"])
    assert {"FedAvg (E=5, B=32)", "EO conditional", "Constant"} <= beyond


def test_the_grids_hold_the_papers_choices() -> None:
    codes = {title: method for method, title in TITLES.items()}
    for row in paper_tables().dropna(subset="opt").to_dict("records"):
        cell = find(f"{row['dataset']}-{row['model']}-{row['setting']}")
        grid = settings(cell, codes[row["method"]])
        assert any(np.isclose(row["opt"], value) for value in grid), row


# The paper's section "Effect of Parameter epsilon" gives these sets, for LR and for NN.
PAPER_EPSILONS = {
    "drug-lr": [1e-4, 1e-3, 0.01, 0.07, 0.13, 0.19],
    "drug-nn": [1e-4, 1e-3, 0.005, 0.01, 0.02, 0.07, 0.13, 0.19, 0.22, 0.25],
    "compas-lr": [1e-4, 1e-3, 0.01, 0.1, 0.2, 0.4],
    "compas-nn": [1e-4, 1e-3, 0.01, 0.1, 0.2, 0.4],
    "adult-lr": [1e-4, 1e-3, 0.01, 0.1, 0.2, 0.4],
    "adult-nn": [1e-4, 1e-3, 0.01, 0.1, 0.2, 0.4],
}


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_figure_2_shows_the_papers_epsilons_and_no_others(cell: Cell) -> None:
    grid = settings(cell, "fedfair")
    table = part({(epsilon, seed, "test"): (0.7, 0.9) for epsilon in grid for seed in (0, 1)})
    assert curve(table, cell)["setting"].tolist() == PAPER_EPSILONS[f"{cell.data}-{cell.model}"]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_grids_reach_beyond_the_papers_choices(cell: Cell) -> None:
    for method in ("st", "lco"):
        assert max(settings(cell, method)) == 1.0
    tried = {len(settings(cell, method)) for method in cell.methods}
    assert len(tried - {1}) == 1  # the same number for every method that has a setting
    if "af" in cell.methods:
        assert set(settings(cell, "af")) >= {0.05, 0.5, 1.0, 2.5}


def test_one_setting_for_all_seeds_by_the_mean_harmonic_mean() -> None:
    table = part(
        {
            (0.1, 0, "test"): (0.9, 0.9), (0.1, 1, "test"): (0.5, 0.5),
            (0.2, 0, "test"): (0.8, 0.8), (0.2, 1, "test"): (0.8, 0.8),
            (0.1, 0, "validation"): (0.9, 0.9), (0.1, 1, "validation"): (0.9, 0.9),
            (0.2, 0, "validation"): (0.7, 0.7), (0.2, 1, "validation"): (0.7, 0.7),
        }
    )  # fmt: skip
    assert best_setting(table, "test") == 0.2
    assert best_setting(table, "validation") == 0.1
    honest = ours(chosen(table, "validation"))
    assert honest["ours_accuracy"] == pytest.approx(0.7)  # its test rows, not its validation rows
    assert honest["ours_accuracy_std"] == pytest.approx(0.2)


def test_collapsed_rivals_are_marked_and_do_not_count(tmp_path: Path) -> None:
    results = Results(tmp_path)
    cell = find("drug-lr-iid")
    both = [(seed, split) for seed in (0, 1) for split in ("test", "validation")]
    good = part({(0.1, *key): (0.7, 0.9) for key in both})
    flat = part({(0.1, *key): (0.75, 1.0) for key in both}).assign(balanced_accuracy=0.5)
    results.write("fast", cell, "fedfair", True, good, 1.0)
    results.write("fast", cell, "lco", True, flat, 1.0)
    results.write("fast", cell, "st", True, good.assign(harmonic_mean=0.6), 1.0)
    tables = build(results)
    marked = tables.set_index(["method", "selection"])["collapsed"]
    assert marked["LCO", "test"]
    assert not marked["FedFair", "test"]
    found = verdict(tables, "fast")
    assert found["best_other"].tolist() == ["ST"]
    assert found["best_or_close"].all()
    assert {
        "ours_opt",
        "solver",
        "selection",
        "ours_balanced_accuracy",
        "ours_fairness_std",
    } <= set(tables)


def test_what_both_paths_share_is_compared_over_the_seeds_of_each(tmp_path: Path) -> None:
    results, cell = Results(tmp_path), find("drug-lr-iid")
    split = ("test", "validation")

    def scores(high: float) -> dict[tuple[float, int, str], tuple[float, float]]:
        """Seeds 2 and 3 are easy."""
        return {(0.1, k, s): (0.7 if k < 2 else high, 0.9) for k in range(4) for s in split}

    results.write("fast", cell, "fedfair", True, part(scores(0.8)), 1.0, 4)
    results.write("fast", cell, "af", True, part(scores(0.9)), 1.0, 4)
    few = {key: value for key, value in scores(0.8).items() if key[1] < 2}
    results.write("agp", cell, "fedfair", True, part(few), 1.0, 2)
    tables = build(results)
    own = tables[(tables["method"] == "AF") & (tables["selection"] == "test")]
    assert own.set_index("seeds")["ours_accuracy"].to_dict() == pytest.approx({4: 0.8, 2: 0.7})
    assert not verdict(tables, "fast")["best"].item()
    assert verdict(tables, "agp")["best"].item()  # the same, on seeds 0 and 1


def test_a_part_answers_only_the_question_it_was_made_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, cell = Results(tmp_path), find("drug-lr-iid")
    table = part({(0.1, 0, "test"): (0.7, 0.9)})
    assert not results.answers("fast", cell, "lco", False)
    results.write("fast", cell, "lco", False, table, 1.0)
    assert results.answers("fast", cell, "lco", False)
    assert not results.answers("fast", cell, "lco", True)  # it has no validation rows
    results.write("fast", cell, "lco", True, table, 1.0)
    assert results.answers("fast", cell, "lco", True)
    assert results.answers("fast", cell, "lco", False)
    assert not results.answers("fast", cell, "lco", True, 20)
    assert not results.answers("fast", cell, "lco", True, cv=True)
    results.write("fast", cell, "lco", True, table, 1.0, 20, cv=True)
    assert results.answers("fast", cell, "lco", True, 20, cv=True)
    assert results.answers("fast", cell, "lco", True)  # more than is asked for
    monkeypatch.setattr("fairsilo.experiment.results.settings", lambda *_: (0.25,))
    assert not results.answers("fast", cell, "lco", True)  # another grid


def test_a_part_of_an_older_algorithm_is_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, cell = Results(tmp_path), find("drug-lr-iid")
    table = part({(0.1, 0, "test"): (0.7, 0.9)})
    for method in ("af", "lco", "constant"):
        results.write("fast", cell, method, False, table, 1.0)
        assert results.answers("fast", cell, method, False)
    newer = replace(TRAINED["af"], revision=TRAINED["af"].revision + 1)
    monkeypatch.setattr("fairsilo.experiment.results.METHODS", {**TRAINED, "af": newer})
    assert not results.answers("fast", cell, "af", False)
    assert results.answers("fast", cell, "lco", False)


def test_unknown_part_is_named() -> None:
    with pytest.raises(FairSiloError, match="adult-lr-iid"):
        find("adult-tree-iid")


def test_af_is_not_for_networks() -> None:
    assert "af" in METHODS
    assert all(("af" in cell.methods) == (cell.model == "lr") for cell in CELLS)
