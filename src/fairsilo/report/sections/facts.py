"""The contents of a run folder in the report's terms: cells, pairs of groups, training."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.arrays import Floats
from fairsilo.data.leakage import too_good
from fairsilo.evaluate.intervals import (
    FEWEST,
    LEVEL,
    Interval,
    Moments,
    chebyshev_gap,
    newcombe,
    normal_gap,
    together,
    wilson,
)
from fairsilo.fairness import DEFAULT, Notion
from fairsilo.fairness.words import spelled, told
from fairsilo.method import Method
from fairsilo.report.sections.words import method_of, notion_of
from fairsilo.report.text import shorten


@dataclass(frozen=True)
class Cell:
    """The test rows of one group and class."""

    group: str
    name: str
    """The class."""
    rows: float
    """Of rows with weights, as many as say as much: no whole number then."""
    predicted: Mapping[str, float]
    losses: Moments | None

    @property
    def right(self) -> float:
        """Rows whose class is predicted correctly."""
        return self.predicted.get(self.name, 0)

    @property
    def rate(self) -> float | None:
        """Share of rows whose class is predicted correctly."""
        return self.right / self.rows if self.rows else None

    @property
    def interval(self) -> Interval | None:
        """Wilson's interval of the rate."""
        return wilson(self.right, self.rows)


NOBODY = Cell("", "", 0, {}, Moments(FEWEST, 0.0, 0.0))
"""The other side of a group whose loss itself is limited: loss zero with variance zero."""


@dataclass(frozen=True)
class Pair:
    """Two groups, or a group against all others or NOBODY, in protected classes or overall."""

    a: Cell
    b: Cell
    epsilon: float | None = None
    """The limit on the gap of their losses."""
    among: str = ""
    """The class as a suffix of the name, if there are several classes."""

    @property
    def name(self) -> str:
        """The groups that are compared, as "a - b"."""
        return self._named(self.a.group, self.b.group)

    def _named(self, a: str, b: str) -> str:
        return (a if self.b is NOBODY else f"{a} \N{MINUS SIGN} {b}") + self.among

    @property
    def short(self) -> str:
        """The name with long group names shortened."""
        return self._named(*(shorten(cell.group, 16) for cell in (self.a, self.b)))

    @property
    def rate_gap(self) -> float | None:
        """Rate of a minus rate of b; its absolute value is DEO."""
        a, b = self.a.rate, self.b.rate
        return None if a is None or b is None else a - b

    def rate_interval(self, level: float = LEVEL) -> Interval | None:
        """Newcombe's interval of the rate gap."""
        return newcombe(self.a.right, self.a.rows, self.b.right, self.b.rows, level)

    @property
    def loss_gap(self) -> float | None:
        """D: mean loss of a minus mean loss of b; its absolute value is DGEO."""
        a, b = self.a.losses, self.b.losses
        return None if a is None or b is None else a.mean - b.mean

    def normal(self, level: float = LEVEL) -> Interval | None:
        """Interval of D by the normal approximation."""
        a, b = self.a.losses, self.b.losses
        return None if a is None or b is None else normal_gap(a, b, level)

    def chebyshev(self, level: float = LEVEL) -> Interval | None:
        """Interval of D by Chebyshev's inequality."""
        a, b = self.a.losses, self.b.losses
        return None if a is None or b is None else chebyshev_gap(a, b, level)


