"""ONNX models of the three common shapes: a column per input, a matrix, a converter's maps."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import TensorProto, helper, numpy_helper

import fairsilo
from fairsilo.auditor import AuditOptions, execute
from fairsilo.data import make_table
from fairsilo.errors import FairSiloError
from fairsilo.export.onnx import to_onnx
from fairsilo.extras import install
from fairsilo.run import Options, load, save
from fairsilo.run import execute as execute_run
from tests.auditor.conftest import NUMBERS, Case


def saved(
    folder: Path, nodes: list[Any], outputs: list[Any], width: int = 4, **consts: Any
) -> Path:
    """A graph with one matrix as its input."""
    graph = helper.make_graph(
        nodes, "model", [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["rows", width])],
        outputs, [numpy_helper.from_array(value, name) for name, value in consts.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


def sigmoid_model(case: Case, folder: Path) -> Path:
    """Probability of the second class, (rows, 1), as a network's last layer gives it."""
    nodes = [
        helper.make_node("MatMul", ["X", "w"], ["z"]),
        helper.make_node("Add", ["z", "b"], ["s"]),
        helper.make_node("Sigmoid", ["s"], ["p"]),
    ]
    p = helper.make_tensor_value_info("p", TensorProto.FLOAT, ["rows", 1])
    weights = {
        "w": case.other.coef_.T.astype(np.float32),
        "b": case.other.intercept_.astype(np.float32),
    }
    return saved(folder, nodes, [p], **weights)


def zipmap_model(case: Case, folder: Path) -> Path:
    """A graph as scikit-learn's converter writes it: labels, and maps from class to probability."""
    w, b = case.other.coef_[0], case.other.intercept_[0]
    nodes = [
        helper.make_node(
            "LinearClassifier", ["X"], ["label", "raw"], domain="ai.onnx.ml",
            coefficients=[*(-w), *w], intercepts=[-b, b], classlabels_strings=["0", "1"],
            multi_class=1, post_transform="LOGISTIC",
        ),
        helper.make_node(
            "ZipMap", ["raw"], ["probabilities"], domain="ai.onnx.ml",
            classlabels_strings=["0", "1"],
        ),
    ]  # fmt: skip
    value = helper.make_map_type_proto(
        TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    )
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.STRING, ["rows"]),
        helper.make_value_info("probabilities", helper.make_sequence_type_proto(value)),
    ]
    return saved(folder, nodes, outputs)


@pytest.mark.parametrize("make", [sigmoid_model, zipmap_model])
def test_a_matrix_of_numbers(case: Case, tmp_path: Path, make: Any) -> None:
    common: dict[str, Any] = {"label": "label", "group": "group", "client": "client"}
    answers = str(case.folder / "answers.csv")
    found = execute(
        AuditOptions(
            data=case.table, model=make(case, tmp_path), split="part", rows="all", **common
        )
    )
    want = execute(AuditOptions(data=answers, probability=("0=p0", "1=p1"), **common))
    assert [cell["predicted"] for cell in found["cells"]] == [
        cell["predicted"] for cell in want["cells"]
    ]
    assert found["dgeo"]["pooled"]["value"] == pytest.approx(
        want["dgeo"]["pooled"]["value"], abs=1e-5
    )
    assert found["model"] == "model.onnx"


def test_our_own_export_is_the_run(case: Case, tmp_path: Path) -> None:
    (tmp_path / "run.onnx").write_bytes(to_onnx(load(case.model)))
    common: dict[str, Any] = {"data": case.table, "split": "part", "client": "client"}
    found = execute(
        AuditOptions(
            model=tmp_path / "run.onnx", label="label", group="group", protected_class=("1",),
            epsilon=0.05, **common,
        )
    )  # fmt: skip
    want = execute(AuditOptions(model=case.model, **common))
    assert found["deo"] == want["deo"]
    bounds = want["certificate"]["bounds"]
    assert found["certificate"]["bounds"] == pytest.approx(bounds, abs=1e-9)


