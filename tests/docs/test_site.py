"""The site builds in strict mode, makes no requests to other hosts, and names every option."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.process]
ROOT = Path(__file__).parents[2]
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""What a browser fetches by itself when a page is opened."""
PLACES = ("canonical", "next", "prev", "alternate")
"""Links that name a page and fetch nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


class Fetches(HTMLParser):
    """The addresses that a page fetches."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in FETCHED and values.get("rel") not in PLACES:
            self.found.append(values.get(FETCHED[tag]) or "")


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        parser = Fetches()
        parser.feed(page.read_text())
        assert parser.found
        assert not [one for one in parser.found if re.match(r"(https?:)?//", one)], page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", style.read_text()), style


def test_equations_are_mathml(site: Path) -> None:
    page = (site / "concepts" / "constraint.html").read_text()
    assert page.count("<math ") > 5
    assert "arithmatex" not in page
    assert "\\frac" not in page


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "cli.html").read_text()
    for wanted in ("fairsilo train", "fairsilo export", "fairsilo flower", "fairsilo data get"):
        assert wanted in page
    for wanted in ("--epsilon", "--protected-class", "--mlflow", "--data-dir", "0.05"):
        assert wanted in page


def test_the_estimator_is_in_the_reference(site: Path) -> None:
    page = (site / "reference" / "python.html").read_text()
    for wanted in ("FedFairClassifier", "sensitive_features", "constraints_", "fairsilo.load"):
        assert wanted in page


def test_the_papers_tables_figures_and_theorems_are_pages(site: Path) -> None:
    page = (site / "paper" / "tables.html").read_text()
    assert page.count("<table>") >= 12 * 4
    assert "The theorems, where they could fail" in page
    for name in ("figure1-fast.png", "figure2-fast.png", "figure1-agp.png", "figure2-agp.png"):
        assert f'src="figures/{name}"' in page
        assert (site / "paper" / "figures" / name).stat().st_size > 10_000
    assert "paper/tables.html" in (site / "results.html").read_text()
