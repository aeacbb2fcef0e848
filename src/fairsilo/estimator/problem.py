"""From tables to what training needs: schema, encoder, federation and constraints.

One constraint |D| <= epsilon for every pair of groups (a, b) and every protected class c:

    D(theta) = L^{a,c}(theta) - L^{b,c}(theta)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.data import Encoder, Schema, infer_schema
from fairsilo.data.columns import vocabulary
from fairsilo.estimator.inputs import Ints, chosen, group_indices, texts_of
from fairsilo.fairness import Dgeo, check_defined
from fairsilo.fairness.weigh import totals_of
from fairsilo.partition.federation import Federation
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared, _encoder_sums, _group_columns


@dataclass(frozen=True)
class Compared:
    """Which groups there are, which of them are compared, and in which classes."""

    groups: tuple[str, ...]
    s: Ints
    constraints: tuple[Dgeo, ...] = ()
    columns: tuple[str, ...] = ()
    """The names of the sensitive columns: of X, those that give the group away."""

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
        """Every pair of the groups, in every protected class."""
        found = vocabulary(sensitive)
        if isinstance(groups, str) or not (groups is None or np.iterable(groups)):
            raise TypeError(f"groups is {groups!r}: give a list of at least two groups")
        wanted = found if groups is None else texts_of(groups)
        places = chosen("groups:", wanted, found)
        if len(places) < 2:
            raise ValueError(
                f"there is only one group to compare, {wanted[0] if wanted else None!r}: pass "
                "sensitive_features with at least two values, or two of them as groups"
            )
        pairs = [
            Dgeo(a, b, c)
            for c in protected_classes(classes, protected_class)
            for a, b in itertools.combinations(places, 2)
        ]
        return cls(found, group_indices(sensitive, found), tuple(pairs), columns)


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
) -> Prepared:
    """Infer the schema, fit the encoder from the clients' sums, line the rows up by client."""
    client, names = clients
    schema = _schema(frame, y, classes, compared)
    encoder = Encoder.fit(schema, _encoder_sums(frame, client, schema))
    federation = Federation.of(
        encoder.transform(frame), y, compared.s, client,
        groups=len(schema.groups), classes=len(schema.classes),
    )  # fmt: skip
    if options.method in ("fedfair", "lco"):
        estimator = "local" if options.method == "lco" else options.estimator
        totals = totals_of(federation, compared.constraints)
        check_defined(compared.constraints, estimator, totals, schema.groups, schema.classes)  # type: ignore[arg-type]
    given_away = {
        place
        for name in compared.columns
        for place in _group_columns(options, schema.model_copy(update={"group": name}), encoder)
    }
    used = dict.fromkeys(g for pair in compared.constraints for g in (pair.a, pair.b))
    protected = dict.fromkeys(schema.classes[pair.c] for pair in compared.constraints)
    return Prepared(
        schema=schema,
        encoder=encoder,
        federation=federation,
        client_names=names,
        test_x=np.zeros((0, len(encoder.feature_names))),
        test_y=np.zeros(0, np.int64),
        test_s=np.zeros(0, np.int64),
        constraints=compared.constraints,
        protected_class=", ".join(protected),
        groups=tuple(schema.groups[g] for g in used),
        group_columns=tuple(sorted(given_away)),
    )


def _schema(frame: pd.DataFrame, y: Ints, classes: Sequence[Any], compared: Compared) -> Schema:
    """The schema of X; label and group are no columns of it and get names that are free."""
    label, group = (_free(name, frame) for name in ("label", "group"))
    # Only the features are taken from the table: there may be no groups to infer.
    whole = frame.assign(**{label: y, group: y})
    features = infer_schema(whole, label=label, group=group, drop_group=True).features
    return Schema(
        features=features,
        label=label,
        classes=tuple(map(str, classes)),
        group=group,
        groups=compared.groups,
    )


def _free(name: str, frame: pd.DataFrame) -> str:
    while name in frame.columns:
        name += "_"
    return name
