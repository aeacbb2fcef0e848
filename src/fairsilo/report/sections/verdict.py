"""The verdict at the top of the page: is the limit kept on training rows and on test rows."""

import enum
from collections.abc import Mapping
from typing import Any

from fairsilo.evaluate.intervals import LEVEL, Interval
from fairsilo.evaluate.metrics import within
from fairsilo.report.html import Child, Html, coded, el, join
from fairsilo.report.sections.facts import Facts, Pair
from fairsilo.report.sections.words import AIMS, ESTIMATORS, MODELS, name_of
from fairsilo.report.text import (
    count,
    interval,
    listing,
    number,
    percent,
    plain,
    plural,
    points,
    typeset,
)


class Answer(enum.Enum):
    """The answer to a question, with its colour and sign."""

    YES = "good"
    UNSURE = "unsure"
    NO = "bad"
    NONE = "plain"


_SIGNS = {
    Answer.YES: "M2 7.5L5.5 11L12 3.5",
    Answer.UNSURE: "M4 5a3 3 0 1 1 3.6 3v1.6M7.6 12.4v.1",
    Answer.NO: "M3 3L11 11M11 3L3 11",
    Answer.NONE: "M3 7H11",
}

_ON_TRAINING = {
    Answer.YES: "Limit met",
    Answer.NO: "Limit missed",
    Answer.UNSURE: "Not measured",
    Answer.NONE: "No limit",
}
_ON_TEST = {
    Answer.YES: "Test rows agree",
    Answer.NO: "Test rows disagree",
    Answer.UNSURE: "Test rows unsure",
    Answer.NONE: "On test rows",
}
_RATES_SAY = {
    Answer.YES: "On {rows}, the rates are within the target, with 95% confidence.",
    Answer.UNSURE: "{rows} do not settle whether the rates are within the target: more would.",
    Answer.NO: "On {rows}, the rates are further apart than the target.",
    Answer.NONE: "",
}
"""What the test rows say about a target in rates."""


def on_training_rows(facts: Facts) -> Answer:
    """Whether the limited gap is within its limit, up to the solver's tolerance."""
    epsilon, gap = facts.epsilon, facts.training_gap
    if facts.target is not None:
        rates = facts.training_rate_gap
        if rates is None:
            return Answer.UNSURE
        return Answer.YES if within(rates, facts.target) else Answer.NO
    if epsilon is None:
        return Answer.NONE
    if gap is None:
        return Answer.UNSURE
    allowed = epsilon + min(1e-4, 0.01 * epsilon) + 1e-6
    noise = facts.gap_noise
    if gap + noise <= allowed:
        return Answer.YES
    return Answer.NO if gap - noise > allowed else Answer.UNSURE


def on_test_rows(facts: Facts) -> Answer:
    """Whether the test rows confirm the limit.

    Yes: the interval of every pair is within the limit (95 % each; since all must hold, several
    pairs need no correction). No: the interval of one pair is beyond the limit, at a level
    corrected for looking at all pairs (Bonferroni).
    """
    if facts.epsilon is None and facts.target is None:
        return Answer.NONE
    pairs = facts.pairs
    limits = [pair.epsilon if facts.target is None else facts.target for pair in pairs]
    strict = 1 - (1 - LEVEL) / max(len(pairs), 1)
    spans = [_span(facts, pair, LEVEL) for pair in pairs]
    wide = [_span(facts, pair, strict) for pair in pairs]
    if not pairs or None in limits:
        return Answer.UNSURE
    if all(
        s is not None and limit is not None and s.within(limit)
        for s, limit in zip(spans, limits, strict=True)
    ):
        return Answer.YES
    beyond = any(
        s.beyond(limit) for s, limit in zip(wide, limits, strict=True) if s and limit is not None
    )
    return Answer.NO if beyond else Answer.UNSURE


def _span(facts: Facts, pair: Pair, level: float) -> Interval | None:
    """The interval of the limited gap: in rates with a target, else in losses."""
    return pair.normal(level) if facts.target is None else pair.rate_interval(level)


def certified(facts: Facts) -> bool:
    """Whether the certificate says that the limit is kept."""
    return bool(facts.metrics.get("certificate", {}).get("met"))


def headline(facts: Facts) -> str:
    """The page's title: the verdict in one line."""
    if failure := _failure(facts):
        return failure
    if facts.method.alone:
        return "Every client trained alone, under a limit of its own"
    training = on_training_rows(facts)
    if training is not Answer.YES:
        return {
            Answer.NONE: "Trained without a limit on the gap between groups",
            Answer.NO: "The fairness limit is not met on the training rows",
            Answer.UNSURE: "Whether the fairness limit is met could not be measured"
            + (" through the noise" if facts.gap_noise else ""),
        }[training]
    return {
        Answer.YES: f"Fair within the limit, and {facts.tested_on} confirm it",
        Answer.UNSURE: "Fair within the limit on the training rows; the test rows cannot settle it",
        Answer.NO: "Fair within the limit on the training rows, but not on the test rows",
    }[on_test_rows(facts)]


