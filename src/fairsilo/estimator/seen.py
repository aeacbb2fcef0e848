"""Whether the model sees the group, said at every fit: with what it would be without, if cheap."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fairsilo.errors import FairSiloError, FairSiloWarning
from fairsilo.estimator.given import Given
from fairsilo.estimator.outcome import Fitted, train
from fairsilo.report.sections.group_seen import group_words
from fairsilo.run.group_seen import FIGURES, MOST, is_cheap
from fairsilo.run.logged import silent
from fairsilo.run.problem import plan


def warn_of_seen(rows: Given, fitted: Fitted) -> None:
    """Say that the model sees the group, where a sensitive column is in X."""
    columns = () if rows.compared.unnamed else rows.compared.columns
    seen = [name for name in columns if name in fitted.prepared.schema.columns]
    if not seen:
        return
    told: dict[str, Any] = {"group_feature": {"columns": seen}, "training": _figures(fitted)}
    without = _without(rows, fitted, seen)
    if without is not None:
        told["group_feature"]["without"] = without
    words = f"{group_words(told, 'training')}; if it is not to, leave it out of X"
    warnings.warn(words, FairSiloWarning, stacklevel=3)


def _figures(fitted: Fitted) -> dict[str, Any]:
    """What is compared, on the training rows."""
    assert fitted.told is not None
    return {name: fitted.told.training.figures.get(name) for name in FIGURES}


def _without(rows: Given, fitted: Fitted, seen: Sequence[str]) -> dict[str, Any] | None:
    """The figures of the same fit without these columns; None where that takes long."""
    options = rows.options
    cheap = is_cheap(options, plan(options, fitted.prepared)) and not options.binned
    if not cheap or rows.mechanism is not None or len(rows.frame) > MOST:
        return None
    other = replace(rows, frame=rows.frame.drop(columns=list(seen)))
    try:
        with silent(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _figures(train(other.options, other.prepare(), other.classes))
    except FairSiloError:  # Nothing is left to train on.
        return None
