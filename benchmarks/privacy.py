"""Accuracy and fairness against the privacy budget: `python -m benchmarks.privacy`.

FedFair with epsilon 0.1 on ADULT (50 clients), COMPAS (20) and DRUG (10), delta 1e-5, noise shared
among the clients, five seeds, by Newton (6 rounds) and by AGP (1,000 rounds) with the same budget.
Every run is written to docs/privacy/results.csv as it ends, and is not repeated; then the table and
docs/privacy/figure.svg are made. `--fresh` starts over, with new noise and so new numbers.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd

from fairsilo.errors import FairSiloError
from fairsilo.run import Options, execute

mpl.use("Agg")
from matplotlib import pyplot as plt

FOLDER = Path(__file__).parents[1] / "docs" / "privacy"
BUDGETS = (0.5, 1.0, 2.0, 4.0, 8.0, math.inf)
SOLVERS = {"newton": 6, "agp": 1000}
SEEDS = range(5)
FIGURES = ("accuracy", "fairness", "harmonic_mean")
NAMES = {"newton": "Newton under noise, 6 rounds", "agp": "AGP, 1,000 rounds"}


def one(data: str, solver: str, budget: float, seed: int) -> dict[Any, Any]:
    """One run; without a budget, Newton runs to convergence and AGP as many rounds as with one.

    A run that is refused, because a group is too small for the noise, has no figures.
    """
    private = math.isfinite(budget)
    options = Options(
        data=data,
        solver=solver,
        seed=seed,
        epsilon=0.1,
        rounds=SOLVERS[solver] if private or solver == "agp" else None,
        dp_epsilon=budget if private else None,
    )
    row = {"data": data, "solver": solver, "dp_epsilon": budget, "seed": seed}
    try:
        metrics = execute(options, baseline=False).metrics
    except FairSiloError as refusal:
        print(refusal)
        return row
    return {
        **row,
        "rounds": metrics["rounds"],
        "epsilon_spent": metrics["dp"]["epsilon_spent"] if private else math.inf,
        **{name: metrics["test"][name] for name in FIGURES},
        "dgeo": metrics["test"]["dgeo_pooled"],
        "constant_accuracy": metrics["constant"]["accuracy"],
    }


def measure(datasets: list[str], path: Path) -> pd.DataFrame:
    """All runs, including those of earlier calls."""
    done = pd.read_csv(path) if path.exists() else pd.DataFrame()
    have = set() if done.empty else {tuple(row) for row in done[KEYS].itertuples(index=False)}
    rows: list[dict[Any, Any]] = done.to_dict("records")
    for solver in SOLVERS:
        for data in datasets:
            for seed in SEEDS:
                for budget in BUDGETS:
                    if (data, solver, budget, seed) in have:
                        continue
                    rows.append(one(data, solver, budget, seed))
                    print(rows[-1], flush=True)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    pd.DataFrame(rows).to_csv(path, index=False, float_format="%.6g")
    return pd.read_csv(path)


KEYS = ["data", "solver", "dp_epsilon", "seed"]


def table(runs: pd.DataFrame) -> str:
    """Means over the seeds, and their standard deviations, as Markdown."""
    lines = [
        "| data | DP epsilon | Newton: accuracy | fairness | HM | AGP: accuracy | fairness | HM |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for data in runs["data"].unique():
        for budget in BUDGETS:
            cells = [data.upper(), "∞" if math.isinf(budget) else f"{budget:g}"]
            for solver in SOLVERS:
                of = (runs["data"] == data) & (runs["solver"] == solver)
                some = runs[of & (runs["dp_epsilon"] == budget)]
                refused = int(some["accuracy"].isna().sum())
                figures = [f"{some[f].mean():.3f} ± {some[f].std():.3f}" for f in FIGURES]
                cells += [f"{refused} of {len(some)} refused", "", ""] if refused else figures
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(runs: pd.DataFrame, path: Path) -> None:
    """A panel for each data set and figure: every run a dot, the mean a line."""
    datasets = list(runs["data"].unique())
    plt.rcParams["svg.hashsalt"] = "fairsilo"
    figure, panels = plt.subplots(
        len(datasets), 2, figsize=(9, 3.2 * len(datasets)), squeeze=False, layout="constrained"
    )
    labels = ["∞" if math.isinf(budget) else f"{budget:g}" for budget in BUDGETS]
    for i, data in enumerate(datasets):
        for j, name in enumerate(FIGURES[:2]):
            panel = panels[i][j]
            for k, solver in enumerate(SOLVERS):
                mine = runs[(runs["data"] == data) & (runs["solver"] == solver)]
                place = mine["dp_epsilon"].map(BUDGETS.index) + 0.16 * (k - 0.5)
                means = mine.groupby(place)[name].mean()
                panel.plot(place, mine[name], ".", color=f"C{k}", alpha=0.45)
                panel.plot(means.index, means, "-o", color=f"C{k}", label=NAMES[solver])
            if name == "accuracy":
                constant = runs.loc[runs["data"] == data, "constant_accuracy"].mean()
                panel.axhline(constant, color="0.5", ls=":", label="constant predictor")
            panel.set_xticks(range(len(BUDGETS)), labels)
            panel.set_title(f"{data.upper()}: {name} on test rows", fontsize=10)
            panel.set_xlabel("DP epsilon (delta = 1e-5)")
            panel.grid(alpha=0.3)
    panels[0][0].legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs="+", default=["adult", "compas", "drug"])
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--fresh", action="store_true", help="forget earlier runs")
    options = parser.parse_args()
    path = options.out / "results.csv"
    if options.fresh:
        path.unlink(missing_ok=True)
    runs = measure(options.data, path)
    runs = pd.concat([runs[runs["data"] == data] for data in options.data])
    draw(runs, options.out / "figure.svg")
    print(table(runs))


if __name__ == "__main__":
    main()
