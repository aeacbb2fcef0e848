"""audit.html and the certificate, as text; the browser's test is beside those of the run's page."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fairsilo
from fairsilo.report import audit_page, certificate_text
from tests.report.samples import HOSTILE


def audited(groups: tuple[str, ...], rows: int = 400, losses: bool = True) -> dict[str, object]:
    """An audit of made-up answers."""
    rng = np.random.default_rng(0)
    s = np.array(groups, dtype=object)[np.arange(rows) % len(groups)]
    y = rng.choice(["no", "yes"], rows)
    p = rng.uniform(0.05, 0.95, rows)
    answers = {"y_proba": p} if losses else {"y_pred": np.where(p > 0.5, "yes", "no")}
    return fairsilo.audit(
        y=y, sensitive_features=s, clients=np.arange(rows) % 3, epsilon=0.1, min_cell=2,
        protected_class="yes", **answers,
    ).found  # fmt: skip


@pytest.mark.parametrize("losses", [True, False])
def test_the_page_has_every_number_or_a_dash(losses: bool) -> None:
    page = audit_page(audited(("Female", "Male"), losses=losses))
    text = re.sub(r"<(style|script).*?</\1>", "", page, flags=re.DOTALL)
    assert "percentage points apart" in text
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", re.sub(r"<[^>]*>", " ", text))
    assert ("the gap in the whole population is below" in text) == losses
    assert "With at least 95% confidence" in text
    for words in ("Newcombe", "bootstrap", "Wilson", "Mean of silos"):
        assert words in text
    for words in ("Chebyshev", "How wrong it is (DGEO)"):
        assert (words in text) == losses


def test_what_is_set_small_is_small_and_settings_are_code() -> None:
    found = audited(("Female", "Male"))
    page = audit_page({**found, "notes": ["of one row: `min_cell` 2 leaves it out"]})
    assert "Of one row: <code>min_cell</code> 2 leaves it out." in page
    assert ".facts dd small {" in page


@pytest.mark.parametrize(
    ("notion", "title"),
    [
        ("demographic-parity", "Shares that get an answer are"),
        ("accuracy-parity", "Shares predicted right are"),
        ("equalized-odds", "The groups are recognised"),
    ],
)
def test_the_title_is_about_the_notion(notion: str, title: str) -> None:
    rng = np.random.default_rng(1)
    y, s = rng.integers(0, 2, 300), np.where(np.arange(300) % 2, "f", "m")
    found = fairsilo.audit(y=y, y_pred=y ^ (rng.random(300) < 0.3), sensitive_features=s,
                           notion=notion).found  # fmt: skip
    page = audit_page(found)
    assert f"<h1>{title}" in page
    if title.startswith("Shares"):
        assert f"{100 * found['rates']['value']:.1f} percentage points apart between" in page


def test_names_are_text() -> None:
    page = audit_page(audited(HOSTILE))
    assert "<img" not in page
    assert "<svg onload" not in page


def test_many_pairs_are_folded() -> None:
    page = audit_page(audited(tuple(f"group {k}" for k in range(9)), rows=2000))
    assert "All 36 lines" in page
    assert "The 7 largest of 36." in page
    assert "All 72 pairs of groups in a table" in page
    assert "All 36 differences of rates in a table" in page


def test_the_certificate_as_a_page_of_its_own() -> None:
    found = audited(("Female", "Male"))
    description = {"method": "fedfair", "groups": ["Female", "Male"], "protected_class": "yes",
                   "schema": {"label": "income", "group": "sex"}}  # fmt: skip
    metrics = {"certificate": found["certificate"], "train": {"rows": 1000}, "clients": 3}
    text = certificate_text(description, metrics)
    assert text.startswith("# Certificate of fairness between groups\n\n**Not certified.** On ")
    assert "trained by `fedfair` on 1,000 rows of 3 parties" in text
    assert "| Female \u2212 Male | y=yes | average over the silos |" in text
    assert "## What it assumes" in text
