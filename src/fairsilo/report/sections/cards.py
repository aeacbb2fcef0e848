"""Cards with the main figures, compared to unconstrained training and a constant predictor."""

from fairsilo.evaluate.intervals import Interval, largest_of, wilson
from fairsilo.report.blocks import section
from fairsilo.report.charts.frame import pct
from fairsilo.report.html import Html, el
from fairsilo.report.sections.facts import Facts
from fairsilo.report.text import interval, number

_CONSTANT = "a constant answer has no probabilities, so it has no loss"
_TEST = "the test rows do not define it: a group or class has no row there"

Figure = tuple[str, str, bool, str]
"""A key of metrics.json, its title, whether high is good, and an explanation."""

_MODEL: tuple[Figure, ...] = (
    ("accuracy", "Accuracy", True, "Share of test rows whose class is predicted."),
    (
        "balanced_accuracy",
        "Balanced accuracy",
        True,
        "The same, with every class counting equally: guessing one class gets 1 divided by the "
        "number of classes.",
    ),
)
_DEO: Figure = (
    "deo",
    "Rate gap (DEO)",
    False,
    "How far apart the groups are recognised in the protected class.",
)
_FAIRNESS: Figure = ("fairness", "Fairness", True, "1 minus the difference in rates (DEO).")
_MEAN: Figure = (
    "harmonic_mean",
    "Harmonic mean (HM)",
    True,
    "Of accuracy and fairness. It can be high for a useless model: compare the last line.",
)
_APART = "How far apart the groups\u2019 average losses are"


def figures(facts: Facts) -> tuple[Figure, ...]:
    """The figures of a run: those of the paper, or those of the run's notion of fairness."""
    limited = ": what the limit is set on." if facts.epsilon is not None else "."
    if facts.notion.within_classes:
        losses: Figure = ("dgeo_pooled", "Loss gap (DGEO)", False, _APART + limited)
        return (*_MODEL, _DEO, _FAIRNESS, _MEAN, losses)
    if facts.notion.alone:
        words = "The largest average loss of a group" + limited
        return (*_MODEL, ("dgeo_pooled", "Largest loss", False, words), _DEO, _FAIRNESS, _MEAN)
    right, held = "are answered rightly", ""
    if facts.notion.claims:
        right = f"get the answer \u201c{facts.protected}\u201d"
        held = f" if \u201c{facts.protected}\u201d is held to be true of everybody"
    rates = f"How far apart the groups\u2019 shares are that {right}."
    return (
        *_MODEL,
        ("rate_gap", "Rate gap", False, rates),
        ("dgeo_pooled", "Loss gap", False, _APART + held + limited),
        _DEO,
        _MEAN,
    )


def glance(facts: Facts) -> Html:
    """The section with the cards."""
    return section(
        "At a glance",
        el("div", *(_card(facts, *figure) for figure in figures(facts)), class_="cards"),
        lead=(
            f"All on test rows{', which training never saw' * facts.unseen}; ranges in small print "
            f"hold with 95% confidence. The bars compare this model with {_others(facts)}."
        ),
        name="glance",
    )


def _others(facts: Facts) -> str:
    constant = "always answering the most frequent class"
    if not facts.compared_free:
        return constant
    return f"the same training without a fairness limit, and with {constant}"


def _card(facts: Facts, key: str, title: str, high: bool, why: str) -> Html:
    values = {
        "This model": (facts.test(key), _TEST),
        "Without a limit": (facts.unconstrained(key), _TEST),
        "Constant answer": (facts.constant(key), _CONSTANT if key == "dgeo_pooled" else _TEST),
    }
    if not facts.compared_free:
        values.pop("Without a limit")
    known = [value for value, _ in values.values() if value is not None]
    top = 1.0 if high else max([*known, facts.epsilon or 0.0, 1e-9])
    lines = []
    for k, (name, (value, reason)) in enumerate(values.items()):
        lines += [
            el("dt", name),
            el("dd", _bar(value, top), class_=None if k else "this"),
            el("dd", number(value, why=reason)),
        ]
    return el(
        "article",
        el("h3", title, el("small", "higher is better" if high else "lower is better")),
        el("p", number(facts.test(key), why=_TEST), _range(facts, key), class_="big"),
        el("p", why, class_="why"),
        el("dl", *lines, class_="versus"),
        class_="card",
    )


def _bar(value: float | None, top: float) -> Html | None:
    if value is None:
        return None
    track = el("rect", width="100%", height=8, rx=2, class_="track")
    bar = el("rect", width=pct(min(max(value / top, 0.0), 1.0)), height=8, rx=2)
    return el("svg", track, bar, width="100%", height=8, aria_hidden="true")


def span_of(facts: Facts, key: str) -> Interval | None:
    """The interval of a figure, or None for figures of several pairs."""
    if not facts.one_model:
        return None
    if key == "accuracy":
        return wilson(sum(c.right for c in facts.cells), sum(c.rows for c in facts.cells))
    if key not in ("deo", "rate_gap", "dgeo_pooled"):
        return None
    pairs = facts.every_two if key == "deo" and not facts.notion.within_classes else facts.pairs
    if len(pairs) != 1:
        return None
    span = pairs[0].normal() if key == "dgeo_pooled" else pairs[0].rate_interval()
    return span and largest_of([span], [span])


def _range(facts: Facts, key: str) -> Html | None:
    span = span_of(facts, key)
    if span is None:
        return None
    return el("small", interval(span), title="95% confidence interval on the test rows")
