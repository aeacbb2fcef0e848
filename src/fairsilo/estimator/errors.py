"""Convert the package's errors for scikit-learn users: ValueError, with parameter names."""

from collections.abc import Iterator
from contextlib import contextmanager

from fairsilo.errors import FairSiloError

PARAMETERS = {"rounds": "max_rounds", "seed": "random_state"}
"""Settings for which scikit-learn has words of its own."""


@contextmanager
def as_value_errors() -> Iterator[None]:
    """Raise a FairSiloError as ValueError, with scikit-learn's words."""
    try:
        yield
    except FairSiloError as error:
        sentence = str(error)
        for setting, parameter in PARAMETERS.items():
            sentence = sentence.replace(f"`{setting}`", f"`{parameter}`")
        raise ValueError(sentence) from error
