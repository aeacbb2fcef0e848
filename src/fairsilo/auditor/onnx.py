"""An ONNX graph as a model to audit.

Inputs: one per column, by its name (as scikit-learn's converter and `fairsilo export` write it;
dates, which the latter names in the metadata, become days since 1970-01-01), or one matrix whose
columns are `features`, else all columns of the table that are numbers.
Outputs: probabilities (a matrix, or a list of maps as the converter's ZipMap writes it), and
perhaps a predicted class; a matrix has its classes in the table's order, which is sorted.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.arrays import Floats
from fairsilo.auditor.answers import Answers, classes_of, combined
from fairsilo.auditor.rows import Rows
from fairsilo.data.columns import column, is_number, numbers
from fairsilo.data.dates import measured
from fairsilo.data.schema import Date
from fairsilo.errors import FairSiloError
from fairsilo.extras import install

TYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.str_,
}


def of_onnx(path: Path, rows: Rows, features: tuple[str, ...] | None) -> Answers:
    """The predictions of the graph in the file for the rows."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise FairSiloError(
            f"an ONNX model needs the package onnxruntime: {install('export')}"
        ) from None
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FairSiloError(f"cannot read `model` {path} ({error.strerror})") from None
    try:
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    except Exception:
        raise FairSiloError(f"`model` {path} is not an ONNX model: export it again") from None
    dates = _dates(session.get_modelmeta().custom_metadata_map)
    feeds = _feeds(path, session.get_inputs(), rows, features, dates)
    try:
        outputs = session.run(None, feeds)
    except Exception as error:
        first = str(error).strip().splitlines()[-1]
        raise FairSiloError(f"{path} does not take these columns ({first})") from None
    return _answers(path, outputs, rows)


def _dates(metadata: dict[str, str]) -> dict[str, str]:
    """The inputs that are dates, and how these are written; none where the file does not say."""
    if "fairsilo" not in metadata:
        return {}
    try:
        found = json.loads(metadata.get("dates", "{}"))
    except ValueError:
        return {}
    return {name: str(one) for name, one in found.items()} if isinstance(found, dict) else {}


def _feeds(
    path: Path,
    inputs: list[Any],
    rows: Rows,
    features: tuple[str, ...] | None,
    dates: dict[str, str],
) -> dict[str, Any]:
    for one in inputs:
        if one.type not in TYPES:
            raise FairSiloError(f"input {one.name!r} of {path} is a {one.type}: give a plain model")
    if len(inputs) == 1 and inputs[0].name not in rows.frame.columns:
        return {inputs[0].name: _matrix(path, inputs[0], rows, features)}
    if features is not None:
        raise FairSiloError(
            f"`features` is for a model with one input, and {path} has one per column: leave it out"
        )
    return {one.name: _column(rows.frame, one, dates.get(one.name)) for one in inputs}


def _matrix(path: Path, one: Any, rows: Rows, features: tuple[str, ...] | None) -> Any:
    frame = rows.frame
    names = features or tuple(
        str(name)
        for name in frame.columns
        if name not in rows.not_features and is_number(frame[name])
    )
    width = one.shape[-1] if one.shape else None
    if isinstance(width, int) and width != len(names):
        raise FairSiloError(
            f"{path} takes {width} numbers a row, and "
            + (f"`features` names {len(names)}" if features else f"the table has {len(names)}")
            + ": name its columns with `features`, in the order of training"
        )
    values = np.stack([numbers(column(frame, name), name) for name in names], axis=1)
    return values.astype(TYPES[one.type])


def _column(frame: pd.DataFrame, one: Any, date: str | None) -> Any:
    kind = TYPES[one.type]
    # scikit-learn's converter writes education-num as education_num.
    alike = [name for name in frame.columns if re.sub(r"\W", "_", str(name)) == one.name]
    exact = one.name in frame.columns or len(alike) != 1
    series = column(frame, one.name if exact else str(alike[0]))
    if kind is np.str_:
        texts = series.astype(object).where(series.notna(), "").astype(str)
        return texts.to_numpy(dtype=object).reshape(-1, 1)
    if date is not None:
        days = measured(frame, Date(name=one.name, format=date))
        return days.astype(kind).reshape(-1, 1)
    return numbers(series, one.name).astype(kind).reshape(-1, 1)


def _answers(path: Path, outputs: list[Any], rows: Rows) -> Answers:
    classes = rows.schema.classes
    found = next((p for one in outputs if (p := _probabilities(one, classes)) is not None), None)
    if found is None:
        raise FairSiloError(
            f"{path} gives no probabilities for {len(classes)} classes: export it with them (such "
            "as scikit-learn's predict_proba), or audit a column with `predictions`"
        )
    named = next((one for one in outputs if np.ndim(one) == 1 and not isinstance(one, list)), None)
    predicted = None
    if named is not None and np.asarray(named).dtype.kind != "f":
        predicted = classes_of(pd.Series(np.asarray(named)), "the model's answer", classes)
    return combined(found, predicted, rows.y)


def _probabilities(output: Any, classes: tuple[str, ...]) -> Floats | None:
    """An output as an array (rows, classes), or None if it does not hold probabilities."""
    if isinstance(output, list) and output and isinstance(output[0], dict):
        by_text = [{_text(key): value for key, value in one.items()} for one in output]
        if set(by_text[0]) != set(classes):
            return None
        return np.array([[one[name] for name in classes] for one in by_text], np.float64)
    values = np.asarray(output)
    if values.dtype.kind != "f":
        return None
    values = values.astype(np.float64)
    if len(classes) == 2 and (values.ndim == 1 or values.shape[-1] == 1):
        p = values.reshape(-1)
        return np.stack([1 - p, p], axis=1)
    return values if values.ndim == 2 and values.shape[1] == len(classes) else None


def _text(key: object) -> str:
    return str(int(key)) if isinstance(key, float) and key.is_integer() else str(key)
