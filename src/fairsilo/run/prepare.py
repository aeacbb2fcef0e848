"""A table for a simulation: read it, decide who holds which row, encode it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.arrays import Floats, Ints, Mask
from fairsilo.coded import Coded, Table, values_of
from fairsilo.data import (
    CLIENT_COLUMN,
    DATASETS,
    Encoder,
    Schema,
    build_labels,
    grouped_by,
    infer_schema,
    load,
    read_schema,
    read_table,
    schema_of,
)
from fairsilo.data.alike import alike
from fairsilo.data.asked import Asked, only
from fairsilo.data.columns import absent, as_declared
from fairsilo.data.declared_rows import declared_rows
from fairsilo.data.groups import grouped_as_declared, without_group
from fairsilo.data.infer import raise_all, warn_of_codes
from fairsilo.data.leakage import leaks, twins
from fairsilo.data.table import read_features
from fairsilo.data.weights import declared_weights, weightless, weighty
from fairsilo.dp import Mechanism
from fairsilo.engine import Clientwise, Pooled, Private, silos_of
from fairsilo.errors import FairSiloError, FairSiloWarning
from fairsilo.fairness.weigh import totals_of
from fairsilo.partition import TEST
from fairsilo.partition.federation import Federation
from fairsilo.partition.rows import by_client
from fairsilo.question import Part, Silo
from fairsilo.run.constraints import one_or_more, protected_of
from fairsilo.run.group_seen import group_features
from fairsilo.run.options import Options
from fairsilo.run.problem import Posed, check_rows, pose
from fairsilo.run.split import owners, share_out, share_out_alone
from fairsilo.threshold import smallest_sum

COLUMNS = ("category", "number", "drop", "features")
"""Options that say what the columns of an own table are."""


@dataclass(frozen=True, kw_only=True)
class Prepared(Posed):
    """A training with its rows: those of every client, and the test rows."""

    federation: Federation
    client_names: tuple[str, ...]
    test_x: Table
    test_y: Ints
    test_s: Ints
    test_client: Ints | None = None
    """Who holds each test row, where a column says so."""
    test_weight: Floats | None = None
    """As how many rows each test row counts; None: as one."""

    def crossed(self, encoder: Encoder) -> Prepared:
        """The same rows by an encoder that has pairs beside."""
        binned = encoder.binned
        assert binned is not None

        def more(x: Table) -> Table:
            main = values_of(x)
            # The blank is as large as there are columns; for the encoder it is -1.
            main = [np.where(v < w, v, -1) for v, w in zip(main, encoder.widths, strict=False)]
            return Coded.of(encoder.widths, [*main, *binned.crossed(main)], len(x))

        rows = replace(self.federation, x=more(self.federation.x))
        return replace(self, encoder=encoder, federation=rows, test_x=more(self.test_x))

    def engine(self, options: Options, mechanism: Mechanism | None = None) -> Clientwise:
        """The engine that the options name, with these rows."""
        least = options.min_cell
        if mechanism is not None:
            whole = options.engine == "pooled"
            return Private(silos_of(self.federation), mechanism, whole)
        if options.engine == "pooled":
            return Pooled(self.federation, least)
        return Clientwise(silos_of(self.federation, min_cell=least))


class Tables(Clientwise):
    """Silos in this process that have their tables, not yet encoded.

    `client`, in ascending order, says whose row each is; a silo's table is a slice of the frame.
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        y: Ints,
        s: Ints,
        client: Ints,
        clients: int,
        weight: Floats | None = None,
    ) -> None:
        cuts = np.searchsorted(client, np.arange(clients + 1))
        nothing = np.zeros((len(y), 0))
        none, whole = Part(y[:0], s[:0], nothing[:0]), Part(y, s, nothing, frame, weight)
        parts = (slice(start, stop) for start, stop in pairwise(cuts))
        super().__init__([Silo(_rows(whole, rows), none) for rows in parts])
        self.index = np.arange(int(s.max(initial=0)) + 1)

    def regroup(self, schema: Schema, cells: Ints, index: Ints) -> None:
        """Small groups were pooled: `index` is every group's new number."""
        self.index = index

    def private(self, mechanism: Mechanism) -> Private:
        """The same silos, whose answers carry noise."""
        return Private(self.silos, mechanism)


def _rows(part: Part, rows: slice) -> Part:
    weight = None if part.weight is None else part.weight[rows]
    return Part(part.y[rows], part.s[rows], part.x[rows], part.frame.iloc[rows], weight)


