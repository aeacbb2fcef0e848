"""Prepare training from tables: schema, encoder, federation and constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.arrays import Ints
from fairsilo.data import Encoder, Schema, infer_schema, pool
from fairsilo.data.columns import vocabulary
from fairsilo.data.groups import POOLED
from fairsilo.data.schema import Feature
from fairsilo.estimator.inputs import chosen, group_indices, texts_of
from fairsilo.fairness import check_defined, count_cells
from fairsilo.fairness.weigh import totals_of
from fairsilo.partition.federation import Federation
from fairsilo.run.compare import Compared as Asked
from fairsilo.run.compare import compare, groups_of
from fairsilo.run.options import Options
from fairsilo.run.prepare import Fit, Prepared, encoded_columns, encoder_sums, silo_tables


@dataclass(frozen=True)
class Compared:
    """The groups, those that are compared, and the classes they are compared in."""

    groups: tuple[str, ...]
    s: Ints
    chosen: tuple[str, ...] | None = ()
    """The groups to compare; None means all, after small groups are pooled."""
    protected: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()
    """The names of the sensitive columns; columns of X with these names reveal the group."""

    @classmethod
    def nobody(cls, rows: int) -> Compared:
        """Without sensitive features: all rows are in one group, and nothing is compared."""
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
        """The groups in the data, and the checked choice of those to compare."""
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
        protected = tuple(protected_classes(classes, protected_class))
        return cls(found, group_indices(sensitive, found), wanted, protected, columns)


def protected_classes(classes: Sequence[Any], wanted: Any) -> list[int]:
    """The indices of the protected classes; `wanted` is None (the second), "all", one or a list."""
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
    fit: Fit | None = None,
) -> Prepared:
    """Infer the schema, fit the encoder from the clients' sums, order the rows by client.

    With `declared` features nothing is inferred from X. A caller that passes its own `fit` must
    also check that every compared group has enough rows.
    """
    client, names = clients
    schema = _schema(frame, y, classes, compared, declared)
    s = compared.s
    if options.pool and compared.protected:
        cells = count_cells(y, s, len(schema.groups), len(schema.classes))
        schema = pool(schema, cells[:, list(compared.protected)], options.pool)
        s = group_indices(pd.Series(compared.groups)[s], schema.groups, schema.pooled)
    if compared.protected:
        groups = groups_of(schema, compared.chosen)
        asked = compare(schema, options, groups, compared.protected)
    else:
        groups, asked = (), Asked((), (), options.epsilon)
    if fit is None:
        encoder = Encoder.fit(schema, encoder_sums(frame, client, schema))
    else:
        encoder = fit(silo_tables(frame, client), schema)
    federation = Federation.of(
        encoder.transform(frame), y, s, client,
        groups=len(schema.groups), classes=len(schema.classes),
    )  # fmt: skip
    if options.method in ("fedfair", "lco") and fit is None:
        estimator = "local" if options.method == "lco" else options.estimator
        totals = totals_of(federation, asked.constraints)
        check_defined(asked.constraints, estimator, totals, schema.groups, schema.classes)  # type: ignore[arg-type]
    return Prepared(
        schema=schema,
        encoder=encoder,
        federation=federation,
        client_names=names,
        test_x=np.zeros((0, len(encoder.feature_names))),
        test_y=np.zeros(0, np.int64),
        test_s=np.zeros(0, np.int64),
        constraints=asked.constraints,
        protected_class=", ".join(schema.classes[c] for c in compared.protected),
        groups=groups,
        group_columns=encoded_columns(compared.columns, encoder),
        pairs=asked.pairs,
        epsilon=asked.epsilon,
    )


def _schema(
    frame: pd.DataFrame,
    y: Ints,
    classes: Sequence[Any],
    compared: Compared,
    declared: tuple[Feature, ...] | None,
) -> Schema:
    """The schema of X; label and group are not in X and get names that X does not use."""
    label, group = (_free(name, frame) for name in ("label", "group"))
    if declared is None:
        # Only the features are inferred: y stands in for the groups, which may be missing.
        whole = frame.assign(**{label: y, group: y})
        declared = infer_schema(whole, label=label, group=group, drop_group=True).features
    return Schema(
        features=declared,
        label=label,
        classes=tuple(map(str, classes)),
        group=group,
        groups=compared.groups,
    )


def _free(name: str, frame: pd.DataFrame) -> str:
    while name in frame.columns:
        name += "_"
    return name
