"""The results as a Markdown page: every cell of both tables with the paper's number beside ours."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fairsilo.experiment.choice import WORDS, chosen
from fairsilo.experiment.grid import CELLS, OWN, TITLES, Cell
from fairsilo.experiment.results import Results, describe
from fairsilo.experiment.summary import words
from fairsilo.experiment.supported import markdown
from fairsilo.experiment.tables import METRICS, PATHS, counts, mark, of_path, strictly
from fairsilo.experiment.theorems_words import (
    THEOREMS,
    THEOREMS_WORDS,
    TRAINED,
    bounds_found,
    trained_found,
)

_PROMISED = 0.75
UNDEFINED = "–"  # noqa: RUF001


def results_page(
    results: Results,
    tables: pd.DataFrame,
    verdicts: Sequence[tuple[str, pd.DataFrame]],
    tests: pd.DataFrame,
) -> str:
    """README.md of the results folder."""
    checked = (results.folder / THEOREMS).is_file()
    theorems = f", `{THEOREMS}` and `{TRAINED}` the check of the theorems" if checked else ""
    parts = [_HEAD.format(theorems=theorems), _machines(results), _grids(results)]
    parts += [counted(name, found) for name, found in verdicts]
    parts.append(markdown(results, tests))
    for name, path, selection in (
        ("fast solvers", "fast", "test"),
        ("AGP, 40,000 rounds", "agp", "test"),
        ("fast solvers", "fast", "validation"),
        ("AGP, 40,000 rounds", "agp", "validation"),
    ):
        part = of_path(tables, path)
        part = part[part["selection"] == selection]
        trained = part[~part["solver"].isin(("own", "none"))]
        if len(trained):
            parts.append(
                f"\n## Tables 1 and 2: {name}, chosen {WORDS[selection]}, "
                f"{trained['seeds'].max()} seeds\n"
            )
            parts += [_table(part, cell) for cell in CELLS]
    parts.append(_agreement(results))
    parts.append(_figures(results))
    if checked:
        parts.append(_theorems(results.folder))
    return "\n".join(parts) + "\n"


def counted(name: str, found: pd.DataFrame) -> str:
    """In how many cells FedFair is best, close to it, and near the paper."""
    path, _, selection = name.partition(", ")
    best, near = counts(found)
    return (
        f"- **{path} solver, settings chosen {WORDS[selection]}:** FedFair best or "
        f"within 0.005 of the best that did not collapse in {best} of {len(found)} cells, "
        f"strictly best in {strictly(found)}; "
        f"within 0.02 of the paper's harmonic mean or above in {near} of {len(found)}."
    )


def _table(part: pd.DataFrame, cell: Cell) -> str:
    rows = {row["method"]: row for row in cell.rows(part).to_dict("records")}
    if not rows:
        return ""
    lines = [
        f"### {cell.title}\n",
        "| method | setting (paper's) | accuracy | paper | fairness | paper | harmonic mean "
        "| paper | difference | balanced acc. | training |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for title in TITLES.values():
        if title not in rows:
            continue
        row = rows[title]
        gap = row["ours_harmonic_mean"] - row["harmonic_mean"]
        name = f"**{title}**" if title == "FedFair" else title
        cells = [
            name + (" (collapsed)" if row["collapsed"] else ""),
            f"{_number(row['ours_opt'], 'g')} ({_number(row['opt'], 'g')})",
        ]
        for metric in METRICS:
            spread = _number(row[f"ours_{metric}_std"], ".3f")
            told = "" if spread == UNDEFINED else f"±{spread}"
            cells.append(_number(row[f"ours_{metric}"], ".3f") + told)
            cells.append(_number(row[metric], ".2f"))
        cells.append(_number(gap, "+.3f") + mark(gap))
        cells.append(_number(row["ours_balanced_accuracy"], ".3f"))
        # The row's name already says whether it collapsed.
        ended = row["ending"] if isinstance(row["ending"], str) else UNDEFINED
        cells.append(words(ended, False, row["loss_gap"], int(row["settings_diverged"])))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _agreement(results: Results) -> str:
    """How far the two solvers are apart over the seeds that both have, method by method."""
    rows = []
    for cell in CELLS:
        for method in cell.methods:
            if method in OWN or not all(results.has(path, cell, method) for path in PATHS):
                continue
            tables = [results.models(path, cell, method) for path in PATHS]
            common = set(tables[0]["seed"]) & set(tables[1]["seed"])
            means = [
                chosen(one[one["seed"].isin(common)], "test")["harmonic_mean"].mean()
                for one in tables
            ]
            gap = abs(means[0] - means[1])
            rows.append({"model": cell.model, "method": TITLES[method], "gap": gap})
    both = pd.DataFrame(rows)
    if both.empty:
        return ""
    lines = [
        "\n## Do the two solvers agree?\n",
        "Largest difference of the harmonic mean between the fast solvers and AGP, over the seeds "
        "that both have, each with the setting that is best on the test rows:\n",
        "| model | method | largest | mean |",
        "|---|---|---|---|",
    ]
    gaps = both.groupby(["model", "method"])["gap"].agg(["max", "mean"]).reset_index()
    for row in gaps.to_dict("records"):
        lines.append(
            f"| {row['model'].upper()} | {row['method']} | {row['max']:.4f} | {row['mean']:.4f} |"
        )
    return "\n".join(lines) + "\n"


def _machines(results: Results) -> str:
    """Which command and version made the parts, on what, and how long it took."""
    lines = []
    for path in ("fast", "agp"):
        made = results.made(path)
        if not made.parts:
            continue
        command = "fairsilo reproduce" + (" --solver agp" if path == "agp" else "")
        lines.append(
            f"- `{command}`: {made.parts} parts, made by {'; '.join(made.machines)}. Their times "
            f"add up to {made.seconds / 60:.1f} minutes; several are computed at once."
        )
        lines += [
            f"    - `{run['command']}` computed {run['parts']} parts in {run['minutes']:.1f} "
            f"minutes ({describe(run)})."
            for run in results.runs(path)
        ]
    return "\n".join(lines) + "\n"


def _grids(results: Results) -> str:
    """Whether the methods of a cell tried the same number of settings."""
    tried = [
        {
            count
            for method in cell.methods
            if results.has("fast", cell, method)
            and (count := results.read("fast", cell, method)["setting"].nunique()) > 1
        }
        for cell in CELLS
    ]
    same = "the same number" if all(len(one) <= 1 for one in tried) else "different numbers"
    every = sorted(set().union(*tried))
    if not every:
        return ""
    span = f"{every[0]} to {every[-1]}" if len(every) > 1 else f"{every[0]}"
    return f"The methods of a cell that have a setting tried {same} of them ({span}).\n"


def _figures(results: Results) -> str:
    """The figures that have been drawn."""
    lines = ["\n## Figures\n"]
    for path, solver in (("fast", "fast solvers"), ("agp", "AGP")):
        lines += [
            f"![Figure {k}, {solver}](figures/figure{k}-{path}.png)\n"
            for k in (1, 2)
            if any(results.has(path, cell, "fedfair") for cell in CELLS)
        ]
    return "\n".join(lines)


def _theorems(folder: Path) -> str:
    """How often the bounds held, the measured and predicted variance, and trained models."""
    table = pd.read_csv(folder / THEOREMS)
    lines = [
        "\n## The theorems, where they could fail\n",
        f"{THEOREMS_WORDS} Here the radii that promise {_PROMISED:.0%}; `theorems.csv` has 90 and "
        "95 %, too.\n",
        "| theta, sizes | clients | variance ratio | FedFair radius | held | within | held for 0 "
        "| one client's radius | held | within |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in table[table["promised"] == _PROMISED].to_dict("records"):
        cells = [row["scenario"], f"{row['clients']:.0f}"]
        cells.append(f"{row['variance'] / row['sigma_avg2_over_n']:.3f}")
        for who in ("fedfair", "lco"):
            cells.append(f"{row[f'radius_{who}']:.3f}")
            cells += [f"{row[f'{what}_{who}']:.1%}" for what in ("held", "within")]
            cells += [f"{row['held_zero']:.0%}"] * (who == "fedfair")
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("\n" + " ".join(bounds_found(table)))
    if (folder / TRAINED).is_file():
        lines.append("\n" + trained_found(pd.read_csv(folder / TRAINED)))
    return "\n".join(lines)


def _number(value: object, spec: str) -> str:
    number = float("nan") if value is None else float(str(value))
    return UNDEFINED if np.isnan(number) else format(number, spec)


_HEAD = """# The paper, reproduced

Written by `fairsilo reproduce`; do not edit. `tables.csv` has every number, `seeds.csv` one line
for each seed, method and setting, `tests.csv` FedFair against each rival, `parts/` the single
models, `report.html` the same as an interactive page{theorems}.
Fairness is 1 - DEO. ▲ and ▼ mark a harmonic mean more than 0.02 above or below the paper's.
"Constant" always answers the most frequent class: its harmonic mean shows what that measure is
worth alone. Accuracy, fairness and harmonic mean are on the test rows, mean and standard deviation
over the seeds (over all clients' models of all seeds for EO, CEO and ST).
"EO conditional" is the variant of the public code; of methods that the paper's tables do not have,
its columns are empty.

"Collapsed": balanced accuracy below 0.53, for every method. "Converged": the solver's KKT test is
met in every seed, or (AGP, where Newton gives the exact optimum) the training loss is at most 1e-4
above the optimum with a violation of at most 1e-3. "Diverged": the solver diverged, or loss +
violation ended above ln 2, which a model that knows nothing has, or (where the optimum is known)
more than 0.1 above it. A setting at which a seed's training diverged has no figures and is not
chosen.
"""
