"""What the check of the theorems found, in words."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from fairsilo.experiment.grid import TITLES
from fairsilo.experiment.theorems_trained import PROMISED

THEOREMS = "theorems.csv"
TRAINED = "theorems-trained.csv"
LOWER = 0.75
"""Of radii that promise less, which the gap of a trained model does not always stay within."""
THEOREMS_WORDS = (
    "Federations of N clients are drawn again and again from rows of ADULT that training did not "
    "see, so that theta is independent of them, as the proof needs. limited: theta under FedFair's "
    "limit, clients of 400 rows; free: theta without a limit, whose gap is larger than many radii; "
    "unequal: the same theta, a quarter of the clients with 1,600 rows, the others with 100. The "
    "variance of the federated estimate should be sigma_avg^2/N, so their ratio 1. The bounds "
    "promise that the true difference is below the estimate plus a radius; held is how often it "
    "was, within how often the estimate was within the radius of the truth, and held for 0 how "
    "often an estimator that always answers 0 would have held: where that is 100 %, holding shows "
    "nothing. One client: the one with the most rows, whose sigma is sigma_min."
)


def bounds_found(table: pd.DataFrame) -> Iterator[str]:
    """Where holding shows something, whether the bounds held there, and whose radius is smaller."""
    ratio = table["variance"] / table["sigma_avg2_over_n"]
    yield f"The ratios of variances are from {ratio.min():.2f} to {ratio.max():.2f}."
    told = table[table["held_zero"] < 1]
    least = float((told["held_fedfair"] - told["promised"]).min()) if len(told) else np.nan
    verb = "held at least as often as promised in all" if least >= 0 else "failed in some"
    yield (
        f"In {len(told)} of {len(table)} lines the true difference is larger than the radius, so "
        f"that the bound could fail; FedFair's {verb} of them"
        + (f" (least: {told['held_fedfair'].min():.1%})." if len(told) else ".")
    )
    part = table[table["scenario"] == "unequal"].drop_duplicates("clients")
    worse = part.loc[part["sigma_avg2_over_n"] > part["sigma_min2"], "clients"].tolist()
    if worse:
        yield (
            "With unequal clients the federated bound is not the better one everywhere: for N = "
            f"{', '.join(map(str, worse))} sigma_avg^2/N is above sigma_min^2, and the client with "
            "the most rows alone has the smaller radius."
        )


def trained_found(table: pd.DataFrame) -> str:
    """Bias, coverage and the gap in the population where theta was trained on the rows."""
    first = table.iloc[0]
    told = []
    for method, rows in table.groupby("method", sort=False):
        size, off = rows["truth"].abs(), rows["estimate"] - rows["truth"]
        told.append(
            f"{TITLES[str(method)]}: the estimate has a median size "
            f"of {rows['estimate'].abs().median():.3f} on its own rows, the gap in the population "
            f"{size.median():.3f} (within epsilon in {(size <= rows['epsilon']).mean():.0%} of the "
            f"draws); the estimate is off by {off.mean():+.3f} on average (standard error "
            f"{off.std() / np.sqrt(len(rows)):.3f}); {_coverage(rows)}"
        )
    return (
        "**Theta trained on the rows**, as the paper uses the theorems: "
        f"{first['clients']} clients of {first['rows_per_client']} rows, epsilon "
        f"{first['epsilon']:g}, {table['draw'].nunique()} draws. {'. '.join(told)}. The proof's "
        "estimate is unbiased; one that training has made small on these rows is not. "
        f"{compared(table)}"
    )


def _coverage(rows: pd.DataFrame) -> str:
    """How often the bounds held, and how often they would have if the estimate were always 0."""
    size, told = rows["truth"].abs(), []
    for level in (PROMISED, LOWER):
        # By Chebyshev's inequality a radius is the standard deviation over sqrt(1 - level).
        radius = rows["radius"] * np.sqrt((1 - PROMISED) / (1 - level))
        held = (size < rows["estimate"].abs() + radius).mean()
        zero = (size < radius).mean()
        told.append(
            f"the bound for {level:.0%} held in {held:.0%} (with an estimate of 0: {zero:.0%})"
        )
    return " and ".join(told)


def compared(table: pd.DataFrame) -> str:
    """Whose gap is larger in the population where theta was trained on the rows, by the draws."""
    size = table.assign(size=table["truth"].abs()).pivot(index="draw", columns="method")["size"]
    more = size["fedfair"] - size["lco"]
    return (
        f"In the population FedFair's gap is larger than LCO's in {(more > 0).mean():.0%} of "
        f"{len(more)} draws, by {more.mean():+.3f} on average (standard error "
        f"{more.std() / np.sqrt(len(more)):.3f}; medians {size['fedfair'].median():.3f} and "
        f"{size['lco'].median():.3f})."
    )
