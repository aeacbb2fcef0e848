"""Methods that leave every silo a model of its own: the simulation's, and seen by nobody else."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.arrays import Floats
from fairsilo.errors import FairSiloError
from fairsilo.network.ops.check import check_table
from fairsilo.network.settings import read_settings
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Record
from fairsilo.predictor.base import Plain, Predictor
from fairsilo.predictor.calibrated import Calibrated
from fairsilo.predictor.equalized_odds import EqualizedOdds
from fairsilo.run import load, save
from tests.network.silos import (
    Town,
    TownTransport,
    confirm,
    make_town,
    simulate,
    train,
    train_with,
)

CASES: list[dict[str, Any]] = [
    {"method": "st"},
    {"method": "eo"},
    {"method": "ceo"},
    {"method": "eo", "after": "fedfair"},
    {"method": "eo", "after": "lco", "epsilon": 0.05},
    {"method": "eo", "after": "st"},
    {"method": "eo", "after": "af", "rounds": 32},
    {"method": "ceo", "after": "st"},
]


@pytest.fixture
def open_umask() -> Iterator[None]:
    """An operator whose files everybody can read unless a program says otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


def models_of(town: Town, training: str) -> list[Path]:
    return [town.folder / name / "models" / name / training for name in town.agreed.names]


def layers(model: Predictor) -> tuple[Floats, list[Floats], list[int]]:
    """theta at the bottom, and above it chances and shares, and the numbers of the draws."""
    if isinstance(model, Plain):
        return model.theta, [], []
    assert isinstance(model, EqualizedOdds | Calibrated)
    theta, rates, streams = layers(model.base)
    pair = np.array([model.pair.a, model.pair.b, model.pair.c], np.float64)
    if isinstance(model, EqualizedOdds):
        own = [pair, model.p2p, model.n2p]
    else:
        own = [pair, model.mix, model.base_rate]
    return theta, [*own, *rates], [model.stream, *streams]


@pytest.mark.slow
@pytest.mark.usefixtures("open_umask")
@pytest.mark.parametrize("secure", [False, True], ids=["clear", "masks"])
@pytest.mark.parametrize("settings", CASES, ids=lambda s: "-after-".join(list(s.values())[:2]))
def test_every_silo_has_the_simulations_model_and_the_server_none(
    tmp_path: Path, secure: bool, settings: dict[str, Any]
) -> None:
    town = make_town(tmp_path / "town", secure_aggregation=secure, **settings)
    post = TownTransport(town)
    run, _, engine = train_with(town, post, tmp_path / "journal")
    other = simulate(town, tmp_path)
    assert len(other.trained.predictors) == len(town.agreed.names)
    folders = models_of(town, engine.journal.training)
    inputs = run.prepared.encoder.transform(town.table)
    inputs = np.hstack([np.ones((len(inputs), 1)), inputs])
    secrets: list[float] = []
    for folder, expected in zip(folders, other.trained.predictors, strict=True):
        (model,) = load(folder).predictors
        assert type(model) is type(expected)
        theta, rates, streams = layers(model)
        wanted, chances, draws = layers(expected)
        # Behind masks sums are rounded. The columns of a category add up to one, so that theta has
        # directions without any effect, in which even that shows.
        np.testing.assert_allclose(theta, wanted, rtol=0, atol=1e-5 if secure else 1e-6)
        np.testing.assert_allclose(inputs @ theta, inputs @ wanted, rtol=0, atol=1e-6)
        for one, two in zip(rates, chances, strict=True):
            np.testing.assert_allclose(one, two, rtol=0, atol=1e-8)
        assert streams == draws
        secrets += [float(value) for one in rates for value in one]
        if "st" in settings.values():
            secrets += theta.tolist()
        for path in (folder, *folder.iterdir()):
            assert not path.stat().st_mode & 0o077, f"others can use {path}"
    for key in ("rows", "loss", "accuracy", "deo", "dgeo_mean", "dgeo_pooled"):
        one, two = run.metrics["train"][key], other.metrics["train"][key]
        assert one == pytest.approx(two, abs=1e-8), key
    assert len(engine.entries) <= town.agreed.questions
    # The server: no model, in the run folder or in what it received.
    assert run.trained.predictors == ()
    save(run, tmp_path / "out")
    with pytest.raises(FairSiloError, match="has no model: every silo keeps its own, in its"):
        load(tmp_path / "out")
    received = b"".join(
        value for _, record in post.seen for value in record.values() if isinstance(value, bytes)
    )
    kept = [path for part in ("out", "journal") for path in (tmp_path / part).rglob("*.*")]
    received += b"".join(path.read_bytes() for path in kept)
    # Shares of few rows may be of anybody: points of the curves are.
    secrets = [one for one in secrets if abs(Fraction(one).limit_denominator(400) - one) > 1e-12]
    assert len(secrets) >= 4
    for value in secrets:
        assert np.float64(value).tobytes() not in received
        assert len(repr(value)) < 12 or repr(value).encode() not in received


