"""The audited rows, the silos that hold them, and the groups and classes to compare."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.arrays import Ints
from fairsilo.auditor.options import AuditOptions
from fairsilo.data import CLIENT_COLUMN, DATASETS, Schema, build_labels, load, read_table, schema_of
from fairsilo.data.asked import Choice, everything, of_probabilities, only
from fairsilo.data.columns import column, distinct, readable
from fairsilo.data.dialect import Dialect
from fairsilo.data.infer import at_least_two, groups_of
from fairsilo.errors import FairSiloError
from fairsilo.fairness import DEFAULT, NOTIONS, Dgeo, count_cells
from fairsilo.partition import TEST, UNUSED, by_column, draw, split_column
from fairsilo.run import Options, Saved
from fairsilo.run.constraints import every_pair
from fairsilo.run.constraints import groups_of as all_groups
from fairsilo.run.made import trained_with
from fairsilo.run.prepare import is_named
from fairsilo.run.split import share_out, share_out_alone


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of an audit and how to read them."""

    frame: pd.DataFrame
    schema: Schema
    y: Ints
    s: Ints
    owner: Ints
    """Which silo holds a row, an index into `silos`."""
    silos: tuple[str, ...]
    pairs: tuple[Dgeo, ...]
    groups: tuple[str, ...]
    protected: tuple[str, ...]
    which: str
    """A description of the rows in words."""
    unseen: bool | None
    """Whether the model trained without these rows; None if unknown."""
    not_features: tuple[str, ...] = ()
    """Columns such as label, client and split, which are not features of any model."""


def read_rows(options: AuditOptions, saved: Saved | None) -> Rows:
    """Read the table, choose the rows and find out which silo holds each."""
    trained = None if saved is None else options_of_run(options, saved)
    frame, schema = table_of(options, saved, trained)
    y, s = build_labels(frame, schema)
    description: dict[str, Any] = {} if saved is None else saved.description
    known = DATASETS.get(options.data)
    groups = options.groups or tuple(description.get("groups", ())) or (
        known.groups if known else all_groups(schema, None)
    )  # fmt: skip
    protected = options.protected_class or (
        _protected(saved) if saved is not None
        else (known.protected_class,) if known else schema.classes
    )  # fmt: skip
    every = options.notion is not None and NOTIONS[options.notion].every_class
    if every or (protected == ("all",) and "all" not in schema.classes):
        protected = schema.classes
    pairs = every_pair(schema, groups, protected)
    chosen, which, unseen = _choose(options, saved, trained, frame, y, s)
    folder = known is None and Path(options.data).is_dir()
    client = options.client or (CLIENT_COLUMN if folder else None)
    if client is None and options.clients is None and trained is not None:
        client = trained.client if trained.client in frame.columns else None
    frame, y, s = frame[chosen].reset_index(drop=True), y[chosen], s[chosen]
    owner, silos = _owners(options, saved, frame, y, client)
    beside = (schema.label, client, options.split, trained and trained.split)
    return Rows(
        frame, schema, y, s, owner, silos, pairs, tuple(groups), tuple(protected), which, unseen,
        tuple(name for name in beside if name),
    )  # fmt: skip


def _protected(saved: Saved) -> tuple[str, ...]:
    """The classes in which the run compared its groups."""
    notion = NOTIONS.get(str(saved.metrics.get("notion")), DEFAULT)
    return saved.schema.classes if notion.every_class else saved.protected


def options_of_run(options: AuditOptions, saved: Saved) -> Options:
    """The options of the run, with the audited table in place of its own."""
    # An audit asks for no promise: what a training refuses is none of its business.
    trained = trained_with(
        saved,
        data=options.data,
        data_dir=options.data_dir,
        dp_epsilon=None,
        maximum_weight=None,
        client_names=(),
        early_stopping=False,
    )
    folder = options.data not in DATASETS and Path(options.data).is_dir()
    dealt = trained.client is None and trained.clients is None
    return replace(trained, client=CLIENT_COLUMN) if folder and dealt else trained


def table_of(
    options: AuditOptions, saved: Saved | None, trained: Options | None
) -> tuple[pd.DataFrame, Schema]:
    """The whole table, and how to read it: as the run did, where there is one."""
    if is_named(options, "label", "group", "client", "split"):
        variant = options.variant or (trained.variant if trained else "default")
        frame = load(options.data, data_dir=options.data_dir, variant=variant)
        return frame, saved.schema if saved else schema_of(options.data, frame)
    if Path(options.data).is_dir() and (options.client or options.clients):
        raise FairSiloError(
            f"{options.data} is a folder with one file per client: leave out `client` and `clients`"
        )
    names: dict[str, str] = {}
    for role in ("label", "group"):
        own = getattr(options, role)
        if own is None and saved is not None:
            own = getattr(saved.schema, role)
        if own is None:
            raise FairSiloError(f"`{role}` is missing: say which column of the table it is")
        names[role] = own
    label, group = names["label"], names["group"]
    if label == group:
        raise FairSiloError(f"label and group are both {label!r}; choose two different columns")
    if saved is not None:
        schema = saved.schema.model_copy(update=names)
        roles = [options.client, options.split]
        if trained is not None:
            roles += [trained.client, trained.split, trained.weight]
        choice = only(*schema.columns, *schema.vocabularies, also=roles)
        dialect = options.dialect_from(saved.dialect)
        return read_table(options.data, schema, dialect, choice), schema
    choice = _predicted(options, label, group) if options.model is None else everything
    frame = read_table(options.data, None, options.dialect_from(Dialect()), choice)
    return frame, Schema(
        features=(),
        label=label,
        classes=at_least_two(column(frame, label), label, "label", "class"),
        group=group,
        groups=groups_of(frame, group, groupless=True),
    )


