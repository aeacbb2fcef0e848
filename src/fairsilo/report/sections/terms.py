"""The section "What is it made of?": every term of a model whose scores are sums."""

from collections.abc import Mapping, Sequence
from typing import Any

from fairsilo.evaluate.intervals import Interval
from fairsilo.fairness.words import spelled
from fairsilo.report.blocks import Column, details, grid, section, table
from fairsilo.report.charts import Dot, Stair, dots, heat, steps
from fairsilo.report.html import Child, Html, el, join
from fairsilo.report.text import number, plural, rounded

MOST_TERMS = 12
"""So many are drawn at once, the most important ones; the others are folded away."""
MOST_VALUES = 12
"""So many values of a category are drawn: those that are known best, or where no band says how well
they are known, those that add or take most."""
NAMES = ("this model", "without the limit")
WIDEST = 10.0
"""An interval of so many times the largest height is none: the rows do not tell."""

Term = Mapping[str, Any]


def terms(description: Mapping[str, Any]) -> Html | None:
    """The section, from model.json; None where the model is no sum of terms."""
    found: Sequence[Term] = description.get("terms", ())
    if not found:
        return None
    schema = description["schema"]
    answer = spelled(schema["label"], schema["classes"][1])
    drawn: list[Child] = []
    for name in dict.fromkeys(one.get("class") for one in found):
        if name is not None:
            drawn.append(el("h3", f"For \u201c{spelled(schema['label'], name)}\u201d"))
        drawn += _charts([one for one in found if one.get("class") == name])
    notes = [el("p", one) for one in cancelled(found)]
    return section(
        "What is it made of?", _table(found), *notes, *drawn, lead=_lead(found, answer),
        name="terms",
    )  # fmt: skip


def _charts(found: Sequence[Term]) -> list[Child]:
    """The terms of one score."""
    lines = [one for one in found if one["kind"] == "line"]
    others = [one for one in found if one["kind"] != "line"]
    charts = [_lines(lines)] * bool(lines) + [_chart(one) for one in others]
    rest = charts[MOST_TERMS:]
    more = [details(f"{plural(len(rest), 'more term')}", grid(*rest))] if rest else []
    return [grid(*charts[:MOST_TERMS]), *more]


def changed_most(one: Term) -> tuple[str, float] | None:
    """Where the limit changed a term most, and by how much; None where that is not known."""
    if not _limited(one):
        return None
    changes = [a - b for a, b in zip(one["height"], one["free"], strict=True)]
    place = max(range(len(changes)), key=lambda k: abs(changes[k]))
    if one["kind"] == "pair":
        row, column = divmod(place, len(one["labels"][1]))
        return f"{one['labels'][0][row]} & {one['labels'][1][column]}", changes[place]
    line = one["kind"] == "line" and not place
    return "one standard deviation more" if line else str(one["labels"][place]), changes[place]


def _limited(one: Term) -> bool:
    """Whether there is another model to compare with."""
    return "free" in one and one["free"] != one["height"]


def _lead(found: Sequence[Term], answer: str) -> str:
    said = (
        "The score of a class is an intercept and the sum of its terms, told as it differs from "
        "the mean score of all classes. Each term is drawn around its mean: above zero it speaks "
        "for the class, below against it. "
        if _several(found)
        else "The log-odds of a row are an intercept and the sum of these terms, each drawn around "
        f"its mean: above zero it speaks for \u201c{answer}\u201d, below against it. "
    )
    limited, known = any(map(_limited, found)), any("low" in one for one in found)
    if limited:
        said += (
            "Beside each is the model without the limit: where the two part, fairness changed what "
            "such people are told. "
        )
    if known and limited:
        said += (
            "Shaded bands and whiskers hold the terms of the model without the limit with 95% "
            "confidence; under a limit there is no such band, because the curvature there is not "
            "that of the loss alone. "
        )
    elif known:
        said += "Shaded bands and whiskers hold the terms with 95% confidence. "
    else:
        said += "There are no bands: how sure the terms are is not known. "
    return said + importance_words(found)


def importance_words(found: Sequence[Term]) -> str:
    """What importance is: without the curvature of the loss nothing is known of the rows."""
    # Folders of earlier versions say nothing of it: a model without a limit mostly had a curvature.
    if all(one.get("weighted", "free" in one) for one in found):
        return (
            "Importance is the standard deviation of what a term adds, undecided rows counting "
            "most."
        )
    return (
        "Importance is the standard deviation of what a term adds, all its steps, values and cells "
        "counting alike."
    )


