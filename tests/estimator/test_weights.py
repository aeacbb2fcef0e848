"""`sample_weight`, `class_weight`, `after` and `hidden` of the estimator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo import FedFairClassifier, load
from fairsilo.data import make_table
from fairsilo.errors import FairSiloError
from fairsilo.estimator.settings import options_of
from fairsilo.model import MODELS
from fairsilo.run.options import Options


def rows(count: int = 240) -> tuple[Any, Any, dict[str, Any]]:
    table = make_table(count, silos=3, numbers=2, bias=1.0, seed=3)
    who = {"sensitive_features": table["group"], "clients": table["client"]}
    return table.drop(columns=["label", "client"]), table["label"], who


def test_integer_weights_equal_repeated_rows() -> None:
    X, y, who = rows()
    times = np.random.default_rng(0).integers(0, 4, len(X))
    again = np.repeat(np.arange(len(X)), times)
    clf = FedFairClassifier(0.02, class_weight="balanced")
    weighted = clf.fit(X, y, sample_weight=times, **who).predict_proba(X)
    found = clf.constraints_["D"].to_numpy()
    repeated = clf.fit(X.iloc[again], y.iloc[again], **{k: v.iloc[again] for k, v in who.items()})
    np.testing.assert_allclose(weighted, repeated.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(found, repeated.constraints_["D"], atol=1e-9)


def test_weights_of_classes_are_kept_in_a_run_folder(tmp_path: Path) -> None:
    X, y, who = rows()
    plain = FedFairClassifier(0.05).fit(X, y, **who)
    costly = FedFairClassifier(0.05, class_weight={1: 4.0}).fit(X, y, **who)
    assert costly.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.05
    costly.save(tmp_path / "run")
    again = load(tmp_path / "run")
    assert again.class_weight == {1: 4.0}
    np.testing.assert_allclose(again.predict_proba(X), costly.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "weight", "told"),
    [
        ({}, -1.0, "Negative"),
        ({}, 0.0, "at least one non-zero"),
        ({}, np.nan, "NaN"),
        ({"method": "eo"}, 1.0, "methods that take weights"),
        ({"class_weight": {7: 2.0}}, 1.0, "'7', which is no class"),
        ({"class_weight": {1: 0.0}}, 1.0, "a number above 0"),
        ({"hidden": (8,)}, 1.0, "`hidden` is for `model` mlp"),
        ({"hidden": (0,), "model": "mlp"}, 1.0, "whole numbers from 1"),
        ({"after": "fedfair"}, 1.0, "`after` is for methods that repair"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    settings: dict[str, Any], weight: float, told: str
) -> None:
    X, y, who = rows(60)
    with pytest.raises(ValueError, match=told):
        FedFairClassifier(**settings).fit(X, y, sample_weight=np.full(len(X), weight), **who)


def test_a_private_fit_needs_the_largest_weight() -> None:
    X, y, who = rows(60)
    with pytest.raises(ValueError, match="`maximum_weight`"):
        FedFairClassifier(dp_epsilon=4.0).fit(X, y, sample_weight=np.ones(len(X)), **who)


def test_what_a_repair_follows() -> None:
    X, y, who = rows()
    group = {"sensitive_features": who["sensitive_features"]}
    found = {
        after: FedFairClassifier(0.01, method="eo", after=after)
        .fit(X, y, **who)
        .predict_proba(X, **group)
        for after in (None, "fedavg", "fedfair")
    }
    np.testing.assert_array_equal(found[None], found["fedavg"])
    assert np.abs(found[None] - found["fedfair"]).max() > 1e-3


def test_sizes_of_hidden_layers_are_in_the_name_of_the_network() -> None:
    options = options_of(FedFairClassifier(model="mlp", hidden=(5, 3)).get_params())
    model = MODELS[options.model](4, 2)
    assert options.model == model.name == "mlp-5-3"
    assert model.size == (4 + 1) * 5 + (5 + 1) * 3 + 3 + 1
    # As a run folder and a federation file have it: by its name, with or without the sizes.
    assert replace(options).model == replace(options, hidden=None).model == options.model
    assert Options(data="t.csv", model="mlp", hidden=(8, 4)).model == "mlp"
    with pytest.raises(FairSiloError, match="perhaps 'mlp'"):
        Options(data="t.csv", model="mlp-0")
