"""A run folder as an MLflow model, which `mlflow.pyfunc.load_model` loads.

MLflow keeps a copy of the folder, and calls `_load_pyfunc` of this module with its path.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from fairsilo import __version__
from fairsilo.errors import FairSiloError
from fairsilo.extras import install
from fairsilo.run.predict import scores_of
from fairsilo.run.store import Saved, load

FILES = ("model.json", "model.safetensors", "metrics.json", "card.md")
"""What a model needs of a run folder, and the card."""


def save_pyfunc(folder: Path, out: Path) -> None:
    """Write a run folder as an MLflow model into a new folder."""
    # MLflow reports its use to its makers unless told not to; nothing may leave unasked.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    try:
        with warnings.catch_warnings():
            # It warns of type hints of its own.
            warnings.simplefilter("ignore")
            from mlflow.pyfunc import save_model
    except ModuleNotFoundError:
        raise FairSiloError(f"`mlflow` needs the package mlflow: {install('mlflow')}") from None
    load(folder)
    with TemporaryDirectory() as place:
        run = Path(place) / "run"
        run.mkdir()
        for name in FILES:
            if (folder / name).exists():
                copyfile(folder / name, run / name)
        save_model(
            str(out),
            loader_module=__name__,
            data_path=str(run),
            pip_requirements=[f"fairsilo=={__version__}"],
        )


class Scorer:
    """The model as MLflow sees it: a table of raw columns in, classes and probabilities out."""

    def __init__(self, saved: Saved) -> None:
        self.saved = saved

    def predict(self, data: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """As `fairsilo predict`; `params` may have the `seed` of methods that draw."""
        return scores_of(self.saved, data, int((params or {}).get("seed", 0)))


def _load_pyfunc(path: str) -> Scorer:
    return Scorer(load(Path(path)))
