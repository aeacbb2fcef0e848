"""Convert the user's arguments: X to a table, groups, clients and classes to indices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from fairsilo.arrays import Ints
from fairsilo.data.columns import distinct, positions
from fairsilo.data.groups import NO_GROUP, crossed, texts
from fairsilo.method import METHODS
from fairsilo.partition import by_column


def table_of(estimator: Any, X: Any, *, reset: bool) -> pd.DataFrame:
    """X as a table whose columns keep their types; sets or checks the feature names.

    Columns without names, such as those of an array, become x0, x1, ... A DataFrame does not go
    through scikit-learn's `check_array`, which would give all columns one type.
    """
    if isinstance(X, pd.DataFrame):
        if not X.columns.is_unique:
            twice = X.columns[X.columns.duplicated()][0]
            raise ValueError(f"X has two columns named {twice!r}: rename one of them")
        frame: pd.DataFrame = validate_data(estimator, X, reset=reset, skip_check_array=True)
        for size, what in ((len(frame), "sample"), (frame.shape[1], "feature")):
            if size == 0:
                raise ValueError(
                    f"Found array with 0 {what}(s) (shape={frame.shape}) while a minimum of 1 is "
                    "required."
                )
    else:
        # The columns of an object array may differ in type, so each type is inferred separately.
        array = validate_data(estimator, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
        frame = pd.DataFrame(array).infer_objects()
    names = getattr(estimator, "feature_names_in_", None)
    frame = frame.set_axis(
        [f"x{k}" for k in range(frame.shape[1])] if names is None else list(names), axis=1
    )
    for name in frame.columns:
        _check_cells(frame[name], name)
    return frame


def _check_cells(series: pd.Series[Any], name: str) -> None:
    if pd.api.types.is_complex_dtype(series.dtype):
        raise ValueError(f"Complex data not supported: make column {name!r} of X real")
    if series.dtype == object and not all(map(pd.api.types.is_scalar, series)):
        raise TypeError(
            f"every argument must be one string or number, but a cell of column {name!r} of X "
            "holds several: split the column or leave it out"
        )


def classes_of(estimator: Any, y: Any) -> tuple[npt.NDArray[Any], Ints]:
    """The classes, sorted, and the index of each row's class."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None: pass classes")
    if pd.isna(np.asarray(y, dtype=object)).any():
        raise ValueError("Input y contains NaN: fill the empty cells or leave the rows out")
    y = validate_data(estimator, y=y)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        found = f"only one class, {classes.tolist()[0]!r}" if len(classes) else "no class"
        raise ValueError(f"y has {found}: pass rows of at least two classes")
    return classes, codes.astype(np.int64)


def same_length(name: str, found: int, rows: int) -> None:
    """Refuse an argument that does not have one entry for each row of X."""
    if found != rows:
        raise ValueError(f"{name} has {found} rows but X has {rows}: pass one entry per row of X")


def sensitive_of(values: Any, rows: int) -> tuple[pd.Series[Any], tuple[str, ...]]:
    """The group of every row and the names of the columns it comes from.

    Several columns make intersections, "Female & Black". Rows are matched by order; the index is
    ignored.
    """
    if isinstance(values, pd.Series | pd.DataFrame):
        frame = pd.DataFrame(values).reset_index(drop=True)
    else:
        array = np.asarray(values)
        if array.ndim not in (1, 2):
            raise ValueError(
                f"sensitive_features has {array.ndim} dimensions: pass one value per row, or a "
                "table with one column for each feature"
            )
        frame = pd.DataFrame(array).infer_objects()
    same_length("sensitive_features", len(frame), rows)
    names = tuple(str(name) for name in frame.columns)
    return crossed([frame.iloc[:, k] for k in range(frame.shape[1])]), names


def group_indices(groups: pd.Series[Any], known: Sequence[str], pooled: Sequence[str] = ()) -> Ints:
    """The index of each row's group among the known groups; pooled groups count as the last."""
    place = positions(groups, [*known, *pooled])
    place = np.minimum(place, len(known) - 1)
    if NO_GROUP in known:
        place = np.where(place == -1, known.index(NO_GROUP), place)
    if (place == -1).any():
        raise ValueError(
            f"sensitive_features is empty in {int((place == -1).sum())} rows, and no training row "
            "was: fill these cells, or leave the rows out"
        )
    if (place < 0).any():
        unknown = texts(groups[place < 0])[0]
        raise ValueError(
            f"sensitive_features holds the unknown group {unknown!r}: the training rows have "
            f"{', '.join([*known, *pooled])}; correct it, or fit with rows of that group"
        )
    return place


def clients_of(values: Any, rows: int, method: str = "") -> tuple[Ints, tuple[str, ...]]:
    """The index of the client that holds each row, and the clients' names; None is one client."""
    if values is None:
        if METHODS[method].by_silo:
            raise ValueError(
                f"method {method!r} has a constraint for every client but clients is missing: "
                "pass clients=..., one name per row, or use method='fedfair'"
            )
        return np.zeros(rows, np.int64), ("all",)
    if np.ndim(values) != 1:
        raise ValueError("clients must have one dimension: pass the holder's name for each row")
    same_length("clients", len(values), rows)
    return by_column(*distinct(pd.Series(values)), column="clients")


def chosen(name: str, wanted: Iterable[Any], known: Sequence[Any]) -> list[int]:
    """The positions of the wanted values among the known ones, in the order of `wanted`."""
    places = []
    for value in wanted:
        if value not in known:
            raise ValueError(
                f"{name} {value!r} does not occur in the data: choose from "
                f"{', '.join(map(str, known))}"
            )
        places.append(known.index(value))
    return list(dict.fromkeys(places))


def texts_of(values: Iterable[Any]) -> list[str]:
    """Values in the spelling of group names: 1, 1.0 and "1" are all "1"."""
    series = pd.Series(list(values), dtype=object)
    if series.isna().any():
        raise ValueError("groups holds an empty value: leave it out")
    return texts(series)
