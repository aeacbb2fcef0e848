"""What README and docs quote of the stored results, recomputed."""

from __future__ import annotations

import json
import math
import re
import statistics
from pathlib import Path

import pandas as pd
import pytest

from fairsilo.experiment.markdown import counted
from fairsilo.experiment.tables import collapsed, verdict
from tests.docs.test_what_works import loaded

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
CENTRAL = ROOT / "experiments" / "central"


QUOTING = [
    "README.md",
    "docs/results.md",
    "docs/fairlearn.md",
    "docs/groups.md",
    "docs/privacy.md",
    "docs/benchmarks.md",
    "docs/network.md",
    "docs/concepts/additive.md",
    "docs/concepts/agnostic.md",
]


@pytest.mark.parametrize("name", QUOTING)
def test_the_quoted_part_is_what_its_program_writes(name: str) -> None:
    tool = loaded("quoted")
    path = ROOT / name
    assert path.read_text() == tool.page(path), "run python docs/tools/quoted.py"


def test_leads_and_kept_promises_follow_from_the_stored_runs() -> None:
    """By hand, without pandas' groups."""
    seeds = pd.read_csv(CENTRAL / "seeds.csv").to_dict("records")
    right = {(one["data"], one["method"], one["seed"]): one["test_accuracy"] for one in seeds}
    lead = [
        right["compas", "thresholds", k] - right["compas", "threshold optimizer", k]
        for k in range(20)
    ]
    error = statistics.stdev(lead) / 20**0.5
    page = (ROOT / "docs" / "fairlearn.md").read_text()
    assert f"{statistics.mean(lead):+.5f} +- {error:.5f}" in page
    draws = json.loads((ROOT / "benchmarks" / "results" / "promises.json").read_text())
    page = (ROOT / "docs" / "groups.md").read_text()
    for name, data in (("ACSIncome", "acs"), ("ADULT", "adult"), ("COMPAS", "compas")):
        own = [one for one in draws if one["data"] == data]
        given = [one for one in own if one["promised"]]
        kept = [one for one in given if one["gap"] <= one["target"]]
        # The promise itself, as far as so many draws can tell.
        assert len(own) - len(given) + len(kept) >= 0.9 * len(own)
        assert len({one["draw"] for one in own}) == len(own) == 100
        (line,) = (one for one in page.splitlines() if one.startswith(f"| {name} | "))
        assert f"| 100 | {100 - len(given)} | {len(given)} | {len(kept)} (" in line


def test_the_page_on_epsilon_says_what_its_sweeps_found() -> None:
    page = re.sub(r"\s+", " ", (ROOT / "docs" / "choosing-epsilon.md").read_text())
    adult, compas = (
        pd.read_csv(CENTRAL / f"epsilon-{name}.csv").set_index("epsilon")
        for name in ("adult", "compas")
    )
    apart = {name: 100 * (1 - one["fairness"]) for name, one in (("a", adult), ("c", compas))}
    losses, right = adult["dgeo_pooled"], adult["accuracy"]
    for said in (
        f"({losses[0.8]:.2f} on ADULT's test rows, {compas['dgeo_pooled'][0.8]:.2f} on COMPAS's)",
        f"rates {apart['a'][0.8]:.1f} and {apart['c'][0.8]:.1f} points apart",
        f"epsilon 0.1 brings the rates to {apart['a'][0.1]:.1f} points",
        f"({right[0.8]:.3f} to {right[0.1]:.3f})",
        f"epsilon 0.03 brings them to {apart['c'][0.03]:.1f} points",
        f"({compas['accuracy'][0.8]:.3f} to {compas['accuracy'][0.03]:.3f})",
        f"the gap grows to {apart['a'][0.001]:.1f} points",
        f"It levels off at {losses[0.001]:.2f} on both",
        f"It levels off at {compas['dgeo_pooled'][0.001]:.2f} on both",
    ):
        assert said in page


