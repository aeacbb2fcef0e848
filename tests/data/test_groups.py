"""Groups from one column or several, and which small ones are pooled."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fairsilo.data import build_labels, grouped_by, infer_schema, pool
from fairsilo.data.groups import POOLED, small_groups
from fairsilo.data.schema import Schema
from fairsilo.errors import FairSiloError

FRAME = pd.DataFrame(
    {
        "sex": ["f", "f", "m", "m", "m"],
        "race": ["x", "y", "x", "y", "z"],
        "age": [1.0, 2.0, 3.0, 4.0, 5.0],
        "label": ["0", "1", "0", "1", "1"],
    }
)


def schema(*names: str, drop: bool = False) -> Schema:
    return grouped_by(infer_schema(FRAME, label="label", group="sex"), FRAME, names, drop=drop)


def test_intersections_are_what_occurs() -> None:
    both = schema("sex", "race")
    assert both.groups == ("f & x", "f & y", "m & x", "m & y", "m & z")
    assert both.group_columns == ("sex", "race")
    _, s = build_labels(FRAME, both)
    assert s.tolist() == [0, 1, 2, 3, 4]
    assert both.columns == ("sex", "race", "age")
    assert schema("sex", "race", drop=True).columns == ("age",)


def test_pooled_groups_count_as_the_last_one() -> None:
    cells = np.array([[9, 30], [9, 2], [9, 40], [9, 3], [0, 50]])
    few = pool(schema("sex", "race"), cells[:, [1]], 4)
    assert few.groups == ("f & x", "m & x", "m & z", POOLED)
    assert few.pooled == ("f & y", "m & y")
    assert build_labels(FRAME, few)[1].tolist() == [0, 3, 1, 3, 2]
    assert Schema.model_validate(few.model_dump(mode="json")) == few


@pytest.mark.parametrize(
    ("counts", "smallest", "want"),
    [
        ([50, 60, 70], 10, []),
        ([50, 6, 5], 10, [1, 2]),
        # 4 and 5 together are still below 10: the smallest of the others joins them.
        ([50, 20, 4, 5], 10, [1, 2, 3]),
        # A single small group would stay small, so the next smallest joins it.
        ([50, 20, 4], 10, [1, 2]),
        # One group always stays unpooled, or there would be nothing to compare with.
        ([4, 5], 10, [0]),
        ([1, 2, 3], 100, [0, 1]),
    ],
)
def test_the_rule_looks_at_counts_alone(counts: list[int], smallest: int, want: list[int]) -> None:
    assert small_groups(np.array(counts)[:, None], smallest) == want


def test_every_protected_class_counts() -> None:
    cells = np.array([[90, 50], [90, 3], [2, 50], [90, 60]])
    assert small_groups(cells, 10) == [1, 2]


def test_one_small_group_of_two_stays() -> None:
    two = schema("sex")
    assert pool(two, np.array([[1], [9]]), 5) == two


def test_mistakes_get_a_sentence() -> None:
    with pytest.raises(FairSiloError, match="no column 'rase'"):
        schema("sex", "rase")
    gaps = FRAME.assign(race=pd.Series(["x", None, "x", "y", "z"], dtype=object))
    with pytest.raises(FairSiloError, match="'race' is empty in 1 rows"):
        grouped_by(
            infer_schema(FRAME, label="label", group="sex"), gaps, ("sex", "race"), groupless=False
        )
    both = schema("sex", "race")
    strange = FRAME.assign(race=["x", "y", "x", "y", "new"])
    with pytest.raises(FairSiloError, match="unknown group 'm & new'"):
        build_labels(strange, both)
