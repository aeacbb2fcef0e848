"""Write docs/what-works.md: what goes with what, and in one sentence why something does not.

python docs/tools/what_works.py
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from goes_together import (
    AFTER,
    ENGINES,
    FACTORS,
    METHOD,
    NOTION,
    REPAIRS,
    Values,
    refused,
    settings_of,
    unless,
    why_not,
)

from fairsilo.solver import SOLVERS

PAGE = Path(__file__).parents[1] / "what-works.md"


class Reasons:
    """Sentences by number, each once; names of the values at hand are put in general words."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, values: Values, why: str) -> int:
        """Of a sentence, new or old."""
        settings = settings_of(values)[1]
        for option in ("method", "notion", "model", "solver"):
            if settings.get(option):
                why = re.sub(rf"(?<![\w-]){settings[option]}(?![\w-])", option.upper(), why)
        after = settings.get("after")
        why = re.sub(rf"(^method|, and|and not for) {after}(?![\w-])", r"\1 METHOD", why)
        why = re.sub(rf"(?<=not by )({'|'.join(SOLVERS)})", "SOLVER", why)
        why = re.sub(r"(?<=there are )\d+|(?<=label has )\d+", "N", why)
        return self.numbers.setdefault(why, len(self.numbers) + 1)

    def cell(self, values: Values) -> str:
        """Of a table: yes, or why not, by number."""
        why = {engine: why_not(values, engine) for engine in ENGINES}
        if not any(why.values()):
            return "yes"
        text = next(one for one in why.values() if one)
        mark = f"[{self.number(values, text)}](#why-not)"
        return mark if all(why.values()) else f"pooled only {mark}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A table in Markdown."""
    head = list(head)
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def matrix(reasons: Reasons, factor: str, columns: Iterable[str], rows: Iterable[str]) -> Any:
    """Every value of the factors `rows` against the values `columns` of one."""
    columns = list(columns)
    lines = (
        [value, *(reasons.cell({factor: column, other: value}) for column in columns)]
        for other in rows
        for value in FACTORS[other]
    )
    return table(["", *(f"`{column}`" for column in columns)], lines)


def differing(reasons: Reasons, factors: Iterable[str]) -> Iterator[str]:
    """Where a repair after another training differs from the repair itself, as a table."""
    rows = []
    for factor, value in ((one, value) for one in factors for value in FACTORS[one]):
        plain = {one: reasons.cell({"method": one, factor: value}) for one in REPAIRS}
        cells = {one: reasons.cell({"method": one, factor: value}) for one in AFTER}
        if any(cells[one] != plain[given["method"]] for one, given in AFTER.items()):
            rows.append([value, *cells.values()])
    return table(["", *(f"`{one}`" for one in AFTER)], rows)


LIMITS = {"loss": "gap of mean losses", "tau": "AF's trade-off tau", "": "nothing"}


def yes(value: object) -> str:
    """In words."""
    return "yes" if value else "no"


def methods() -> Iterator[str]:
    """What the methods say of themselves."""
    head = (
        "",
        "what it is",
        "epsilon limits",
        "leaves",
        "model",
        "DP",
        "weights",
        "questions of its own",
    )
    rows = []
    for name, one in METHOD.items():
        leaves = "a model at every silo" if one.own_models else "one model"
        models = ", ".join(f"`{model}`" for model in one.models) or "any"
        asks = ", ".join(f"`{kind}`" for kind in one.asks) or "none"
        limits = LIMITS[one.limits]
        takes = yes(one.private), yes(one.weighted)
        rows.append((f"`{name}`", one.words, limits, leaves, models, *takes, asks))
    return table(head, rows)


def notions() -> Iterator[str]:
    """What the notions say of themselves."""
    head = ("", "what is equal", "target in rates", "protects every class", "DP")
    return table(
        head,
        (
            (f"`{name}`", one.words, yes(one.rates), yes(one.every_class), yes(not one.claims))
            for name, one in NOTION.items()
        ),
    )


