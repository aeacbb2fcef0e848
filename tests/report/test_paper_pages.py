"""The pages of compare, sweep and reproduce in a real browser, from parts made by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from fairsilo.experiment.endings import without_lost
from fairsilo.experiment.grid import Cell, find, settings
from fairsilo.experiment.pages import compare_page, sweep_page
from fairsilo.experiment.paired import paired_tests
from fairsilo.experiment.paper_page import reproduce_page
from fairsilo.experiment.results import Results
from fairsilo.experiment.summary import compare_summary, sweep_summary
from fairsilo.experiment.tables import build, verdict
from tests.experiment.parts import trained
from tests.report.browser import Browser

PAPER_WIDTH = 690
"""The width of A4 between the margins, in CSS pixels."""


def parts_of(cell: Cell) -> dict[str, pd.DataFrame]:
    parts = {
        method: trained(settings(cell, method), 3 if method in ("st", "eo") else 1, 0.01 * k)
        for k, method in enumerate((*cell.methods, "constant"))
    }
    # LCO's training is lost at its smallest epsilon, and its other models have collapsed.
    first = parts["lco"]["setting"] == min(settings(cell, "lco"))
    parts["lco"].loc[first, "loss"] = 1e9
    parts["lco"]["balanced_accuracy"] = 0.51
    return {method: without_lost(part) for method, part in parts.items()}


def compared(folder: Path) -> str:
    cell = find("drug-lr-iid")
    parts = parts_of(cell)
    command = "fairsilo compare --data drug --partition iid --model lr --seeds 2 --solver fast"
    return compare_page(cell, compare_summary(parts), parts, command, "fast", 2)


def swept(folder: Path) -> str:
    cell = find("drug-nn-non-iid")
    summary = sweep_summary(parts_of(cell)["lco"], "lco")
    return sweep_page(cell, "lco", summary, "fairsilo sweep --method lco", "agp", 2)


def reproduced(folder: Path) -> str:
    results = Results(folder)
    for name in ("drug-lr-iid", "adult-nn-non-iid"):
        for method, part in parts_of(find(name)).items():
            for path in ("fast", "agp"):
                results.write(path, find(name), method, True, part, 1.0)
    results.record("fast", "fairsilo reproduce --only drug-lr-iid", 9, 100.0)
    tables = build(results)
    verdicts = [
        (f"{path}, {selection}", verdict(tables, path, selection))
        for path in ("fast", "agp")
        for selection in ("test", "validation", "per-seed")
    ]
    bound = {"radius": 0.5, "held": 1.0, "within": 0.95}
    theorems = pd.DataFrame(
        [
            {
                "scenario": "unequal", "clients": clients, "draws": 2000, "promised": 0.75,
                "variance": 0.07, "sigma_avg2_over_n": 0.066, "sigma_min2": 0.1, "held_zero": 1.0,
                **{f"{key}_fedfair": value for key, value in bound.items()},
                **{f"{key}_lco": value for key, value in bound.items()},
            }
            for clients in (1, 50)
        ]
    )  # fmt: skip
    return reproduce_page(results, tables, verdicts, paired_tests(results), theorems)


PAGES: dict[str, tuple[Callable[[Path], str], int]] = {
    "compare": (compared, 6),
    "sweep": (swept, 7),
    "reproduce": (reproduced, 24),
}


@pytest.fixture(params=PAGES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_page_works(show: Browser, tmp_path: Path, name: str) -> None:
    make, charts = PAGES[name]
    path = tmp_path / "report.html"
    path.write_text(make(tmp_path / "results"), encoding="utf-8")
    for dark in (False, True):
        show.open(path, dark=dark)
        assert show.eval("document.documentElement.dataset.ready") == "true"
        assert set(show.requests) <= {path.as_uri(), "data:,"}
        assert show.eval("document.querySelectorAll('figure.chart .plot > svg').length") == charts
    visible = show.eval("document.body.innerText")
    assert not re.search(r"\bNaN\b|\bnan\b|undefined\b(?!,)|\[object|\bNone\b|Infinity", visible)
    assert "Fairness is one minus the difference" in visible
    assert "Settings" in visible
    assert "fairsilo " in show.eval("document.querySelector('#settings').innerText")
    # Tables fit a laptop; on a phone they scroll, but the page does not.
    wide = (
        "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1)"
    )
    assert show.eval(f"{wide}.length") == 0
    show.open(path, width=360)
    assert show.eval("document.documentElement.scrollWidth") <= 360


def test_it_prints_whole_and_repeats_the_heads_of_tables(
    show: Browser, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "report.html"
    path.write_text(PAGES[name][0](tmp_path / "results"), encoding="utf-8")
    show.open(path, width=PAPER_WIDTH, media="print")
    assert show.eval("document.documentElement.scrollWidth") <= PAPER_WIDTH
    assert show.eval("getComputedStyle(document.querySelector('thead')).breakInside") == "avoid"
    # Chromium does not repeat a head with a button in it.
    buttons = "[...document.querySelectorAll('th button')].map(b => getComputedStyle(b).display)"
    assert set(show.eval(buttons)) == {"contents"}


def test_a_method_looks_the_same_in_every_panel(show: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(reproduced(tmp_path / "results"), encoding="utf-8")
    show.open(path)
    styles: dict[str, set[str]] = {}
    for figure in show.eval(
        "[...document.querySelectorAll('figure.scatter')].map(f => "
        "[...f.querySelectorAll('.key')].map(k => [k.innerText, "
        "k.className + k.dataset.series + k.querySelector('path').getAttribute('d')]))"
    ):
        for method, style in figure:
            styles.setdefault(method, set()).add(style)
    assert len(styles) == 9
    assert all(len(seen) == 1 for seen in styles.values())
    assert len(set.union(*styles.values())) == 9
    assert show.eval("document.querySelectorAll('.mark.strong').length") >= 2
    label = show.eval("document.querySelector('.mark.strong').getAttribute('aria-label')")
    assert label.startswith("FedFair")


def test_collapse_and_divergence_are_named(show: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(compared(tmp_path), encoding="utf-8")
    show.open(path)
    table = show.eval("document.querySelector('#all-methods table').innerText")
    row = next(line for line in table.splitlines() if line.startswith("LCO"))
    assert "collapsed" in row
    assert "1 setting diverged" in row
    path.write_text(swept(tmp_path), encoding="utf-8")
    show.open(path)
    first = show.eval("document.querySelector('tbody tr').innerText")
    assert first.startswith("0.01")
    assert "diverged" in first


def test_one_seed_has_no_spread() -> None:
    cell = find("drug-lr-iid")
    parts = {name: part[part["seed"] == 0] for name, part in parts_of(cell).items()}
    both = compare_page(cell, compare_summary(parts), parts, "fairsilo compare", "fast", 1)
    both += sweep_page(
        cell, "fedfair", sweep_summary(parts["fedfair"], "fedfair"), "fairsilo sweep", "fast", 1
    )
    assert "\N{PLUS-MINUS SIGN}" not in both
    assert "standard deviation over" not in both
    assert both.count("One random data set") == 2
    assert "\N{PLUS-MINUS SIGN}" in compared(Path())
