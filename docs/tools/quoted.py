"""Write what README.md and docs/results.md quote of experiments/results, between two marks.

python docs/tools/quoted.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from fairsilo.experiment.choice import SPLITS, WORDS
from fairsilo.experiment.grid import CELLS
from fairsilo.experiment.supported import TEST, sentences
from fairsilo.experiment.tables import PATHS, counts, strictly, verdict

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
REPLACED = ("AF",)
"""Rivals whose stored rows are of an algorithm that the program no longer has: not counted."""
OLD = "AF's stored rows are of the algorithm before [the present one](PAGE) and are not counted."
BEGIN, END = "<!-- by docs/tools/quoted.py -->\n", "<!-- end -->"


def stored() -> tuple[pd.DataFrame, pd.DataFrame]:
    """tables.csv and tests.csv."""
    return pd.read_csv(RESULTS / "tables.csv"), pd.read_csv(RESULTS / "tests.csv")


def found(tables: pd.DataFrame, path: str, selection: str) -> str:
    """10 of 12 cells (strictly 7)."""
    cells = verdict(tables, path, selection)
    return f"{counts(cells)[0]} of {len(cells)} cells (strictly {strictly(cells)})"


def beaten(tests: pd.DataFrame, path: str, selection: str) -> Iterator[str]:
    """FedAvg in 6 of 10: in how many of the cells in which neither collapsed."""
    part = tests[(tests["path"] == path) & (tests["selection"] == selection)]
    part = part[~part["rival"].isin(REPLACED)]
    for rival, rows in part.groupby("rival", sort=False):
        stand = rows[rows["finding"] != "collapsed"]
        won, lost = ((stand["finding"] == name).sum() for name in ("better", "worse"))
        yield f"{rival} in {won} of {len(stand)}" + f" (and loses in {lost})" * bool(lost)


def seeds_of(tests: pd.DataFrame, path: str) -> int:
    """Of the path's tests on all cells."""
    part = tests[(tests["path"] == path) & (tests["selection"] == "test")]
    return int(part["seeds"].max())


def readme() -> str:
    """The counts, and what the tests support."""
    tables, tests = stored()
    won = ", ".join(beaten(tests, "fast", "per-seed"))
    told = [
        "FedFair's harmonic mean is the best of all methods that did not collapse, or within 0.005 "
        f"of it, by the fast solvers ({seeds_of(tests, 'fast')} seeds) in "
        f"{found(tables, 'fast', 'test')} with settings chosen on test rows, as in the "
        f"paper, and in {found(tables, 'fast', 'validation')} chosen on validation rows; by the "
        f"paper's own solver (`--solver agp`, {seeds_of(tests, 'agp')} seeds) in "
        f"{found(tables, 'agp', 'test')} and {found(tables, 'agp', 'validation')}.",
        "What a test over the seeds supports (chosen on validation rows of each seed by itself, "
        f"fast solvers, cells in which neither collapsed): FedFair beats {won}. "
        f"{OLD.replace('PAGE', 'docs/concepts/agnostic.md')}",
    ]
    return "\n".join(told) + "\n"


def results() -> str:
    """FedFair in every cell, the counts of every selection, the sentences, the times."""
    tables, tests = stored()
    lines = [
        "FedFair, settings chosen on the test rows as in the paper, whose harmonic mean is the "
        "last column:\n",
        "| cell | accuracy, AGP | fairness | harmonic mean | by fast solvers | paper |",
        "|---|---|---|---|---|---|",
    ]
    mine = tables[(tables["method"] == "FedFair") & (tables["selection"] == "test")]
    for cell in CELLS:
        rows = cell.rows(mine)
        (agp,) = rows[rows["solver"] == "agp"].to_dict("records")
        (fast,) = rows[rows["solver"] != "agp"].to_dict("records")
        figures = [agp[f"ours_{name}"] for name in ("accuracy", "fairness", "harmonic_mean")]
        shown = " | ".join(f"{one:.3f}" for one in (*figures, fast["ours_harmonic_mean"]))
        lines.append(f"| {cell.title} | {shown} | {agp['harmonic_mean']:.2f} |")
    lines += [
        "\nCells in which FedFair is the best of those that did not collapse, or within 0.005 of "
        "it, and cells within 0.02 of the paper's harmonic mean or above:\n",
        "| solver | chosen | best or close | near the paper |",
        "|---|---|---|---|",
    ]
    for path in PATHS:
        for selection in SPLITS:
            cells = verdict(tables, path, selection)
            if len(cells):
                near = f"{counts(cells)[1]} of {len(cells)}"
                lines.append(
                    f"| {path} | {WORDS[selection]} | {found(tables, path, selection)} | {near} |"
                )
    lines.append(
        f"\n**What is supported.** {TEST} Fast solvers, {seeds_of(tests, 'fast')} seeds, settings "
        "chosen on validation rows of each seed by itself (differences of the harmonic mean; the "
        "95 % intervals are not corrected, and Holm's correction is within a rival). FedAvg by "
        "logistic regression is the same model IID and non-IID, so two such cells are one "
        f"finding. {OLD.replace('PAGE', 'concepts/agnostic.md')}\n"
    )
    counted = tests[~tests["rival"].isin(REPLACED)]
    lines += [f"- {one}" for one in sentences(counted, "fast", "per-seed")]
    return "\n".join(lines) + "\n"


PAGES = {ROOT / "README.md": readme, ROOT / "docs" / "results.md": results}


def page(path: Path) -> str:
    """The file as it should be."""
    marked = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    text, count = marked.subn(lambda _: BEGIN + PAGES[path]() + END, path.read_text())
    assert count == 1, f"{path.name} needs the two marks once"
    return text


if __name__ == "__main__":
    for file in PAGES:
        file.write_text(page(file))
