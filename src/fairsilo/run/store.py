"""The run folder (design, section 7): written atomically, read back to the last bit."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from fairsilo import __version__
from fairsilo.data import Encoder, Schema, write_atomic
from fairsilo.data.dialect import Dialect
from fairsilo.errors import FairSiloError
from fairsilo.fairness.words import sides_of
from fairsilo.model import MODELS
from fairsilo.predictor.base import Predictor
from fairsilo.predictor.saved import from_tensors, to_tensors
from fairsilo.report import card, card_markdown, certificate_text, run_page
from fairsilo.run.constraints import protected_of
from fairsilo.run.measure import Metrics
from fairsilo.run.options import Options
from fairsilo.run.problem import Posed
from fairsilo.run.train import Run

NOWHERE = "kept by every silo"
"""The kind of a run whose models stay in the silos."""
FORMAT = 1
"""Raised when model.json changes in a way that older versions cannot read."""


@dataclass(frozen=True)
class Saved:
    """A run read back from its folder: enough to predict and to say what it is."""

    predictors: tuple[Predictor, ...]
    encoder: Encoder
    schema: Schema
    description: dict[str, Any]
    metrics: Metrics

    @property
    def dialect(self) -> Dialect:
        """How the run's own CSV files were written."""
        told = self.description.get("options", {})
        names = ("sep", "decimal", "thousands")
        return Dialect(**{name: str(told[name]) for name in names if name in told})

    @property
    def protected(self) -> tuple[str, ...]:
        """The protected classes, by name."""
        told = self.description.get("options", {}).get("protected_class")
        found = protected_of(self.schema, str(told or self.description["protected_class"]))
        return tuple(self.schema.classes[c] for c in found)


def save(run: Run, folder: Path) -> tuple[Path, ...]:
    """Write the run folder and return its files. model.json is removed first and written last:
    its presence means that the folder is complete."""
    files = contents(run)
    (folder / "model.json").unlink(missing_ok=True)
    for name, content in files.items():
        write_atomic(folder / name, content)
    return tuple(folder / name for name in files)


def contents(run: Run) -> dict[str, bytes]:
    """The files of the run folder, model.json last."""
    models = run.trained.predictors
    kind, tensors = to_tensors(models) if models else (NOWHERE, {})
    from fairsilo.run.command import command_of
    from fairsilo.run.made import made

    content = save_tensors(tensors)
    digest = {"model_sha256": hashlib.sha256(content).hexdigest()}
    how = made(run.options) | ({} if "dp" in run.metrics else digest)
    if run.options.data and "network" not in run.metrics:
        how["command"] = command_of(run.options)
    description = {**_describe(run, kind), "made": how}
    rounds = history(run)
    return {
        "model.safetensors": content,
        "history.parquet": rounds.to_parquet(index=False),
        "metrics.json": _json(run.metrics),
        "card.md": card_markdown(card(description, run.metrics)).encode(),
        "certificate.md": certificate_text(description, run.metrics).encode(),
        "report.html": run_page(description, run.metrics, rounds).encode(),
        "model.json": _json(description),
    }


def save_model(model: Predictor, options: Options, posed: Posed, folder: Path) -> None:
    """Write only a model, without figures: enough to load it and to predict."""
    kind, tensors = to_tensors([model])
    description = {**about(options, posed), "kind": kind}
    write_model(folder, description, tensors, {"method": options.method})


def write_model(
    folder: Path,
    description: dict[str, Any],
    tensors: dict[str, np.ndarray],
    metrics: Metrics,
    rounds: pd.DataFrame | None = None,
) -> None:
    """Write a run folder without pages; model.json last, as `save` does."""
    (folder / "model.json").unlink(missing_ok=True)
    write_atomic(folder / "model.safetensors", save_tensors(tensors))
    write_atomic(folder / "metrics.json", _json(metrics))
    if rounds is not None:
        write_atomic(folder / "history.parquet", rounds.to_parquet(index=False))
    write_atomic(folder / "model.json", _json(description))