def cancelled(found: Sequence[Term]) -> list[str]:
    """A sentence for every two terms that mostly cancel."""
    said, seen = [], set[tuple[Any, ...]]()
    for one in found:
        for other, correlation in (one.get("cancels") or {}).items():
            named = one.get("class")
            seen.add((named, one["name"], other))
            if (named, other, one["name"]) not in seen:
                said.append(
                    ("" if named is None else f"For \u201c{named}\u201d: ")
                    + f"\u201c{one['name']}\u201d and \u201c{other}\u201d mostly cancel "
                    f"(what they add has a correlation of {correlation:.2f}): read them together."
                )
    return said


def _several(found: Sequence[Term]) -> bool:
    """Whether every class has a score."""
    return "class" in found[0]


def _table(found: Sequence[Term]) -> Html:
    several = _several(found)
    columns = [Column("Term"), *[Column("Class")] * several, Column("Importance", "number")]
    compared = any(_limited(one) for one in found)
    if compared:
        columns += [
            Column("Without the limit", "number"), Column("Changed most for"),
            Column("By", "signed"),
        ]  # fmt: skip
    rows: list[list[Child]] = []
    for one in found:
        row: list[Child] = [str(one["name"]), *[one.get("class")] * several, one["importance"]]
        where = changed_most(one)
        if compared:
            place, change = where or ("", 0.0)
            row += [one["free_importance"], rounded(place), change]
        rows.append(row)
    made = table(columns, rows, dense=True)
    ordered = "Ordered by the larger of the importances with and without the limit."
    return join(made, el("p", ordered)) if compared else made


def _caption(one: Term) -> str:
    told = f"Importance {number(one['importance'])}"
    return told + (f", without the limit {number(one['free_importance'])}" if _limited(one) else "")


def _chart(one: Term) -> Html:
    name = str(one["name"])
    if one["kind"] == "curve":
        labels = [rounded(label) for label in one["labels"]]
        return steps(name, labels, one["edges"], _stairs(one), caption=_caption(one))
    if one["kind"] == "pair":
        maps = {NAMES[0]: one["height"]} | ({NAMES[1]: one["free"]} if _limited(one) else {})
        rows, columns = ([rounded(label) for label in side] for side in one["labels"])
        return heat(name, rows, columns, maps, caption=_caption(one))
    shown, caption = _dots(one), _caption(one)
    if len(shown) > MOST_VALUES:
        known = any(row.interval is not None for row in shown)
        chosen = "best known" if known else "furthest from zero"
        caption += f"; the {MOST_VALUES} {chosen} of {len(shown)} values"
        shown = sorted(shown, key=_doubt)[:MOST_VALUES]
    shown.sort(key=lambda row: -(row.value or 0.0))
    names = NAMES if _limited(one) else None
    return dots(name, shown, signed=True, caption=caption, names=names)


def _doubt(row: Dot) -> tuple[float, float]:
    """How wide the interval of a value is; among those without one how near to zero it is."""
    wide = float("inf") if row.interval is None else row.interval.high - row.interval.low
    return wide, -abs(row.value or 0.0)


def _stairs(one: Term) -> list[Stair]:
    band = (one["low"], one["high"]) if "low" in one else ((), ())
    if not _limited(one):
        return [Stair(NAMES[0], one["height"], *band)]
    return [Stair(NAMES[0], one["height"]), Stair(NAMES[1], one["free"], *band)]


def _lines(found: Sequence[Term]) -> Html:
    """All numbers of a logistic regression in one chart."""
    rows = [row for one in found for row in _dots(one)]
    names = NAMES if any(map(_limited, found)) else None
    told = "What one standard deviation more adds"
    return dots("Numbers", rows, signed=True, caption=told, names=names)


def _dots(one: Term) -> list[Dot]:
    """A dot for every value, with the interval where there is one."""
    found = []
    most = WIDEST * max(map(abs, (*one["height"], *one.get("free", ()))))
    for k, label in enumerate(one["labels"]):
        span = Interval(one["low"][k], one["high"][k]) if "low" in one else None
        note = ""
        if span is not None and span.high - span.low > most:
            span, note = None, "the rows do not determine it"
        beside = one["free"][k] if _limited(one) else None
        found.append(Dot(str(label), one["height"][k], span, note=note, beside=beside))
    return found
