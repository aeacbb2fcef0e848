"""Write what pages quote of stored runs, each part between two marks.

python docs/tools/quoted.py
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import measured
import pandas as pd

from fairsilo.experiment.choice import SPLITS, WORDS
from fairsilo.experiment.grid import CELLS, TITLES, Cell
from fairsilo.experiment.results import Results
from fairsilo.experiment.supported import CLOSING, CLOSING_HEADS, TEST, closing, sentences
from fairsilo.experiment.tables import PATHS, counts, strictly, verdict
from fairsilo.experiment.theorems_words import TRAINED, trained_found

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
BEGIN, END = "<!-- by docs/tools/quoted.py -->\n", "<!-- end -->"


def stored() -> tuple[pd.DataFrame, pd.DataFrame]:
    """tables.csv and tests.csv."""
    return pd.read_csv(RESULTS / "tables.csv"), pd.read_csv(RESULTS / "tests.csv")


def found(tables: pd.DataFrame, path: str, selection: str) -> str:
    """10 of 12 cells (strictly 7)."""
    cells = verdict(tables, path, selection)
    return f"{counts(cells)[0]} of {len(cells)} cells (strictly {strictly(cells)})"


def beaten(tests: pd.DataFrame, path: str, selection: str) -> Iterator[str]:
    """FedAvg in 6 of 10: in how many of the cells in which neither collapsed; last, in none."""
    part = tests[(tests["path"] == path) & (tests["selection"] == selection)]
    none = []
    for rival, rows in part.groupby("rival", sort=False):
        stand = rows[rows["finding"] != "collapsed"]
        won, lost = ((stand["finding"] == name).sum() for name in ("better", "worse"))
        loses = f" (and loses in {lost})" * bool(lost)
        if won:
            yield f"{rival} in {won} of {len(stand)}{loses}"
        else:
            none.append(f"{rival} ({len(stand)} cells){loses}")
    if none:
        yield f"and in none {', '.join(none)}"


def seeds_of(tests: pd.DataFrame, path: str) -> int:
    """Of the path's tests on all cells."""
    part = tests[(tests["path"] == path) & (tests["selection"] == "test")]
    return int(part["seeds"].max())


def readme() -> str:
    """The counts, and what the tests support."""
    tables, tests = stored()
    fast, agp = (", ".join(beaten(tests, path, "per-seed")) for path in ("fast", "agp"))
    told = [
        "FedFair's harmonic mean is the best of all methods that did not collapse, or within 0.005 "
        f"of it, by the fast solvers ({seeds_of(tests, 'fast')} seeds) in "
        f"{found(tables, 'fast', 'test')} with settings chosen on test rows, as in the "
        f"paper, and in {found(tables, 'fast', 'validation')} chosen on validation rows; by the "
        f"paper's own solver (`--solver agp`, {seeds_of(tests, 'agp')} seeds) in "
        f"{found(tables, 'agp', 'test')} and {found(tables, 'agp', 'validation')}.",
        "What a test over the seeds supports (chosen on validation rows of each seed by itself, "
        f"cells in which neither collapsed): by the fast solvers FedFair beats {fast}; by the "
        f"paper's own it beats {agp}.",
    ]
    return "\n".join(told) + "\n"


def results() -> str:
    """FedFair in every cell, the counts of every selection, the sentences, the times."""
    tables, tests = stored()
    lines = [
        "FedFair, settings chosen on the test rows as in the paper, whose harmonic mean is the "
        "last column:\n",
        f"| cell | accuracy, AGP, {seeds_of(tests, 'agp')} seeds | fairness | harmonic mean "
        f"| by fast solvers, {seeds_of(tests, 'fast')} seeds | paper |",
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
        "logistic regression is the same model IID and non-IID, and AF nearly so: two such cells "
        "are one finding.\n"
    )
    lines += [f"- {one}" for one in sentences(tests, "fast", "per-seed")]
    words, closed = closing(Results(RESULTS))
    lines += [f"\n**{CLOSING}** {words}\n"]
    lines += [f"| {' | '.join(row)} |" for row in (CLOSING_HEADS, ["---"] * 6, *closed)]
    lines += [f"\n{trained_found(pd.read_csv(RESULTS / TRAINED))}"]
    return "\n".join(lines) + "\n"


