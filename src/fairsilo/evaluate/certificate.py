"""The certificate: an upper bound on the gap between two groups' mean losses.

On held-out rows, for a model that did not see them. The one that certifies holds for any number of
rows and any distribution of the losses, where losses above a fixed clip count as the clip: the
groups' means are bounded by `betting`, each end failing with probability alpha/2 at most, and the
larger of (high a) - (low b) and (high b) - (low a) bounds the gap. The others are approximate,
since their variance is estimated, and are given from FEWEST rows of each group on (after the
paper's Theorem 2):

    P( |D| < |D_heldout| + r ) >= 1 - Var/r^2          Chebyshev, r = sqrt(Var / (1 - level))
    P( |D| < |D_heldout| + r ) >= 1 - Var/(Var + r^2)  Cantelli,  r = sqrt(Var level / (1 - level))
    P( |D| < |D_heldout| + r ) ~= level or more        normal,    r = z_level sqrt(Var)

with Var = s_a^2/m_a + s_b^2/m_b (pooled) or sigma_avg^2/N (mean, where held-out rows belong to
silos). D is fixed, and |D| > |D_heldout| + r requires the estimate to err in one direction only,
given by the sign of D: so Cantelli's one-sided inequality holds under Chebyshev's assumptions, and
the normal quantile is the one-sided one (1.645 for 95 %).

Of several pairs, the bound of the pair with the largest true gap holds at the given level, and the
largest bound is at least as large: so it bounds the largest gap without a correction. The limit is
certified if the bound of every pair is at most the pair's epsilon: the bound by betting, or where
its sums are not known, Chebyshev's, which the statement then calls approximate. If only some pairs
have a limit, the certificate covers only these. Decisions: see `rates`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from fairsilo.evaluate.betting import CLIP, cells_of, mean_between
from fairsilo.evaluate.evidence import Evidence
from fairsilo.evaluate.intervals import FEWEST, LEVEL, Moments, chebyshev_deviations
from fairsilo.evaluate.metrics import finite, largest
from fairsilo.evaluate.rates import gap_bound, in_words, more_rows
from fairsilo.fairness.constraint import Dgeo
from fairsilo.fairness.words import spelled

KINDS = ("chebyshev", "cantelli", "normal")
"""The bounds with an estimated variance."""
ASSUMES = (
    "The held-out rows are independent draws from the population that the model will meet. Nothing "
    "in this certificate can tell whether they are.",
    "The model did not see these rows: neither its training, nor the choice of its settings "
    "(method, epsilon, features) used them.",
    f"For the bound by betting, a loss above {CLIP:g} counts as {CLIP:g}, which was fixed before "
    "any row was seen; it holds for any distribution and any number of rows. Chebyshev\u2019s, "
    "Cantelli\u2019s and the normal bound estimate the variance from the same rows, so they are "
    f"approximate, and are not given below {FEWEST} rows of a group.",
    "The recorded class of every row is right.",
)
"""The assumptions of the statement, in words."""


@dataclass(frozen=True)
class Names:
    """The names of the groups and classes, by index, and of the columns that have them."""

    groups: Sequence[str]
    classes: Sequence[str]
    group: str = ""
    label: str = ""

    @property
    def spoken(self) -> Names:
        """As a reader understands them: female=0."""
        return Names(
            [spelled(self.group, one) for one in self.groups],
            [spelled(self.label, one) for one in self.classes],
        )


def certify(
    evidence: Evidence,
    pairs: Sequence[Dgeo],
    names: Names,
    limit: float | Sequence[float | None] | None,
    *,
    by_silo: bool,
    level: float = LEVEL,
    unseen: bool = True,
    fewest: int = FEWEST,
) -> dict[str, Any]:
    """The certificate as stored in metrics.json; `by_silo` adds the `mean` estimator.

    `limit` is one for all pairs, or one for each (None if a pair has none). `unseen` says that
    training is known not to have seen the rows; otherwise the statement makes it a condition.
    """
    names = names.spoken
    limits = list(limit) if isinstance(limit, Sequence) else [limit] * len(pairs)
    limited = [k for k, one in enumerate(limits) if one is not None]
    lines = [
        {
            **_pair(evidence, k, pairs[k], names, level, by_silo, fewest),
            "betting": _betting(evidence, pairs, pairs[k], level),
            "limit": limits[k],
        }
        for k in limited or range(len(pairs))
    ]
    bounds = {
        "betting": largest([line["betting"] and line["betting"]["bound"] for line in lines]),
        **{
            name: largest([line["pooled"] and line["pooled"][name] for line in lines])
            for name in KINDS
        },
    }
    kind = "betting" if evidence.wagers.size else "chebyshev"
    found = {
        "level": level,
        "limit": min((one for one in limits if one is not None), default=None),
        "rows": int(evidence.tally.counts.sum()),
        "by": kind,
        "clip": CLIP if evidence.wagers.size else None,
        "bounds": bounds,
        "met": None if not limited or bounds[kind] is None
        else all(_bound(line, kind) <= line["limit"] for line in lines),
        "pairs": lines,
    }  # fmt: skip
    found["needed"] = _needed(found)
    return {**found, "statement": statement(found, unseen), "assumes": list(ASSUMES)}


def refuse(why: str, limit: float | None, level: float = LEVEL) -> dict[str, Any]:
    """The entry for a run that cannot have a certificate, with the reason."""
    return {
        "level": level,
        "limit": limit,
        "rows": 0,
        "by": "betting",
        "clip": None,
        "bounds": dict.fromkeys(("betting", *KINDS)),
        "met": None,
        "pairs": [],
        "needed": None,
        "statement": f"There is no certificate for this model: {why}.",
        "assumes": [],
        "about": "losses",
        "rates": {"limit": None, "bound": None, "met": None, "lines": [], "needed": None},
    }


def radii(variance: float, level: float = LEVEL) -> dict[str, float]:
    """The r of each of the three inequalities."""
    std = math.sqrt(variance)
    return {
        "chebyshev": chebyshev_deviations(level) * std,
        "cantelli": math.sqrt(level / (1 - level)) * std,
        "normal": NormalDist().inv_cdf(level) * std,
    }


def statement(found: dict[str, Any], unseen: bool) -> str:
    """The certificate in words for readers without statistics."""
    level, kind = found["level"], found["by"]
    if found["bounds"][kind] is None:
        return (
            "There is no certificate: a group has too few held-out rows of the protected class "
            f"(at least {1 if kind == 'betting' else FEWEST} are needed) to say how large the gap "
            "can be."
        )
    worst = _worst(found)
    gap, bound, limit = worst["gap"], _bound(worst, kind), worst["limit"]
    more, less = (worst["a"], worst["b"]) if gap >= 0 else (worst["b"], worst["a"])
    own = len({line["limit"] for line in found["pairs"]}) > 1
    which = "whose bound is farthest above its limit" if own else "with the largest bound"
    several = (
        f" Of {len(found['pairs'])} pairs of groups this is the one {which}."
        if len(found["pairs"]) > 1
        else ""
    )
    known = " that the model did not see" if unseen else ", provided the model never saw them"
    words = (
        f"On {found['rows']:,} rows{known}, its average loss on "
        f"\u201c{more}\u201d is larger than on \u201c{less}\u201d by {abs(gap):.4f}, among people "
        f"whose true class is \u201c{worst['class']}\u201d.{several} "
    )
    words += (
        f"With at least {100 * level:g}% confidence the gap in the whole population is below "
        f"{bound:.4f}, where a loss above {found['clip']:g} counts as {found['clip']:g}."
        if kind == "betting"
        else f"With about {100 * level:g}% confidence, by an approximation, the gap in the whole "
        f"population is below {bound:.4f}."
    )
    if limit is None:
        return f"{words} No limit was set, so none is certified."
    kept = (
        f"So the limit of {limit:g} is kept: certified."
        if found["met"]
        else f"That is not below the limit of {limit:g}, so the limit is NOT certified; this does "
        f"not say that it is broken.{in_words(found['needed'], _smaller(worst))}"
    )
    return f"{words} {kept}"


def _worst(found: dict[str, Any]) -> dict[str, Any]:
    """The pair whose bound is farthest above its limit."""
    kind = found["by"]
    worst: dict[str, Any] = max(
        found["pairs"], key=lambda line: _bound(line, kind) - (line["limit"] or 0)
    )
    return worst


def _needed(found: dict[str, Any]) -> int | None:
    """How many more rows of the smaller group would certify the limit."""
    if found["met"] is not False:
        return None
    worst = _worst(found)
    return more_rows(worst, _bound(worst, found["by"]), worst["limit"])


def _smaller(line: dict[str, Any]) -> str:
    group = line["a"] if line["rows_a"] <= line["rows_b"] else line["b"]
    return f"\u201c{group}\u201d with \u201c{line['class']}\u201d"


def _bound(line: dict[str, Any], kind: str) -> float:
    """The bound of a pair that certifies."""
    return float(line["betting"]["bound"] if kind == "betting" else line["pooled"]["chebyshev"])


def _betting(
    evidence: Evidence, pairs: Sequence[Dgeo], pair: Dgeo, level: float
) -> dict[str, Any] | None:
    """The groups' means of clipped losses, and the bound of their gap; None without rows."""
    rows = [int(evidence.tally.cells[g, pair.c]) for g in (pair.a, pair.b)]
    known = np.isfinite([evidence.tally.losses[g, pair.c] for g in (pair.a, pair.b)]).all()
    if not all(rows) or not evidence.wagers.size or not known:
        return None
    cells = cells_of(pairs)
    a, b = (
        mean_between(evidence.wagers[cells.index((g, pair.c))], m, level)
        for g, m in zip((pair.a, pair.b), rows, strict=True)
    )
    return {"mean_a": [a.low, a.high], "mean_b": [b.low, b.high], "bound": gap_bound(a, b)}