def _failure(facts: Facts) -> str:
    """Why nothing else counts; "" where it does."""
    reason = str(facts.metrics.get("reason", ""))
    known = {
        "Training diverged: do not use this model": reason.startswith("diverged"),
        "Collapsed: the model gives everyone the same answer": reason.startswith("collapsed"),
        "Hardly better than one answer for everybody": (facts.useless or "").startswith("hardly"),
        "The model finds almost nobody of the protected class": facts.useless is not None,
        "Too good to be true? Something gives the answers away": facts.too_good,
    }
    return next((words for words, is_so in known.items() if is_so), "")


def lead(facts: Facts) -> str:
    """A summary: what was trained, on how many clients, under which limit."""
    schema, metrics = facts.description.get("schema", {}), facts.metrics
    rows = metrics["train"].get("rows")
    on = f" on {count(rows)} rows" if rows is not None else ""
    together = " each alone" if facts.method.alone else " together" if facts.clients > 1 else ""
    model = name_of(MODELS, metrics.get("model"))
    start = (
        f"{plural(facts.clients, 'client')}{together} trained {model}{on} to predict "
        f"\u201c{schema.get('label', 'the label')}\u201d."
    )
    who = listing([f"\u201c{group}\u201d" for group in facts.groups])
    aim = AIMS[facts.compares].format(protected=facts.protected, who=who)
    if facts.target is not None:
        return (
            f"{start} {aim} should be served equally well: the difference of their rates was to "
            f"stay within {plain(100 * facts.target)} percentage points."
        )
    if facts.epsilon is None:
        return f"{start} {aim} are compared; no limit was set on the gap between them."
    if facts.notion.alone:
        return (
            f"{start} {aim} should each be served well enough: no average loss was to be above "
            f"{plain(facts.epsilon)}."
        )
    return (
        f"{start} {aim} should be served equally well: the gap between their average losses was "
        f"to stay within {plain(facts.epsilon)}."
    )


def findings(facts: Facts) -> Html:
    """The verdict in three lines: training rows, test rows, and what it means for people."""
    training, test = on_training_rows(facts), on_test_rows(facts)
    badge = {**_ON_TRAINING, **({Answer.UNSURE: "Within the noise"} if facts.gap_noise else {})}
    useless = facts.useless
    return el(
        "ul",
        _finding(Answer.NO, "Of little use", f"This model is {useless}.") if useless else None,
        *(_finding(Answer.NO, "Given away", _note(text)) for text in facts.too_good),
        _finding(_praised(facts, training), badge[training], _training_words(facts)),
        _finding(_praised(facts, test), _ON_TEST[test], _test_words(facts)),
        _people(facts),
        *(_finding(Answer.UNSURE, "Take note", text) for text in _warnings(facts)),
        class_="findings",
    )


def _praised(facts: Facts, answer: Answer) -> Answer:
    """A model of little use keeps every limit, and one that knows the answers, too: not green."""
    doubtful = facts.useless is not None or bool(facts.too_good)
    return Answer.NONE if doubtful and answer is Answer.YES else answer


def _finding(answer: Answer, badge: str, *words: Child) -> Html:
    sign = el("svg", el("path", d=_SIGNS[answer]), width=14, height=14, aria_hidden="true")
    return el(
        "li",
        el("span", sign, badge, class_=f"badge {answer.value}"),
        el("p", *(one if isinstance(one, Html) else coded(str(one)) for one in words)),
        class_="finding",
    )


def _training_words(facts: Facts) -> Html:
    # Methods without a limit have no estimator; their gap is the one over all rows.
    how = name_of(ESTIMATORS, facts.metrics.get("estimator") or "pooled")
    gap = facts.training_gap
    if facts.method.alone:
        return join(
            "Every client kept to the limit on its own rows, or tried to; no gap over all training "
            "rows was limited."
        )
    if facts.target is not None and facts.training_rate_gap is not None:
        return join(
            f"On the training rows the rates are {number(facts.training_rate_gap, 4)} apart; the "
            f"target is {plain(facts.target)}."
        )
    if gap is None:
        return join("On the training rows the gap between the groups is not defined.")
    what = "largest loss of a group" if facts.notion.alone else "gap in loss"
    words = f"On the training rows the {what} is {number(gap, 4)}, measured {how}"
    if facts.gap_noise:
        words += (
            f", give or take {number(facts.gap_noise, 4)} (95% confidence) for the noise of "
            "differential privacy"
        )
    if facts.epsilon is not None:
        words += f"; the limit is {plain(facts.epsilon)}"
    return join(f"{words}.")


