"""Synthetic tables with a known bias, for tests, demonstrations and benchmarks."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairsilo.errors import FairSiloError

LEVELS = ("a", "b", "c")


def make_table(
    rows: int,
    *,
    silos: int = 3,
    groups: int = 2,
    classes: int = 2,
    bias: float = 0.5,
    numbers: int = 4,
    categories: int = 1,
    seed: int = 0,
    missing: float = 0.0,
) -> pd.DataFrame:
    """Draw a table with columns x0.., c0.., group ("g0"..), label ("0"..) and client ("silo0"..).

    Features, group and client are independent of each other. For a row of group g<k> the log-odds
    of every class above "0" against class "0" are those of the same features in g0, less
    `k * bias`: with bias 0 the label does not depend on the group, with bias b the odds of g1
    are exp(-b) times those of g0. `missing` is the share of feature cells emptied at random.
    """
    for option, value, least in (
        *(("rows", rows, 1), ("silos", silos, 1), ("groups", groups, 1), ("classes", classes, 2)),
        *(("numbers", numbers, 0), ("categories", categories, 0)),
    ):
        if value < least:
            raise FairSiloError(f"{option} is {value}; it must be at least {least}")
    if not 0 <= missing < 1 or not np.isfinite(bias):
        raise FairSiloError("missing must be at least 0 and below 1, and bias a finite number")
    rng = np.random.Generator(np.random.PCG64(seed))
    x = rng.standard_normal((rows, numbers))
    level = rng.integers(len(LEVELS), size=(rows, categories))
    group = _evenly(rows, groups, rng)
    client = _evenly(rows, silos, rng)

    logits = x @ rng.standard_normal((numbers, classes))
    effects = rng.standard_normal((categories, len(LEVELS), classes))
    for k in range(categories):
        logits += effects[k, level[:, k]]
    logits[:, 1:] -= bias * group[:, None]
    # The class with the largest logit plus Gumbel noise is a draw from their softmax.
    label = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)

    table: dict[str, pd.Series[Any]]
    table = {f"x{k}": pd.Series(x[:, k]) for k in range(numbers)}
    table |= {f"c{k}": pd.Series(np.array(LEVELS)[level[:, k]]) for k in range(categories)}
    if missing:
        table = {name: s.mask(rng.random(rows) < missing) for name, s in table.items()}
    table["group"] = pd.Series(np.array([f"g{k}" for k in range(groups)])[group])
    table["label"] = pd.Series(np.array([str(k) for k in range(classes)])[label])
    table["client"] = pd.Series(np.array([f"silo{k}" for k in range(silos)])[client])
    return pd.DataFrame(table)


def _evenly(rows: int, kinds: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Assign rows to kinds at random, in numbers that differ by one at most."""
    return rng.permutation(np.arange(rows) % kinds)
