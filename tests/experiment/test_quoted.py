"""The counts of cells that README and docs quote, recomputed from the stored models."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from fairsilo.experiment.tables import collapsed, counts, strictly, verdict

ROOT = Path(__file__).parents[2]
Found = dict[tuple[str, str], tuple[int, int, int, int]]


@pytest.fixture(scope="module")
def found() -> Found:
    """By path and selection: best or close, strictly best, near the paper, and all cells."""
    tables = pd.read_csv(ROOT / "experiments" / "results" / "tables.csv")
    tables["collapsed"] = tables["ours_balanced_accuracy"].map(collapsed)
    told = {}
    for path in ("fast", "agp"):
        for selection in ("test", "validation"):
            cells = verdict(tables, path, selection)
            best, near = counts(cells)
            told[path, selection] = best, strictly(cells), near, len(cells)
    return told


def text_of(page: str) -> str:
    """The page without its line breaks."""
    return re.sub(r"\s+", " ", (ROOT / page).read_text())


def test_readme(found: Found) -> None:
    text = text_of("README.md")
    said = re.search(
        r"within 0\.005 of it, in (\d+) of (\d+) cells \(strictly best in (\d+)\).*?on validation "
        r"rows, in (\d+) of \d+ \((\d+)\).*?--solver agp.*? in (\d+) of \d+ \((\d+)\) and "
        r"(\d+) of \d+ \((\d+)\)",
        text,
    )
    assert said is not None
    best, cells, strict, *rest = map(int, said.groups())
    test, validation = found["fast", "test"], found["fast", "validation"]
    assert (best, strict, cells) == (test[0], test[1], test[3])
    assert rest == [*validation[:2], *found["agp", "test"][:2], *found["agp", "validation"][:2]]


def test_results_page(found: Found) -> None:
    text = text_of("docs/results.md")
    agp, fast = found["agp", "test"], found["fast", "test"]
    honest, slow = found["fast", "validation"], found["agp", "validation"]
    for words in (
        f"within 0.005 of it, in {agp[0]} of {agp[3]} cells, strictly best in {agp[1]}.",
        f"{fast[0]} of {fast[3]} cells best or close, strictly best in {fast[1]}, and {fast[2]} of "
        f"{fast[3]} near the paper",
        f"{honest[0]} of {honest[3]} (strictly {honest[1]}) and {honest[2]} of {honest[3]} "
        "chosen on",
        f"best or close in {honest[0]} of {honest[3]} cells with the fast solvers (strictly in "
        f"{honest[1]}) and in {slow[0]} of {slow[3]} with AGP (strictly in {slow[1]}), not in "
        f"{agp[0]}",
    ):
        assert words in text


def test_the_results_folder_says_the_same(found: Found) -> None:
    text = text_of("experiments/results/README.md")
    for (path, selection), (best, strict, near, cells) in found.items():
        assert (
            f"**{path} solver, settings chosen on {selection} rows:** FedFair best or within 0.005 "
            f"of the best that did not collapse in {best} of {cells} cells, strictly best in "
            f"{strict}; within 0.02 of the paper's harmonic mean or above in {near} of {cells}."
        ) in text


def test_collapse_is_one_rule() -> None:
    assert collapsed(0.5299)
    assert not collapsed(0.53)
