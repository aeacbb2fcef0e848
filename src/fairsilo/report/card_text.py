"""The model card as Markdown, made from its plain data alone."""

import itertools
import re
from collections.abc import Sequence

from fairsilo.report.card import Card
from fairsilo.report.sections.terms import cancelled, importance_words
from fairsilo.report.sections.words import notion_of
from fairsilo.report.text import DASH, plain, plural

UNSAID = (
    "Not stated by the owner of this model. It was trained to predict the column below for people "
    "like those in the training rows; nothing here says that it should decide about anybody."
)


def card_markdown(card: Card) -> str:
    """The whole card, headings and tables."""
    sections = (_head, _data, _fairness, _metrics, _groups, _terms, _certificate, _privacy)
    return (
        "\n\n".join(part for make in (*sections, _training, _limits) for part in make(card)) + "\n"
    )


def _head(card: Card) -> list[str]:
    model, use = card["model"], card["intended_use"]
    why = (card.get("worth") or {}).get("why")
    return [
        f"# Model card: {_text(model['answer'])}",
        *([] if why is None else [f"**Of little use.** This model is {_text(why)}."]),
        *(f"**Given away.** {_sentence(one[:1].upper() + one[1:])}." for one in card["given_away"]),
        f"{_text(model['kind'])[:1].upper()}{_text(model['kind'])[1:]}, trained by fairsilo "
        f"{_text(model['fairsilo'])}. {_text(model['method'])}.",
        f"It answers with a value of {_text(model['answer'])}: "
        f"{', '.join(_text(name) for name in model['classes'])}.",
        "## Intended use",
        UNSAID if use is None else _text(use),
    ]


def _data(card: Card) -> list[str]:
    data = card["data"]
    rows = [
        [
            _text(one["name"]),
            f"category, {one['values']} values" if "values" in one else one["kind"],
        ]
        for one in data["features"]
    ]
    name = f"{_text(data['name'])}: " if data["name"] else ""
    pooled = f", which pools {', '.join(map(_text, data['pooled']))}" if data["pooled"] else ""
    return [
        "## Data",
        f"{name}{_count(data['training_rows'])} training rows of "
        f"{plural(card['training']['clients'], 'client')}, {_count(data['test_rows'])} test rows; "
        f"none of them is in this card. Groups by {_text(data['group_column'])}: "
        f"{', '.join(map(_text, data['groups']))}{pooled}.",
        _table(["feature", "kind"], rows),
    ]


def _fairness(card: Card) -> list[str]:
    fairness = card["fairness"]
    limits = fairness["limits"]
    single = len(set(limits)) > 1
    names = [
        f"{_text(name)} (at most {plain(limit)})" if single else _text(name)
        for name, limit in itertools.zip_longest(fairness["compared"], limits)
        if name is not None
    ]
    aim = f"Aim: {_text(fairness['means'])}. Compared: {'; '.join(names) or 'nothing'}."
    return ["## Fairness", aim, _limit(fairness, single)]


def _limit(fairness: Card, single: bool) -> str:
    """The limit that was set, and the result on the training rows."""
    if fairness["target_deo"] is not None:
        target, found = fairness["target_deo"], fairness["training_rate_gap"]
        return (
            f"The difference of the groups' rates was to be at most {plain(target)}; on the "
            f"training rows it is {_number(found)}."
        )
    notion = notion_of(fairness["notion"])
    alone, usual = notion.alone, " (DGEO)" if notion.within_classes else ""
    what = "Every group's mean loss" if alone else f"The gap of the groups' mean losses{usual}"
    if fairness["epsilon"] is None:
        return "No limit was set on the gap of the groups' mean losses."
    gap = fairness["training_gap"]
    limit = "pair by pair, as named," if single else f"to {plain(fairness['epsilon'])}"
    mean = gap["dgeo_mean"]
    averaged = "as the average of the clients' own, with their signs"
    own = "" if mean is None else f" and {_number(mean)} {averaged}"
    return (
        f"{what} was limited {limit} {_text(fairness['measured'] or '')}".rstrip()
        + f"; on the training rows {'the largest' if alone or single else 'it'} is "
        f"{_number(gap['dgeo_pooled'])} over the union of all rows{own}."
    )


def _metrics(card: Card) -> list[str]:
    metrics = card["metrics"]
    rows = [
        [
            title,
            _number(metrics["test"][key]["value"]),
            _interval(metrics["test"][key]["interval"]),
            _number(metrics["without_a_limit"][key]),
            _number(metrics["constant_answer"][key]),
        ]
        for key, title in metrics["titles"].items()
    ]
    average = "" if metrics["one_model"] else " Figures are averages over the clients' models."
    heads = ["", "this model", "interval", "without a limit", "constant answer"]
    return [
        "## Metrics on the test rows",
        f"Intervals hold with {metrics['level']:.0%} confidence.{average}",
        _table(heads, rows, right=1),
    ]