@dataclass(frozen=True)
class Facts:
    """The contents of model.json, metrics.json and history.parquet, interpreted."""

    description: Mapping[str, Any]
    metrics: Mapping[str, Any]
    history: pd.DataFrame

    @property
    def epsilon(self) -> float | None:
        """The limit, or None if none was set."""
        value = self.metrics.get("epsilon")
        return None if value is None else float(value)

    @property
    def protected(self) -> str:
        """The protected class, or several with commas between."""
        told = str(self.description["protected_class"])
        known = self.description.get("schema", {}).get("classes", ())
        each = [told] if told in known else told.split(", ")
        return ", ".join(map(self.answer, each))

    @property
    def groups(self) -> list[str]:
        """The groups that are compared."""
        return [self.called(str(group)) for group in self.description["groups"]]

    def called(self, group: str) -> str:
        """A group as a reader understands it."""
        return spelled(str(self.description.get("schema", {}).get("group", "")), group)

    def answer(self, name: str) -> str:
        """A class as a reader understands it."""
        return spelled(str(self.description.get("schema", {}).get("label", "")), name)

    def spoken(self, one: Mapping[str, Any]) -> dict[str, Any]:
        """A comparison of model.json with names as a reader understands them."""
        claim = one["claim"]
        return {
            **one,
            **{side: [self.called(str(name)) for name in one[side]] for side in ("a", "b")},
            "classes": [self.answer(str(name)) for name in one["classes"]],
            "claim": None if claim is None else self.answer(str(claim)),
        }

    @cached_property
    def compared_names(self) -> list[str]:
        """What is limited, as a reader understands it: "female=0 - female=1 in good=1"."""
        compared = self.description.get("compared") or []
        every = [self.answer(str(one)) for one in self.description["schema"]["classes"]]
        spoken = (self.spoken(one) for one in compared)
        found = [told(one["a"], one["b"], one["classes"], one["claim"], every) for one in spoken]
        return found or [str(one) for one in self.description.get("constraints", ())]

    @cached_property
    def too_good(self) -> list[str]:
        """Notes that say why the test figures cannot be believed."""
        return [str(one) for one in self.metrics.get("notes", ()) if too_good(str(one))]

    @property
    def clients(self) -> int:
        """The number of clients that trained."""
        return int(self.metrics["clients"])

    @cached_property
    def cells(self) -> list[Cell]:
        """Test rows by group and class."""
        return [self._cell(one) for one in self.metrics["test"].get("cells", [])]

    def _cell(self, one: Mapping[str, Any]) -> Cell:
        rows, mean, std = one["rows"], _number(one.get("loss")), _number(one.get("loss_std"))
        return Cell(
            group=self.called(str(one["group"])),
            name=self.answer(str(one["class"])),
            rows=rows,
            predicted={self.answer(str(k)): v for k, v in one.get("predicted", {}).items()},
            losses=None if mean is None or std is None else Moments(rows, mean, std),
        )

    @cached_property
    def claims(self) -> dict[tuple[str, str], Moments]:
        """By group and class: the losses of the group's test rows if all were of that class."""
        return {
            (self.called(str(one["group"])), self.answer(str(one["claim"]))): Moments(
                one["rows"], float(one["loss"]), float(one["loss_std"])
            )
            for one in self.metrics["test"].get("claims", [])
        }

    @cached_property
    def notion(self) -> Notion:
        """The notion of fairness."""
        return notion_of(str(self.metrics.get("notion") or DEFAULT.name))

    @cached_property
    def compares(self) -> str:
        """What groups are compared in: the protected "class", "every class", what the model is to
        "claim" of all, the "whole", "some" classes that the notion chooses; or each is "alone"."""
        notion, every = self.notion, set(self.description.get("schema", {}).get("classes", ()))
        if notion.alone or notion.claims:
            return "alone" if notion.alone else "claim"
        if notion.within_classes:
            return "every class" if notion.every_class else "class"
        classes = [set(one["classes"]) for one in self.description.get("compared", ())]
        return "whole" if classes and all(one == every for one in classes) else "some"

    @property
    def target(self) -> float | None:
        """The largest allowed difference of rates, or None if the limit was another."""
        return _number(self.metrics.get("target_deo"))

    @property
    def rate_pairs(self) -> list[Pair]:
        """The pairs whose rates are compared: all pairs where each group is limited alone."""
        return self.every_two if self.notion.alone else self.pairs

    @cached_property
    def pairs(self) -> list[Pair]:
        """The pairs whose gap is limited, in the order of the constraints."""
        compared = self.description.get("compared", ())
        if not compared:
            return self.every_two
        several = len({(tuple(one["classes"]), one["claim"]) for one in compared}) > 1
        return [self._pair(self.spoken(one), several) for one in compared]

    @cached_property
    def every_two(self) -> list[Pair]:
        """Every two groups in the protected class."""
        limit = None if self.notion.alone else self.epsilon
        within = {cell.group: cell for cell in self.cells if cell.name == self.protected}
        empty = {group: Cell(group, self.protected, 0, {}, None) for group in self.groups}
        compared = [within.get(group, empty[group]) for group in self.groups]
        return [Pair(a, b, limit) for a, b in itertools.combinations(compared, 2)]

    def _pair(self, one: Mapping[str, Any], several: bool) -> Pair:
        claim, classes = one["claim"], one["classes"]
        what = f"predicted {claim}" if claim is not None else ", ".join(classes)
        among = f" ({what})" if several else ""
        a, b = (
            self._side(one[side], classes, claim) if one[side] else NOBODY for side in ("a", "b")
        )
        return Pair(a, b, _number(one["epsilon"]), among)

    def _side(self, groups: list[str], classes: list[str], claim: str | None) -> Cell:
        """The cells of a side merged; with a claim, rows count as right if it is predicted."""
        mine = [cell for cell in self.cells if cell.group in groups and cell.name in classes]
        name = claim if claim is not None else ", ".join(classes)
        hits = sum(cell.right if claim is None else cell.predicted.get(claim, 0) for cell in mine)
        losses = [cell.losses for cell in mine if cell.losses is not None]
        if claim is not None:
            losses = [
                self.claims[group, claim] for group in groups if (group, claim) in self.claims
            ]
        return Cell(
            group=groups[0] if len(groups) == 1 else "the others",
            name=name,
            rows=sum(cell.rows for cell in mine),
            predicted={name: hits},
            losses=together(losses),
        )

    @cached_property
    def method(self) -> Method:
        """The training method."""
        return method_of(str(self.metrics.get("method")))

    @property
    def one_model(self) -> bool:
        """Whether there is one model; with one per client, metrics and cells are averages."""
        return not self.method.own_models or self.clients == 1

    @property
    def test_rows(self) -> int:
        """How many rows the model was tested on."""
        return int(self.metrics["test"].get("rows") or 0)

    @property
    def unseen(self) -> bool:
        """Whether it is known that training did not see the test rows."""
        return bool(self.metrics.get("unseen", True))

    @property
    def tested_on(self) -> str:
        """The test rows in words."""
        return "rows it never saw" if self.unseen else "rows given for testing"

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.description.get("schema", {}).get("classes", ())) or 2

    def test(self, key: str) -> float | None:
        """A test metric of this model."""
        return _number(self.metrics["test"].get(key))

    def unconstrained(self, key: str) -> float | None:
        """The same test metric for training without a limit."""
        return _number(self.metrics.get("unconstrained", {}).get("test", {}).get(key))

    @property
    def compared_free(self) -> bool:
        """Whether the same training without a limit stands beside this model."""
        return bool(self.metrics.get("unconstrained"))

    def constant(self, key: str) -> float | None:
        """The same test metric for always predicting the most frequent class."""
        return _number(self.metrics.get("constant", {}).get(key))

    @property
    def useless(self) -> str | None:
        """Why the model is hardly better than one answer for everybody; None where it is."""
        why = (self.metrics.get("worth") or {}).get("why")
        return None if why is None else str(why)

    @property
    def training_gap(self) -> float | None:
        """The gap on the training rows that the limit applies to: the largest constraint.

        None for separate training, which limits each client's gap on its own.
        """
        if self.method.alone:
            return None
        match self.metrics.get("estimator"):
            case "mean":
                return _number(self.metrics["train"].get("dgeo_mean"))
            case "local":
                last = [abs(column[-1]) for column in self.columns("d") if len(column)]
                return float(max(last)) if last and np.isfinite(last).all() else None
        return _number(self.metrics["train"].get("dgeo_pooled"))

    @property
    def gap_noise(self) -> float:
        """How far the noise of differential privacy moves the gap on training rows (95 %)."""
        return 1.96 * float(self.metrics["train"].get("dgeo_noise") or 0.0)

    @property
    def training_rate_gap(self) -> float | None:
        """The largest difference of rates on the training rows, or None if unknown."""
        return _number(self.metrics["train"].get("rate_gap"))

    def columns(self, letter: str) -> list[Floats]:
        """The columns d_1, d_2, ... or mu_1, mu_2, ... of the history."""
        names = itertools.takewhile(
            lambda name: name in self.history, (f"{letter}_{k}" for k in itertools.count(1))
        )
        return [self.column(name) for name in names]

    def column(self, name: str) -> Floats:
        """A column of the history as floats; empty if there is none."""
        if name not in self.history:
            return np.empty(0)
        return self.history[name].to_numpy(dtype=np.float64, na_value=np.nan)

    @property
    def rates_limited(self) -> bool:
        """Whether training limited gaps of rates directly, not of losses."""
        by = self.description.get("options", {}).get("target_by", "proxy")
        return self.target is not None and by == "proxy"

    def constraint_limits(self, amount: int) -> list[float | None]:
        """The limit of each constraint, in the order of the history's columns."""
        if self.rates_limited:
            return [self.target] * amount
        own = [_number(one["epsilon"]) for one in self.description.get("compared", ())]
        if own and amount % len(own) == 0:
            return own * (amount // len(own))
        return [self.epsilon] * amount

    def constraint_names(self, amount: int) -> list[str]:
        """What each constraint compares; with one per client, including the client's name."""
        named = [str(name) for name in self.description.get("constraints", ())]
        alike = len(named) != len(self.pairs) or any(pair.among for pair in self.pairs)
        pairs = named if alike and named else [pair.name for pair in self.pairs]
        if len(pairs) == amount:
            return pairs
        clients = [str(name) for name in self.description.get("client_names", [])]
        if pairs and len(clients) * len(pairs) == amount:
            alone = len(pairs) == 1
            return [f"client {c}" if alone else f"client {c}: {p}" for c in clients for p in pairs]
        return [f"constraint {k + 1}" for k in range(amount)]


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
