"""From tables to what training needs: schema, encoder, federation and constraints."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.arrays import Floats, Ints
from fairsilo.data import Schema, infer_schema
from fairsilo.data.columns import is_number, vocabulary
from fairsilo.data.groups import POOLED, with_groupless
from fairsilo.data.infer import GROUPS
from fairsilo.data.schema import Feature
from fairsilo.dp import Mechanism
from fairsilo.estimator.inputs import chosen, group_indices, texts_of
from fairsilo.estimator.noticed import free, warn_of_alike, warn_of_rows, warnings_in_python
from fairsilo.method import METHODS
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared, assemble


@dataclass(frozen=True)
class Compared:
    """Which groups there are, which of them are compared, and in which classes."""

    groups: tuple[str, ...]
    s: Ints
    chosen: tuple[str, ...] | None = ()
    """The groups to compare; None is all, after small ones are pooled."""
    protected: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()
    """The names of the sensitive columns: of X, those that give the group away."""

    @property
    def name(self) -> str:
        """The name of the one sensitive column; "" if there are several, or it has none."""
        return "" if self.unnamed or len(self.columns) != 1 else self.columns[0]

    @property
    def unnamed(self) -> bool:
        """Whether the sensitive columns have no names: pandas then calls them 0, 1, ..."""
        return self.columns == tuple(map(str, range(len(self.columns))))

    @classmethod
    def nobody(cls, rows: int) -> Compared:
        """Without sensitive features all rows are of one group, and nothing is compared."""
        return cls(("all",), np.zeros(rows, np.int64))

    @classmethod
    def of(
        cls,
        sensitive: pd.Series[Any],
        columns: tuple[str, ...],
        classes: Sequence[Any],
        *,
        groups: Any,
        protected_class: Any,
    ) -> Compared:
        """The groups that are found, and those asked for."""
        found = vocabulary(sensitive)
        if isinstance(groups, str) or not (groups is None or np.iterable(groups)):
            raise TypeError(f"groups is {groups!r}: give a list of at least two groups")
        wanted = None if groups is None else tuple(dict.fromkeys(texts_of(groups)))
        chosen("groups:", [one for one in wanted or () if one != POOLED], found)
        if len(found if wanted is None else wanted) < 2:
            only = found if wanted is None else wanted
            raise ValueError(
                f"there is only one group to compare, {only[0] if only else None!r}: pass "
                "sensitive_features with at least two values, or two of them as groups"
            )
        if wanted is None and is_number(sensitive) and len(found) > GROUPS:
            raise ValueError(
                f"sensitive_features has {len(found)} different numbers, too many groups to "
                "compare: pass a few ranges of them, such as 'under 40' and '40 or over', or name "
                "some as groups"
            )
        protected = tuple(protected_classes(classes, protected_class))
        if sensitive.isna().any():
            found = with_groupless(found)
        return cls(found, group_indices(sensitive, found), wanted, protected, columns)


def protected_classes(classes: Sequence[Any], wanted: Any) -> list[int]:
    """The indices of the protected classes: the second one unless told, "all", one or a list."""
    if wanted is None:
        return [1]
    if isinstance(wanted, str) and wanted == "all" and wanted not in classes:
        return list(range(len(classes)))
    if isinstance(wanted, list | tuple | set | np.ndarray | pd.Series | pd.Index):
        if len(wanted) == 0:
            raise ValueError("protected_class is an empty list: give a class, several, or 'all'")
        return chosen("protected_class", wanted, classes)
    return chosen("protected_class", [wanted], classes)


def prepare(
    frame: pd.DataFrame,
    y: Ints,
    classes: Sequence[Any],
    compared: Compared,
    clients: tuple[Ints, tuple[str, ...]],
    options: Options,
    declared: tuple[Feature, ...] | None = None,
    mechanism: Mechanism | None = None,
    weight: Floats | None = None,
    label: str = "label",
) -> Prepared:
    """Infer the schema, then as for every training; all rows are training rows.

    With `declared` features nothing of X is inferred.
    """
    client, names = clients
    columns = () if compared.unnamed else compared.columns
    with warnings_in_python():
        schema = _schema(frame, y, classes, compared, declared, label)
        if declared is None:
            warn_of_rows(frame, schema, y, compared.s, client, columns)
            warn_of_alike(schema.classes, compared.groups, names)
    return assemble(
        options, schema, frame, y, compared.s, client,
        names=names,
        protected=compared.protected,
        groups=compared.chosen,
        hidden=compared.columns,
        mechanism=mechanism,
        weight=weight,
    )  # fmt: skip


def _schema(
    frame: pd.DataFrame,
    y: Ints,
    classes: Sequence[Any],
    compared: Compared,
    declared: tuple[Feature, ...] | None,
    label: str,
) -> Schema:
    """The schema of X; group and label have the names that they came with, or free ones."""
    taken = [*frame.columns, *compared.columns]
    label = free(label, taken)
    group = free("group", [*taken, label])
    if declared is None:
        # Only the features are taken from the table: there may be no groups to infer.
        whole = frame.assign(**{label: y, group: y})
        declared = infer_schema(whole, label=label, group=group, drop_group=True).features
    return Schema(
        features=declared,
        label=label,
        classes=tuple(map(str, classes)),
        group=compared.name or group,
        groups=compared.groups,
    )


def warn_of_nobody(method: str) -> None:
    """Say what a training without groups is, or refuse it where groups are compared."""
    if METHODS[method].one_pair:
        raise ValueError(
            f"method {method!r} compares groups but sensitive_features is missing: pass "
            "sensitive_features=..., one value per row"
        )
    if METHODS[method].limited:
        warnings.warn(
            "sensitive_features is missing, so the classifier is trained without a fairness "
            "constraint: pass sensitive_features=... to fit, or method='fedavg' if you mean it",
            UserWarning,
            stacklevel=4,
        )