def prepare(options: Options, mechanism: Mechanism | None = None) -> Prepared:
    """Read, split, encode. Raises FairSiloError before anything is written.

    With a `mechanism` the encoder's sums are released through it.
    """
    frame, schema, options = read(options)
    assert options.protected_class is not None
    protected = protected_of(schema, options.protected_class)
    if mechanism is None:
        rows = len(frame)
        frame, weight = weighty(frame, options.weight)
        if options.weight is not None and len(frame) < rows:
            told = weightless(rows, len(frame), options.weight)
            warnings.warn(told, FairSiloWarning, stacklevel=2)
        y, s = build_labels(frame, schema)
        client, names = share_out(frame, y, options, protected[0])
        owner = owners(frame, options)
        if options.data not in DATASETS:
            warn_of_leaks(frame, schema, y, client == TEST, options.client)
    else:
        frame, y, s = declared_rows(frame, schema)
        client, names, owner = share_out_alone(frame, y, s, schema, options)
        weight = None
        if options.weight is not None and options.maximum_weight is not None:
            weight = declared_weights(frame, options.weight, options.maximum_weight)
    return assemble(
        options, schema, frame, y, s, client,
        names=names,
        protected=protected,
        groups=options.groups,
        hidden=group_features(options, schema),
        test_client=None if owner is None else owner[client == TEST],
        mechanism=mechanism,
        weight=weight,
    )  # fmt: skip


def assemble(
    options: Options,
    schema: Schema,
    frame: pd.DataFrame,
    y: Ints,
    s: Ints,
    client: Ints,
    *,
    names: tuple[str, ...],
    protected: Sequence[int],
    groups: Sequence[str] | None,
    hidden: Sequence[str],
    test_client: Ints | None = None,
    mechanism: Mechanism | None = None,
    weight: Floats | None = None,
) -> Prepared:
    """From rows with class, group and client (TEST for a test row) to what training needs."""
    test = client == TEST
    # Training rows, silo by silo: the one copy of them that is made before they are encoded.
    trained = by_client(client)
    owner, rows = client[trained], frame.iloc[trained]
    weights = (None, None) if weight is None else (weight[trained], weight[test])
    silos = Tables(rows, y[trained], s[trained], owner, len(names), weights[0])
    engine: Any = silos
    if mechanism is not None:
        mechanism.silos = silos.clients
        mechanism.smallest = smallest_sum(silos.clients, options.dp_noise == "shared")
        engine = silos.private(mechanism)
    posed = pose(options, schema, engine, protected=protected, groups=groups, hidden=hidden)
    s = silos.index[s]
    shape = {"groups": len(posed.schema.groups), "classes": len(posed.schema.classes)}
    known: dict[str, Any] = {**shape, "clients": len(names), "weight": weights[0]}
    x = posed.encoder.encode(rows)
    prepared = Prepared(
        **vars(posed),
        federation=Federation.of(x, y[trained], s[trained], owner, **known),
        client_names=names,
        test_x=posed.encoder.encode(frame[test]),
        test_y=y[test],
        test_s=s[test],
        test_client=test_client,
        test_weight=weights[1],
    )
    if mechanism is None:
        totals = totals_of(prepared.federation, posed.constraints, options.min_cell)
        check_rows(options, posed, totals)
    return prepared


def warn_of_leaks(
    frame: pd.DataFrame, schema: Schema, y: Ints, test: Mask, client: str | None
) -> None:
    """Name columns that give the answer, the group or the holder away; test rows seen before;
    classes, groups and holders whose names are nearly the same."""
    groups = schema.group_columns or (schema.group,)
    found = (*leaks(frame, schema, y, groups, client), twins(frame, schema, test))
    for words in (*found, *alike(frame, (schema.label, *groups, client))):
        if words:
            warnings.warn(words, FairSiloWarning, stacklevel=2)


