"""The page of a run: its verdict, and that it renders for every shape of run."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsilo.data.leakage import ALONE, SEEN
from fairsilo.data.synthetic import make_table
from fairsilo.evaluate.certificate import refuse
from fairsilo.report import card, card_markdown, run_page
from fairsilo.report.sections.facts import Facts
from fairsilo.report.sections.verdict import Answer, certified, on_test_rows, on_training_rows
from fairsilo.run import Options, execute, save
from tests.report.samples import HOSTILE, Sample, sample, with_terms

SECTIONS = ("glance", "fair", "who-pays", "training", "settings", "limits")


def page(run: Sample) -> str:
    return run_page(*run.files())


def facts(run: Sample) -> Facts:
    return Facts(*run.files())


def text_of(html: str) -> str:
    """The text of the body, without scripts and styles."""
    body = html[html.index("<body") :]
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", body, flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]+>", " ", body))


def headline(run: Sample) -> str:
    [found] = re.findall(r"<h1>(.*?)</h1>", page(run))
    return str(found)


@pytest.mark.parametrize(
    ("options", "answer", "words"),
    [
        # se = 0.3 sqrt(2/399) = 0.0212: the interval is 0.05 -+ 0.042, 0.1 -+ 0.042, 0.3 -+ 0.042.
        ({"loss_gap": 0.05}, Answer.YES, "rows it never saw confirm it"),
        ({"loss_gap": 0.1}, Answer.UNSURE, "the test rows cannot settle it"),
        ({"loss_gap": 0.3}, Answer.NO, "but not on the test rows"),
        ({"rows": 1}, Answer.UNSURE, "the test rows cannot settle it"),
        ({"rows": 0}, Answer.UNSURE, "the test rows cannot settle it"),
        ({"method": "fedavg"}, Answer.NONE, "without a limit"),
    ],
)
def test_what_the_test_rows_say(options: dict[str, Any], answer: Answer, words: str) -> None:
    run = sample(**options)
    assert on_test_rows(facts(run)) is answer
    assert words in headline(run)


@pytest.mark.parametrize("target", [None, 0.1])
def test_rows_that_were_given_are_not_called_unseen(target: float | None) -> None:
    run = sample(loss_gap=0.05)
    run.metrics["target_deo"] = target
    assert "rows it never saw" in text_of(page(run))
    run.metrics["unseen"] = False
    assert "never saw" not in text_of(page(run))
    assert "ows given for testing" in text_of(page(run))


def test_contradiction_allows_for_having_looked_at_many_pairs() -> None:
    # One of three pairs is 0.1 + 2.2 se away: beyond at 95 %, not at 1 - 0.05/3.
    gap = 0.1 + 2.2 * 0.3 * np.sqrt(2 / 399)
    two = sample(loss_gap=gap)
    assert on_test_rows(facts(two)) is Answer.NO
    three = sample(groups=("a", "b", "c"), loss_gap=gap / 2)
    assert on_test_rows(facts(three)) is Answer.UNSURE


def test_a_group_of_few_rows_confirms_nothing_and_hides_no_breach() -> None:
    """Its pairs have no interval; another pair's can still be beyond the limit."""
    for gap, answer in ((0.5, Answer.NO), (0.0, Answer.UNSURE)):
        run = sample(groups=("a", "b", "c"), loss_gap=gap, rows=4000)
        assert on_test_rows(facts(run)) is (Answer.NO if gap else Answer.YES)
        for cell in run.metrics["test"]["cells"]:
            if cell["group"] == "c":
                cell["predicted"] = {name: n // 50 for name, n in cell["predicted"].items()}
                cell["rows"] = sum(cell["predicted"].values())
        assert on_test_rows(facts(run)) is answer
        assert "too few rows" in text_of(page(run))


def test_what_is_certified_is_what_the_certificate_says() -> None:
    run = sample(rows=4000)
    run.metrics["certificate"] = refuse("it is a sample", 0.1)
    assert not certified(facts(run))
    run.metrics["certificate"]["met"] = True
    assert certified(facts(run))
    assert "Even the certificate" in page(run)


@pytest.mark.parametrize(
    ("gap", "answer"),
    [(0.1, Answer.YES), (0.10005, Answer.YES), (0.102, Answer.NO), (None, Answer.UNSURE)],
)
def test_what_the_training_rows_say(gap: float | None, answer: Answer) -> None:
    run = sample()
    run.metrics["train"]["dgeo_pooled"] = gap
    assert on_training_rows(facts(run)) is answer
    page(run)


def test_the_limited_gap_is_the_estimators() -> None:
    run = sample()
    run.metrics["estimator"] = "mean"
    assert facts(run).training_gap == 0.09
    local = sample(method="lco", clients=3)
    assert facts(local).training_gap == local.history.filter(like="d_").iloc[-1].abs().max()


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("collapsed to a constant: every training row is predicted 'x'", "the same answer"),
        ("diverged: a sum over the rows is not a finite number", "do not use"),
    ],
)
def test_failures_are_the_headline(reason: str, words: str) -> None:
    run = sample()
    run.metrics["reason"] = reason
    assert words in headline(run)