def test_the_table_of_privacy_budgets_follows_from_its_runs() -> None:
    runs = pd.read_csv(ROOT / "docs" / "privacy" / "results.csv")
    page = (ROOT / "docs" / "privacy.md").read_text()
    lines = re.findall(r"^\| (ADULT|COMPAS|DRUG) \| (\S+) \| (.*) \|$", page, re.MULTILINE)
    assert len(lines) == 18
    for data, budget, told in lines:
        spent = float("inf") if budget == "\u221e" else float(budget)
        own = runs[(runs["data"] == data.lower()) & (runs["dp_epsilon"] == spent)]
        said = []
        for solver in ("newton", "agp"):
            part = own[own["solver"] == solver]
            refused = int(part["accuracy"].isna().sum())
            if refused:
                said += [f"{refused} of {len(part)} refused", "", ""]
            else:
                figures = part[["accuracy", "fairness", "harmonic_mean"]]
                each = zip(figures.mean(), figures.std(), strict=True)
                said += [f"{mean:.3f} \u00b1 {error:.3f}" for mean, error in each]
        assert [one.strip() for one in told.split("|")] == said, (data, budget)


def test_the_bets_keep_the_promise_and_catch_half_the_noise() -> None:
    bets = json.loads((ROOT / "benchmarks" / "results" / "dp_audit.json").read_text())
    page = (ROOT / "docs" / "privacy.md").read_text()
    assert [(one["model"], one["noise"], one["pairs"]) for one in bets] == [
        (model, noise, pairs)
        for model in ("lr", "additive")
        for noise in (1.0, 0.5)
        for pairs in (2000, 20000)
    ]
    for one in bets:
        assert one["promised"] == 1
        assert (one["epsilon"] > 1) is (one["noise"] < 1)
        assert one["any_epsilon"] < one["epsilon"] < one["guess"]
        least = f"{one['epsilon']:.2f}"
        told = f"| **{least}** |" if one["noise"] < 1 else f"| {least} |"
        assert f"| {one['pairs']:,} {told} {one['guess']:.2f} |" in page


def test_the_counts_follow_from_the_figures() -> None:
    """Recomputed from the harmonic means and balanced accuracies alone, by hand."""
    tables = pd.read_csv(RESULTS / "tables.csv")
    text = (ROOT / "README.md").read_text()
    paths = (("fast", ("newton", "lbfgs", "own"), 20), ("agp", ("agp", "own"), 5))
    for path, solvers, seeds in paths:
        for selection in ("test", "validation"):
            rows = tables[tables["solver"].isin(solvers) & (tables["selection"] == selection)]
            rows = rows[rows["seeds"] == seeds]
            close = strict = cells = 0
            for _, cell in rows.groupby(["dataset", "model", "setting"]):
                stand = cell[cell["ours_balanced_accuracy"] >= 0.53]
                score = stand.set_index("method")["ours_harmonic_mean"]
                cells += 1
                if "FedFair" in score:
                    gap = score["FedFair"] - score.drop("FedFair").max()
                    close, strict = close + (gap >= -0.005), strict + (gap >= 0)
            assert f"{close} of {cells} cells (strictly {strict})" in text, (path, selection)


def test_the_short_of_it_follows_from_the_tests() -> None:
    """For every solver and selection, from p and the signs alone, by hand."""
    lines = pd.read_csv(RESULTS / "tests.csv").to_dict("records")
    page = (ROOT / "docs" / "results.md").read_text().partition("**In short.**")[2]
    rows = re.findall(r"^\| (fast|agp), (\d+) \| (.*) \|$", page, re.MULTILINE)
    ways = list(dict.fromkeys((one["path"], one["selection"]) for one in lines))
    rivals = list(dict.fromkeys(one["rival"] for one in lines))
    assert len(rows) == len(ways) == 7
    for way, (path, seeds, told) in zip(ways, rows, strict=True):
        said = [one.strip() for one in told.split("|")]
        own = [one for one in lines if (one["path"], one["selection"]) == way]
        own = [one for one in own if not one["fedfair_collapsed"] and not one["rival_collapsed"]]
        assert (path, int(seeds)) == (way[0], max(one["seeds"] for one in own))
        won = [one for one in own if one["p_holm"] < 0.05 and one["difference"] > 0]
        for rival, count in zip(rivals, said[1:-1], strict=True):
            better, stood = (sum(one["rival"] == rival for one in some) for some in (won, own))
            assert count == f"{better} of {stood}", (way, rival)
        named = {
            f"{one['dataset'].upper()} ({one['setting'].replace('iid', 'IID')}), "
            f"{one['model'].upper()}"
            for one in won
            if one["rival"] == "FedAvg"
        }
        assert set(filter(None, said[-1].split("; "))) == named


