"""The label-skewed split: the dominating class makes 80 % of a client, up to one point."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fairsilo.data import DATASETS, build_labels, load, schema_of
from fairsilo.errors import FairSiloError
from fairsilo.partition import draw


def shares(y: NDArray[np.int64], client: NDArray[np.int64], c: int) -> NDArray[np.float64]:
    """The share of class c at each client."""
    return np.array([np.mean(y[client == k] == c) for k in range(client.max() + 1)])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", DATASETS)
def test_the_data_sets_of_the_paper(
    name: str, seed: int, data_dir_of: Callable[[str], Path | None]
) -> None:
    d = DATASETS[name]
    frame = load(name, data_dir=data_dir_of(name))
    y, _ = build_labels(frame, schema_of(name, frame))
    c = d.classes.index(d.protected_class)
    client = draw(
        y,
        kind="skewed",
        clients=d.clients,
        train_rows=d.train_rows,
        test_rows=d.test_rows,
        seed=seed,
        protected=c,
    )
    sizes = np.bincount(client[client >= 0])
    np.testing.assert_array_equal(sizes, d.train_rows // d.clients)
    assert (client == -1).sum() == d.test_rows
    share = shares(y, client, c)
    if name == "drug":
        np.testing.assert_array_equal(share[:9], 0.8)
        assert share[9] == pytest.approx(0.52, abs=0.01)
    else:
        dominated = {"adult": 4, "compas": 11}[name]
        np.testing.assert_allclose(share[:dominated], 0.8, atol=0.01)
        np.testing.assert_allclose(share[dominated:], 0.2, atol=0.01)


@given(
    share=st.floats(0.2, 0.8),
    clients=st.integers(1, 60),
    per_client=st.integers(100, 300),
    extra=st.integers(0, 59),
    seed=st.integers(0, 1000),
)
def test_all_clients_but_one_are_dominated(
    share: float, clients: int, per_client: int, extra: int, seed: int
) -> None:
    n = clients * per_client + extra % clients
    y = (np.arange(n) < round(n * share)).astype(np.int64)
    client = draw(
        y, kind="skewed", clients=clients, train_rows=n, test_rows=0, seed=seed, protected=1
    )
    share_at = shares(y, client, 1)
    # A point, and a row for rounding to whole rows.
    off = np.minimum(np.abs(share_at - 0.8), np.abs(share_at - 0.2)) > 0.01 + 1.5 / per_client
    assert off.sum() <= 1
    assert np.all((share_at > 0.18) & (share_at < 0.82))


@pytest.mark.parametrize(("share", "dominated"), [(0.2, 0), (0.5, 5), (0.8, 10), (0.195, 0)])
def test_number_of_dominated_clients(share: float, dominated: int) -> None:
    y = (np.arange(2000) < 2000 * share).astype(np.int64)
    client = draw(y, kind="skewed", clients=10, train_rows=2000, test_rows=0, seed=0)
    assert (shares(y, client, 1) > 0.5).sum() == dominated


@pytest.mark.parametrize("share", [0.0, 0.05, 0.18, 0.82, 1.0])
def test_a_class_too_rare_or_too_common(share: float) -> None:
    y = (np.arange(1000) < 1000 * share).astype(np.int64)
    with pytest.raises(FairSiloError, match="20 % to 80 %"):
        draw(y, kind="skewed", clients=10, seed=0)


def test_more_than_two_classes_are_one_against_the_rest() -> None:
    y = np.arange(3000) % 3
    client = draw(y, kind="skewed", clients=9, train_rows=2700, test_rows=300, seed=0, protected=2)
    share = shares(y, client, 2)
    # 0.2 + 0.6 p = 1/3 gives p = 2/9 of the clients.
    np.testing.assert_allclose(share[:2], 0.8, atol=0.01)
    np.testing.assert_allclose(share[2:], 0.2, atol=0.01)
    # The other two classes share the rest about evenly: 240 rows, four standard errors 0.13.
    for k in range(2, 9):
        rest = y[(client == k) & (y != 2)]
        assert abs(np.mean(rest == 0) - 0.5) < 0.13
