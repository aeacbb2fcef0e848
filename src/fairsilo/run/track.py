"""A run in an MLflow store: options as parameters, figures as metrics, files as artefacts.

Everything is logged after training, so that a slow store costs no round; the store is opened
before it, so that a wrong address costs no training.
"""

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fairsilo import __version__
from fairsilo.errors import FairSiloError
from fairsilo.extras import install
from fairsilo.run.pyfunc import save_pyfunc
from fairsilo.run.store import history
from fairsilo.run.train import Run

EXPERIMENT = "fairsilo"
"""The experiment unless MLFLOW_EXPERIMENT_NAME names another."""
MOST_ROUNDS = 1000
"""Of more rounds (AGP has 20,000) as many, evenly spaced; history.parquet has them all."""
BATCH = 1000
"""The most metrics that MLflow takes at once."""
MODEL = "model"
"""Where the store has the model, for `mlflow.pyfunc.load_model("runs:/ID/model")`."""
PARTS = ("train", "test", "unconstrained", "constant")


@dataclass(frozen=True)
class Store:
    """An open MLflow store and the experiment that runs go to."""

    uri: str
    client: Any
    experiment: str

    def log(self, run: Run, files: Sequence[Path]) -> str:
        """Log a finished run and return its id in the store."""
        from mlflow.entities import Metric, Param, RunTag

        try:
            name = files[0].parent.name if files else run.options.method
            made = self.client.create_run(self.experiment, run_name=name)
            key = str(made.info.run_id)
            now = int(time.time() * 1000)
            metrics = [Metric(name, value, now, step) for name, value, step in figures(run)]
            parameters = [Param(name, str(value)) for name, value in parameters_of(run).items()]
            tags = [RunTag("fairsilo", __version__), RunTag("reason", run.metrics["reason"])]
            self.client.log_batch(key, params=parameters, tags=tags)
            for start in range(0, len(metrics), BATCH):
                self.client.log_batch(key, metrics=metrics[start : start + BATCH])
            for file in files:
                self.client.log_artifact(key, str(file))
            if files and run.trained.predictors:
                with TemporaryDirectory() as place:
                    save_pyfunc(files[0].parent, Path(place) / MODEL)
                    self.client.log_artifacts(key, str(Path(place) / MODEL), MODEL)
            self.client.set_terminated(key)
        except Exception as error:
            raise FairSiloError(
                f"the run folder is complete, but logging to `mlflow` {self.uri} failed: "
                f"{first_line(error)}"
            ) from error
        return key


def open_store(uri: str) -> Store:
    """Reach the store and find or make the experiment."""
    # MLflow reports its use to its makers unless told not to; nothing may leave unasked.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    # By default it knocks at a closed door for four minutes.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    try:
        from mlflow.tracking import MlflowClient
    except ModuleNotFoundError:
        raise FairSiloError(f"`mlflow` needs the package mlflow: {install('mlflow')}") from None
    if ":" not in uri and uri != "databricks":
        raise FairSiloError(
            f"`mlflow` {uri} is not an address: give one such as sqlite:///mlflow.db or "
            "http://localhost:5000"
        )
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
    try:
        client = MlflowClient(tracking_uri=uri)
        found = client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else client.create_experiment(name)
    except Exception as error:
        raise FairSiloError(
            f"`mlflow` {uri} cannot be used ({first_line(error)}): give an address such as "
            "sqlite:///mlflow.db or http://localhost:5000"
        ) from error
    return Store(uri, client, str(experiment))


def parameters_of(run: Run) -> dict[str, Any]:
    """The options that were given or chosen."""
    options = asdict(run.options)
    options.pop("data_dir")
    options["data"] = Path(run.options.data).name
    options["solver"] = run.metrics["solver"]
    options["groups"] = ",".join(run.prepared.groups)
    options["protected_class"] = run.prepared.protected_class
    options["clients"] = run.metrics["clients"]
    return {name: value for name, value in options.items() if value is not None}


def figures(run: Run) -> Iterator[tuple[str, float, int]]:
    """Name, value and round: every column of the history, then the figures of the whole run."""
    rounds = history(run)
    shown = np.linspace(0, len(rounds) - 1, min(len(rounds), MOST_ROUNDS)).astype(int)
    for name in rounds.columns.drop("round"):
        for k in shown:
            value = float(rounds[name].iloc[k])
            if math.isfinite(value):
                yield name, value, int(rounds["round"].iloc[k])
    last = run.metrics["rounds"]
    for name, value in _flat(run.metrics):
        yield name, value, last


def _flat(metrics: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The single numbers among the metrics, such as test.accuracy."""
    for part in PARTS:
        values = metrics.get(part, {})
        for name, value in (values.get("test", values)).items():
            if isinstance(value, int | float) and math.isfinite(value):
                yield f"{part}.{name}", float(value)
    for name in ("rounds", "seconds", "converged"):
        yield name, float(metrics[name])


def first_line(error: Exception) -> str:
    """What went wrong, without the help that follows it."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].split(". ")[0]
