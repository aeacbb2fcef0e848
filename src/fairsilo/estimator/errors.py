"""The package's errors in the words of a scikit-learn user: ValueError, and parameter names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from fairsilo.errors import FairSiloError

OPTION = re.compile(r"--([a-z][a-z-]*)")
PARAMETERS = {"rounds": "max_rounds", "seed": "random_state"}
"""Options of the command line that are called otherwise here; `-` is `_` in all of them."""


@contextmanager
def as_value_errors() -> Iterator[None]:
    """Raise a FairSiloError from inside as ValueError, with options called as parameters."""
    try:
        yield
    except FairSiloError as error:
        raise ValueError(OPTION.sub(_parameter, str(error))) from error


def _parameter(match: re.Match[str]) -> str:
    option = match[1]
    return PARAMETERS.get(option, option.replace("-", "_"))
