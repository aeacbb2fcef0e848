"""Score a table with a saved run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.data import build_labels, read_table, write_atomic
from fairsilo.data.asked import only
from fairsilo.data.columns import column
from fairsilo.data.dialect import Dialect
from fairsilo.predictor.committee import Committee
from fairsilo.run.choices import check_seed
from fairsilo.run.store import Saved, load


def score_table(
    folder: Path,
    data: Path,
    seed: int = 0,
    dialect: Dialect | None = None,
    keep: Sequence[str] = (),
) -> tuple[pd.DataFrame, list[str]]:
    """Predicted class and class probabilities of every row, and what to warn of.

    `dialect`: how a CSV file is written; None is as the run's own table was. `keep`: columns of
    the table that go before the prediction, such as ids.
    """
    check_seed(seed)
    saved = load(folder)
    groups = _group_columns(saved) if _apart(saved) else ()
    choice = only(*saved.schema.columns, *groups, *keep)
    frame = read_table(data, saved.schema, dialect or saved.dialect, choice)
    scores = scores_of(saved, frame, seed, keep)
    warnings = unseen_in(saved, frame)
    if len(saved.predictors) > 1:
        warnings.append(
            f"the method {saved.description.get('method')!r} has one model per client: the class "
            f"is the vote of {len(saved.predictors)} models, the probability their mean"
        )
    return scores, warnings


def unseen_in(saved: Saved, frame: pd.DataFrame) -> list[str]:
    """What to warn of in the categories of a table: values that training never saw."""
    return [
        f"column {name!r} has {count} values that training never saw; they count as none of the "
        "known ones"
        for name, count in saved.encoder.unseen(frame).items()
        if count
    ]


def kept_columns(frame: pd.DataFrame, keep: Sequence[str]) -> dict[str, Any]:
    """The columns of the table that go before what is said of its rows."""
    return {name: column(frame, name).to_numpy() for name in keep}


def scores_of(
    saved: Saved, frame: pd.DataFrame, seed: int = 0, keep: Sequence[str] = ()
) -> pd.DataFrame:
    """The same of a table that is in memory."""
    x, s = saved.encoder.encode(frame), _groups(saved, frame)
    committee = Committee(saved.predictors, len(saved.schema.classes))
    probabilities, labels = committee.probabilities(x, s), committee.labels(x, s, seed)
    kept = kept_columns(frame, keep)
    scores = pd.DataFrame(
        {**kept, "predicted": np.array(saved.schema.classes, dtype=object)[labels]}
    )
    for c, name in enumerate(saved.schema.classes):
        scores[f"probability {name}"] = probabilities[:, c]
    return scores


def _apart(saved: Saved) -> bool:
    """Whether the run's method treats groups apart."""
    return any(hasattr(one, "base") for one in saved.predictors)


def _group_columns(saved: Saved) -> tuple[str, ...]:
    """The columns that say the group."""
    return saved.schema.group_columns or (saved.schema.group,)


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write CSV or Parquet atomically."""
    if path.suffix == ".parquet":
        write_atomic(path, frame.to_parquet(index=False))
    else:
        write_atomic(path, frame.to_csv(index=False).encode())


def _groups(saved: Saved, frame: pd.DataFrame) -> np.ndarray:
    """Group indices for the methods that treat groups apart; the others need no group column."""
    if not _apart(saved):
        return np.zeros(len(frame), dtype=np.int64)
    for name in _group_columns(saved):
        column(frame, name)
    classes = saved.schema.classes
    known = frame.assign(**{saved.schema.label: classes[0]})
    return build_labels(known, saved.schema)[1]
