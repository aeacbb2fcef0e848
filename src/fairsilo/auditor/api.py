"""`fairsilo.audit`: audit a model in Python, through its predictions alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.auditor.answers import Answers, classes_of, combined
from fairsilo.auditor.document import Document, examine, write
from fairsilo.auditor.options import check_notion
from fairsilo.auditor.rows import Rows
from fairsilo.data import Schema, build_labels
from fairsilo.data.columns import distinct
from fairsilo.data.infer import at_least_two
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.audit import DRAWS, Auditor
from fairsilo.evaluate.certificate import Names
from fairsilo.evaluate.intervals import LEVEL
from fairsilo.fairness import DEFAULT, NOTIONS
from fairsilo.fairness.words import audit_spoken
from fairsilo.partition import by_column
from fairsilo.run.constraints import every_pair
from fairsilo.run.target_options import check_target


@dataclass(frozen=True, repr=False)
class Audit:
    """The result of an audit; `found` is the content of audit.json. Notebooks show a table."""

    found: Document

    def __repr__(self) -> str:
        found = self.found
        figures = (("accuracy", found["accuracy"]["value"]), ("deo", self.deo), ("dgeo", self.dgeo))
        told = ", ".join(f"{name} {_short(value)}" for name, value in figures)
        why = (found.get("worth") or {}).get("why")
        first = "" if why is None else f"This model is {why}. "
        return (
            f"{first}Audit of {found['model']}: {found['rows']:,} rows of {found['silos']} silo"
            f"{'' if found['silos'] == 1 else 's'}, {told}; {found['certificate']['statement']}"
        )

    def _repr_html_(self) -> str:
        gaps = [
            [f"{one['a']} - {one['b']}", one["class"], one["rows_a"], one["rows_b"],
             one["rate_gap"]["pooled"]["value"], one["loss_gap"]["pooled"]["value"]]
            for one in audit_spoken(self.found)["pairs"]
        ]  # fmt: skip
        columns = ["groups", "class", "rows", "rows", "rate gap (DEO)", "loss gap (DGEO)"]
        table = pd.DataFrame(gaps, columns=columns).to_html(
            index=False, float_format="{:.4f}".format
        )
        return f"<p>{escape(repr(self))}</p>{table}"

    @property
    def deo(self) -> float | None:
        """The largest difference of rates, over all rows."""
        value: float | None = self.found["deo"]["pooled"]["value"]
        return value

    @property
    def dgeo(self) -> float | None:
        """The largest difference of mean losses, over all rows."""
        value: float | None = self.found["dgeo"]["pooled"]["value"]
        return value

    @property
    def pairs(self) -> pd.DataFrame:
        """A row per pair of groups and protected class, with every estimate and interval."""
        return pd.json_normalize(self.found["pairs"])

    @property
    def cells(self) -> pd.DataFrame:
        """A row per group and class."""
        return pd.json_normalize(self.found["cells"])

    def save(self, folder: str | Path) -> None:
        """Write audit.json and audit.html."""
        write(self.found, Path(folder))


def audit(
    X: Any = None,
    y: Any = None,
    *,
    sensitive_features: Any,
    clients: Any = None,
    predict_proba: Callable[[Any], Any] | None = None,
    predict: Callable[[Any], Any] | None = None,
    y_pred: Any = None,
    y_proba: Any = None,
    groups: Sequence[str] | None = None,
    protected_class: Any = None,
    epsilon: float | None = None,
    notion: str = DEFAULT.name,
    target_deo: float | None = None,
    min_cell: int = 0,
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = 0,
    unseen: bool | None = None,
) -> Audit:
    """Audit any model on rows X with classes y: give its functions, or what they returned.

    `predict_proba(X)` (or `y_proba`, an array with a column per class in sorted order, as
    scikit-learn has it) gives DGEO and DEO; `predict(X)` (or `y_pred`) alone gives DEO. With both,
    the classes are those of `predict`. `clients` says who holds each row; `protected_class` is one
    class or a list, all classes if not given. `epsilon` and `target_deo` are limits on losses and
    on rates that the certificate speaks of; `notion` says which rates are compared. `unseen` says
    whether the model trained without these rows: with False there is no certificate.
    """
    if y is None:
        raise FairSiloError("y is missing: an audit needs the true class of every row")
    check_notion(notion)
    check_target(target_deo)
    if predict_proba is not None:
        y_proba = predict_proba(X)
    if predict is not None:
        y_pred = predict(X)
    if y_proba is None and y_pred is None:
        raise FairSiloError(
            "there is nothing to audit: give predict_proba or predict (with X), y_proba or y_pred"
        )
    table = {"label": y, "group": sensitive_features, "client": clients, "predicted": y_pred}
    frame = _frame({name: values for name, values in table.items() if values is not None})
    schema = Schema(
        features=(),
        label="label",
        classes=at_least_two(frame["label"], "y", "label", "class"),
        group="group",
        groups=at_least_two(frame["group"], "sensitive_features", "group", "group"),
    )
    labels, s = build_labels(frame, schema)
    compare = schema.groups if groups is None else tuple(map(str, groups))
    every = protected_class is None or NOTIONS[notion].every_class
    protected = schema.classes if every else _texts(protected_class)
    one = np.zeros(len(frame), np.int64)
    owner, silos = (one, ("all",)) if clients is None else by_column(*distinct(frame["client"]))
    pairs = every_pair(schema, compare, protected)
    rows = Rows(
        frame, schema, labels, s, owner, silos, pairs, compare, protected, "the rows given", unseen
    )
    named = {
        "label": str(getattr(y, "name", None) or "y"),
        "group": str(getattr(sensitive_features, "name", None) or "sensitive_features"),
    }
    names = Names(schema.groups, schema.classes, named["group"], named["label"])
    found = examine(
        rows,
        _answers(rows, y_proba, y_pred is not None),
        Auditor(pairs, names, level, draws, seed),
        (epsilon,) * len(pairs),
        min_cell,
        model="model in Python",
        data="rows in Python",
        notion=notion,
        target_deo=target_deo,
        **named,
    )
    return Audit(found)


def _short(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def _frame(columns: dict[str, Any]) -> pd.DataFrame:
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    for name, values in arrays.items():
        if values.ndim != 1 or len(values) != len(arrays["label"]):
            raise FairSiloError(
                f"{name} must have one entry for each of the {len(arrays['label'])} rows of y"
            )
    return pd.DataFrame({name: pd.Series(values) for name, values in arrays.items()})


def _answers(rows: Rows, y_proba: Any, classes_given: bool) -> Answers:
    classes, p = rows.schema.classes, None
    if y_proba is not None:
        p = np.asarray(y_proba, dtype=np.float64)
        if p.ndim == 1 and len(classes) == 2:
            p = np.stack([1 - p, p], axis=1)
        if p.shape != (len(rows.y), len(classes)):
            raise FairSiloError(
                f"the probabilities have the shape {p.shape}: give {len(rows.y)} rows with one "
                f"column for each of the classes {', '.join(classes)}"
            )
    given = classes_of(rows.frame["predicted"], "y_pred", classes) if classes_given else None
    return combined(p, given, rows.y)


def _texts(wanted: Any) -> tuple[str, ...]:
    many = isinstance(wanted, list | tuple | set | np.ndarray)
    return tuple(map(str, wanted)) if many else (str(wanted),)