def test_a_model_of_little_use_is_the_headline_and_nothing_is_green() -> None:
    run = sample(rows=4000)
    run.metrics["worth"] = {"why": "hardly better than one answer for everybody: it finds 3"}
    assert headline(run) == "Hardly better than one answer for everybody"
    assert 'class="badge good"' not in page(run)
    assert text_of(page(run)).index("Of little use") < text_of(page(run)).index("Limit met")
    text = card_markdown(card(run.description, run.metrics))
    assert "**Of little use.** This model is hardly better" in text.split("## Intended")[0]


def test_not_converged_and_notes_are_said() -> None:
    run = sample()
    run.metrics |= {"converged": False, "reason": "not converged: 5 rounds", "notes": ["two left"]}
    text = text_of(page(run))
    assert "Training did not end as it should: not converged: 5 rounds." in text
    assert "Two left." in text


def test_averages_over_several_models_are_said() -> None:
    for method in ("st", "eo", "ceo"):
        text = text_of(page(sample(method=method)))
        assert "one model per client" in text
        assert "on average over the clients\u2019 models" in text
        assert "first client" not in text
    for one in (sample(), sample(method="af"), sample(method="st", clients=1)):
        one.metrics["test"]["deo"] = 0.07
        assert "one model per client" not in text_of(page(one))


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("fedfair", "all of them together, not for each"),
        ("lco", "every client has a limit of its own"),
        ("st", "every client\u2019s own model has a limit of its own"),
        ("fedavg", None),
        ("af", None),
        ("eo", None),
        ("ceo", None),
    ],
)
def test_whose_limit_it_is(method: str, words: str | None) -> None:
    text = text_of(page(sample(method=method)))
    assert ("all of them together" in text) == (method == "fedfair")
    if words:
        assert words in text
    else:
        assert "its gap swings by chance." in text


def test_agnostic_fair_has_a_covariance_and_no_multiplier() -> None:
    run = sample(method="af", epsilon=None)
    run.metrics |= {"tau": 0.05, "solver": "own", "estimator": None}
    run.description["trained"] |= {"solver": "own", "estimator": None}
    run.description["options"]["estimator"] = "pooled"
    text = text_of(page(run))
    assert "How far group and score go together (C)" in text
    assert "Gap in loss between the groups (D)" not in text
    assert "ultiplier" not in text
    assert "measured over the union of all rows" in text
    assert "the method's own steps" in text
    assert "not used by this method" in text
    assert "None" not in text


def test_the_loss_of_a_guess_depends_on_the_classes() -> None:
    assert "0.69 is a coin toss" in text_of(page(sample()))
    text = text_of(page(sample(classes=("low", "middle", "high"))))
    assert "1.10 is a blind guess among 3 classes" in text
    assert "coin toss" not in text


