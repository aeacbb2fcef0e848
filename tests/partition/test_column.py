from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairsilo.data.columns import distinct
from fairsilo.errors import FairSiloError
from fairsilo.partition import by_column, split_column


def coded(cells: Any) -> tuple[Any, Any]:
    return distinct(pd.Series(cells))


@given(st.lists(st.sampled_from(["north", "south", "East", "west end"]), min_size=1))
def test_names_lead_back_to_the_cells(cells: list[str]) -> None:
    client, names = by_column(*coded(pd.Series(cells)))
    assert [names[k] for k in client] == cells
    assert list(names) == sorted(set(cells))
    assert client.dtype == np.int64


@pytest.mark.parametrize("cells", [[10, 9, 10], np.array([10.0, 9.0, 10.0])])
def test_numbers_sort_as_numbers(cells: list[float]) -> None:
    client, names = by_column(*coded(cells))
    assert names == ("9", "10")
    np.testing.assert_array_equal(client, [1, 0, 1])


def test_other_kinds_of_cells() -> None:
    assert by_column(*coded([True, False]))[1] == ("False", "True")
    assert by_column(*coded(pd.Series(["b", "a"], dtype="category")))[1] == ("a", "b")
    assert by_column(*coded([1, "1", "x"]))[1] == ("1", "x")


@pytest.mark.parametrize("empty", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, "", " "])
def test_an_empty_client(empty: object) -> None:
    with pytest.raises(FairSiloError, match="client column 'bank' is empty in 2 rows"):
        by_column(*coded(["x", empty, empty]), column="bank")


def test_split() -> None:
    is_test = split_column(*coded(pd.Series(["train", "TEST", " Train ", "test"])))
    np.testing.assert_array_equal(is_test, [False, True, False, True])
    assert is_test.dtype == np.bool_


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["train", "valid", "test"], "split column 'part' holds 'valid' where only train and test"),
        (["train", None, "test"], "holds an empty cell"),
        ([0.0, 1.0], "holds '[01]'"),
        (["test", "test"], "has no train rows"),
        (["train", "train"], "has no test rows"),
    ],
)
def test_wrong_splits(cells: list[object], message: str) -> None:
    with pytest.raises(FairSiloError, match=message):
        split_column(*coded(cells), column="part")