def _pair(
    evidence: Evidence,
    k: int,
    pair: Dgeo,
    names: Names,
    level: float,
    by_silo: bool,
    fewest: int,
) -> dict[str, Any]:
    tally = evidence.tally
    rows = [int(tally.cells[g, pair.c]) for g in (pair.a, pair.b)]
    found: dict[str, Any] = {
        "a": names.groups[pair.a],
        "b": names.groups[pair.b],
        "class": names.classes[pair.c],
        "rows_a": rows[0],
        "rows_b": rows[1],
        "gap": None,
        "pooled": None,
    }
    if all(rows):
        a, b = (
            Moments.of_sums(m, tally.losses[g, pair.c], tally.squares[g, pair.c])
            for m, g in zip(rows, (pair.a, pair.b), strict=True)
        )
        of_a, of_b = a.variance_of_mean, b.variance_of_mean
        variance = None if of_a is None or of_b is None else of_a + of_b
        found["gap"] = finite(a.mean - b.mean)
        if min(rows) >= fewest:
            found["pooled"] = _bounds(a.mean - b.mean, variance, level)
    if by_silo:
        losses = evidence.losses
        found["silos"] = int(losses.silos[k])
        enough = min(rows) >= fewest
        found["mean"] = (
            _bounds(losses.mean(k), losses.variance_of_mean(k), level) if enough else None
        )
    return found


def _bounds(gap: float | None, variance: float | None, level: float) -> dict[str, float] | None:
    if gap is None or variance is None or finite(gap) is None or finite(variance) is None:
        return None
    reach = {name: abs(gap) + r for name, r in radii(variance, level).items()}
    return {"gap": gap, "variance": variance, **reach}
