"""From options to arrays: read the table, decide who holds which row, fit the encoder."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pandas as pd

from fairsilo.data import (
    CLIENT_COLUMN,
    DATASETS,
    Encoder,
    EncoderSums,
    Schema,
    build_labels,
    infer_schema,
    load,
    read_schema,
    read_table,
    schema_of,
)
from fairsilo.errors import FairSiloError
from fairsilo.fairness import Dgeo, check_defined
from fairsilo.fairness.weigh import totals_of
from fairsilo.method.base import Floats, Ints
from fairsilo.partition import TEST
from fairsilo.partition.federation import Federation
from fairsilo.run.options import Options
from fairsilo.run.share import owners, share_out

SETUP_EXCHANGES = 2
"""Before the first round the silos send the encoder's sums, then the counts of their cells."""


@dataclass(frozen=True)
class Prepared:
    """A federation ready to train, the test rows, and how to read them."""

    schema: Schema
    encoder: Encoder
    federation: Federation
    client_names: tuple[str, ...]
    test_x: Floats
    test_y: Ints
    test_s: Ints
    constraints: tuple[Dgeo, ...]
    protected_class: str
    groups: tuple[str, ...]
    """The groups that are compared, in the user's order."""
    group_columns: tuple[int, ...]
    """The encoded columns that give the group away."""
    test_client: Ints | None = None
    """Who holds each test row, where a column says so."""

    @property
    def encoder_width(self) -> int:
        """How many numbers a row is encoded into."""
        return int(self.federation.x.shape[1])

    def describe(self, pair: Dgeo) -> str:
        """A constraint in words: "Female - Male in >50K"."""
        names, classes = self.schema.groups, self.schema.classes
        return f"{names[pair.a]} - {names[pair.b]} in {classes[pair.c]}"


Fit = Callable[[list[pd.DataFrame], Schema], Encoder]
"""Makes the encoder from the silos' tables: each gives sums of its own."""


def prepare(options: Options, fit: Fit | None = None) -> Prepared:
    """Read, split, encode. Raises FairSiloError before anything is written.

    With a `fit` of its own the caller also sees to it that there are rows enough: not everybody
    may count them.
    """
    frame, schema, options = _table(options)
    y, s = build_labels(frame, schema)
    protected, groups, constraints = _constraints(schema, options)
    client, names = share_out(frame, y, options, schema.classes.index(protected))

    trained = client >= 0
    rows, holder = frame[trained], client[trained]
    if fit is None:
        encoder = Encoder.fit(schema, _encoder_sums(rows, holder, schema))
    else:
        encoder = fit(silo_tables(rows, holder), schema)
    shape = {"groups": len(schema.groups), "classes": len(schema.classes)}
    federation = Federation.of(
        encoder.transform(frame[trained]), y[trained], s[trained], client[trained], **shape
    )
    if fit is None:
        _check_rows(federation, constraints, schema, options)
    test = client == TEST
    owner = owners(frame, options)
    return Prepared(
        schema=schema,
        encoder=encoder,
        federation=federation,
        client_names=names,
        test_x=encoder.transform(frame[test]),
        test_y=y[test],
        test_s=s[test],
        constraints=constraints,
        protected_class=protected,
        groups=groups,
        group_columns=_group_columns(options, schema, encoder),
        test_client=None if owner is None else owner[test],
    )


def _check_rows(
    federation: Federation, constraints: Sequence[Dgeo], schema: Schema, options: Options
) -> None:
    """Refuse rows that no training or no constraint can use."""
    if len(np.unique(federation.y)) < 2:
        only = schema.classes[int(federation.y[0])]
        raise FairSiloError(
            f"all training rows are of class {only!r}: give rows of at least two classes"
        )
    totals = totals_of(federation, constraints, options.min_cell)
    if options.method in ("fedfair", "lco"):
        estimator = "local" if options.method == "lco" else options.estimator
        check_defined(constraints, estimator, totals, schema.groups, schema.classes)  # type: ignore[arg-type]


def _group_columns(options: Options, schema: Schema, encoder: Encoder) -> tuple[int, ...]:
    """Where the features that name the group ended up: "sex=Female", "ethnicity"."""
    known = DATASETS.get(options.data)
    names = known.group_features if known else (schema.group,)
    return tuple(
        i
        for i, feature in enumerate(encoder.feature_names)
        if any(feature == name or feature.startswith((f"{name}=", f"{name} (")) for name in names)
    )


