"""From options to arrays: read the table, decide who holds which row, fit the encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pandas as pd

from fairsilo.arrays import Floats, Ints
from fairsilo.data import (
    CLIENT_COLUMN,
    DATASETS,
    Encoder,
    EncoderSums,
    Schema,
    build_labels,
    grouped_by,
    infer_schema,
    load,
    pool,
    read_schema,
    read_table,
    schema_of,
)
from fairsilo.errors import FairSiloError
from fairsilo.fairness import Constraint, Dgeo, check_defined, count_cells
from fairsilo.fairness.weigh import totals_of
from fairsilo.fairness.words import describe
from fairsilo.partition import TEST
from fairsilo.partition.federation import Federation
from fairsilo.run.compare import compare, groups_of, one_or_more, protected_of
from fairsilo.run.options import Options
from fairsilo.run.share import owners, share_out

SETUP_EXCHANGES = 2
"""Before the first round the silos send the encoder's sums, then the counts of their cells."""
SMALLEST = 100
"""Of intersections, groups with fewer rows in a protected class are pooled unless --pool says so
otherwise: the rate of 100 rows is known to within ten points."""


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
    constraints: tuple[Constraint, ...]
    protected_class: str
    groups: tuple[str, ...]
    """The groups that are compared, in the user's order."""
    group_columns: tuple[int, ...]
    """The encoded columns that give the group away."""
    test_client: Ints | None = None
    """Who holds each test row, where a column says so."""
    pairs: tuple[Constraint, ...] = ()
    """What DEO and fairness are measured on; empty where that is what is constrained."""
    epsilon: float | tuple[float, ...] | None = None
    """The limit, or one for each constraint; None is the options' own."""

    @property
    def compared(self) -> tuple[Constraint, ...]:
        """The groups that are compared in the protected classes, whatever is constrained."""
        return self.pairs or self.constraints

    @property
    def cell_pairs(self) -> tuple[Dgeo, ...]:
        """The constraints between two cells: what certificates and private training are for."""
        return tuple(one for one in self.constraints if isinstance(one, Dgeo))

    @property
    def encoder_width(self) -> int:
        """How many numbers a row is encoded into."""
        return int(self.federation.x.shape[1])

    def describe(self, constraint: Constraint) -> str:
        """A constraint in words: "Female - Male in >50K"."""
        return describe(constraint, self.schema.groups, self.schema.classes)


Fit = Callable[[list[pd.DataFrame], Schema], Encoder]
"""Makes the encoder from the silos' tables: each gives sums of its own."""


def prepare(options: Options, fit: Fit | None = None) -> Prepared:
    """Read, split, encode. Raises FairSiloError before anything is written.

    With a `fit` of its own the caller also sees to it that there are rows enough: not everybody
    may count them.
    """
    frame, schema, options = _table(options)
    y, s = build_labels(frame, schema)
    assert options.protected_class is not None
    protected = protected_of(schema, options.protected_class)
    client, names = share_out(frame, y, options, protected[0])

    trained = client >= 0
    rows, holder = frame[trained], client[trained]
    shape = {"groups": len(schema.groups), "classes": len(schema.classes)}
    smallest = _smallest(options, schema)
    if smallest:
        # The sum of what the silos count in their own training rows.
        cells = count_cells(y[trained], s[trained], **shape)
        schema = pool(schema, cells[:, protected], smallest)
        s = build_labels(frame, schema)[1]
        shape["groups"] = len(schema.groups)
    groups = groups_of(schema, options.groups)
    compared = compare(schema, options, groups, protected)
    constraints = compared.constraints
    if fit is None:
        encoder = Encoder.fit(schema, encoder_sums(rows, holder, schema))
    else:
        encoder = fit(silo_tables(rows, holder), schema)
    federation = Federation.of(encoder.transform(rows), y[trained], s[trained], holder, **shape)
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
        protected_class=", ".join(schema.classes[c] for c in protected),
        groups=groups,
        group_columns=encoded_columns(_group_features(options, schema), encoder),
        pairs=compared.pairs,
        epsilon=compared.epsilon,
        test_client=None if owner is None else owner[test],
    )


def _check_rows(
    federation: Federation, constraints: Sequence[Constraint], schema: Schema, options: Options
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


def _smallest(options: Options, schema: Schema) -> int:
    """Below how many rows a group is pooled; 0 for never."""
    if options.pool is not None:
        return options.pool
    return SMALLEST if schema.group_columns else 0


def _group_features(options: Options, schema: Schema) -> tuple[str, ...]:
    known = DATASETS.get(options.data)
    if known and options.group is None:
        return known.group_features
    return schema.group_columns or (schema.group,)


def encoded_columns(names: Iterable[str], encoder: Encoder) -> tuple[int, ...]:
    """Where the features of these names ended up: "sex=Female", "ethnicity"."""
    names = tuple(names)
    return tuple(
        i
        for i, feature in enumerate(encoder.feature_names)
        if any(feature == name or feature.startswith((f"{name}=", f"{name} (")) for name in names)
    )


def encoder_sums(frame: pd.DataFrame, client: Ints, schema: Schema) -> EncoderSums:
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
        for name in ("label", "client", "split", "schema"):
            if getattr(options, name) is not None:
                raise FairSiloError(
                    f"--{name} does not go with the data set {options.data!r}, whose columns are "
                    "fixed: leave it out"
                )
        frame = load(options.data, data_dir=options.data_dir, variant=options.variant)
        own = options.group is not None
        schema = schema_of(options.data, frame, drop_group=options.drop_group and not own)
        if options.group is not None:
            by = one_or_more("--group", options.group, tuple(frame.columns))
            schema = _grouped(schema, frame, by, options)
        filled = replace(
            options,
            protected_class=options.protected_class or known.protected_class,
            groups=options.groups or (None if own else known.groups),
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
    declared = None if options.schema is None else _declared(options)
    frame = read_table(options.data, declared)
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
    if declared is not None:
        return frame, declared, options
    exclude = [name for name in (options.client, options.split) if name is not None]
    by = one_or_more("--group", options.group, tuple(frame.columns))
    schema = infer_schema(
        frame,
        label=options.label,
        group=by[0],
        exclude=exclude,
        drop_group=options.drop_group and len(by) == 1,
    )
    if len(by) > 1:
        schema = _grouped(schema, frame, by, options)
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


def _grouped(schema: Schema, frame: pd.DataFrame, by: tuple[str, ...], options: Options) -> Schema:
    """The schema with the groups of these columns; the label cannot be among them."""
    if schema.label in by:
        raise FairSiloError(f"--group names the label {schema.label!r}: choose other columns")
    return grouped_by(schema, frame, by, drop=options.drop_group)
