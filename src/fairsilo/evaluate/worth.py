"""Is a model of any use: does it do better than one answer for everybody?

    balanced accuracy  B = mean over classes of r_c / n_c    (r_c of n_c rows predicted right)
    its interval       mean of q_c +- z sqrt(sum_c q_c (1 - q_c) / m_c) / classes
                       with q_c = (r_c + 2) / (n_c + 4), m_c = n_c + 4 (Agresti and Coull 1998)

A constant has B = 1 / classes. A model below that plus MARGIN is hardly better, whatever its
accuracy, and fair only as a constant is. One that finds less than 2 MARGIN of one class of two is
(B <= (1 + 2 MARGIN) / 2); of several classes, one that finds less of a class in which groups are
compared is of as little use there, whatever it does with the others.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.evaluate.intervals import LEVEL, quantile
from fairsilo.evaluate.metrics import accuracy, balanced_accuracy
from fairsilo.evaluate.scores import auc_interval, overall
from fairsilo.evaluate.tally import Tally

RANKING = 0.55
"""Above this AUC probabilities rank people, if not well."""
MARGIN = 0.03
"""So much above a constant's balanced accuracy is hardly better."""


def worth(
    tally: Tally,
    classes: Sequence[str],
    common: int,
    models: int = 1,
    compared: Collection[int] = (),
) -> dict[str, Any]:
    """`worth` of metrics.json; `why` is the sentence to say first, None of a useful model.

    `common`: the class that the constant answers. `models`: of how many models the tally is the
    sum, whose figures are then averages, without an interval. `compared`: the classes in which
    groups are compared.
    """
    value, chance = balanced_accuracy(tally), 1 / len(classes)
    span = balanced_interval(tally) if models == 1 else None
    found: dict[str, Any] = {
        "balanced_accuracy": value,
        "interval": span,
        "constant": chance,
        "useful": None if value is None else value >= chance + MARGIN,
        "why": None,
    }
    if tally.scores is not None and models == 1 and len(classes) == 2:
        found["auc"] = overall(tally.scores)
        found["auc_interval"] = auc_interval(tally.scores[:, 0].sum(axis=0))
    if found["useful"] is False:
        found["why"] = _why(tally, classes, common, models, found)
    elif found["useful"] and len(classes) > 2:
        found["why"] = _blind(tally, classes, models, compared)
        found["useful"] = found["why"] is None
    return found


def _blind(
    tally: Tally, classes: Sequence[str], models: int, compared: Collection[int]
) -> str | None:
    """Why groups cannot be compared: almost nobody of such a class is found."""
    rows, right = _by_class(tally, models)
    for one in sorted(compared):
        if rows[one] and right[one] < 2 * MARGIN * rows[one]:
            return (
                f"almost blind to class {classes[one]!r}, in which groups are compared: it finds "
                f"{_found(tally, right[one], rows[one])}, so that its fairness there says nothing"
            )
    return None


def _by_class(tally: Tally, models: int) -> tuple[Floats, Floats]:
    """Rows of each class, and those predicted right."""
    by_class = tally.counts.sum(axis=0) / models
    return by_class.sum(axis=1), np.diagonal(by_class)


def _found(tally: Tally, right: float, rows: float) -> str:
    """How many of a class are found; with weights the sums are no numbers of people."""
    if tally.rows is None:
        return f"{right:,.0f} of the {rows:,.0f}"
    return f"{100 * right / max(rows, 1e-300):.0f}%"


def balanced_interval(tally: Tally, level: float = LEVEL) -> list[float] | None:
    """The interval of balanced accuracy; None where a class has no row."""
    by_class = tally.counts.sum(axis=0)
    rows, right = by_class.sum(axis=1), np.diagonal(by_class)
    value = balanced_accuracy(tally)
    if value is None or not rows.all():
        return None
    rate = (right + 2) / (rows + 4)
    reach = quantile(level) * float(np.sqrt(np.sum(rate * (1 - rate) / (rows + 4)))) / len(rows)
    middle = float(rate.mean())
    return [max(min(middle - reach, value), 0.0), min(max(middle + reach, value), 1.0)]


def _why(
    tally: Tally, classes: Sequence[str], common: int, models: int, found: dict[str, Any]
) -> str:
    rows, right = _by_class(tally, models)
    rates = np.where(rows > 0, right / np.maximum(rows, 1), np.inf)
    worst = int(np.argmin(rates))
    span = found["interval"]
    sure = "" if span is None else f", with 95% confidence {span[0]:.3f} to {span[1]:.3f}"
    finds = _found(tally, right[worst], rows[worst])
    words = (
        f"hardly better than one answer for everybody: it finds {finds} "
        f"of class {classes[worst]!r}; balanced accuracy is "
        f"{found['balanced_accuracy']:.3f}{sure}, of a constant {found['constant']:.3f}"
    )
    own, constant = accuracy(tally), float(rows[common] / rows.sum())
    if own is not None and own <= constant:
        words += f"; accuracy is {own:.4f}, of a constant {constant:.4f}"
    span = found.get("auc_interval")
    if span is not None:
        ranks = "still rank them" if span[0] > RANKING else "hardly rank them, either"
        words += (
            f"; its probabilities {ranks} (AUC {found['auc']:.3f}, with 95% confidence "
            f"{span[0]:.3f} to {span[1]:.3f})"
        )
        words += ", so that another threshold would help (`decide_at`)" * (span[0] > RANKING)
    return words