def test_how_near_af_and_local_epochs_come_is_said_of_both_sets_of_seeds() -> None:
    tables = pd.read_csv(RESULTS / "tables.csv")
    page = re.sub(r"\s+", " ", (ROOT / "docs" / "results.md").read_text())
    far = {}
    for seeds, solvers in ((20, ("newton", "lbfgs", "own")), (5, ("agp", "own"))):
        rows = tables[(tables["seeds"] == seeds) & (tables["selection"] == "test")]
        wide = rows[rows["solver"].isin(solvers)].pivot(
            index=["dataset", "setting", "model"], columns="method", values="ours_harmonic_mean"
        )
        fair = (wide["FedFair"] - wide["AF"]).drop("drug").abs().max()
        local = (wide["FedAvg (E=5, B=32)"] - wide["FedAvg"]).abs().unstack("model")
        far[seeds] = [fair, local["lr"].max(), local["nn"].max(), local["nn"].idxmax()]
    (af, lr, nn, cell), (af5, lr5, nn5, cell5) = far[20], far[5]
    up = [math.ceil(1000 * one) / 1000 for one in (af, af5, lr, lr5)]
    assert f"within {up[0]} of FedFair's" in page
    assert f"(20 seeds, fast solvers; within {up[1]} with AGP's five seeds; in the paper" in page
    assert f"within {up[2]} of FedAvg's (20 seeds, fast solvers; within {up[3]} with AGP's" in page
    assert (cell, cell5) == (("drug", "iid"), ("compas", "non-iid"))
    assert f"is {nn:.3f}, on DRUG IID, and with AGP's seeds {nn5:.3f}, on COMPAS non-IID." in page


def test_the_tests_follow_from_the_seeds() -> None:
    """A stored difference is that of the stored harmonic means of the seeds."""
    tests = pd.read_csv(RESULTS / "tests.csv")
    seeds = pd.read_csv(RESULTS / "seeds.csv")
    tables = pd.read_csv(RESULTS / "tables.csv")
    keys = ["setting", "dataset", "model"]
    wanted = tests[(tests["path"] == "fast") & (tests["selection"] == "validation")]
    wanted = wanted[wanted["rival"].isin(("FedAvg", "LCO"))]
    assert len(wanted) == 24
    for row in wanted.to_dict("records"):
        score = {}
        for method in ("FedFair", row["rival"]):
            own = tables[
                (tables[keys] == pd.Series({key: row[key] for key in keys})).all(axis=1)
                & (tables["method"] == method)
                & tables["solver"].isin(("newton", "lbfgs"))
                & (tables["selection"] == "validation")
            ]
            opt = 0.0 if method == "FedAvg" else own["ours_opt"].item()
            part = seeds[
                (seeds[keys] == pd.Series({key: row[key] for key in keys})).all(axis=1)
                & (seeds["method"] == method)
                & seeds["solver"].isin(("newton", "lbfgs"))
                & (seeds["opt"] - opt).abs().lt(1e-9)
            ]
            score[method] = part.set_index("seed")["harmonic_mean"]
        gap = score["FedFair"] - score[row["rival"]]
        assert len(gap.dropna()) == row["seeds"]
        assert row["difference"] == pytest.approx(gap.mean(), abs=1e-5)


def test_the_results_folder_says_the_same() -> None:
    tables = pd.read_csv(RESULTS / "tables.csv")
    text = re.sub(r"\s+", " ", (RESULTS / "README.md").read_text())
    for path in ("fast", "agp"):
        for selection in tables["selection"].unique():
            found = verdict(tables, path, selection)
            assert found.empty or counted(f"{path}, {selection}", found) in text


def test_collapse_is_one_rule() -> None:
    assert collapsed(0.5299)
    assert not collapsed(0.53)
