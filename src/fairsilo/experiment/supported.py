"""What tests.csv supports, in words and tables."""

from collections.abc import Iterator

import pandas as pd

from fairsilo.experiment.choice import WORDS, chosen
from fairsilo.experiment.grid import SEEDS, TITLES, WIDER, Cell
from fairsilo.experiment.results import Results
from fairsilo.experiment.tables import selections

TEST = (
    "Paired t test over the seeds, corrected for splits that overlap (Nadeau and Bengio 2003), "
    "with Holm's correction over the cells of a rival. Supported: p below 0.05 then. A cell in "
    "which one of the two collapsed supports nothing and is not tested."
)


def sentences(tests: pd.DataFrame, path: str, selection: str) -> list[str]:
    """One for each rival: where FedFair is better, where it is not, where nothing is known."""
    if tests.empty:
        return []
    part = tests[(tests["path"] == path) & (tests["selection"] == selection)]
    return [_sentence(rival, rows) for rival, rows in part.groupby("rival", sort=False)]


def _sentence(rival: object, rows: pd.DataFrame) -> str:
    where = {name: list(_cells(some)) for name, some in rows.groupby("finding")}
    better, worse, open_ = (where.get(name, []) for name in ("better", "worse", "open"))
    flat = where.get("collapsed", [])
    count = len(rows) - len(flat)
    if not count:
        return f"Nothing is known of FedFair against {rival}: in every cell one of them collapsed."
    if better:
        text = f"FedFair beats {rival} in {len(better)} of {count} cells: {'; '.join(better)}."
    else:
        text = f"FedFair does not beat {rival} in any of {count} cells"
        spread = rows.loc[rows["finding"] != "collapsed", "difference"]
        text += f" (differences {spread.min():+.3f} to {spread.max():+.3f})."
    if worse:
        text += f" {rival} beats FedFair in {len(worse)}: {'; '.join(worse)}."
    if open_ and (better or worse):
        text += f" In {len(open_)} no difference is shown."
    if flat:
        text += f" One of them collapsed in {len(flat)}."
    return text


def _cells(rows: pd.DataFrame) -> Iterator[str]:
    for row in rows.to_dict("records"):
        title = Cell(row["dataset"], row["model"], row["setting"]).title
        yield f"{title} ({row['difference']:+.3f}, {row['low']:+.3f} to {row['high']:+.3f})"


def markdown(results: Results, tests: pd.DataFrame) -> str:
    """The section of the results page."""
    if tests.empty:
        return ""
    lines = ["\n## What is supported, and what is not\n", f"{TEST}\n"]
    for path, selection in _shown(tests):
        seeds = tests.loc[(tests["path"] == path) & (tests["selection"] == selection), "seeds"]
        lines.append(
            f"**{path} solver, settings chosen {WORDS[selection]}**, {seeds.max()} seeds "
            "(differences of the harmonic mean, 95 % intervals):\n"
        )
        lines += [f"- {one}" for one in sentences(tests, path, selection)]
        lines.append("")
    lines += [
        "Cells in which FedFair is better / worse / no difference is shown / one collapsed:\n",
        "| solver | chosen | " + " | ".join(_rivals(tests)) + " |",
        "|---|---|" + "---|" * len(_rivals(tests)),
        *_counts(tests),
    ]
    return "\n".join(lines) + "\n" + _closed(results)


def _shown(tests: pd.DataFrame) -> list[tuple[str, str]]:
    """The path with the most seeds, chosen honestly and as in the paper."""
    path = str(tests.sort_values("seeds", ascending=False, kind="stable")["path"].iloc[0])
    known = set(tests.loc[tests["path"] == path, "selection"])
    return [(path, one) for one in ("per-seed", "validation", "test") if one in known]


def _rivals(tests: pd.DataFrame) -> list[str]:
    known = set(tests["rival"])
    return [title for title in TITLES.values() if title in known]


def _counts(tests: pd.DataFrame) -> Iterator[str]:
    for (path, selection), part in tests.groupby(["path", "selection"], sort=False):
        cells = []
        for rival in _rivals(tests):
            found = part.loc[part["rival"] == rival, "finding"].tolist()
            told = [found.count(name) for name in ("better", "worse", "open", "collapsed")]
            cells.append(" / ".join(map(str, told)))
        yield f"| {path} | {WORDS[str(selection)]} | {' | '.join(cells)} |"


CLOSING = "Does cross-validation close the distance?"
CLOSING_HEADS = ("method", "test", "validation", "cross-validation", "per seed", "closed")


def _closed(results: Results) -> str:
    words, rows = closing(results)
    if not rows:
        return ""
    lines = [f"\n## {CLOSING}\n", f"{words}\n"]
    lines += [f"| {' | '.join(row)} |" for row in (CLOSING_HEADS, ["---"] * 6, *rows)]
    return "\n".join(lines) + "\n"


def closing(results: Results, path: str = "fast") -> tuple[str, list[list[str]]]:
    """Whether cross-validation closes the distance between test and validation rows."""
    cells = [
        cell
        for cell in results.cells
        if results.has(path, cell, "fedfair") and "cv" in selections(results, path, cell)
    ]
    names = ("test", "validation", "cv", "per-seed")
    words = (
        f"Mean harmonic mean on the test rows over {len(cells)} cells with LR and seeds 0 to "
        f"{SEEDS[-1]}, by where the setting was chosen. Closed: how much of the distance between "
        "test and validation rows is gone when settings are chosen by cross-validation (none: "
        "there is no such distance)."
    )
    rows: list[list[str]] = []
    for method in WIDER:
        if not cells or not all(results.has(path, cell, method) for cell in cells):
            continue
        found = {name: _mean(results, path, cells, method, name) for name in names}
        lost = found["test"] - found["validation"]
        closed = f"{(found['cv'] - found['validation']) / lost:.0%}" if lost > 5e-4 else "none"
        rows.append([TITLES[method], *(f"{value:.4f}" for value in found.values()), closed])
    return words, rows


def _mean(results: Results, path: str, cells: list[Cell], method: str, selection: str) -> float:
    found = []
    for cell in cells:
        table = results.models(path, cell, method)
        models = chosen(table[table["seed"].isin(SEEDS)], selection)
        found.append(float(models.groupby("seed")["harmonic_mean"].mean().mean()))
    return sum(found) / len(found)