@pytest.mark.slow
def test_they_are_those_of_one_program_over_all_silos(tmp_path: Path) -> None:
    """Which solves all silos' problems at once: another computation."""
    town = make_town(tmp_path / "town", method="st")
    _, _, engine = train_with(town, TownTransport(town), tmp_path / "journal")
    other = simulate(town, tmp_path, engine="pooled")
    x = other.prepared.encoder.transform(town.table)
    nobody = np.zeros(len(x), np.int64)
    models = models_of(town, engine.journal.training)
    for folder, expected in zip(models, other.trained.predictors, strict=True):
        found = load(folder).predictors[0].probabilities(x, nobody)
        np.testing.assert_allclose(found, expected.probabilities(x, nobody), atol=1e-6)


def test_what_the_server_is_told_of_separate_training(tmp_path: Path) -> None:
    """How many silos lack rows or did not converge, mean figures, and every silo's tallies."""
    town = make_town(tmp_path / "town", method="st", secure_aggregation=False)
    run, _, engine = train_with(town, TownTransport(town), tmp_path / "journal")
    other = simulate(town, tmp_path)
    assert [entry.kind for entry in engine.entries] == ["columns", "counts", "separate", "evaluate"]
    assert run.metrics["converged"]
    assert run.metrics["notes"] == other.metrics["notes"]
    for one, two in zip(run.metrics["by_client"], other.metrics["by_client"], strict=True):
        assert one == pytest.approx(two)
    # Every silo tests its own model on its own test rows, all of which are tested once.
    assert run.metrics["test"]["rows"] == len(town.table.query("part == 'test'"))
    assert "one model per client" in json.dumps(run.metrics["certificate"])


@pytest.mark.slow
def test_of_pooled_groups(tmp_path: Path) -> None:
    town = make_town(
        tmp_path / "town", method="st", by=("group", "region"), pool=250, groups=None, rows=1600
    )
    run, _, engine = train_with(town, TownTransport(town), tmp_path / "journal")
    other = simulate(town, tmp_path)
    assert len(run.prepared.schema.groups) < len(town.agreed.table.groups)
    models = models_of(town, engine.journal.training)
    for folder, expected in zip(models, other.trained.predictors, strict=True):
        saved = load(folder)
        assert saved.schema == run.prepared.schema == other.prepared.schema
        np.testing.assert_allclose(layers(saved.predictors[0])[0], layers(expected)[0], atol=1e-6)


def in_one_folder(town: Town) -> Town:
    """The same silos, whose settings lie in one folder; tables and keys stay where they are."""
    (shared := town.folder / "all").mkdir()

    class Together(Town):
        def settings(self, name: str) -> Path:
            return shared / f"{name}.toml"

    for name in town.agreed.names:
        text = town.settings(name).read_text()
        for file in ("federation.json", "table.csv", "node.key"):
            text = text.replace(f'"{file}"', f'"../{name}/{file}"')
        (shared / f"{name}.toml").write_text(text)
        confirm(shared / f"{name}.toml")
    return Together(town.folder, town.agreed, town.table)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "file"), [("lco", "memory.json"), ("st", "model.safetensors")])
def test_silos_whose_settings_lie_in_one_folder_share_nothing(
    tmp_path: Path, method: str, file: str
) -> None:
    """LCO with another silo's multipliers does not converge; ST evaluates another silo's model."""
    town = make_town(tmp_path / "town", method=method, rows=600, rounds=40)
    apart, _ = train(town, TownTransport(town), tmp_path / "apart")
    together = in_one_folder(town)
    found, _, engine = train_with(together, TownTransport(together), tmp_path / "together")
    for part in ("train", "test"):
        assert found.metrics[part] == apart.metrics[part]
    models = town.folder / "all" / "models"
    kept = [models / name / engine.journal.training / file for name in town.agreed.names]
    assert len({path.read_bytes() for path in kept}) == len(kept)


