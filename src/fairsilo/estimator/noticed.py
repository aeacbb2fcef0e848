"""What is suspicious in the rows of a fit: said as on the command line, in the words of Python."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pandas as pd

from fairsilo.arrays import Ints
from fairsilo.data import Schema
from fairsilo.data.alike import alike_in
from fairsilo.data.infer import warn_of_codes
from fairsilo.data.leakage import leaks
from fairsilo.errors import FairSiloWarning

REMEDIES = (
    (r"(?:give )?`drop` .*", "leave it out of X"),
    (
        r"if they are codes, give `category` .*",
        "if they are codes, give it the dtype category, else float",
    ),
    (r"give as `category`, such as .*", "give the dtype category, the others float"),
    (r": if they are numbers, give `number` .*", ""),
    (r" \(`split` .* would use it\)", ""),
    (r"make them alike in the table", "make them alike"),
)
"""What the command line advises, and what one does with a table in Python."""


def in_python(words: str) -> str:
    """A sentence of the core with remedies for somebody who has X and not a file."""
    for typed, written in REMEDIES:
        words = re.sub(typed, written, words)
    return words


@contextmanager
def warnings_in_python() -> Iterator[None]:
    """Warn of what the core warns of, in these words."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", FairSiloWarning)
        yield
    for one in told:
        if issubclass(one.category, FairSiloWarning):
            warnings.warn(in_python(str(one.message)), FairSiloWarning, stacklevel=6)
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def free(name: str, taken: Sequence[str]) -> str:
    """The name, with a line after it as often as it is taken."""
    while name in taken:
        name += "_"
    return name


def warn_of_rows(
    frame: pd.DataFrame,
    schema: Schema,
    y: Ints,
    groups: Ints,
    client: Ints,
    columns: Sequence[str],
) -> None:
    """Name columns that may be codes, and those that give label, group or client away.

    `columns` are the sensitive ones, by name if they have names.
    """
    # An array has no types for its columns, and what is float is a number: these are meant.
    if list(frame.columns) != [f"x{k}" for k in range(frame.shape[1])]:
        whole = (name for name in schema.numbers if pd.api.types.is_integer_dtype(frame[name]))
        warn_of_codes(frame, set(whole))
    inside = [name for name in columns if name in frame.columns]
    known = list(inside)
    if not inside and len(schema.groups) > 1:
        known = [free(columns[0] if columns else "sensitive_features", list(frame.columns))]
        frame = frame.assign(**{known[0]: groups})
    holder = free("clients", [*frame.columns, *known])
    for words in leaks(frame.assign(**{holder: client}), schema, y, known, holder):
        warnings.warn(words, FairSiloWarning, stacklevel=2)


def warn_of_alike(classes: Sequence[str], groups: Sequence[str], clients: Sequence[str]) -> None:
    """Name classes, groups and clients that are probably the same."""
    given = {"y": classes, "sensitive_features": groups, "clients": clients}
    for name, values in given.items():
        for words in alike_in(name, values):
            warnings.warn(words, FairSiloWarning, stacklevel=2)
