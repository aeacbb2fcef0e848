import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from fairsilo.data import infer_schema, make_table
from fairsilo.errors import FairSiloError


def group_effects(frame: pd.DataFrame, upper: str) -> tuple[NDArray[np.float64], ...]:
    """Fit the log-odds of class `upper` against "0" and return each group's effect and error.

    Among the rows of two classes, a multinomial logit is a binary one, so this is exact.
    """
    rows = frame[frame["label"].isin(["0", upper])]
    numbers = rows[[c for c in rows.columns if c.startswith("x")]].to_numpy()
    letters = pd.get_dummies(rows[["c0"]], drop_first=True, dtype=float).to_numpy()
    groups = pd.get_dummies(rows["group"], drop_first=True, dtype=float).to_numpy()
    design = np.hstack([groups, numbers, letters, np.ones((len(rows), 1))])
    y = (rows["label"] == upper).to_numpy(dtype=float)
    theta = np.zeros(design.shape[1])
    for _ in range(12):
        p = 1 / (1 + np.exp(-design @ theta))
        hessian = (design * (p * (1 - p))[:, None]).T @ design
        theta += np.linalg.solve(hessian, design.T @ (y - p))
    error = np.sqrt(np.diag(np.linalg.inv(hessian)))
    k = groups.shape[1]
    return theta[:k], error[:k]


@pytest.mark.parametrize("bias", [0.0, 0.5, -1.0])
@pytest.mark.parametrize(("groups", "classes"), [(2, 2), (3, 2), (2, 3)])
def test_bias_is_the_shift_of_the_log_odds(bias: float, groups: int, classes: int) -> None:
    frame = make_table(60_000, bias=bias, groups=groups, classes=classes, seed=7)
    for upper in range(1, classes):
        effect, error = group_effects(frame, str(upper))
        assert np.all(error < 0.06)
        np.testing.assert_array_less(np.abs(effect + bias * np.arange(1, groups)), 4 * error)


def test_without_bias_the_groups_do_not_differ() -> None:
    shares = {}
    for bias in (0.0, 1.0):
        frame = make_table(60_000, bias=bias, seed=1)
        shares[bias] = (frame["label"] == "1").groupby(frame["group"]).mean()
    assert abs(shares[0.0]["g0"] - shares[0.0]["g1"]) < 4 * np.sqrt(0.5 / 30_000)
    assert shares[1.0]["g0"] - shares[1.0]["g1"] > 0.05


def test_shape_names_and_seed() -> None:
    frame = make_table(100, silos=7, groups=4, classes=5, numbers=2, categories=3, seed=5)
    assert list(frame.columns) == ["x0", "x1", "c0", "c1", "c2", "group", "label", "client"]
    assert set(frame["group"]) == {"g0", "g1", "g2", "g3"}
    assert set(frame["client"]) == {f"silo{k}" for k in range(7)}
    assert frame["client"].value_counts().between(14, 15).all()
    same = make_table(100, silos=7, groups=4, classes=5, numbers=2, categories=3, seed=5)
    pd.testing.assert_frame_equal(frame, same)
    assert not frame.equals(make_table(100, silos=7, groups=4, classes=5, numbers=2, seed=6))


def test_missing_cells_are_in_features_only() -> None:
    frame = make_table(20_000, missing=0.1, seed=2)
    share = frame.isna().mean()
    assert share[["group", "label", "client"]].sum() == 0
    assert share.drop(["group", "label", "client"]).between(0.09, 0.11).all()
    infer_schema(frame, label="label", group="group", exclude=("client",))


@pytest.mark.parametrize(
    "options", [{"rows": 0}, {"silos": 0}, {"classes": 1}, {"missing": 1.0}, {"bias": np.nan}]
)
def test_impossible_tables(options: dict[str, float]) -> None:
    with pytest.raises(FairSiloError, match=next(iter(options))):
        make_table(**({"rows": 10} | options))  # type: ignore[arg-type]