def load(folder: Path) -> Saved:
    """Read a run folder back; one of its files stands for the folder."""
    if folder.is_file() and folder.name in ("model.json", "model.safetensors", "metrics.json"):
        folder = folder.parent
    description = read_json(folder / "model.json")
    if description.get("format") != FORMAT:
        raise FairSiloError(
            f"{folder} was written by another version of fairsilo (format "
            f"{description.get('format')!r}): use that version, or train again"
        )
    try:
        schema = Schema.model_validate(description["schema"])
        encoder = Encoder.from_json(description["encoder"])
        make, kind = MODELS[description["model"]], str(description.get("kind", "plain"))
    except (KeyError, TypeError, ValueError):
        raise FairSiloError(
            f"{folder / 'model.json'} is damaged or incomplete: train again"
        ) from None
    if kind == NOWHERE:
        raise FairSiloError(
            f"{folder} has no model: every silo keeps its own, in its folder models/"
        )
    path = folder / "model.safetensors"
    try:
        tensors = load_tensors(path.read_bytes())
    except Exception as error:
        raise FairSiloError(f"{path} cannot be read as safetensors: train again") from error
    model = make(len(encoder.feature_names), len(schema.classes))
    shape = tensors["theta"].shape if "theta" in tensors else ()
    if len(shape) != 2 or not shape[0] or shape[1] != model.size:
        raise FairSiloError(
            f"{path} does not hold the model that model.json describes: train again"
        )
    predictors = from_tensors(kind, model, tensors)
    return Saved(predictors, encoder, schema, description, read_json(folder / "metrics.json"))


def history(run: Run) -> pd.DataFrame:
    """One row per round that is known: loss, each D_k, each multiplier, step, residual, bytes."""
    trained, metrics = run.trained, run.metrics
    record = trained.outcome.history
    rounds = max(trained.outcome.rounds, 1)
    # Of separate training over silos only its end is known.
    known = len(record.loss)
    columns: dict[str, Any] = {
        "round": np.arange(known) + trained.outcome.rounds - known + 1,
        "loss": record.loss,
    }
    for name, values in (("d", record.d), ("mu", record.mu)):
        for k in range(values.shape[1]):
            columns[f"{name}_{k + 1}"] = values[:, k]
    columns["step"] = record.step
    columns["residual"] = record.residual
    columns["violation"] = record.violation
    columns["bytes_up"] = metrics["bytes_up"] // rounds
    columns["bytes_down"] = metrics["bytes_down"] // rounds
    return pd.DataFrame(columns)


def compared(run: Run) -> list[dict[str, Any]]:
    """Who is compared with whom, by name: what the report needs to find the rows."""
    schema = run.prepared.schema
    limits = [one["epsilon"] for one in run.metrics.get("constraints", ())]
    found = []
    for k, constraint in enumerate(run.prepared.constraints):
        a, b, classes = sides_of(constraint, schema.groups, schema.classes)
        claim = None if constraint.claim is None else schema.classes[constraint.claim]
        limit = limits[k] if limits else run.metrics.get("epsilon")
        found.append({"a": a, "b": b, "classes": classes, "claim": claim, "epsilon": limit})
    return found


def _describe(run: Run, kind: str) -> dict[str, Any]:
    return {
        **about(run.options, run.prepared),
        "kind": kind,
        "epsilon": run.metrics["epsilon"],
        "compared": compared(run),
        "trained": {
            key: run.metrics[key]
            for key in ("solver", "estimator", "clients", "rounds", "converged", "reason")
        },
        "client_names": run.client_names,
        **({"terms": run.terms} if run.terms else {}),
    }


def about(options: Options, posed: Posed) -> dict[str, Any]:
    """What model.json says of any model."""
    # A solver of one's own is an object, which has a name and no place among the known ones.
    settings = {**asdict(replace(options, solver=None)), "solver": options.solver_name}
    settings.pop("data_dir")
    settings.pop("schema")
    settings.pop("start_from")
    settings["data"] = options.data if "/" not in options.data else Path(options.data).name
    return {
        "format": FORMAT,
        "fairsilo": __version__,
        "model": options.model,
        "method": options.method,
        "groups": posed.groups,
        "protected_class": posed.protected_class,
        "constraints": [posed.describe(one) for one in posed.constraints],
        "options": settings,
        "schema": posed.schema.model_dump(mode="json"),
        "encoder": posed.encoder.to_json(),
    }


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()


def read_json(path: Path) -> dict[str, Any]:
    """The content of a file of a run folder."""
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        raise FairSiloError(
            f"{path} does not exist: give the folder that `fairsilo train --out` wrote"
        ) from None
    except (OSError, ValueError) as error:
        raise FairSiloError(f"{path} cannot be read ({error}): train again") from None
    if not isinstance(content, dict):
        raise FairSiloError(f"{path} is not a run of fairsilo: train again")
    return content
