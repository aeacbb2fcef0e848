"""Details of a model beside its main figures: intervals, groups, clients, bytes, training."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fairsilo.evaluate import Tally, clients_of
from fairsilo.evaluate.intervals import LEVEL, Interval, largest_of, newcombe, wilson
from fairsilo.evaluate.metrics import rate_sides
from fairsilo.experiment.endings import RATE
from fairsilo.fairness import Constraint
from fairsilo.method import Trained
from fairsilo.run.measure import bytes_sent
from fairsilo.run.prepare import Prepared
from fairsilo.run.tallies import tallies_of_clients
from fairsilo.solver import Agp, Order, Record, Solver
from fairsilo.sums.compiled import CHUNK

POINTS = 60
"""The most rounds of a training that are kept."""


def judged(prepared: Prepared) -> tuple[Constraint, ...]:
    """What fairness is measured on: the notion's own gaps, or DEO's where it limits each group by
    itself and so has no gap in rates."""
    shape = len(prepared.schema.groups), len(prepared.schema.classes)
    sides = [side for one in prepared.constraints for side in one.sides(*shape)]
    return prepared.constraints if all(side.any() for side in sides) else prepared.compared


def intervals(prepared: Prepared, tally: Tally) -> dict[str, float | None]:
    """95 % intervals of accuracy (Wilson) and fairness (Newcombe, of the largest gap in rates)."""
    gaps, pairs = [], judged(prepared)
    # Of several pairs the lower end of the largest gap needs a stricter level.
    for level in (LEVEL, 1 - (1 - LEVEL) / len(pairs)):
        sides = (rate_sides(tally, pair) for pair in pairs)
        gaps.append([newcombe(g, m, h, n, level) for (m, g, _), (n, h, _) in sides])
    spans, strict = ([one for one in level if one is not None] for level in gaps)
    size = largest_of(spans, strict) if len(spans) == len(pairs) else None
    found = {
        "accuracy": wilson(float(tally.right.sum()), float(tally.cells.sum())),
        "fairness": None if size is None else Interval(1 - size.high, 1 - size.low),
    }
    return {
        f"{name}_{end}": None if span is None else float(getattr(span, end))
        for name, span in found.items()
        for end in ("low", "high")
    }


def group_rates(prepared: Prepared, tally: Tally) -> dict[str, float]:
    """For each compared group, the share of its rows of each protected class that is recognised.

    NaN where it has none.
    """
    schema, shape = prepared.schema, tally.cells.shape
    compared = np.any([pair.sides(*shape)[0] for pair in prepared.compared], axis=(0, 1))
    protected = np.flatnonzero(compared)
    empty = np.full(shape, np.nan)
    rates = np.divide(tally.right, tally.cells, out=empty, where=tally.cells > 0)
    return {
        f"{RATE}{name}" + f", {schema.classes[c]}" * (len(protected) > 1): float(
            rates[schema.groups.index(name), c]
        )
        for name in prepared.groups
        for c in protected
    }


def by_client(prepared: Prepared, trained: Sequence[Trained], seed: int) -> list[dict[str, float]]:
    """The least and the most accurate client and the largest gap, on the clients' training rows."""
    found = []
    for tallies in tallies_of_clients(prepared, trained, seed):
        named = dict(zip(prepared.client_names, tallies, strict=True))
        clients = clients_of(named, prepared.constraints)
        accuracies = [one["accuracy"] for one in clients if one["accuracy"] is not None]
        gaps = [one["dgeo"] for one in clients if one["dgeo"] is not None]
        found.append(
            {
                "client_accuracy_least": min(accuracies),
                "client_accuracy_most": max(accuracies),
                "client_dgeo_largest": max(map(abs, gaps), default=float("nan")),
            }
        )
    return found


def sent(prepared: Prepared, trained: Trained, solver: Solver, method: str) -> dict[str, int]:
    """Bytes that all clients together sent and received while training."""
    single = isinstance(solver, Agp) and method != "af"
    return bytes_sent(trained, prepared.federation.clients, single)


def trace(trained: Trained, method: str) -> str:
    """Some rounds of a training, as JSON: loss, gap and multiplier.

    AF limits C (`method.af`) instead of a gap, so its gap and multiplier are empty.
    """
    rounds, history = trained.outcome.rounds, trained.outcome.history
    count = len(np.asarray(history.loss))
    some = np.unique(np.linspace(0, count - 1, min(POINTS, count)).astype(np.int64))
    # A thinned history has one record for each call of the compiled loop.
    step = 1 if count == rounds else CHUNK[Order.LAGRANGIAN]
    numbers = np.where(some == count - 1, rounds, np.minimum((some + 1) * step, rounds))
    limited = np.nan if method == "af" else 1.0
    columns: dict[str, npt.NDArray[Any]] = {
        "round": numbers,
        "loss": np.asarray(history.loss)[some],
        "gap": limited * _largest(history, "d")[some],
        "multiplier": limited * _largest(history, "mu")[some],
    }
    return json.dumps({name: _brief(values) for name, values in columns.items()})


def _largest(history: Record, name: str) -> npt.NDArray[np.float64]:
    """The gap or multiplier by round; of several, the largest absolute value; of none, NaN."""
    values = np.asarray(getattr(history, name), np.float64)
    if values.shape[1] <= 1:
        return values[:, 0] if values.shape[1] else np.full(len(values), np.nan)
    largest: npt.NDArray[np.float64] = np.max(np.abs(values), axis=1)
    return largest


def _brief(values: npt.NDArray[Any]) -> list[float | None]:
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values]
