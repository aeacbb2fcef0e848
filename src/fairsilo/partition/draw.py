"""Draw the test rows and divide the training rows among simulated clients."""

from typing import Literal, get_args

import numpy as np

from fairsilo.errors import FairSiloError
from fairsilo.partition.dirichlet import dirichlet
from fairsilo.partition.rows import Indices, equal_sizes, shuffled, stratified
from fairsilo.partition.skewed import skewed

Kind = Literal["iid", "skewed", "dirichlet"]
KINDS: tuple[Kind, ...] = get_args(Kind)

TEST = -1
"""The client of a test row."""
UNUSED = -2
"""The client of a row that is neither a training nor a test row."""


def draw(
    y: Indices,
    *,
    kind: Kind,
    clients: int,
    train_rows: int | None = None,
    test_rows: int | None = None,
    test_fraction: float = 0.2,
    seed: int,
    protected: int = 1,
    alpha: float = 0.5,
) -> Indices:
    """Return the client of every row: 0 to clients-1, TEST or UNUSED.

    The test rows are drawn first, stratified by class, so the same seed gives the same test rows
    for every kind. `test_fraction` is used only if neither number of rows is given.
    """
    if kind not in KINDS:
        raise FairSiloError(f"there is no partition {kind!r}; choose one of {', '.join(KINDS)}")
    if seed < 0:
        raise FairSiloError(f"the seed is {seed}; it must be 0 or above")
    y = np.asarray(y, dtype=np.int64)
    train_size, test_size = _sizes(len(y), train_rows, test_rows, test_fraction)
    if not 1 <= clients <= train_size:
        raise FairSiloError(
            f"{clients} clients cannot share {train_size} training rows; choose a number of "
            f"clients from 1 to {train_size}"
        )
    rng = np.random.Generator(np.random.PCG64(seed))
    test, rest = stratified(np.arange(len(y)), y, test_size, rng)
    train = rest if len(rest) == train_size else stratified(rest, y, train_size, rng)[0]
    if kind == "iid":
        # Every client holds a random sample of the rows; sizes differ by one at most.
        cuts = np.cumsum(equal_sizes(len(train), clients))[:-1]
        parts = np.split(shuffled(train, rng) if clients > 1 else train, cuts)
    elif kind == "skewed":
        parts = skewed(train, y, clients, protected, rng)
    else:
        parts = dirichlet(train, y, clients, alpha, rng)
    client = np.full(len(y), UNUSED, dtype=np.int64)
    client[test] = TEST
    for k, part in enumerate(parts):
        client[part] = k
    return client


def _sizes(n: int, train: int | None, test: int | None, fraction: float) -> tuple[int, int]:
    if train is None and test is None:
        if not 0 < fraction < 1:
            raise FairSiloError(f"the test fraction is {fraction}; it must be between 0 and 1")
        test = max(round(n * fraction), 1)
    if test is None:
        test = n - (train or 0)
    if train is None:
        train = n - test
    if train < 1 or test < 0 or train + test > n:
        raise FairSiloError(
            f"{n} rows do not give {train} training and {test} test rows; ask for fewer test rows "
            "and at least one training row"
        )
    return train, test
