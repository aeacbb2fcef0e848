"""The exported graph gives the numbers of `predict`, by onnxruntime, on real and odd rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest

from fairsilo.data import load as load_data
from fairsilo.data import make_table
from fairsilo.data.schema import Number, Schema
from fairsilo.errors import FairSiloError
from fairsilo.export.onnx import to_onnx
from fairsilo.fairness.constraint import Dgeo
from fairsilo.predictor.equalized_odds import EqualizedOdds
from fairsilo.run import Options, Saved, execute, load, save
from fairsilo.run.predict import score_table

SAME = 1e-12
"""Double precision on both sides; only the order of additions differs."""


def trained(folder: Path, options: Options) -> Saved:
    save(execute(options, baseline=False), folder)
    return load(folder)


def feed(frame: pd.DataFrame, schema: Schema) -> dict[str, Any]:
    """The graph's inputs: numbers as double, categories as text, missing as NaN or ""."""
    return {
        feature.name: frame[[feature.name]].to_numpy(np.float64)
        if isinstance(feature, Number)
        else frame[[feature.name]].astype(object).fillna("").astype(str).to_numpy(object)
        for feature in schema.features
    }


def run(content: bytes, inputs: dict[str, Any]) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def same_as_predict(folder: Path, table: Path, frame: pd.DataFrame) -> None:
    saved = load(folder)
    outputs = run(to_onnx(saved), feed(frame, saved.schema))
    scores, _ = score_table(folder, table)
    expected = scores[[f"probability {name}" for name in saved.schema.classes]].to_numpy()
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=SAME, rtol=0)
    assert list(outputs["label"]) == scores["predicted"].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lr", "mlp", "additive"])
def test_adult(model: str, tmp_path: Path) -> None:
    frame = load_data("adult").sample(2000, random_state=0)
    table = tmp_path / "adult.parquet"
    frame.to_parquet(table)
    options = Options(
        str(table), label="income", protected_class=">50K", group="sex", clients=4, model=model,
        rounds=20,
    )  # fmt: skip
    trained(tmp_path / "run", options)
    new = load_data("adult").sample(2000, random_state=1).reset_index(drop=True)
    new.to_parquet(table)
    same_as_predict(tmp_path / "run", table, new)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lr", "additive"])
def test_three_classes_missing_cells_and_values_that_training_never_saw(
    model: str, tmp_path: Path
) -> None:
    """And values that are rare: an additive model pools them."""
    frame = make_table(600, classes=3, categories=2, missing=0.1, seed=3)
    frame.loc[:7, "c1"], frame.loc[8:14, "c1"] = "rare", "rarer"
    frame.to_csv(tmp_path / "train.csv", index=False)
    options = Options(
        str(tmp_path / "train.csv"), label="label", protected_class="1", group="group",
        client="client", model=model, pairs=1 if model == "additive" else None,
    )  # fmt: skip
    saved = trained(tmp_path / "run", options)
    assert len(saved.schema.classes) == 3
    binned = saved.encoder.binned
    assert model == "lr" or (binned is not None and any(binned.rare) and binned.pairs)
    new = make_table(200, classes=3, categories=2, missing=0.3, seed=4)
    new.loc[:9, "c0"] = "never seen"
    new.loc[10:19, "group"] = "g9"
    new.loc[20:29, "c1"], new.loc[30:39, "c1"] = "rare", "rarer"
    new.to_csv(tmp_path / "new.csv", index=False)
    same_as_predict(tmp_path / "run", tmp_path / "new.csv", new)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lr", "additive"])
def test_missing_where_training_had_none(model: str, tmp_path: Path) -> None:
    make_table(300, seed=5).to_csv(tmp_path / "train.csv", index=False)
    options = Options(
        str(tmp_path / "train.csv"), label="label", protected_class="1", group="group",
        client="client", model=model,
    )  # fmt: skip
    trained(tmp_path / "run", options)
    new = make_table(100, missing=0.3, seed=6)
    new.to_csv(tmp_path / "new.csv", index=False)
    same_as_predict(tmp_path / "run", tmp_path / "new.csv", new)


def test_columns_may_have_the_names_of_outputs_and_nodes(tmp_path: Path) -> None:
    names = {"x0": "label", "x1": "probabilities", "x2": "constant", "c0": "onehot"}
    frame = make_table(300, seed=7).rename(columns={"label": "y"}).rename(columns=names)
    frame.to_csv(tmp_path / "train.csv", index=False)
    options = Options(
        str(tmp_path / "train.csv"), label="y", protected_class="1", group="group", client="client"
    )
    saved = trained(tmp_path / "run", options)
    outputs = run(to_onnx(saved), feed(frame, saved.schema))
    assert list(outputs) == ["label_1", "probabilities_1"]
    scores, _ = score_table(tmp_path / "run", tmp_path / "train.csv")
    assert list(outputs["label_1"]) == scores["predicted"].tolist()


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    make_table(300, seed=7).to_csv(tmp_path / "train.csv", index=False)
    options = Options(
        str(tmp_path / "train.csv"), label="label", protected_class="1", group="group",
        client="client", epsilon=0.07,
    )  # fmt: skip
    content = to_onnx(trained(tmp_path / "run", options))
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    said = session.get_modelmeta().custom_metadata_map
    assert json.loads(said["epsilon"]) == 0.07
    assert json.loads(said["classes"]) == ["0", "1"]
    assert json.loads(said["constraints"]) == ["g0 - g1 in 1"]


def test_what_has_no_graph_is_refused(tmp_path: Path) -> None:
    make_table(300, seed=7).to_csv(tmp_path / "train.csv", index=False)
    options = Options(
        str(tmp_path / "train.csv"), label="label", protected_class="1", group="group",
        client="client",
    )  # fmt: skip
    saved = trained(tmp_path / "run", options)
    (model,) = saved.predictors
    with pytest.raises(FairSiloError, match="one model per client"):
        to_onnx(replace(saved, predictors=(model, model)))
    drawing = EqualizedOdds(model, Dgeo(0, 1, 1), np.ones(2), np.zeros(2))
    with pytest.raises(FairSiloError, match="draws its answers at random"):
        to_onnx(replace(saved, predictors=(drawing,)))
