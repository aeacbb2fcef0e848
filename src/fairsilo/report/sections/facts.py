"""What the files of a run folder say, read once: cells, pairs of groups, who was trained how."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairsilo.evaluate.intervals import (
    LEVEL,
    Interval,
    Moments,
    chebyshev_gap,
    newcombe,
    normal_gap,
    wilson,
)
from fairsilo.report.text import shorten

Floats = npt.NDArray[np.float64]
ONE_PER_CLIENT = ("st", "eo", "ceo")
"""The methods that leave one model per client."""


@dataclass(frozen=True)
class Cell:
    """The test rows of one group and class."""

    group: str
    name: str
    """The class."""
    rows: int
    predicted: Mapping[str, int]
    losses: Moments | None

    @property
    def right(self) -> int:
        """Rows whose class is predicted."""
        return self.predicted.get(self.name, 0)

    @property
    def rate(self) -> float | None:
        """Share of rows whose class is predicted."""
        return self.right / self.rows if self.rows else None

    @property
    def interval(self) -> Interval | None:
        """Wilson's interval of the rate."""
        return wilson(self.right, self.rows)


@dataclass(frozen=True)
class Pair:
    """Two groups in the protected class."""

    a: Cell
    b: Cell

    @property
    def name(self) -> str:
        """Who is compared with whom."""
        return f"{self.a.group} \N{MINUS SIGN} {self.b.group}"

    @property
    def short(self) -> str:
        """The name where there is little room."""
        return f"{shorten(self.a.group, 16)} \N{MINUS SIGN} {shorten(self.b.group, 16)}"

    @property
    def rate_gap(self) -> float | None:
        """Rate of a minus rate of b; its absolute value is DEO."""
        a, b = self.a.rate, self.b.rate
        return None if a is None or b is None else a - b

    @property
    def rate_interval(self) -> Interval | None:
        """Newcombe's interval of the rate gap."""
        return newcombe(self.a.right, self.a.rows, self.b.right, self.b.rows)

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
    """The contents of model.json, metrics.json and history.parquet, with their meaning."""

    description: Mapping[str, Any]
    metrics: Mapping[str, Any]
    history: pd.DataFrame

    @property
    def epsilon(self) -> float | None:
        """The limit, where one was set."""
        value = self.metrics.get("epsilon")
        return None if value is None else float(value)

    @property
    def protected(self) -> str:
        """The protected class."""
        return str(self.description["protected_class"])

    @property
    def groups(self) -> list[str]:
        """The groups that are compared."""
        return [str(group) for group in self.description["groups"]]

    @property
    def clients(self) -> int:
        """How many parties trained."""
        return int(self.metrics["clients"])

    @cached_property
    def cells(self) -> list[Cell]:
        """Test rows by group and class."""
        return [_cell(one) for one in self.metrics["test"].get("cells", [])]

    @cached_property
    def pairs(self) -> list[Pair]:
        """Every two compared groups, in the order of the constraints."""
        within = {cell.group: cell for cell in self.cells if cell.name == self.protected}
        empty = {group: Cell(group, self.protected, 0, {}, None) for group in self.groups}
        compared = [within.get(group, empty[group]) for group in self.groups]
        return [Pair(a, b) for a, b in itertools.combinations(compared, 2)]

    @property
    def method(self) -> str:
        """How it was trained, by its short name."""
        return str(self.metrics.get("method"))

    @property
    def one_model(self) -> bool:
        """Whether there is one model; of one per client, metrics and cells are averages."""
        return self.method not in ONE_PER_CLIENT or self.clients == 1

    @property
    def alone(self) -> bool:
        """Whether every client trained by itself."""
        return self.method == "st"

    @property
    def test_rows(self) -> int:
        """How many rows the model was tested on."""
        return int(self.metrics["test"].get("rows") or 0)

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.description.get("schema", {}).get("classes", ())) or 2

    def test(self, key: str) -> float | None:
        """A test metric of this model."""
        return _number(self.metrics["test"].get(key))

    def unconstrained(self, key: str) -> float | None:
        """The same metric of training without a limit."""
        return _number(self.metrics.get("unconstrained", {}).get("test", {}).get(key))

    def constant(self, key: str) -> float | None:
        """The same metric of always answering the most frequent class."""
        return _number(self.metrics.get("constant", {}).get(key))

    @property
    def training_gap(self) -> float | None:
        """The gap that the limit was set on: the largest over the constraints.

        Separate training limits no gap that all clients share.
        """
        if self.alone:
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
        """How far (95 %) the noise of differential privacy moves the gap on the training rows."""
        return 1.96 * float(self.metrics["train"].get("dgeo_noise") or 0.0)

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

    def constraint_names(self, amount: int) -> list[str]:
        """What the constraints compare; with one per client, silo by silo, the client as well."""
        pairs = [pair.name for pair in self.pairs]
        if len(pairs) == amount:
            return pairs
        clients = [str(name) for name in self.description.get("client_names", [])]
        if pairs and len(clients) * len(pairs) == amount:
            alone = len(pairs) == 1
            return [f"client {c}" if alone else f"client {c}: {p}" for c in clients for p in pairs]
        return [f"constraint {k + 1}" for k in range(amount)]


def _cell(one: Mapping[str, Any]) -> Cell:
    rows, mean, std = int(one["rows"]), _number(one.get("loss")), _number(one.get("loss_std"))
    return Cell(
        group=str(one["group"]),
        name=str(one["class"]),
        rows=rows,
        predicted={str(k): int(v) for k, v in one.get("predicted", {}).items()},
        losses=None if mean is None or std is None else Moments(rows, mean, std),
    )


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
