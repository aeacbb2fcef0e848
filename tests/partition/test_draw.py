import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fairsilo.errors import FairSiloError
from fairsilo.partition import KINDS, TEST, UNUSED, Kind, draw


def labels(n: int, share: float = 0.4, seed: int = 0) -> NDArray[np.int64]:
    y = (np.arange(n) < round(n * share)).astype(np.int64)
    return np.random.default_rng(seed).permutation(y)


def spread(y: NDArray[np.int64], client: NDArray[np.int64]) -> list[list[int]]:
    """Rows of each class at each client."""
    return [np.bincount(y[client == k], minlength=2).tolist() for k in range(client.max() + 1)]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_every_row_once_and_sizes_exact(kind: Kind, data: st.DataObject) -> None:
    n = data.draw(st.integers(40, 400))
    train = data.draw(st.integers(20, n - 1))
    test = data.draw(st.integers(0, n - train))
    clients = data.draw(st.integers(1, train))
    share = data.draw(st.floats(0.35, 0.65))
    seed = data.draw(st.integers(0, 2**32))
    y = labels(n, share, seed)
    arguments: dict[str, Any] = {"kind": kind, "clients": clients, "seed": seed}
    arguments |= {"train_rows": train, "test_rows": test}
    client = draw(y, **arguments)
    assert client.shape == (n,)
    assert client.dtype == np.int64
    assert (client == TEST).sum() == test
    assert (client == UNUSED).sum() == n - train - test
    sizes = np.bincount(client[client >= 0], minlength=clients)
    assert sizes.sum() == train
    assert len(sizes) == clients
    assert sizes.min() >= 1
    if kind != "dirichlet":
        assert sizes.max() - sizes.min() <= 1
    # Stratified: each class is less than a row away from its share of the test rows.
    for c in (0, 1):
        assert abs(((client == TEST) & (y == c)).sum() - test * (y == c).mean()) < 1
    np.testing.assert_array_equal(client, draw(y, **arguments))


@pytest.mark.parametrize("kind", KINDS)
def test_another_seed_is_another_split(kind: Kind) -> None:
    y = labels(500)
    one, two = (draw(y, kind=kind, clients=5, seed=seed) for seed in (0, 1))
    assert (one != two).mean() > 0.2


def test_test_rows_are_the_same_for_every_kind() -> None:
    y = labels(500)
    tests = [draw(y, kind=kind, clients=5, seed=3) == TEST for kind in KINDS]
    assert tests[0].sum() == 100
    np.testing.assert_array_equal(tests[0], tests[1])
    np.testing.assert_array_equal(tests[0], tests[2])


@pytest.mark.process
def test_the_split_is_that_of_another_process_and_needs_numpy_only() -> None:
    script = """
import sys, numpy as np
from fairsilo.partition import draw
y = (np.arange(300) % 5 < 2).astype(int)
print([draw(y, kind=k, clients=7, seed=11).tolist() for k in ("iid", "skewed", "dirichlet")])
assert not {"pandas", "pydantic", "jax", "scipy"} & set(sys.modules)
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    y = (np.arange(300) % 5 < 2).astype(np.int64)
    here = [draw(y, kind=k, clients=7, seed=11).tolist() for k in KINDS]
    assert run.stdout.strip() == str(here)


def test_iid_clients_look_alike() -> None:
    y = labels(40_000, 0.25)
    client = draw(y, kind="iid", clients=20, seed=0)
    shares = np.array([c[1] / sum(c) for c in spread(y, client)])
    # 1,600 rows each: four standard errors are 0.043.
    assert np.all(np.abs(shares - 0.25) < 0.043)


def test_dirichlet_alpha_sets_how_unlike_clients_are() -> None:
    y = labels(20_000, 0.5)

    def unlike(alpha: float) -> float:
        counts = spread(y, draw(y, kind="dirichlet", clients=10, seed=0, alpha=alpha))
        return float(np.std([c[1] / sum(c) for c in counts]))

    assert unlike(0.1) > 0.25
    assert unlike(1000.0) < 0.03
    assert unlike(0.1) > unlike(1.0) > unlike(1000.0)


def test_test_fraction() -> None:
    client = draw(labels(1000), kind="iid", clients=3, seed=0, test_fraction=0.25)
    assert (client == TEST).sum() == 250
    assert not (client == UNUSED).any()
    for given_rows in ({"train_rows": 600}, {"test_rows": 400}):
        client = draw(labels(1000), kind="iid", clients=3, seed=0, **given_rows)
        assert (client == TEST).sum() == 400


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "idd"}, "no partition 'idd'; choose one of iid, skewed, dirichlet"),
        ({"clients": 0}, "0 clients cannot share 80 training rows"),
        ({"clients": -3}, "-3 clients"),
        ({"clients": 81}, "81 clients cannot share 80 training rows; .* from 1 to 80"),
        ({"test_fraction": 0.0}, "test fraction is 0.0"),
        ({"test_fraction": 1.0}, "test fraction is 1.0"),
        ({"test_fraction": float("nan")}, "test fraction is nan"),
        ({"test_fraction": 0.999}, "100 rows do not give 0 training"),
        ({"train_rows": 60, "test_rows": 41}, "100 rows do not give 60 training and 41 test rows"),
        ({"train_rows": 0}, "do not give 0 training"),
        ({"test_rows": 100}, "do not give 0 training"),
        ({"train_rows": 101}, "do not give 101 training"),
        ({"seed": -1}, "seed is -1"),
        ({"kind": "dirichlet", "alpha": 0.0}, "alpha is 0.0"),
        ({"kind": "dirichlet", "alpha": float("nan")}, "alpha is nan"),
        ({"kind": "skewed", "protected": 2}, "protected class .* it has 0.0%"),
    ],
)
def test_impossible_partitions(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"kind": "iid", "clients": 4, "seed": 0}
    with pytest.raises(FairSiloError, match=message) as error:
        draw(labels(100), **(arguments | change))
    assert "\n" not in str(error.value)


def test_empty_table() -> None:
    with pytest.raises(FairSiloError, match="0 rows do not give"):
        draw(labels(0), kind="iid", clients=1, seed=0)
