import numpy as np
import pandas as pd
import pytest

from fairsilo.data import Number, Schema, build_labels
from fairsilo.errors import FairSiloError

SCHEMA = Schema(
    features=(Number(name="a"),), label="y", classes=("0", "1"), group="g", groups=("n", "m")
)


def test_indices_follow_the_order_of_the_schema() -> None:
    y, s = build_labels(pd.DataFrame({"y": [1, 0, 1], "g": ["m", "m", "n"]}), SCHEMA)
    np.testing.assert_array_equal(y, [1, 0, 1])
    np.testing.assert_array_equal(s, [1, 1, 0])
    assert y.dtype == s.dtype == np.int64


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"y": [1, 2], "g": ["n", "n"]}, "column 'y' holds the unknown class '2'; known are 0, 1"),
        ({"y": [1, 0], "g": ["n", "q"]}, "column 'g' holds the unknown group 'q'; known are n, m"),
        ({"y": [1, None], "g": ["n", "n"]}, "column 'y' is empty in 1 rows"),
        ({"y": [1, 0]}, "no column 'g'"),
    ],
)
def test_unknown_values(frame: dict[str, list[object]], message: str) -> None:
    with pytest.raises(FairSiloError, match=message):
        build_labels(pd.DataFrame(frame), SCHEMA)
