"""Where a model of two classes decides: at a probability that is given or chosen on training rows.

What is chosen follows from histograms of the training rows' probabilities, which are sums over
silos, so that a network and a simulation choose alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairsilo.errors import FairSiloError
from fairsilo.evaluate.scores import best_cell, share_cell, threshold_of
from fairsilo.method import Trained
from fairsilo.predictor.base import HALF, Plain
from fairsilo.predictor.thresholds import Thresholds
from fairsilo.question import Evaluate, Problem

AIMS = {"balanced-accuracy": "balanced", "f1": "f1"}
SHARE = "share="


def check_decision(text: str) -> float | None:
    """The probability that is given; None where it is to be chosen. Anything else is an error."""
    if text in AIMS:
        return None
    share = text.startswith(SHARE)
    try:
        value = float(text.removeprefix(SHARE))
    except ValueError:
        value = np.nan
    if not 0 < value < 1:
        raise FairSiloError(
            f"`decide_at` {text!r} is unknown: give a probability such as 0.3, "
            f"{', '.join(AIMS)}, or {SHARE}0.2 for a fifth of the rows"
        )
    return None if share else value


def check_two_classes(text: str | None, problem: Problem) -> None:
    """Refuse a threshold between more than two classes."""
    if text is not None and problem.classes != 2:
        raise FairSiloError("`decide_at` is for a label with two classes: leave it out")


def decided(text: str | None, problem: Problem, trained: Trained, engine: Any) -> Trained:
    """The model that decides there; `text` as in the options."""
    if text is None or not trained.predictors:
        return trained
    (model,) = trained.predictors
    assert isinstance(model, Plain)
    cut = check_decision(text)
    if cut is None:
        train, _ = engine.ask(problem, Evaluate(np.asarray(model.theta), scores="both"))
        counts = train.tally.scores[:, 0].sum(axis=0)
        aim = AIMS.get(text)
        share = text.removeprefix(SHARE)
        cell = best_cell(counts, aim) if aim else share_cell(counts, float(share))
        cut = threshold_of(cell)
    return replace(trained, predictors=(replace(model, cut=cut),))


def decision_note(text: str | None, cut: float, classes: Sequence[str]) -> list[str]:
    """Which class is predicted from which probability on, where that was asked for."""
    if text is None:
        return []
    how = f" (best {text} on the training rows)" if text in AIMS else ""
    if text.startswith(SHARE):
        how = f" (a share of {text.removeprefix(SHARE)} of the training rows)"
    usual = "" if cut == HALF else " not from 0.5,"
    return [
        f"{classes[1]!r}, the second class, is predicted from a probability of {cut:.4g} on{how},"
        f"{usual} and {classes[0]!r} below"
    ]


def cut_of(trained: Trained) -> float:
    """Where the model decides."""
    first = trained.predictors[0] if trained.predictors else None
    return first.cut if isinstance(first, Plain) else HALF


def cuts_of(trained: Trained, groups: Sequence[str]) -> dict[str, Any]:
    """`cuts` of metrics.json: where the model decides by group; nothing where it does not."""
    first = trained.predictors[0] if trained.predictors else None
    if not isinstance(first, Thresholds):
        return {}
    return {"cuts": dict(zip(groups, map(float, first.cuts), strict=True))}
