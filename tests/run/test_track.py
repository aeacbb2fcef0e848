"""`--mlflow`, against a real MLflow store in SQLite."""

from __future__ import annotations

import importlib
import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairsilo.data import make_table
from fairsilo.errors import FairSiloError
from fairsilo.run import Options, execute, save
from fairsilo.run.predict import score_table
from fairsilo.run.track import MOST_ROUNDS, figures, open_store

mlflow = pytest.importorskip("mlflow", reason="NOT TESTED: MLflow is not installed")
MlflowClient = mlflow.tracking.MlflowClient
pytestmark = [
    # MLflow's own queries use features that SQLAlchemy 2.1 deprecates.
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the folder: a store in SQLite puts its files in mlruns/ of the current one."""
    monkeypatch.chdir(tmp_path)


def options(tmp_path: Path, **more: object) -> Options:
    make_table(300, seed=1).to_csv(tmp_path / "loans.csv", index=False)
    return Options(
        str(tmp_path / "loans.csv"), label="label", protected_class="1", group="group",
        client="client", **more,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lr", "additive"])
def test_parameters_rounds_figures_and_files(kind: str, tmp_path: Path) -> None:
    run = execute(options(tmp_path, model=kind))
    files = save(run, tmp_path / "runs" / "loans")
    uri = "sqlite:///mlflow.db"
    store = open_store(uri)
    keys = [store.log(run, files), open_store(uri).log(run, files)]
    assert len(set(keys)) == 2

    client = MlflowClient(tracking_uri=uri)
    read = client.get_run(keys[0])
    assert read.info.status == "FINISHED"
    assert read.info.run_name == "loans"
    parameters = read.data.params
    assert parameters["epsilon"] == "0.05"
    assert parameters["solver"] == "newton"
    assert parameters["groups"] == "g0,g1"
    assert parameters["data"] == "loans.csv"
    assert read.data.metrics["test.accuracy"] == run.metrics["test"]["accuracy"]
    assert read.data.metrics["unconstrained.accuracy"] > 0
    history = pd.read_parquet(tmp_path / "runs" / "loans" / "history.parquet")
    logged = client.get_metric_history(keys[0], "loss")
    assert [one.step for one in logged] == history["round"].tolist()
    np.testing.assert_array_equal([one.value for one in logged], history["loss"])
    names = {one.path for one in client.list_artifacts(keys[0])}
    assert names == {path.name for path in files} | {"model"}

    mlflow.set_tracking_uri(uri)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pyfunc = importlib.import_module("mlflow.pyfunc")
        model = pyfunc.load_model(f"runs:/{keys[0]}/model")
    people = pd.read_csv(tmp_path / "loans.csv", dtype={"group": str})
    wanted, _ = score_table(tmp_path / "runs" / "loans", tmp_path / "loans.csv")
    pd.testing.assert_frame_equal(model.predict(people.drop(columns="label")), wanted)


def test_many_rounds_are_thinned_with_the_first_and_the_last(tmp_path: Path) -> None:
    run = execute(options(tmp_path, solver="agp", rounds=2500), baseline=False)
    losses = [(value, step) for name, value, step in figures(run) if name == "loss"]
    assert len(losses) == MOST_ROUNDS
    assert losses[0][1] == 1
    assert losses[-1][1] == 2500
    assert all(math.isfinite(value) for value, _ in losses)


def test_an_address_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(FairSiloError, match="`mlflow` nonsense://x cannot be used"):
        open_store("nonsense://x")
    (tmp_path / "file").write_text("")
    with pytest.raises(FairSiloError, match="cannot be used"):
        open_store(f"sqlite:///{tmp_path}/file/mlflow.db")


@pytest.mark.slow
def test_the_run_folder_stays_when_the_store_fails(tmp_path: Path) -> None:
    run = execute(options(tmp_path), baseline=False)
    files = save(run, tmp_path / "run")
    store = open_store(f"sqlite:///{tmp_path}/mlflow.db")
    with pytest.raises(FairSiloError, match="the run folder is complete, but"):
        store.log(run, [*files, tmp_path / "gone"])
    assert all(path.exists() for path in files)
