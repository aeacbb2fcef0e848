"""The model card: its contents, without any data row, and names cannot break its Markdown."""

from __future__ import annotations

import json
import re

import pytest

from fairsilo.data.leakage import ALONE
from fairsilo.evaluate.intervals import wilson
from fairsilo.report import card, card_markdown, certificate_text
from tests.report.samples import sample


def test_metrics_carry_the_intervals_of_their_counts() -> None:
    description, metrics, _ = sample().files()
    made = card(description, metrics, "To show a card.")
    json.dumps(made, allow_nan=False)
    cells = metrics["test"]["cells"]
    right = sum(one["predicted"][one["class"]] for one in cells)
    span = wilson(right, sum(one["rows"] for one in cells))
    assert span is not None
    assert made["metrics"]["test"]["accuracy"]["interval"] == [span.low, span.high]
    assert len(made["metrics"]["by_group"]) == len(cells)
    assert made["fairness"]["epsilon"] == metrics["epsilon"]
    text = card_markdown(made)
    assert "To show a card." in text
    assert f"{metrics['test']['accuracy']:.4f}" in text


def test_of_a_category_the_card_says_how_many_values_and_not_which() -> None:
    description, metrics, _ = sample().files()
    category = {"kind": "category", "name": "town", "values": ["Nowhere", "Elsewhere"]}
    described = {**description, "schema": {**description["schema"], "features": [category]}}
    text = card_markdown(card(described, metrics))
    assert "| town | category, 2 values |" in text
    assert "Nowhere" not in text


def test_settings_are_code_and_nothing_else_is() -> None:
    description, metrics, _ = sample().files()
    note = "column '`a*b`' is a number: give `category`  it"
    text = card_markdown(card(description, {**metrics, "notes": [note]}))
    assert r"column '\`a\*b\`' is a number: give `category` it" in text


@pytest.mark.parametrize("name", ["a|b", "<script>x</script>", "*bold*\n# head", "[x](y)"])
def test_names_are_text_and_not_markup(name: str) -> None:
    description, metrics, _ = sample().files()
    described = {**description, "schema": {**description["schema"], "label": name}}
    text = card_markdown(card(described, metrics))
    assert not re.search(r"(?<!\\)<script", text)
    assert "\n# head" not in text
    assert "[x](" not in text
    widths = {line.count(" | ") for line in text.splitlines() if line.startswith("| feature")}
    assert widths == {1}


def test_a_certificate_is_shown_when_there_is_one() -> None:
    description, metrics, _ = sample().files()
    without = {key: value for key, value in metrics.items() if key != "certificate"}
    assert "This run has none." in card_markdown(card(description, without))
    bounds = {"chebyshev": 0.1234567, "cantelli": 0.1, "normal": 0.05}
    found = {"level": 0.95, "statement": "Kept.", "bounds": bounds, "assumes": ["much"]}
    text = card_markdown(card(description, {**metrics, "certificate": found}))
    assert "are approximate): chebyshev 0.1235, cantelli 0.1000, normal 0.0500." in text
    assert "Kept." in text
    assert "- much" in text


def test_what_gives_the_answers_away_is_said_first() -> None:
    description, metrics, _ = sample().files()
    note = f"column 'paid' {ALONE} (1.000)"
    metrics["notes"] = ["something else", note]
    text = card_markdown(card(description, metrics))
    said = f"**Given away.** Column 'paid' {ALONE} (1.000)."
    assert text.index(said) < text.index("## Intended use")
    assert text.count(ALONE) == 1
    assert "something else" in text[text.index("## Training") :]
    found = {"met": True, "statement": "Kept.", "bounds": {}, "pairs": [], "assumes": []}
    metrics["certificate"] = {**found, "level": 0.95}
    paper = certificate_text(description, metrics)
    assert paper.index(said) < paper.index("**Certified.** Kept.")
    assert "Given away" not in certificate_text(description, metrics | {"notes": []})


def test_groups_that_are_numbers_have_the_name_of_their_column() -> None:
    description, metrics, _ = sample(groups=("0", "1"), classes=("0", "1")).files()
    description["schema"] |= {"group": "female", "label": "good"}
    description["constraints"] = ["0 - 1 in 1"]
    one = {"a": ["0"], "b": ["1"], "classes": ["1"], "claim": None, "epsilon": 0.1}
    description["compared"] = [one]
    text = card_markdown(card(description, metrics))
    assert "Compared: female=0 - female=1 in good=1." in text
    assert "| female=0 - female=1 in good=1 |" in text
    assert "0 - 1" not in text


def test_what_differential_privacy_promised() -> None:
    description, metrics, _ = sample().files()
    assert "No differential privacy" in card_markdown(card(description, metrics))
    spent = {"epsilon": 4.0, "epsilon_spent": 3.9, "delta": 1e-5, "releases": 7}
    text = card_markdown(card(description, {**metrics, "dp": spent}))
    assert "No differential privacy" not in text
    assert "in 7 noisy releases" in text