def _encoder_sums(frame: pd.DataFrame, client: Ints, schema: Schema) -> EncoderSums:
    """Every silo's own sums, added: the same numbers as over a network."""
    return reduce(add, (EncoderSums.of(one, schema) for one in silo_tables(frame, client)))


def silo_tables(frame: pd.DataFrame, client: Ints) -> list[pd.DataFrame]:
    """The rows of every silo."""
    order = np.argsort(client, kind="stable")
    cuts = np.flatnonzero(np.diff(client[order])) + 1
    return [frame.iloc[part] for part in np.split(order, cuts)]


def _table(options: Options) -> tuple[pd.DataFrame, Schema, Options]:
    """The table and its schema; a named data set fills in what the user left open."""
    if options.data in DATASETS:
        known = DATASETS[options.data]
        for name in ("label", "group", "client", "split", "schema"):
            if getattr(options, name) is not None:
                raise FairSiloError(
                    f"--{name} does not go with the data set {options.data!r}, whose columns are "
                    "fixed: leave it out"
                )
        frame = load(options.data, data_dir=options.data_dir, variant=options.variant)
        schema = schema_of(options.data, frame, drop_group=options.drop_group)
        filled = replace(
            options,
            protected_class=options.protected_class or known.protected_class,
            groups=options.groups or known.groups,
        )
        return frame, schema, filled
    for name in ("label", "group", "protected_class"):
        if getattr(options, name) is None:
            raise FairSiloError(
                f"--{name.replace('_', '-')} is missing: own data need --label, --group and "
                f"--protected-class (the named data sets are {', '.join(DATASETS)})"
            )
    if options.variant != "default":
        raise FairSiloError(
            f"--variant {options.variant} is for the data sets {', '.join(DATASETS)}: leave it out"
        )
    frame = read_table(options.data)
    if Path(options.data).is_dir():
        dealt = options.clients is not None or options.partition != "iid"
        if dealt or options.client is not None:
            raise FairSiloError(
                f"{options.data} is a folder with one file per client: leave out --client, "
                "--clients and --partition"
            )
        options = replace(options, client=CLIENT_COLUMN)
    assert options.label is not None
    assert options.group is not None
    if options.schema is not None:
        return frame, _declared(options), options
    exclude = [name for name in (options.client, options.split) if name is not None]
    schema = infer_schema(
        frame,
        label=options.label,
        group=options.group,
        exclude=exclude,
        drop_group=options.drop_group,
    )
    return frame, schema, options


def _declared(options: Options) -> Schema:
    """The schema of --schema, which must be about the columns that the options name."""
    assert options.schema is not None
    schema = read_schema(options.schema)
    for name, value in (("label", schema.label), ("group", schema.group)):
        if getattr(options, name) != value:
            raise FairSiloError(
                f"--{name} is {getattr(options, name)!r} and the file {options.schema} says "
                f"{value!r}: correct one of them"
            )
    both = {options.client, options.split} & set(schema.columns)
    if both:
        raise FairSiloError(
            f"column {both.pop()!r} says who holds a row or which are for testing, so it cannot be "
            f"a feature: take it out of {options.schema}"
        )
    return schema


def _constraints(schema: Schema, options: Options) -> tuple[str, tuple[str, ...], tuple[Dgeo, ...]]:
    """One constraint per pair of groups."""
    protected = str(options.protected_class)
    groups = options.groups or schema.groups
    return protected, tuple(groups), compared(schema, groups, (protected,))


def compared(schema: Schema, groups: Sequence[str], protected: Sequence[str]) -> tuple[Dgeo, ...]:
    """Every pair of the groups in every protected class, or what is wrong with the names."""
    for name in protected:
        if name not in schema.classes:
            raise FairSiloError(
                f"--protected-class {name!r} is not a class of column {schema.label!r}: choose "
                f"one of {', '.join(schema.classes)}"
            )
    for group in groups:
        if group not in schema.groups:
            comma = any("," in name for name in schema.groups)
            quote = " (in double quotes where a name has a comma)" if comma else ""
            raise FairSiloError(
                f"--groups {group!r} is not a value of column {schema.group!r}: choose from "
                f"{', '.join(schema.groups)}{quote}"
            )
    if len(set(groups)) < 2:
        raise FairSiloError("--groups needs at least two different groups, such as Female,Male")
    if len(set(groups)) < len(groups):
        twice = next(group for group in groups if groups.count(group) > 1)
        raise FairSiloError(f"--groups names {twice!r} twice: name each group once")
    pairs = list(itertools.combinations([schema.groups.index(group) for group in groups], 2))
    return tuple(Dgeo(a, b, schema.classes.index(c)) for c in protected for a, b in pairs)
