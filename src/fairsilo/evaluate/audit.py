"""The findings of an audit (the body of audit.json), from the sum of the silos' evidence alone.

    cells   every group and class: rows, rate with Wilson's interval and the bootstrap's, mean loss
    pairs   every pair of groups in every protected class: the gap in rates (its absolute value is
            DEO) and in losses (DGEO), by the estimators pooled and mean, each with its intervals
    deo, dgeo   the largest absolute gap over the pairs, with intervals

The intervals are those of `intervals`; `mean` has D +- z sqrt(sigma_avg^2 / N) and Chebyshev's.
Those with an estimated variance need `fewest` rows of both groups, and a variance above 0.
Undefined values are None.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.evaluate.certificate import Names
from fairsilo.evaluate.evidence import Evidence, Gaps
from fairsilo.evaluate.intervals import (
    FEWEST,
    LEVEL,
    Interval,
    Moments,
    chebyshev_deviations,
    chebyshev_gap,
    largest_of,
    middle,
    newcombe,
    normal_gap,
    quantile,
    reach,
    redraw,
    wilson,
)
from fairsilo.evaluate.metrics import accuracy, balanced_accuracy, finite, largest
from fairsilo.fairness.constraint import Dgeo

DRAWS = 2_000
"""The number of bootstrap draws."""

Found = dict[str, Any]


@dataclass(frozen=True)
class Auditor:
    """The settings of an audit: pairs, confidence level, bootstrap draws and seed."""

    pairs: tuple[Dgeo, ...]
    names: Names
    level: float = LEVEL
    draws: int = DRAWS
    seed: int = 0
    fewest: int = FEWEST

    def findings(self, evidence: Evidence) -> Found:
        """All metrics of the model with their intervals."""
        tally = evidence.tally
        rates = redraw(tally.right, tally.cells, self.draws, self.seed)
        pairs = [self._pair(evidence, k, rates) for k in range(len(self.pairs))]
        rows, right = int(tally.counts.sum()), int(tally.right.sum())
        strict = 1 - (1 - self.level) / max(len(self.pairs), 1)
        wide = replace(self, level=strict)
        wider = [wide._pair(evidence, k, rates) for k in range(len(self.pairs))]
        return {
            "rows": rows,
            "level": self.level,
            "draws": self.draws,
            "accuracy": {
                "value": accuracy(tally),
                "wilson": _span(wilson(right, rows, self.level)),
            },
            "balanced_accuracy": balanced_accuracy(tally),
            "deo": _overall(pairs, wider, "rate_gap", ("newcombe", "bootstrap"), ("normal",)),
            "dgeo": _overall(pairs, wider, "loss_gap", ("normal", "chebyshev"), ("normal",)),
            "pairs": pairs,
            "cells": [
                self._cell(evidence, g, c, rates)
                for g in range(len(self.names.groups))
                for c in range(len(self.names.classes))
            ],
        }

    def _cell(self, evidence: Evidence, g: int, c: int, rates: Floats) -> Found:
        tally, classes = evidence.tally, self.names.classes
        rows, right = int(tally.cells[g, c]), int(tally.right[g, c])
        losses = _moments(evidence, g, c)
        return {
            "group": self.names.groups[g],
            "class": classes[c],
            "rows": rows,
            "hidden": int(evidence.hidden[g, c]),
            "predicted": dict(zip(classes, map(int, tally.counts[g, c]), strict=True)),
            "right": right,
            "rate": right / rows if rows else None,
            "wilson": _span(wilson(right, rows, self.level)),
            "bootstrap": _span(middle(rates[:, g, c], self.level)) if rows else None,
            "loss": losses and losses.mean,
            "loss_std": losses and losses.std,
        }

    def _pair(self, evidence: Evidence, k: int, rates: Floats) -> Found:
        pair, tally = self.pairs[k], evidence.tally
        a, b = (pair.a, pair.c), (pair.b, pair.c)
        rows = [int(tally.cells[i]) for i in (a, b)]
        right = [int(tally.right[i]) for i in (a, b)]
        both = all(rows)
        redrawn = rates[:, pair.a, pair.c] - rates[:, pair.b, pair.c]
        return {
            "a": self.names.groups[pair.a],
            "b": self.names.groups[pair.b],
            "class": self.names.classes[pair.c],
            "rows_a": rows[0],
            "rows_b": rows[1],
            "rate_gap": {
                "pooled": {
                    "value": right[0] / rows[0] - right[1] / rows[1] if both else None,
                    "newcombe": _span(newcombe(right[0], rows[0], right[1], rows[1], self.level)),
                    "bootstrap": _span(middle(redrawn, self.level)) if both else None,
                },
                "mean": self._mean(evidence.rates, k, min(rows)),
            },
            "loss_gap": {
                "pooled": self._loss_gap(_moments(evidence, *a), _moments(evidence, *b)),
                "mean": self._mean(evidence.losses, k, min(rows)),
            },
        }

    def _loss_gap(self, a: Moments | None, b: Moments | None) -> Found:
        if a is None or b is None:
            return dict.fromkeys(("value", "normal", "chebyshev"))
        return {
            "value": a.mean - b.mean,
            "normal": _span(normal_gap(a, b, self.level, self.fewest)),
            "chebyshev": _span(chebyshev_gap(a, b, self.level, self.fewest)),
        }

    def _mean(self, gaps: Gaps, k: int, rows: int) -> Found:
        value, variance = gaps.mean(k), gaps.variance_of_mean(k)
        deviations = {
            "normal": quantile(self.level),
            "chebyshev": chebyshev_deviations(self.level),
        }
        known = value is not None and bool(variance) and rows >= self.fewest
        return {
            "value": value,
            "silos": int(gaps.silos[k]),
            **{
                name: _span(reach(value or 0.0, variance or 0.0, d)) if known else None
                for name, d in deviations.items()
            },
        }


def _overall(
    pairs: Sequence[Found],
    wider: Sequence[Found],
    key: str,
    pooled: Sequence[str],
    mean: Sequence[str],
) -> Found:
    """The largest gap over the pairs, by each estimator and kind of interval."""
    found: Found = {}
    for estimator, kinds in (("pooled", pooled), ("mean", mean)):
        values = largest([pair[key][estimator]["value"] for pair in pairs])
        found[estimator] = {"value": values}
        for kind in kinds:
            spans, strict = ([p[key][estimator][kind] for p in those] for those in (pairs, wider))
            known = bool(spans) and all(span is not None for span in spans)
            found[estimator][kind] = (
                _span(largest_of([Interval(*s) for s in spans], [Interval(*s) for s in strict]))
                if known
                else None
            )
    return found


def _moments(evidence: Evidence, g: int, c: int) -> Moments | None:
    tally, rows = evidence.tally, int(evidence.tally.cells[g, c])
    if not rows or finite(tally.losses[g, c]) is None:
        return None
    found = Moments.of_sums(rows, tally.losses[g, c], tally.squares[g, c])
    return found if np.isfinite(found.std) else None


def _span(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