def read(options: Options) -> tuple[pd.DataFrame, Schema, Options]:
    """The table and its schema; a named data set fills in what the user left open."""
    if is_named(options, "label", "client", "split", "schema", "weight", *COLUMNS):
        known = DATASETS[options.data]
        frame = load(options.data, data_dir=options.data_dir, variant=options.variant)
        own = options.group is not None
        schema = schema_of(options.data, frame, drop_group=options.drop_group and not own)
        if options.group is not None:
            by = one_or_more("group", options.group, tuple(frame.columns))
            schema = _grouped(schema, frame, by, options, known.vocabularies)
        filled = replace(
            options,
            protected_class=options.protected_class or known.protected_class,
            groups=options.groups or (None if own else known.groups),
        )
        return frame, schema, filled
    for name in ("label", "group", "protected_class"):
        if getattr(options, name) is None:
            raise FairSiloError(
                f"`{name}` is missing: own data need `label`, `group` and "
                f"`protected_class` (the named data sets are {', '.join(DATASETS)})"
            )
    declared = None if options.schema is None else _declared(options)
    folder = Path(options.data).is_dir()
    if folder:
        dealt = options.clients is not None or options.partition != "iid"
        if dealt or options.client is not None:
            raise FairSiloError(
                f"{options.data} is a folder with one file per client: leave out `client`, "
                "`clients` and `partition`"
            )
    if declared is None:
        frame, remarks = read_features(
            options.data, partial(_asked, options), None, options.dialect
        )
    else:
        roles = (options.client, options.split, options.weight)
        choice = only(*declared.columns, *declared.vocabularies, *roles)
        frame = read_table(options.data, declared, options.dialect, choice)
    if folder:
        files = tuple(frame[CLIENT_COLUMN].cat.categories) if options.dp_epsilon else ()
        options = replace(options, client=CLIENT_COLUMN, client_names=files)
    assert options.label is not None
    assert options.group is not None
    if declared is not None:
        return frame, declared, options
    frame = as_declared(frame, options.category, options.number)
    by = one_or_more("group", options.group, tuple(frame.columns))
    schema = infer_schema(
        frame,
        label=options.label,
        group=by[0],
        exclude=[
            name for name in left_out([*frame.columns, *options.features], options) if name in frame
        ],
        drop_group=options.drop_group and len(by) == 1,
        told=(*options.category, *options.number),
        groupless=options.groupless == "train",
        remarks=remarks,
    )
    if len(by) > 1:
        schema = _grouped(schema, frame, by, options)
    warn_of_codes(frame, set(schema.numbers) - {*options.number})
    return frame, schema, options


def left_out(names: Sequence[str], options: Options) -> list[str]:
    """The columns that are no features: those that say who, which part, or nothing by choice."""
    roles = (options.client, options.split, options.weight, *options.drop)
    named = [name for name in roles if name is not None]
    if options.features:
        for name in options.features:
            if name in {*named, options.label}:
                raise FairSiloError(f"column {name!r} is in `features` and is no feature: name one")
            if name not in names:
                raise FairSiloError(absent(name, names))
        kept = {*options.features, options.label}
        named += [name for name in names if name not in kept]
    return list(dict.fromkeys(named))


def _asked(options: Options, names: Sequence[str]) -> Asked:
    """The features, and what says class, group, holder, part and weight."""
    assert options.group is not None
    by = one_or_more("group", options.group, names)
    roles = (options.label, *by, options.client, options.split, options.weight)
    told = (*options.category, *options.number)
    named = [name for name in (*roles, *told, *options.features, *options.drop) if name is not None]
    raise_all([absent(name, names) for name in dict.fromkeys(named) if name not in names])
    features = {*names} - {*left_out(names, options)}
    kept = {name for name in (*roles, *told) if name is not None}
    return Asked(features | kept, features - kept)


def is_named(options: Any, *fixed: str) -> bool:
    """Whether the data are a named data set; refuse options that do not go with what they are."""
    if options.data not in DATASETS:
        if options.variant not in (None, "default"):
            raise FairSiloError(
                f"`variant` {options.variant} is for the data sets {', '.join(DATASETS)}: leave it "
                "out"
            )
        return False
    for name in fixed:
        if getattr(options, name) not in (None, ()):
            raise FairSiloError(
                f"`{name}` does not go with the data set {options.data!r}, whose columns are "
                "fixed: leave it out"
            )
    return True


def _declared(options: Options) -> Schema:
    """The schema of `schema`, which must be about the columns that the options name."""
    assert options.schema is not None
    for name in COLUMNS:
        if getattr(options, name):
            raise FairSiloError(f"`{name}` is in the file {options.schema}: leave it out")
    schema = read_schema(options.schema)
    group = ",".join(schema.group_columns) or schema.group
    for name, value in (("label", schema.label), ("group", group)):
        if getattr(options, name) != value:
            raise FairSiloError(
                f"`{name}` is {getattr(options, name)!r} and the file {options.schema} says "
                f"{value!r}: correct one of them"
            )
    both = {options.client, options.split, options.weight} & set(schema.columns)
    if both:
        raise FairSiloError(
            f"column {both.pop()!r} says who holds a row, which are for testing or what they "
            f"weigh, so it cannot be a feature: take it out of {options.schema}"
        )
    return without_group(schema) if options.drop_group else schema


def _grouped(
    schema: Schema,
    frame: pd.DataFrame,
    by: tuple[str, ...],
    options: Options,
    declared: Mapping[str, tuple[str, ...]] | None = None,
) -> Schema:
    """The schema with the groups of these columns; the label cannot be among them.

    Under differential privacy the groups are made of the declared values, whether or not they
    occur.
    """
    if schema.label in by:
        raise FairSiloError(f"`group` names the label {schema.label!r}: choose other columns")
    if options.dp_epsilon is not None:
        return grouped_as_declared(schema, by, declared or {}, drop=options.drop_group)
    return grouped_by(
        schema, frame, by, drop=options.drop_group, groupless=options.groupless == "train"
    )