def test_mistakes(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def audit(model: Path, **more: Any) -> str:
        given = {"data": case.table, "label": "label", "group": "group", **more}
        with pytest.raises(FairSiloError) as error:
            execute(AuditOptions(model=model, **given))
        return str(error.value)

    good = sigmoid_model(case, tmp_path)
    assert "takes 4 numbers a row, and `features` names 1" in audit(good, features=("x0",))
    assert "there is no column 'x9'" in audit(good, features=(*NUMBERS[:3], "x9"))
    score = helper.make_tensor_value_info("z", TensorProto.FLOAT, ["rows", 3])
    wide = saved(
        tmp_path, [helper.make_node("MatMul", ["X", "w"], ["z"])], [score],
        w=np.ones((4, 3), np.float32),
    )  # fmt: skip
    assert "gives no probabilities for 2 classes" in audit(wide)
    score = helper.make_tensor_value_info("z", TensorProto.FLOAT, ["rows", 1])
    scores = saved(
        tmp_path, [helper.make_node("MatMul", ["X", "w"], ["z"])], [score],
        w=np.full((4, 1), 9, np.float32),
    )  # fmt: skip
    assert "give probabilities and not scores" in audit(scores)
    (tmp_path / "bad.onnx").write_bytes(b"no graph")
    assert "is not an ONNX model" in audit(tmp_path / "bad.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert install("export") in audit(scores)


def test_names_as_the_converter_writes_them(case: Case, tmp_path: Path) -> None:
    """A dash in a column's name is an underscore in the graph."""
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 1])
        for name in ("x_0", "x1")
    ]
    p = helper.make_tensor_value_info("p", TensorProto.FLOAT, ["rows", 1])
    nodes = [
        helper.make_node("Sub", ["x_0", "x1"], ["z"]),
        helper.make_node("Sigmoid", ["z"], ["p"]),
    ]
    graph = helper.make_graph(nodes, "model", values, [p])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    case.frame.rename(columns={"x0": "x-0"}).to_csv(tmp_path / "t.csv", index=False)
    common: dict[str, Any] = {"label": "label", "group": "group"}
    found = execute(
        AuditOptions(data=str(tmp_path / "t.csv"), model=tmp_path / "model.onnx", **common)
    )
    right = (case.frame["x0"] > case.frame["x1"]) == (case.frame["label"] == "1")
    assert found["accuracy"]["value"] == pytest.approx(right.mean())
    case.frame.drop(columns="x0").to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(FairSiloError, match="there is no column 'x_0'"):
        execute(AuditOptions(data=str(tmp_path / "t.csv"), model=tmp_path / "model.onnx", **common))


def test_dates_go_in_as_they_are_written(tmp_path: Path) -> None:
    frame = make_table(300, silos=3, bias=1.0, seed=4)
    days = pd.Timestamp("2020-01-31") + pd.to_timedelta(np.round(100 * frame["x0"]), unit="D")
    frame["admitted"] = [day.strftime("%d.%m.%Y") for day in days]
    frame.loc[0, "admitted"] = None
    table = str(tmp_path / "loans.csv")
    frame.to_csv(table, index=False)
    common: dict[str, Any] = {
        "data": table, "label": "label", "group": "group", "client": "client",
    }  # fmt: skip
    options = Options(**common, protected_class="1", epsilon=0.05, rounds=3)
    save(execute_run(options, baseline=False), tmp_path / "run")
    content = to_onnx(load(tmp_path / "run"))
    path = tmp_path / "run.onnx"
    path.write_bytes(content)
    found = execute(AuditOptions(model=path, protected_class=("1",), **common))
    clf = fairsilo.load(tmp_path / "run")
    answers = clf.predict(frame[list(clf.feature_names_in_)]).astype(str)
    right = answers == frame["label"].astype(str)
    assert found["accuracy"]["value"] == pytest.approx(np.mean(right))
    older = onnx.load_model_from_string(content)
    kept = {one.key: one.value for one in older.metadata_props if one.key != "dates"}
    helper.set_model_props(older, kept)
    path.write_bytes(older.SerializeToString())
    with pytest.raises(FairSiloError, match="'admitted' must hold numbers but has text"):
        execute(AuditOptions(model=path, protected_class=("1",), **common))
