"""How a model was made, and making it again: `made` of model.json, `fairsilo rerun`."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fairsilo.data import DATASETS
from fairsilo.data.table import SUFFIXES
from fairsilo.errors import FairSiloError
from fairsilo.predictor.saved import to_tensors
from fairsilo.run.again import digest as model_digest
from fairsilo.run.options import Options
from fairsilo.run.store import Saved, load
from fairsilo.run.train import execute

PACKAGES = ("numpy", "pandas", "jax", "scipy")


def made(options: Options) -> dict[str, Any]:
    """Date, versions, kind of machine, and a digest of the data.

    Under differential privacy there is no digest: it would tell of every row.
    """
    found: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "machine": f"{platform.system()} {platform.machine()}",
        "schema_given": options.schema is not None,
    }
    if options.start_from is not None:
        found["started_from_sha256"] = model_digest(options.start_from)
    if options.dp_epsilon is None and (digest := data_digest(options.data)) is not None:
        found["data_sha256"] = digest
    return found


def data_digest(data: str) -> str | None:
    """SHA-256 of a file, or of the files of a folder in order; None of anything else."""
    path = Path(data)
    if data in DATASETS or not data or not path.exists():
        return None
    files = [path]
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.name.lower().endswith(SUFFIXES))
    digest = hashlib.sha256()
    for one in files:
        with one.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


@dataclass(frozen=True)
class Again:
    """What training again came to."""

    same_data: bool | None
    """Whether the data are those of the run; None where it is not known."""
    same_model: bool
    """To the last bit."""
    apart: float
    """The largest difference of a parameter; infinite where the models differ in kind."""


def rerun(
    folder: Path,
    data: str | None = None,
    data_dir: Path | None = None,
    start_from: Path | None = None,
) -> Again:
    """Train a run again, and compare."""
    saved = load(folder)
    if "network" in saved.metrics:
        raise FairSiloError(
            f"{folder} was trained over a network, and only simulations are made again"
        )
    if saved.metrics.get("dp") is not None:
        raise FairSiloError(
            f"{folder} was trained under differential privacy, whose noise is never the same twice"
        )
    if not saved.description.get("options", {}).get("data"):
        raise FairSiloError(
            f"{folder} was made in Python, where its rows have no name: fit the classifier again "
            "there, and compare the models"
        )
    told = saved.description.get("made", {})
    if told.get("started_from_sha256", "") != model_digest(start_from):
        raise FairSiloError(
            f"{folder} was trained from another model than this: give as `start_from` the run "
            "folder that it was trained from, or leave it out where there was none"
        )
    with TemporaryDirectory() as place:
        options = replace(trained_with(saved), data_dir=data_dir, start_from=start_from)
        options = replace(options, data=data or options.data)
        if told.get("schema_given"):
            path = Path(place) / "schema.json"
            path.write_text(saved.schema.model_dump_json())
            options = replace(options, schema=path)
        run = execute(options, baseline=False)
    digest = data_digest(options.data)
    known = told.get("data_sha256")
    before, after = to_tensors(saved.predictors)[1], to_tensors(run.trained.predictors)[1]
    alike = before.keys() == after.keys() and all(
        before[key].shape == after[key].shape for key in before
    )
    apart = max(float(np.abs(before[k] - after[k]).max()) for k in before) if alike else np.inf
    return Again(None if known is None else known == digest, apart == 0.0, apart)


def trained_with(saved: Saved, **changes: Any) -> Options:
    """The options of a run, with these changes."""
    told = {**saved.description.get("options", {}), **changes}
    told["groups"] = tuple(told["groups"]) if told.get("groups") else None
    known = set(Options.__dataclass_fields__)
    return Options(**{key: value for key, value in told.items() if key in known})
