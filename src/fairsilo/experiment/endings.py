"""How trainings ended: which are lost, and which count as converged.

A training is lost, and its models get no figures, if the solver diverged or ended worse than the
trivial model theta = 0, which gives all C classes the same chance in every row, has the loss ln C
in every group and so satisfies every constraint. Worse means `loss + violation > ln C`. ST's loss
is a mean over clients, which can hide one lost client; so if the exact optimum is known (logistic
regression, from Newton), a training that ends more than 0.1 above it, violation included, is lost,
too. All of this is measured on training rows.

A training has converged if its solver says so or, if the optimum is known, if it is at most 1e-4
above it with a violation of at most 1e-3: the paper's solver comes to rest at
|D| = epsilon + gamma lambda, gamma = 0.001, and so may never meet its own KKT test.
"""

import math

import numpy as np
import numpy.typing as npt
import pandas as pd

LOST = 0.1
LOSS_LEFT = 1e-4
VIOLATION_LEFT = 1e-3
FIGURES = (
    "accuracy",
    "balanced_accuracy",
    "deo",
    "fairness",
    "harmonic_mean",
    "rate_gap",
    "dgeo_pooled",
)
RATE = "rate: "
"""Prefix of the columns with true-positive rates, one for each group."""
_RUN = ["setting", "seed", "split"]


def is_detail(column: str) -> bool:
    """Whether a column holds results by group or client, or ends of intervals."""
    return column.startswith((RATE, "client_")) or column.endswith(("_low", "_high"))


def without_lost(
    table: pd.DataFrame, optimum: pd.DataFrame | None = None, classes: int = 2
) -> pd.DataFrame:
    """The models of a part; those of a lost training have status `diverged` and no figures.

    `optimum` is the same part solved exactly.
    """
    if "status" not in table:
        return table
    ended = table["loss"] + table["violation"]
    lost = (table["status"] == "diverged") | ~(ended <= math.log(classes))
    if optimum is not None:
        above = loss_gap(table, optimum) + table["violation"].to_numpy()
        lost |= above > LOST
    known = [name for name in table if name in FIGURES or is_detail(str(name))]
    kept = table.copy()
    kept.loc[lost, known] = np.nan
    kept.loc[lost, "status"] = "diverged"
    return kept


def loss_gap(table: pd.DataFrame, optimum: pd.DataFrame) -> npt.NDArray[np.float64]:
    """For each row of the table, its training loss minus that of the same run's exact optimum."""
    exact = optimum.drop_duplicates(_RUN).set_index(_RUN)["loss"]
    best = exact.reindex(pd.MultiIndex.from_frame(table[_RUN])).to_numpy(dtype=np.float64)
    gap: npt.NDArray[np.float64] = table["loss"].to_numpy(dtype=np.float64) - best
    return gap


def ending(models: pd.DataFrame, optimum: pd.DataFrame | None = None) -> dict[str, object]:
    """How the trainings of the chosen models ended, on all training rows.

    `ending` is converged, not converged or diverged: the worst of the seeds. `loss_gap` is the
    training loss minus that of the exact optimum, averaged over the seeds, or None if no exact
    optimum is known (networks).
    """
    if "status" not in models:
        return {"ending": None, "converged": None, "loss_gap": None, "violation": None}
    if models.empty:  # every setting has a lost training, so that none is chosen
        return {"ending": "diverged", "converged": False, "loss_gap": None, "violation": None}
    chosen = models.drop_duplicates("seed")
    good = (chosen["status"] == "converged").to_numpy()
    gap = None
    if optimum is not None:
        gaps = loss_gap(chosen, optimum)
        close = chosen["violation"].to_numpy() <= VIOLATION_LEFT
        good = good | (close & (gaps <= LOSS_LEFT))
        gap = float(gaps.mean())
    lost = bool((chosen["status"] == "diverged").any())
    converged = bool(good.all()) and not lost
    words = "diverged" if lost else "converged" if converged else "not converged"
    return {
        "ending": words,
        "converged": converged,
        "loss_gap": gap,
        "violation": float(chosen["violation"].max()),
    }
