"""Columns that give the answer away, and test rows that training sees: found by counting.

    B(column) = mean over classes c of  sum_v [c is the class of v] n_vc / n_c

is the balanced accuracy of the best answer from one column alone, where v runs over its values
(of a number, over 64 ranges with equally many rows) and n_vc counts rows.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairsilo.data.columns import column, distinct, is_number
from fairsilo.data.dates import measured
from fairsilo.data.schema import Number, Schema
from fairsilo.errors import FairSiloError

SURE = 0.98
"""From this balanced accuracy on, a column alone gives the label away."""
FEWEST = 50
"""Of fewer rows nothing is said: any column fits a few rows."""
RANGES = 64
SAMPLE = 20_000
"""So many rows are enough to know quantiles and how often values repeat."""
ENOUGH = 200_000
"""So many rows are enough to see what a column gives away."""
BLOCK = 1 << 18
"""Rows that are hashed at a time."""
TWINS = 0.01
"""A share of test rows that are training rows, too, above which this is said."""
CHANCE = 0.01
"""If columns were independent, so many test rows at most would have a twin by chance."""

ALONE = "alone predicts the label almost perfectly"
SAME = "says the same as"
SEEN = "test rows are training rows, too"

Codes = NDArray[np.int64]


def too_good(sentence: str) -> bool:
    """Whether a sentence of `leaks` or `twins` says that test figures cannot be believed."""
    return ALONE in sentence or SEEN in sentence


def codes_of(frame: pd.DataFrame, feature: Any) -> Codes:
    """A code per row: the value of a category, the range of a number; 0 where missing."""
    if not isinstance(feature, Number):
        return distinct(column(frame, feature.name))[0] + 1
    values = measured(frame, feature)
    step = max(len(values) // SAMPLE, 1)
    some = np.unique(values[::step][~np.isnan(values[::step])])
    cuts = some if len(some) <= RANGES else np.quantile(some, np.arange(1, RANGES) / RANGES)
    return np.where(np.isnan(values), 0, 1 + np.searchsorted(cuts, values)).astype(np.int64)


def alone(codes: Codes, y: Codes, classes: int) -> float:
    """B: the balanced accuracy of the best answer from these codes alone."""
    counts = np.bincount(codes * classes + y, minlength=(codes.max() + 1) * classes)
    shares = counts.reshape(-1, classes) / np.maximum(np.bincount(y, minlength=classes), 1)
    occurring = int(np.count_nonzero(np.bincount(y, minlength=classes)))
    return float(shares.max(axis=1).sum() / max(occurring, 1))


def same(a: Codes, b: Codes) -> bool:
    """Whether two columns say the same in other words: each value goes with one of the other."""
    if len(a) < FEWEST:
        return False
    pairs, most = a * (b.max() + 1) + b, 0
    # Some rows contradict it nearly always: then all need not be looked at.
    for some in (slice(None, None, max(len(a) // SAMPLE, 1)), slice(None)):
        most, left, right = (len(pd.unique(one[some])) for one in (pairs, a, b))
        if not most == left == right:
            return False
    return most > 1


def leaks(
    frame: pd.DataFrame,
    schema: Schema,
    y: Codes,
    groups: Sequence[str] = (),
    client: str | None = None,
) -> Iterator[str]:
    """What to warn of in the features: the label given away, the group or the holder repeated.

    `groups` are the columns that say the group.
    """
    if len(y) < FEWEST:
        return
    step = max(len(y) // ENOUGH, 1)
    frame, y = frame.iloc[::step], y[::step]
    told = [(name, "the group") for name in groups]
    told += [] if client is None else [(client, "who holds the row")]
    known = [(name, what, distinct(column(frame, name))[0] + 1) for name, what in told]
    for feature in schema.features:
        try:
            codes = codes_of(frame, feature)
        except FairSiloError:
            continue  # What cannot be read is an error elsewhere.
        share = alone(codes, y, len(schema.classes))
        if share >= SURE and 10 * len(pd.unique(codes)) <= len(y):
            yield (
                f"column {feature.name!r} {ALONE} (balanced accuracy {share:.3f}): if it is not "
                f"known before the answer is, give `drop` {feature.name}"
            )
        own, plain = codes, column(frame, feature.name)
        if is_number(plain) and any(theirs.max() > RANGES for _, _, theirs in known):
            own = distinct(plain)[0] + 1  # Ranges would merge the values.
        for name, what, theirs in known:
            if name != feature.name and same(own, theirs):
                yield (
                    f"column {feature.name!r} {SAME} {what}, column {name!r}: if the "
                    f"model is not to know it, give `drop` {feature.name}"
                )


def twins(frame: pd.DataFrame, schema: Schema, test: NDArray[np.bool_]) -> str:
    """What to warn of if test rows are training rows, too, and not by chance; "" if not."""
    names = [*schema.columns, schema.label]
    if test.sum() < FEWEST or test.all():
        return ""
    parts = (frame.iloc[start : start + BLOCK][names] for start in range(0, len(frame), BLOCK))
    hashed = np.concatenate([pd.util.hash_pandas_object(one, index=False) for one in parts])
    tested, trained = pd.Series(hashed[test]), pd.Series(hashed[~test])
    # The fewer hashes are looked up in, the faster.
    found = tested.isin(trained[trained.isin(tested)])
    share = float(found.mean())
    if share < TWINS or int((~test).sum()) * _repeats(frame, names) > CHANCE:
        return ""
    return (
        f"{int(found.sum()):,} of {int(test.sum()):,} {SEEN}, in all features and the label: test "
        "figures are then better than for new people; remove duplicates before rows are divided"
    )


def _repeats(frame: pd.DataFrame, names: Sequence[str]) -> float:
    """The chance that two rows agree everywhere, if the columns were independent."""
    chance = 1.0
    for name in names:
        codes = distinct(frame[name].iloc[:: max(len(frame) // SAMPLE, 1)])[0] + 1
        chance *= float(np.square(np.bincount(codes) / len(codes)).sum())
    return chance