def short() -> str:
    """Whom FedFair beats by every solver and selection, and in which cells FedAvg."""
    tests = stored()[1]
    stand = tests[tests["finding"] != "collapsed"]
    won = stand.assign(won=stand["finding"] == "better")
    shares = won.groupby(["rival", "path", "selection"])["won"].mean()
    rivals = [one for one in TITLES.values() if one in shares]
    told: dict[str, list[str]] = {"always": [], "at times": [], "never": []}
    for rival in rivals:
        least, most = shares[rival].min(), shares[rival].max()
        gaps = stand.loc[stand["rival"] == rival, "difference"]
        if most:
            kind = "always" if least else "at times"
            told[kind].append(f"{rival} ({least:.0%} to {most:.0%})")
        else:
            told["never"].append(f"{rival} (differences {gaps.min():+.3f} to {gaps.max():+.3f})")
    over = won[won["won"] & (won["rival"] == "FedAvg")]
    known = tests.loc[(tests["rival"] == "FedAvg") & (tests["dataset"] != "drug"), "difference"]
    by_seeds = "; with ".join(f"{n} seeds in {_titles(own)}" for n, own in over.groupby("seeds"))
    always, at_times, never = map(", ".join, told.values())
    lines = [
        "**In short.** A line of the table is a solver and a way to choose settings. Shown in "
        "every line, in so many of the cells in which neither collapsed: FedFair beats "
        f"{always}. Shown in some lines only: {at_times}. In none: {never}. It is shown to be "
        f"worse in {(stand['finding'] == 'worse').sum() or 'no'} cell. On COMPAS and ADULT it is "
        f"{known.min():+.3f} to {known.max():+.3f} from FedAvg (mean of a cell), and this is "
        f"shown with {by_seeds}.\n",
        f"| solver, seeds | chosen | {' | '.join(rivals)} | FedAvg beaten in |",
        "|---" * (len(rivals) + 3) + "|",
    ]
    for (path, selection), rows in won.groupby(["path", "selection"], sort=False):
        counts_ = rows.groupby("rival")["won"].agg(["sum", "size"]).loc[rivals]
        figures = " | ".join(f"{a} of {b}" for a, b in counts_.to_numpy())
        where = _titles(over[(over["path"] == path) & (over["selection"] == selection)])
        way = f"{path}, {rows['seeds'].max()} | {WORDS[selection]}"
        lines.append(f"| {way} | {figures} | {where} |")
    return "\n".join(lines) + "\n"


def _titles(rows: pd.DataFrame) -> str:
    keys = rows[["dataset", "model", "setting"]].drop_duplicates().to_numpy()
    return "; ".join(Cell(*key).title for key in keys)


PAGES: dict[Path, tuple[Callable[[], str | None], ...]] = {
    ROOT / "README.md": (readme,),
    ROOT / "docs" / "results.md": (results, short, measured.elsewhere),
    ROOT / "docs" / "fairlearn.md": (measured.fairlearn,),
    ROOT / "docs" / "groups.md": (measured.targets, measured.promises),
    ROOT / "docs" / "privacy.md": (measured.private, measured.limited, measured.bets),
    ROOT / "docs" / "benchmarks.md": (measured.boosted, measured.aims),
    ROOT / "docs" / "network.md": (measured.network,),
    ROOT / "docs" / "concepts" / "additive.md": (measured.exchanges,),
    ROOT / "docs" / "concepts" / "agnostic.md": (
        partial(measured.agnostic, "compas"),
        partial(measured.agnostic, "adult"),
    ),
}
"""What stands between the marks of each page, in their order; None: what is there stays."""


def page(path: Path) -> str:
    """The file as it should be."""
    marked = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    parts = iter(PAGES[path])

    def written(found: re.Match[str]) -> str:
        part = next(parts)()
        return found[0] if part is None else BEGIN + part + END

    text, count = marked.subn(written, path.read_text())
    assert count == len(PAGES[path]), f"{path.name} needs the two marks once for each part"
    return text


if __name__ == "__main__":
    for file in PAGES:
        file.write_text(page(file))