def _test_words(facts: Facts) -> Html:
    if facts.target is not None:
        return join(sentence(_RATES_SAY[on_test_rows(facts)].format(rows=facts.tested_on)))
    worst = worst_pair(facts)
    if worst is None:
        return join("The test rows do not hold both groups, so they say nothing about the gap.")
    alone = facts.notion.alone
    span = worst.normal()
    sure = (
        f"with 95% confidence lies in {interval(span, signed=not alone)}"
        if span
        else "one of the groups has too few rows for an interval"
    )
    largest = " (the largest)" if len(facts.pairs) > 1 else ""
    what = "average loss of a group" if alone else "gap in loss"
    words = (
        f"On {count(facts.test_rows)} {facts.tested_on} the {what}{largest}, {worst.name}, is "
        f"{number(worst.loss_gap, signed=not alone)}, and {sure}. "
    )
    answer = on_test_rows(facts)
    if answer is Answer.YES:
        words += "All of that is within the limit. "
        words += (
            "Even the certificate, which assumes nothing about the losses, agrees."
            if certified(facts)
            else "The certificate, which assumes nothing about the losses, needs more rows to say "
            "so."
        )
    elif answer is Answer.UNSURE:
        words += "That does not settle whether the limit is kept: more test rows would."
    elif answer is Answer.NO:
        words += "That is beyond the limit."
    return join(words)


def _people(facts: Facts) -> Html | None:
    pairs = [pair for pair in facts.rate_pairs if pair.rate_gap is not None]
    if not pairs:
        return None
    worst = max(pairs, key=lambda pair: abs(pair.rate_gap or 0.0))
    span = worst.rate_interval()
    sure = f" (95% confidence: {points(span.low)} to {points(span.high)})" if span else ""
    rates = [f"{percent(c.rate)} of \u201c{c.group}\u201d" for c in (worst.a, worst.b)]
    words = (
        f"{_whom(facts, worst)} {rates[0]} and {rates[1]}, a difference of "
        f"{points(worst.rate_gap or 0.0)} percentage points{sure}."
    )
    return _finding(Answer.NONE, "What it means", words)


def _whom(facts: Facts, pair: Pair) -> str:
    """The beginning of the sentence that gives the groups' rates."""
    model = "the model" if facts.one_model else "the models on average"
    ending = "s" if facts.one_model else ""
    if facts.notion.claims:
        return f"On the test rows, {model} give{ending} the answer \u201c{pair.a.name}\u201d to"
    if facts.compares == "whole":
        return f"On the test rows, {model} answer{ending} rightly for"
    verb = "the model recognises" if facts.one_model else "the models recognise on average"
    return f"Among those who truly are \u201c{pair.a.name}\u201d, {verb}"


def _warnings(facts: Facts) -> list[str]:
    metrics, reason = facts.metrics, str(facts.metrics.get("reason", "unknown"))
    found = [_note(str(text)) for text in metrics.get("notes", []) if text not in facts.too_good]
    if "dp" in metrics:
        found.append(price(metrics["dp"]))
    if reason.startswith("ended after"):
        found.append(f"{sentence(reason)}.")
    elif not metrics.get("converged", True):
        found.insert(0, f"Training did not end as it should: {typeset(reason)}.")
    elif reason.startswith("collapsed"):
        found.insert(0, f"{sentence(reason)}.")
    if not facts.one_model:
        found.append(
            "This method leaves one model per client: all figures on test rows, by group too, are "
            "on average over the clients\u2019 models."
        )
    return found


def _note(text: str) -> str:
    return f"{sentence(text).rstrip('.')}."


def price(dp: Mapping[str, Any]) -> str:
    """The guarantee of differential privacy for this run."""
    return (
        "Differential privacy: whatever anybody saw of this training, they can hardly tell whether "
        f"any one training row was there (epsilon {number(dp['epsilon_spent'])} of "
        f"{plain(dp['epsilon'])} spent in {dp['releases']} noisy releases, delta "
        f"{plain(dp['delta'])}).{_several(dp)} Figures on training rows carry that noise; those on "
        "test rows are exact, and test rows are not covered by the promise."
    )


def _several(dp: Mapping[str, Any]) -> str:
    """The guarantee for a person with several rows; runs of earlier versions do not tell."""
    if "epsilon_of_rows" not in dp:
        return ""
    rows, each = zip(*dp["epsilon_of_rows"].items(), strict=True)
    return (
        f" Of a person who has {', '.join(rows[:-1])} or {rows[-1]} of the rows, epsilon is "
        f"{', '.join(map(number, each[:-1]))} or {number(each[-1])}."
    )


def sentence(reason: str) -> str:
    """A reason of metrics.json with a capital letter and typeset numbers."""
    return typeset(reason[:1].upper() + reason[1:])


def worst_pair(facts: Facts) -> Pair | None:
    """The pair with the largest gap in loss on the test rows."""
    known = [pair for pair in facts.pairs if pair.loss_gap is not None]
    return max(known, key=lambda pair: abs(pair.loss_gap or 0.0)) if known else None
