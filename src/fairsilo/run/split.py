"""Who holds which row: as a column says, or dealt out by a seeded partition."""

import numpy as np
import pandas as pd

from fairsilo.arrays import Ints
from fairsilo.data import DATASETS
from fairsilo.data.columns import column, distinct, positions
from fairsilo.data.declared_rows import parts_of, uniforms
from fairsilo.data.schema import Schema
from fairsilo.errors import FairSiloError
from fairsilo.partition import TEST, by_column, draw, split_column
from fairsilo.partition.draw import UNUSED
from fairsilo.run.options import Options

TEST_FRACTION = 0.2


def share_out(
    frame: pd.DataFrame, y: Ints, options: Options, protected: int
) -> tuple[Ints, tuple[str, ...]]:
    """The client of every row (TEST for a test row) and the clients' names."""
    known = DATASETS.get(options.data)
    is_test = None
    if options.split is not None:
        is_test = split_column(*distinct(column(frame, options.split)), column=options.split)
    if options.client is not None:
        if is_test is None:
            is_test = _draw_test(y, options)
        return _by_column(frame, is_test, options.client)
    count = _dealt(options)
    names = tuple(str(i + 1) for i in range(count))
    common = {
        "kind": options.partition,
        "clients": count,
        "seed": options.seed,
        "protected": protected,
        "alpha": options.alpha,
    }
    if is_test is not None:
        train = np.flatnonzero(~is_test)
        client = np.full(len(y), TEST, dtype=np.int64)
        client[train] = draw(y[train], train_rows=len(train), test_rows=0, **common)  # type: ignore[arg-type]
        return client, names
    if known is not None and options.test_fraction is None:
        sizes = {"train_rows": known.train_rows, "test_rows": known.test_rows}
        return draw(y, **sizes, **common), names  # type: ignore[arg-type]
    return draw(y, test_fraction=_fraction(options), **common), names  # type: ignore[arg-type]


def share_out_alone(
    frame: pd.DataFrame, y: Ints, s: Ints, schema: Schema, options: Options
) -> tuple[Ints, tuple[str, ...], Ints | None]:
    """As `share_out`, each row by itself, and who holds it where a column says so.

    Under differential privacy a row that comes or goes must not move another. So rows are drawn
    by a hash of their own cells, sizes are not exact, and clients are those that are declared.
    """
    known = DATASETS.get(options.data)
    testing, dealing = uniforms(frame, y, s, schema, options.seed)
    if options.split is not None:
        part = parts_of(frame, options.split)
    elif known is not None and options.test_fraction is None:
        share = np.cumsum([known.test_rows, known.train_rows]) / known.rows
        part = np.select([testing < one * 2.0**63 for one in share], [1, 0], -1)
    else:
        part = (testing < _fraction(options) * 2.0**63).astype(np.int64)
    owner = None
    if options.client is not None:
        names = options.client_names
        owner = positions(column(frame, options.client), names)
        holder, part = owner, np.where(owner < 0, -1, part)
    else:
        names = tuple(str(i + 1) for i in range(_dealt(options)))
        holder = dealing % len(names)
    return np.select([part == 0, part == 1], [holder, TEST], UNUSED), names, owner


def _dealt(options: Options) -> int:
    """To how many clients the rows are dealt out."""
    if options.clients is not None:
        return options.clients
    known = DATASETS.get(options.data)
    if known is None:
        raise FairSiloError(
            "it is not said who holds the rows: give `client` COLUMN, or `clients` N to deal "
            "them out"
        )
    return known.clients


def owners(frame: pd.DataFrame, options: Options) -> Ints | None:
    """Who holds each row, test rows too, where a column says so."""
    if options.client is None:
        return None
    return by_column(*distinct(column(frame, options.client)), column=options.client)[0]


def _fraction(options: Options) -> float:
    return TEST_FRACTION if options.test_fraction is None else options.test_fraction


def _draw_test(y: Ints, options: Options) -> np.ndarray:
    drawn = draw(y, kind="iid", clients=1, test_fraction=_fraction(options), seed=options.seed)
    return np.equal(drawn, TEST)


def _by_column(frame: pd.DataFrame, is_test: np.ndarray, name: str) -> tuple[Ints, tuple[str, ...]]:
    """Clients as the column names them; one whose rows are all test rows is no client."""
    client, names = by_column(*distinct(column(frame, name)), column=name)
    kept = np.flatnonzero(np.bincount(client[~is_test]))
    place = np.full(len(names), TEST, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    return np.where(is_test, TEST, place[client]), tuple(names[i] for i in kept)
