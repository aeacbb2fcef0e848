"""A silo's own model (ST, EO, CEO): kept in the silo's folder as a run folder, shown to nobody."""

from __future__ import annotations

import re
from pathlib import Path

from fairsilo.network.federation_file import FederationFile
from fairsilo.network.settings import Settings
from fairsilo.network.wire import Ask, Refusal
from fairsilo.predictor import Predictor
from fairsilo.run.problem import Posed
from fairsilo.run.store import load, save_model


def folder_of(settings: Settings, ask: Ask) -> Path:
    """Where the model of a training lies: models/TRAINING beside the silo's settings."""
    if not re.fullmatch(r"[0-9a-f]{1,64}", ask.training):
        raise Refusal("the training has no name to keep a model under")
    return settings.models / ask.training


def load_own(settings: Settings, ask: Ask) -> Predictor | None:
    """The silo's model of this training, where the question is about it."""
    theta = getattr(ask.question, "theta", None)
    if theta is None or theta.size or not ask.encoded:
        return None
    folder = folder_of(settings, ask)
    return load(folder).predictors[0] if (folder / "model.json").exists() else None


def save_own(
    settings: Settings, agreed: FederationFile, ask: Ask, posed: Posed, model: Predictor
) -> None:
    """Keep the model that the question made, readable by the owner only."""
    folder = folder_of(settings, ask)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    save_model(model, agreed.options(), posed, folder)
    for path in folder.iterdir():
        path.chmod(0o600)