class KilledError(BaseException):
    """Stands for kill -9."""


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True], ids=["clear", "masks"])
@pytest.mark.parametrize("method", ["st", "eo"])
def test_a_resumed_run_finds_the_models_that_the_silos_kept(
    tmp_path: Path, secure: bool, method: str
) -> None:
    """Killed in the evaluation: silos do not train again, in a new run of Flower's."""
    town = make_town(tmp_path / "town", method=method, secure_aggregation=secure, rounds=4)
    undisturbed, _, engine = train_with(town, TownTransport(town), tmp_path / "other")
    last = engine.traffic.exchanges - secure
    first = models_of(town, engine.journal.training)

    def kill(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == last and name == "silo3":
            raise KilledError
        return None

    with pytest.raises(KilledError):
        train(town, TownTransport(town, kill), tmp_path / "journal")
    post = TownTransport(town, run="2")
    run, events, engine = train_with(town, post, tmp_path / "journal", resume=True)
    assert [e["kind"] for e in events if e["event"] == "replayed"][-1] in ("separate", "repair")
    for key in ("loss", "accuracy"):
        assert run.metrics["train"][key] == undisturbed.metrics["train"][key]
    second = models_of(town, engine.journal.training)
    for one, two in zip(first, second, strict=True):
        assert one != two
        assert (one / "model.safetensors").read_bytes() == (two / "model.safetensors").read_bytes()


def test_a_silo_without_its_model_refuses_to_evaluate_one(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", method="st", secure_aggregation=False)

    def lose_model(name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == 3 and name == "silo1":
            shutil.rmtree(town.folder / "silo1" / "models")
        return None

    run, events = train(town, TownTransport(town, lose_model), tmp_path / "journal")
    assert [e["silo"] for e in events if e["event"] == "lost"] == ["silo1"]
    (note,) = [note for note in run.metrics["notes"] if "silo1" in note]
    assert "refused: this silo has no model of its own in this training" in note


@pytest.mark.slow
@pytest.mark.parametrize("after", ["fedfair", "lco"])
def test_a_repair_keeps_to_the_minimum_cells_of_what_it_follows(tmp_path: Path, after: str) -> None:
    """Cells of fewer rows take no part in the constraints of the training, either."""
    town = make_town(
        tmp_path / "town", method="eo", after=after, epsilon=0.05, secure_aggregation=False
    )
    rows = town.table.query("part == 'train' and label == '1'").groupby(["client", "group"]).size()
    least = int(rows.min()) + 1
    assert (rows < least).sum() < len(rows) / 2
    for name in town.agreed.names:
        path = town.settings(name)
        path.write_text(path.read_text() + f"minimum_cell = {least}\n")
    run, _, engine = train_with(town, TownTransport(town), tmp_path / "journal")
    assert any("fewer than they demand of themselves" in note for note in run.metrics["notes"])
    other, all_cells = (simulate(town, tmp_path, min_cell=cell) for cell in (least, 0))
    models = models_of(town, engine.journal.training)
    for k, folder in enumerate(models):
        theta = layers(load(folder).predictors[0])[0]
        np.testing.assert_allclose(theta, layers(other.trained.predictors[k])[0], atol=1e-6)
        assert np.abs(theta - layers(all_cells.trained.predictors[k])[0]).max() > 1e-3


def test_a_repair_after_af_demands_the_rows_that_af_demands(tmp_path: Path) -> None:
    town = make_town(
        tmp_path / "town", method="eo", after="af", secure_aggregation=False, rounds=10
    )
    path = town.settings("silo1")
    path.write_text(path.read_text() + "minimum_cell = 500\n")
    problems = check_table(read_settings(path), town.agreed).problems
    assert "demand 500 or none" in " ".join(problems)
    run, _ = train(town, TownTransport(town), tmp_path / "journal")
    assert run.client_names == ("silo0", "silo2", "silo3")
    assert any("fewer than 500 training rows of a group" in note for note in run.metrics["notes"])