def test_separate_training_has_no_common_gap() -> None:
    run = sample(method="st")
    assert facts(run).training_gap is None
    assert "trained alone" in headline(run)
    assert "no gap over all training rows was limited" in text_of(page(run))


def test_figures_stand_beside_the_two_comparisons() -> None:
    text = re.sub(r"\s+", " ", text_of(page(sample())))
    assert "This model 0.000 Without a limit 0.200 Constant answer 0.000" in text
    assert "This model 0.050 Without a limit 0.400 Constant answer \u2013" in text
    assert "80.0% to" not in text.split("Is it fair")[0]
    # Wilson for 320 of 400, Newcombe for no difference between two of them.
    assert "75.8% to 83.6%" in text
    assert "\u22125.5% to +5.5%" in text


def test_a_comparison_that_was_not_trained_is_not_promised() -> None:
    run = sample()
    assert "without a fairness limit, and with" in text_of(page(run))
    del run.metrics["unconstrained"]
    glance = " ".join(text_of(page(run)).split())
    assert "compare this model with always answering" in glance
    assert "Without a limit" not in glance


SHAPES: dict[str, Sample] = {
    "one round": sample(rounds=1),
    "five rounds": sample(rounds=5),
    "20,000 rounds": sample(rounds=20_000),
    "three constraints": sample(groups=("a", "b", "c")),
    "45 constraints": sample(groups=tuple(f"g{k}" for k in range(10))),
    "50 local constraints": sample(method="lco", clients=50),
    "1000 local constraints": sample(method="lco", clients=1000, rounds=30),
    "no constraint": sample(method="fedavg"),
    "one client": sample(clients=1),
    "60 clients": sample(clients=60),
    "61 clients": sample(clients=61),
    "1000 clients": sample(clients=1000, rounds=20_000),
    "many classes": sample(classes=tuple(f"c{k}" for k in range(8))),
    "no test rows": sample(rows=0),
    "one test row": sample(rows=1),
    "hostile": sample(groups=HOSTILE, classes=HOSTILE[:2]),
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_makes_a_page(name: str) -> None:
    run = SHAPES[name]
    made = page(run)
    assert tuple(re.findall(r'<section id="([\w-]+)"', made)) == SECTIONS
    assert len(made) < 420_000
    assert not re.search(r"\bnan\b|\binf\b|\bNaN\b|\bNone\b|Infinity", text_of(made))
    assert "&lt;span" not in made
    for attribute in re.findall(r'(?:x|y|cx|cy|d|width|height)="([^"]*)"', made):
        assert not re.search(r"nan|inf", attribute)


@pytest.mark.parametrize("name", ["five rounds", "hostile", "50 local constraints"])
def test_usual_pages_are_small(name: str) -> None:
    assert len(page(SHAPES[name])) < 200_000


def test_undefined_values_and_holes_in_the_history() -> None:
    run = sample(clients=3)
    run.metrics["by_client"][1]["dgeo"] = None
    run.metrics["test"] |= {"deo": None, "fairness": None, "harmonic_mean": None}
    del run.metrics["unconstrained"]
    run.history.loc[3, ["loss", "d_1", "mu_1", "residual"]] = np.nan
    run.history.loc[5, "loss"] = np.inf
    made = page(run)
    assert "For 1 client the gap is undefined" in text_of(made)
    assert not re.search(r"\bnan\b", made)


def test_nothing_recorded() -> None:
    run = sample()
    run.history = pd.DataFrame({"round": np.arange(0), "loss": np.empty(0)})
    assert "No round was recorded" in page(run)


def test_names_of_local_constraints_say_the_client() -> None:
    run = facts(sample(method="lco", clients=2))
    assert run.constraint_names(2) == ["client a0", "client b1"]
    three = facts(sample(method="lco", clients=2, groups=("x", "y", "z")))
    assert three.constraint_names(6)[3] == "client b1: x \u2212 y"
    assert run.constraint_names(7)[6] == "constraint 7"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_never_become_markup(name: str) -> None:
    run = sample(groups=(name, "b"), classes=("no", name))
    run.description["client_names"] = [name] * 5
    run.description["options"]["data"] = name
    run.description["schema"]["features"] = [{"name": name}]
    run.metrics["notes"] = [name]
    for one in run.metrics["by_client"]:
        one["client"] = name
    made = page(run)
    assert name not in made
    assert made.count("<script>") == 1


def test_every_option_is_in_the_settings() -> None:
    run = sample()
    made = page(run)
    for key in run.description["options"]:
        assert f"<code>{key}</code>" in made
    assert "newton (by default)" in made


@pytest.mark.slow
def test_page_of_a_real_run(tmp_path: Path) -> None:
    table = make_table(600, silos=3, groups=3, seed=1)
    table.to_csv(tmp_path / "t.csv", index=False)
    options = Options(
        data=str(tmp_path / "t.csv"),
        label="label",
        group="group",
        protected_class="1",
        client="client",
    )
    run = execute(options)
    save(run, tmp_path / "run")
    described, metrics = (
        json.loads((tmp_path / "run" / name).read_text()) for name in ("model.json", "metrics.json")
    )
    read = Sample(described, metrics, pd.read_parquet(tmp_path / "run" / "history.parquet"))
    made, known = page(read), facts(read)
    assert known.one_model
    gaps = [abs(pair.loss_gap or 0.0) for pair in known.pairs]
    assert max(gaps) == pytest.approx(run.metrics["test"]["dgeo_pooled"])
    assert len(known.columns("d")) == len(known.pairs) == 3
    assert str(tmp_path) not in made


def test_terms_stand_beside_those_without_the_limit() -> None:
    run = with_terms(sample(), ("age", "job", "age & job", "hours"))
    whole = page(run)
    words = " ".join(text_of(whole).split())
    assert "above zero it speaks for \u201chigh\u201d" in words
    assert "hold the terms of the model without the limit with 95% confidence" in words
    # Without the limit heights run from -1.5 to 1.5: the ends change most, by a half.
    assert "age 1.000 0.500 < 1.235 +0.500" in words
    assert "Ordered by the larger of the importances with and without the limit." in words
    # The middle step: its height, that without the limit, and the band of the latter.
    tip = ">= 1.235\nthis model: 0.000\nwithout the limit: 0.000\n95% band \u22120.250 to +0.250"
    assert tip in unescape(whole)
    told = card_markdown(card(run.description, run.metrics))
    cancel = "\u201cage\u201d and \u201cjob\u201d mostly cancel"
    assert words.count(cancel) == told.count(cancel) == 1, "once for both"
    assert "| age & job | 0.3333 | 0.5000 | 0.5000 |" in told
    free = " ".join(text_of(page(with_terms(sample(method="fedavg"), ("a", "b"), False))).split())
    assert "hold the terms with 95% confidence" in free
    assert "Ordered by" not in free
    assert 'id="terms"' not in page(sample())


@pytest.mark.parametrize("note", [f"column 'paid' {ALONE} (1.000)", f"50 of 304 {SEEN}, in all"])
def test_answers_that_are_given_away_are_not_praised(note: str) -> None:
    run = sample(loss_gap=0.05)
    assert 'class="badge good"' in page(run)
    run.metrics["notes"] = [note, "something else"]
    assert headline(run).startswith("Too good to be true?")
    shown = page(run)
    assert 'class="badge good"' not in shown
    assert text_of(shown).index("Given away") < text_of(shown).index("Take note")


def test_groups_and_classes_that_are_numbers_have_the_names_of_their_columns() -> None:
    run = sample(groups=("0", "1"), classes=("0", "1"))
    run.description["schema"] |= {"group": "female", "label": "good"}
    words = text_of(page(run))
    assert "female=0 \N{MINUS SIGN} female=1" in words
    assert "truly are \u201cgood=1\u201d" in words
    assert not re.search(r"(?<!=)\b0 \N{MINUS SIGN} 1\b|\u201c[01]\u201d", words)
