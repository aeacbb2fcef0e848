"""Training that starts from an earlier model instead of from zero, such as on new rows."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from fairsilo.errors import FairSiloError
from fairsilo.method import Trained
from fairsilo.model import Model
from fairsilo.run.options import Options
from fairsilo.run.problem import Posed

PLAIN = "plain"
"""The kind of a run with a model that nothing repaired."""


def started(model: Model, options: Options, posed: Posed) -> Model:
    """The model that starts where the options say; a model that does not fit is an error."""
    from fairsilo.run.store import load

    folder = options.start_from
    if folder is None:
        return model
    saved = load(folder)
    about = saved.description
    if about["model"] != options.model:
        raise FairSiloError(
            f"{folder} has a model {about['model']!r} and this training is of {options.model!r}: "
            f"give `model` {about['model']}, or leave out `start_from`"
        )
    if about.get("kind", PLAIN) != PLAIN or len(saved.predictors) != 1:
        raise FairSiloError(
            f"{folder} was trained by {about['method']}, whose model is repaired or one for every "
            "client: `start_from` needs a run of fedfair, lco, fedavg or af"
        )
    if saved.schema.classes != posed.schema.classes:
        raise FairSiloError(
            f"the model in {folder} is for the classes {', '.join(saved.schema.classes)}: leave "
            "out `start_from`"
        )
    before, now = saved.encoder.feature_names, posed.encoder.feature_names
    if before != now:
        other = sorted(set(before) ^ set(now))
        told = f", such as {other[0]!r}" if other else ", in another order"
        raise FairSiloError(
            f"the model in {folder} was trained on other columns or categories{told}: give both "
            "the same `schema`, or leave out `start_from`"
        )
    if options.dp_epsilon is not None and saved.metrics.get("dp") is None:
        raise FairSiloError(
            f"the model in {folder} was trained without differential privacy, and what it tells of "
            "a row would be in this one, too: leave out `start_from`"
        )
    return model.starting_at(saved.predictors[0].theta)  # type: ignore[attr-defined]


def noted(options: Options, trained: Trained) -> Trained:
    """Say where training started, if not at zero."""
    if options.start_from is None:
        return trained
    note = f"training started from the model in {options.start_from.name}"
    return replace(trained, notes=(note, *trained.notes))


def digest(folder: Path | None) -> str:
    """Of the model from which training starts: a run is resumed with the same one only."""
    if folder is None:
        return ""
    try:
        return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    except OSError:
        raise FairSiloError(f"`start_from` {folder} is not a run folder with a model") from None
