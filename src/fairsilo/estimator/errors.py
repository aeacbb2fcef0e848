"""Convert the package's errors for scikit-learn users: ValueError, with parameter names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from fairsilo.errors import FairSiloError

OPTION = re.compile(r"--([a-z][a-z-]*)")
PARAMETERS = {"rounds": "max_rounds", "seed": "random_state"}
"""Command-line options with other names here; `-` becomes `_` in all options."""


@contextmanager
def as_value_errors() -> Iterator[None]:
    """Raise a FairSiloError as ValueError, with options replaced by parameter names."""
    try:
        yield
    except FairSiloError as error:
        raise ValueError(OPTION.sub(_parameter, str(error))) from error


def _parameter(match: re.Match[str]) -> str:
    option = match[1]
    return PARAMETERS.get(option, option.replace("-", "_"))
