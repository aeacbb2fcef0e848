"""Predictors of every kind are restored exactly from a run folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save

from fairsilo.data.synthetic import make_table
from fairsilo.errors import FairSiloError
from fairsilo.fairness import Dgeo
from fairsilo.method import METHODS
from fairsilo.model import logistic_regression
from fairsilo.predictor.base import Predictor
from fairsilo.predictor.calibrated import fit_calibrated
from fairsilo.predictor.equalized_odds import fit_equalized_odds
from fairsilo.predictor.saved import from_tensors, to_tensors
from fairsilo.run import Options, execute
from fairsilo.run import load as load_run
from fairsilo.run import save as save_run
from fairsilo.run.prepare import Prepared
from fairsilo.run.problem import plan
from tests.method.tasks import PAIR, biased, hits_of, posed


def assert_same(before: tuple[Predictor, ...], after: tuple[Predictor, ...]) -> None:
    federation = biased(99, [200])
    x, y, s = federation.x, federation.y, federation.s
    assert len(before) == len(after)
    for one, two in zip(before, after, strict=True):
        assert type(one) is type(two)
        np.testing.assert_array_equal(one.probabilities(x, s), two.probabilities(x, s))
        np.testing.assert_array_equal(one.losses(x, y, s), two.losses(x, y, s))
        for seed in range(3):
            np.testing.assert_array_equal(one.labels(x, s, seed), two.labels(x, s, seed))


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_survives_the_round_trip(method: str) -> None:
    predictors = METHODS[method](*posed(biased(0, [60, 70]))).predictors
    kind, tensors = to_tensors(predictors)
    wrapped = {"eo": "equalized_odds", "ceo": "calibrated", "thresholds": "cut_by_group"}
    assert kind == (f"{wrapped[method]}/plain" if method in wrapped else "plain")
    assert_same(predictors, from_tensors(kind, logistic_regression(3), load(save(tensors))))


@pytest.mark.slow
def test_repairs_upon_repairs_survive_too() -> None:
    federation = biased(1, [150])
    swapped = Dgeo(1, 0, 0)
    base = METHODS["st"](*posed(federation)).predictors[0]
    for _ in range(2):
        hits = hits_of(base, PAIR, federation.x, federation.y, federation.s)
        base = fit_calibrated(base, PAIR, hits, 5)
        hits = hits_of(base, swapped, federation.x, federation.y, federation.s)
        base = fit_equalized_odds(base, swapped, hits, 3)
    kind, tensors = to_tensors([base])
    assert kind == "equalized_odds/calibrated/equalized_odds/calibrated/plain"
    assert_same((base,), from_tensors(kind, logistic_regression(3), load(save(tensors))))


def test_a_damaged_file_is_said_to_be_so() -> None:
    kind, tensors = to_tensors(METHODS["eo"](*posed(biased(2, [60]))).predictors)
    tensors.pop("0.p2p")
    for wrong, arrays in ((kind, tensors), ("forest", tensors), ("eo/plain", tensors)):
        with pytest.raises(FairSiloError, match="train again"):
            from_tensors(wrong, logistic_regression(3), arrays)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["st", "eo", "ceo"])
def test_the_run_folder_keeps_all_clients_predictors(method: str, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    make_table(300, silos=3, seed=1).to_csv(table, index=False)
    options = Options(
        data=str(table), label="label", protected_class="1", group="group", client="client"
    )
    run = execute(options, baseline=False)
    prepared = run.prepared
    assert isinstance(prepared, Prepared)
    trained = METHODS[method](plan(options, prepared), prepared.engine(options))
    run = replace(run, trained=trained)
    save_run(run, tmp_path / "run")
    saved = load_run(tmp_path / "run")
    x, s = prepared.test_x, prepared.test_s
    assert len(saved.predictors) == len(run.trained.predictors) == 3
    for one, two in zip(run.trained.predictors, saved.predictors, strict=True):
        np.testing.assert_array_equal(one.labels(x, s, 4), two.labels(x, s, 4))
        np.testing.assert_array_equal(one.probabilities(x, s), two.probabilities(x, s))
