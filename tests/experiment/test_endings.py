"""Lost trainings have no figures and are not chosen; the gap to the optimum is reported."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairsilo.experiment.choice import best_setting
from fairsilo.experiment.endings import ending, without_lost
from fairsilo.experiment.figures import top_points
from fairsilo.experiment.grid import find
from fairsilo.experiment.results import Results
from fairsilo.experiment.tables import build, ours, verdict
from tests.experiment.parts import part


def trained(**columns: str | float) -> pd.DataFrame:
    """Settings 0.1 and 0.2, two seeds, both splits; 0.1 has the better figures."""
    keys = [
        (setting, seed, split)
        for setting in (0.1, 0.2)
        for seed in (0, 1)
        for split in ("test", "validation")
    ]
    figures = {key: (0.9, 0.9) if key[0] == 0.1 else (0.7, 0.7) for key in keys}
    ended: dict[str, str | float] = {"loss": 0.5, "violation": 0.0, "status": "running"}
    return part(figures).assign(**(ended | columns))


def at(table: pd.DataFrame, setting: float) -> pd.DataFrame:
    """The models of a setting on the test rows."""
    return table[(table["split"] == "test") & (table["setting"] == setting)]


def test_a_method_of_which_all_trainings_are_lost_has_not_converged() -> None:
    lost = without_lost(trained(status="diverged"))
    none = lost[lost["setting"] == best_setting(lost, "test")]
    told = ending(none, trained())
    assert (told["ending"], told["converged"]) == ("diverged", False)


@pytest.mark.parametrize(
    "end",
    [
        {"status": "diverged"},
        {"loss": 110.9, "violation": 1754.0},
        {"loss": math.nan},
        {"loss": math.inf},
        {"loss": 0.45, "violation": 2.4},
        {"loss": 0.62},  # below ln 2, but 0.12 above the exact optimum
    ],
    ids=str,
)
@pytest.mark.parametrize("split", ["test", "validation"])
def test_a_lost_training_has_no_figures_and_its_setting_is_not_chosen(
    end: dict[str, str | float], split: str
) -> None:
    table, optimum = trained(), trained()
    bad = (table["setting"] == 0.1) & (table["seed"] == 1) & (table["split"] == split)
    for name, value in end.items():
        table[name] = table[name].where(~bad, value)
    kept = without_lost(table, optimum)
    assert kept.loc[bad, ["accuracy", "fairness", "harmonic_mean"]].isna().all(axis=None)
    assert (kept.loc[bad, "status"] == "diverged").all()
    pd.testing.assert_frame_equal(kept[~bad], table[~bad])
    assert best_setting(kept, "test") == best_setting(kept, "validation") == 0.2
    assert len(top_points(kept)) == 2  # the first data set's training was not lost
    if split == "test":
        assert ending(at(kept, 0.1), optimum)["ending"] == "diverged"


def test_what_knows_nothing_is_not_lost() -> None:
    table = trained(loss=math.log(2))
    pd.testing.assert_frame_equal(without_lost(table), table)


def test_a_method_that_is_lost_everywhere_has_no_figures_and_is_no_rival(tmp_path: Path) -> None:
    results, cell = Results(tmp_path), find("drug-nn-iid")
    results.write("agp", cell, "fedfair", True, trained(), 1.0)
    results.write("agp", cell, "lco", True, trained(loss=1e9), 1.0)
    results.write("agp", cell, "st", True, trained(harmonic_mean=0.6), 1.0)
    tables = build(results).set_index(["method", "selection"])
    assert tables["ours_harmonic_mean"].isna()["LCO", "test"]
    assert tables["settings_diverged"]["LCO", "test"] == 2
    assert tables["settings_diverged"]["FedFair", "test"] == 0
    assert verdict(tables.reset_index(), "agp")["best_other"].tolist() == ["ST"]
    assert top_points(results.models("agp", cell, "lco")).empty
    assert np.isnan(ours(results.chosen("agp", cell, "lco", "test"))["ours_opt"])


@pytest.mark.parametrize(
    ("above", "violation", "status", "words"),
    [
        (0.0, 0.0, "converged", "converged"),
        (5e-5, 5e-4, "running", "converged"),
        (-1e-3, 5e-4, "running", "converged"),  # AGP's fixed point violates a little
        (1.4e-3, 0.0, "running", "not converged"),
        (0.0, 2e-3, "running", "not converged"),
        (0.0, 0.0, "diverged", "diverged"),
    ],
)
def test_converged_where_little_is_left_to_the_optimum(
    above: float, violation: float, status: str, words: str
) -> None:
    """Converged: within 1e-4 of the optimal loss and violation at most 1e-3, for every seed."""
    optimum = trained(status="converged")
    second = optimum["seed"] == 1
    table = optimum.assign(
        loss=optimum["loss"] + above * second,
        violation=violation * second,
        status=np.where(second, status, "running"),
    )
    found = ending(at(table, 0.1), optimum)
    assert found["ending"] == words
    assert found["converged"] is (words == "converged")
    assert found["loss_gap"] == pytest.approx(above / 2)
    assert found["violation"] == violation


def test_without_an_exact_optimum_the_solver_has_the_word() -> None:
    assert ending(at(trained(), 0.1))["ending"] == "not converged"
    found = ending(at(trained(status="converged", violation=1e-7), 0.1))
    assert found == {
        "ending": "converged",
        "converged": True,
        "loss_gap": None,
        "violation": 1e-7,
    }