def _groups(card: Card) -> list[str]:
    cells = [
        [
            _text(one["group"]),
            _text(one["class"]),
            _count(one["rows"]),
            _number(one["recognised"]),
            _interval(one["interval"]),
            _number(one["loss"]),
        ]
        for one in card["metrics"]["by_group"]
    ]
    pairs = [
        [
            _text(one["name"]),
            _number(one["rate_gap"]),
            _interval(one["rate_interval"]),
            _number(one["loss_gap"]),
            _interval(one["loss_interval"]),
            _interval(one["loss_bound"]),
        ]
        for one in card["metrics"]["pairs"]
    ]
    heads = ["group", "class", "rows", "recognised", "interval", "mean loss"]
    gaps = ["pair", "rates", "interval", "losses", "interval", "Chebyshev"]
    return [
        "## By group",
        _table(heads, cells, right=2),
        "Differences between groups:",
        _table(gaps, pairs, right=1),
    ]


def _terms(card: Card) -> list[str]:
    if not card.get("terms"):
        return []
    several = card["terms"][0].get("class") is not None
    rows = [
        [
            _text(one["name"]),
            *[_text(one.get("class"))] * several,
            _number(one["importance"]),
            _number(one["without_a_limit"]),
            _number(one["largest_change"]),
        ]
        for one in card["terms"]
    ]
    heads = ["term", *["class"] * several, "importance", "without a limit", "largest change"]
    what = "score of a class is" if several else "log-odds are"
    return [
        "## Terms",
        f"The {what} an intercept and the sum of these terms. {importance_words(card['terms'])}",
        _table(heads, rows, right=1 + several),
        *map(_text, cancelled(card["terms"])),
    ]


def _certificate(card: Card) -> list[str]:
    found = card["certificate"]
    if not found:
        return ["## Certificate", "This run has none."]
    lines = ["## Certificate", _sentence(found["statement"])]
    known = {name: value for name, value in found["bounds"].items() if value is not None}
    if known:
        bounds = ", ".join(f"{name} {_number(value)}" for name, value in known.items())
        lines.append(
            f"Bounds of the largest gap in losses, with {found['level']:.0%} confidence (all but "
            f"betting are approximate): {bounds}."
        )
    rates = found.get("rates", {}).get("bound")
    if rates is not None:
        lines.append(
            f"Bound of the largest difference of rates, exact, with {found['level']:.0%} "
            f"confidence: {_number(rates)}."
        )
    if found["assumes"]:
        lines.append("What it assumes:")
        lines.append(_bullets(found["assumes"]))
    return lines


def _privacy(card: Card) -> list[str]:
    found = card["privacy"]
    none = (
        "No differential privacy: what training released, and the model itself, may tell "
        "something of single training rows."
    )
    return ["## Privacy", _text(found["statement"]) if found else none]


def _training(card: Card) -> list[str]:
    training = card["training"]
    ended = f"{_count(training['rounds'])} rounds by {_text(training['solver'])}"
    notes = [_sentence(one) for one in card["notes"] if one not in card["given_away"]]
    said = [f"{ended}; {_sentence(training['reason'])}.", *notes]
    return ["## Training", *said, *_made(card.get("made"))]


def _made(made: Card | None) -> list[str]:
    """When, with what and from which data."""
    if not made:
        return []
    with_ = ", ".join(f"{name} {number}" for name, number in made["packages"].items())
    told = f"Made on {made['date']} with Python {made['python']}, {with_}, {made['machine']}."
    digests = [
        f"SHA-256 of the {what}: `{made[key]}`."
        for what, key in (("data", "data_sha256"), ("model", "model_sha256"))
        if key in made
    ]
    # In a code span nothing is escaped, so that it can be copied; a backtick would end it.
    command = " ".join(str(made.get("command", "")).replace("`", "'").split())
    return [_text(told), *([f"Made again by `{command}`."] if command else []), *digests]


def _limits(card: Card) -> list[str]:
    return ["## What this does not say", _bullets(card["limits"])]


def _bullets(lines: Sequence[object]) -> str:
    return "\n".join(f"- {_sentence(line)}" for line in lines)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], right: int | None = None) -> str:
    """A Markdown table; columns from number `right` on are aligned to the right."""
    marks = ["---:" if right is not None and k >= right else "---" for k in range(len(heads))]
    lines = [heads, marks, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float | None) -> str:
    return DASH if value is None else f"{value:.4f}"


def _interval(ends: Sequence[float] | None) -> str:
    return DASH if ends is None else f"{ends[0]:.4f} to {ends[1]:.4f}"


def _count(value: int | None) -> str:
    return DASH if value is None else f"{value:,}"


def _text(value: object) -> str:
    """Escape a user's text for Markdown and keep it on one line."""
    return _escaped(str(value)).strip()


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", re.sub(r"\s+", " ", text))


def _sentence(value: object) -> str:
    """A sentence of the program as Markdown: names of settings stay code, the rest is escaped."""
    parts = re.split(r"(`[a-z_]+`)", str(value))
    return "".join(one if k % 2 else _escaped(one) for k, one in enumerate(parts)).strip()