def others(reasons: Reasons, factors: Iterable[str], size: int) -> Iterator[str]:
    """The refused pairs or triples that no table shows, as a list."""
    factors = set(factors)
    for key, why in refused().items():
        values = dict(key)
        if len(values) != size or (size == 2 and not set(values) <= factors):
            continue
        names = " and ".join(f"*{values[f]}*" for f in FACTORS if f in values)
        engines = "" if all(why.values()) else " (on silos that answer by themselves)"
        number = reasons.number(values, next(one for one in why.values() if one))
        able = " or ".join(f"*{value}*" for _, value in unless(key))
        but = f"; with {able} they do" if able else ""
        yield f"- {names}{engines}: [{number}](#why-not){but}"
    yield ""


HEAD = """# What works where

`python docs/tools/what_works.py` writes this page: it puts every value, every pair and every triple
of values of the options through the checks that come before the first question. `fairsilo train`,
`FedFairClassifier` and `fairsilo flower` share these checks, so that **what is accepted in
simulation is accepted over a network**, with masks and without, but for one line of the first
table. Tests hold the page to the program, and the engines to each other.
"""

NETWORK = """## In simulation and over a network

The methods are the same code everywhere; only who answers differs. Behind masks (secure
aggregation, the default over a network, for three silos or more) nobody sees one silo's sums; in
the clear the server does.
"""


def where() -> Iterator[str]:
    """Every method on every engine, and where its model ends up."""
    yield NETWORK
    head = ("", "`pooled`", "`clientwise`", "network, masks", "network, clear", "its model, there")
    rows = []
    for name, one in METHOD.items():
        here, apart = (_solvers(name, engine) for engine in ENGINES)
        seen = "at every silo, shown to nobody" if one.own_models else "at the coordinator"
        rows.append([f"`{name}`", here, apart, apart, apart, seen])
    yield from table(head, rows)
    yield from NOTES


def _solvers(method: str, engine: str) -> str:
    """Yes, or the solvers that the method has on this engine."""
    able = [
        name
        for name in SOLVERS
        if not why_not({"method": method, "solver": f"solver {name}"}, engine)
    ]
    return "yes" if len(able) == len(SOLVERS) else f"by {' and '.join(able)}"


NOTES = (
    """\
- A model that stays at the silos lies in their folders `models/`. The coordinator's run folder then
  has figures and no model, and there is nothing to compare with a simulation or to export.
- `lco` over silos that keep their multipliers needs the Hessian that `newton` asks for
  ([why](architecture.md#decisions-that-stay)).
- Differential privacy needs declared bounds; over a network also a split column, because which rows
  are drawn for testing would change with every row that comes or goes.
- A method, notion or model of another package works where the coordinator and all silos have it
  installed ([how](howto/add-a-method.md)).
""",
)


def page() -> str:
    """The whole page."""
    reasons = Reasons()
    rest = [factor for factor in FACTORS if factor != "method"]
    late = [factor for factor in rest if factor != "notion"]
    parts = [HEAD, *where(), "## Methods\n", *methods(), "## Notions of fairness\n", *notions()]
    parts += [
        "## With which method\n",
        "All else at its default. A number is a sentence [below](#why-not). *pooled only*: it "
        "works\nwhere all rows are in one process (`--engine pooled`).\n",
        *matrix(reasons, "method", METHOD, rest),
        f"## {' and '.join(f'`{name}`' for name in REPAIRS)} after another training\n",
        "As the repair itself, except for\n",
        *differing(reasons, rest),
        "## With which notion\n",
        *matrix(reasons, "notion", NOTION, late),
        "## Other pairs that do not go together\n",
        *others(reasons, late, 2),
    ]
    triples = list(others(reasons, FACTORS, 3))
    if triples[:-1]:
        parts += ["## Three that do not go together, though every two of them do\n", *triples]
    parts += [
        "## Why not\n",
        "What the program says; the command line writes `--dp-epsilon` for `dp_epsilon`. METHOD, "
        "NOTION, MODEL,\nSOLVER stand for names, N for a number.\n",
    ]
    parts += [f"{number}. {why}" for why, number in reasons.numbers.items()]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
