"""A model's predictions for the rows: classes, and the loss of every row if it is known."""

from dataclasses import dataclass, replace

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.auditor.rows import Rows
from fairsilo.data.columns import column, numbers, positions
from fairsilo.errors import FairSiloError
from fairsilo.predictor.committee import Committee
from fairsilo.run import Saved

SMALLEST = float(np.finfo(np.float64).eps)
"""Smaller probabilities are raised to this before taking the loss, as in sklearn's log_loss."""

NO_LOSSES = "without probabilities there are no losses, so DGEO and its certificate are left out"


@dataclass(frozen=True, eq=False)
class Answers:
    """Predicted classes, losses (NaN if only classes are known), and notes for the reader."""

    predicted: Ints
    losses: Floats
    notes: tuple[str, ...] = ()


def of_run(saved: Saved, rows: Rows, seed: int) -> Answers:
    """Predictions of a run folder; with one model per client, the models' vote."""
    x = saved.encoder.encode(rows.frame)
    committee = Committee(saved.predictors, len(saved.schema.classes))
    notes = []
    if len(saved.predictors) > 1:
        notes.append(
            f"the method {saved.description.get('method')!r} has one model per client: audited is "
            f"the vote of {len(saved.predictors)} models, and the loss is their mean"
        )
    return Answers(
        committee.labels(x, rows.s, seed), committee.losses(x, rows.y, rows.s), tuple(notes)
    )


def of_columns(predictions: str | None, probability: tuple[str, ...], rows: Rows) -> Answers:
    """Predictions from columns of the table: predicted classes, probabilities, or both."""
    predicted = None
    if predictions is not None:
        predicted = classes_of(column(rows.frame, predictions), predictions, rows.schema.classes)
    return combined(_columns(probability, rows) if probability else None, predicted, rows.y)


def combined(p: Floats | None, predicted: Ints | None, y: Ints) -> Answers:
    """From class probabilities, predicted classes or both: then the losses are of the first."""
    if p is None:
        assert predicted is not None
        return Answers(predicted, np.full(len(predicted), np.nan), (NO_LOSSES,))
    answers = of_probabilities(p, y)
    return answers if predicted is None else replace(answers, predicted=predicted)


def classes_of(series: object, name: str, classes: tuple[str, ...]) -> Ints:
    """Predicted classes as indices; a value that is not a class is an error."""
    place = positions(series, classes)  # type: ignore[arg-type]
    if (bad := int(np.sum(place == -1))) > 0:
        raise FairSiloError(
            f"column {name!r} is empty in {bad} rows: every row needs a predicted class"
        )
    if (bad := int(np.sum(place == -2))) > 0:
        raise FairSiloError(
            f"column {name!r} holds a value that is no class in {bad} rows: predicted classes are "
            f"{', '.join(classes)} (for probabilities give `probability`)"
        )
    return place


def of_probabilities(p: Floats, y: Ints) -> Answers:
    """From class probabilities, (rows, classes): the most probable class (the lower one on a tie)
    and the cross-entropy."""
    if not np.isfinite(p).all():
        raise FairSiloError(
            f"a probability is missing or not a number in {int((~np.isfinite(p)).any(1).sum())} "
            "rows: fill these cells or remove the rows"
        )
    if p.min(initial=0.0) < -1e-9 or p.max(initial=0.0) > 1 + 1e-6:
        raise FairSiloError(
            f"a probability is {p.min():g} or {p.max():g}, outside 0 to 1: give probabilities and "
            "not scores"
        )
    far = int(np.sum(np.abs(p.sum(axis=1) - 1) > 1e-3))
    if far:
        raise FairSiloError(
            f"the probabilities of the classes do not add up to 1 in {far} rows: give one column "
            "for every class"
        )
    own = p[np.arange(len(y)), y]
    zero = int(np.sum(own < SMALLEST))
    notes = (
        (
            f"{zero:,} rows have probability 0 for their true class, whose loss would be infinite; "
            f"it counts as {-np.log(SMALLEST):.1f}, as in scikit-learn"
        ),
    )
    return Answers(
        np.argmax(p, axis=1).astype(np.int64),
        -np.log(np.clip(own, SMALLEST, 1.0)),
        notes if zero else (),
    )


def _columns(named: tuple[str, ...], rows: Rows) -> Floats:
    """Class probabilities from COLUMN (of the one protected class) or CLASS=COLUMN each."""
    classes = rows.schema.classes
    found: dict[str, Floats] = {}
    for text in named:
        name, source = _split(text, rows)
        if name in found:
            raise FairSiloError(f"`probability` names the class {name!r} twice: name each once")
        found[name] = numbers(column(rows.frame, source), source)
    if len(found) == 1 and len(classes) == 2:
        [(name, p)] = found.items()
        other = next(one for one in classes if one != name)
        found[other] = 1 - p
    absent = [name for name in classes if name not in found]
    if absent:
        raise FairSiloError(
            f"`probability` is missing for the class {absent[0]!r}: of {len(classes)} classes give "
            "CLASS=COLUMN for each"
        )
    return np.stack([found[name] for name in classes], axis=1)


def _split(text: str, rows: Rows) -> tuple[str, str]:
    """CLASS and COLUMN; both may have an equals sign in them."""
    for cut in (k for k, mark in enumerate(text) if mark == "="):
        if text[:cut] in rows.schema.classes and text[cut + 1 :] in rows.frame.columns:
            return text[:cut], text[cut + 1 :]
    column(rows.frame, text)
    if len(rows.schema.classes) > 2 or len(rows.protected) > 1:
        raise FairSiloError(
            f"`probability` {text!r} does not say of which class: give CLASS=COLUMN, such as "
            f"`probability` '{rows.schema.classes[-1]}={text}'"
        )
    return rows.protected[0], text
