"""Pages cite tests for what they promise: each of them is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
CITED = re.compile(r"\b(tests/[\w/]+\.\w+)(?:::(\w+))?")


def missing(text: str) -> list[str]:
    """The files and tests that a text names and that do not exist."""
    found = []
    for path, test in CITED.findall(text):
        file = ROOT / path
        there = file.exists() and (not test or f"def {test}(" in file.read_text())
        found += [] if there else [f"{path}::{test}" if test else path]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_tests_that_a_page_cites_exist(page: Path) -> None:
    assert missing(page.read_text()) == []


def test_one_that_does_not_exist_is_found() -> None:
    here = "tests/docs/test_cited.py"
    assert missing(f"`{here}::test_one_that_does_not_exist_is_found`, `{here}`") == []
    assert missing(f"`{here}::test_nothing` tests/no.py") == [
        f"{here}::test_nothing",
        "tests/no.py",
    ]


def test_every_promise_of_the_threat_model_has_its_test() -> None:
    """Who learns what, the attacks of the review, what witnesses notice: a test in each line."""
    page = (ROOT / "docs" / "threat-model.md").read_text()
    tables = [
        page.partition(f"## {title}\n")[2].partition("\n## ")[0]
        for title in ("Who learns what", "The attacks of the review")
    ]
    lines = [line for text in tables for line in text.splitlines() if line.startswith("| ")]
    told = [line for line in lines if not re.match(r"\| +\||\| -|\| what ", line)]
    assert len(told) > 25
    assert [line for line in told if "::test_" not in line] == []