def _predicted(options: AuditOptions, label: str, group: str) -> Choice:
    """The columns of predictions that stand in the table, and those of the roles."""
    roles = (label, group, options.client, options.split, options.predictions)
    return only(*roles, also=of_probabilities(options.probability))


def _choose(
    options: AuditOptions,
    saved: Saved | None,
    trained: Options | None,
    frame: pd.DataFrame,
    y: Ints,
    s: Ints,
) -> tuple[np.ndarray, str, bool | None]:
    """The mask of the rows, its description, and whether the model trained without them."""
    client = is_test = None
    if saved is not None and trained is not None and options.split in (None, trained.split):
        client = split_of_run(saved, trained, frame, y, s)
    if client is None and options.split is not None:
        is_test = split_column(*distinct(column(frame, options.split)), column=options.split)
    if client is None and is_test is None:
        if options.rows in ("test", "train"):
            raise FairSiloError(
                f"`rows` {options.rows} needs to know which rows those are: give `split` COLUMN, "
                "or the table that the run was trained on"
            )
        return np.ones(len(y), np.bool_), "all rows of the table", None
    wanted = options.rows or "test"
    if wanted == "all":
        return np.ones(len(y), np.bool_), "all rows, training rows among them", False
    if client is not None:
        chosen = client == TEST if wanted == "test" else client >= 0
        return chosen, f"the {wanted} rows of the run", wanted == "test"
    assert is_test is not None
    chosen = is_test if wanted == "test" else ~is_test
    return chosen, f"the rows that column {options.split!r} calls {wanted}", (
        None if wanted == "test" else False
    )  # fmt: skip


def split_of_run(
    saved: Saved, trained: Options, frame: pd.DataFrame, y: Ints, s: Ints
) -> Ints | None:
    """Whose each row is, by repeating the run's split; None if the counts show another table."""
    protected = saved.schema.classes.index(saved.protected[0])
    whole, kept = np.full(len(y), UNUSED), _with_weight(saved, trained, frame)
    frame, y, s = frame[kept].reset_index(drop=True), y[kept], s[kept]
    splits: list[Callable[[], Ints]] = [lambda: share_out(frame, y, trained, protected)[0]]
    if "dp" in saved.metrics:
        alone = replace(trained, client=None, clients=1)
        splits.insert(0, lambda: share_out_alone(frame, y, s, saved.schema, alone)[0])
    for split in splits:
        try:
            client = split()
        except FairSiloError:
            continue
        if _counted_by(saved, client, y, s):
            whole[kept] = client
            return whole
    return None


def _with_weight(saved: Saved, trained: Options, frame: pd.DataFrame) -> np.ndarray:
    """Which rows the run split: those of weight zero it left out before."""
    if trained.weight not in frame.columns or "dp" in saved.metrics:
        return np.ones(len(frame), np.bool_)
    return readable(frame[trained.weight]) > 0


def _counted_by(saved: Saved, client: Ints, y: Ints, s: Ints) -> bool:
    """Whether the run counted these training and test rows."""
    is_test, metrics = np.equal(client, TEST), saved.metrics
    shape = (len(saved.schema.groups), len(saved.schema.classes))
    cells = {
        (cell["group"], cell["class"]): cell.get("counted", cell["rows"])
        for cell in metrics["test"].get("cells", [])
    }
    counted = count_cells(y[is_test], s[is_test], *shape)
    same = all(
        cells.get((group, name)) == counted[g, c]
        for g, group in enumerate(saved.schema.groups)
        for c, name in enumerate(saved.schema.classes)
    )
    # A private run does not record its exact number of training rows.
    rows = "dp" in metrics or int(np.sum(client >= 0)) == metrics["train"].get("rows")
    return bool(same and rows)


def _owners(
    options: AuditOptions, saved: Saved | None, frame: pd.DataFrame, y: Ints, client: str | None
) -> tuple[Ints, tuple[str, ...]]:
    """The silo of each row: from a column, or divided at random."""
    if client is not None:
        return by_column(*distinct(column(frame, client)), column=client)
    known = DATASETS.get(options.data)
    count = options.clients or (
        int(saved.metrics["clients"]) if saved is not None else known.clients if known else 1
    )
    count = count if options.clients is not None else min(count, len(y))
    dealt = draw(y, kind="iid", clients=count, train_rows=len(y), test_rows=0, seed=options.seed)
    return dealt, tuple(str(k + 1) for k in range(count))
