"""What a silo keeps of a training and shows to nobody, in its own folder.

Its own model (ST, EO, CEO), as a run folder; its multipliers (LCO), as JSON. Both stay when a node
is started anew or a training goes on in another run: the same question has the same answer.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from fairsilo.network.federation_file import FederationFile
from fairsilo.network.ledger import write
from fairsilo.network.settings import Settings
from fairsilo.network.wire import Ask, Refusal
from fairsilo.predictor import Predictor
from fairsilo.run.problem import Posed
from fairsilo.run.store import load, save_model

MEMORY = "memory.json"


def _named(ask: Ask) -> bool:
    """Whether the training has a name that a folder may have."""
    return re.fullmatch(r"[0-9a-f]{1,64}", ask.training) is not None


def folder_of(settings: Settings, ask: Ask) -> Path:
    """Where the silo keeps what is its own of a training: models/NAME/TRAINING beside its settings.

    With the silo's name, since the settings of two silos may lie in one folder.
    """
    if not _named(ask):
        raise Refusal("the training has no name to keep a model under")
    return settings.models / settings.name / ask.training


def _made(settings: Settings, ask: Ask) -> Path:
    """The same folder, which is there and the owner's alone."""
    folder = folder_of(settings, ask)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


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
    folder = _made(settings, ask)
    save_model(model, agreed.options(), posed, folder)
    for path in folder.iterdir():
        path.chmod(0o600)


def load_memory(settings: Settings, ask: Ask) -> dict[str, list[float]]:
    """What the silo remembers from earlier questions of this training."""
    if not _named(ask):
        return {}
    path = folder_of(settings, ask) / MEMORY
    return json.loads(path.read_bytes()) if path.exists() else {}


def save_memory(settings: Settings, ask: Ask, memory: dict[str, list[float]]) -> None:
    """Keep it, before the answer leaves."""
    write(_made(settings, ask) / MEMORY, memory)
