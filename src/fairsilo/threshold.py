"""The threshold t: the fewest silos whose sum may be revealed.

Secure aggregation opens no sum over fewer, and differential privacy divides its noise by t.
"""

from fairsilo.errors import FairSiloError

FEWEST = 3
"""A sum over fewer silos does not hide their values."""


def default_threshold(silos: int) -> int:
    """t = floor(2N/3) + 1, at least 3; for example, one of 4 silos may drop out."""
    return max(FEWEST, 2 * silos // 3 + 1)


def smallest_sum(silos: int, secure: bool = True, threshold: int | None = None) -> int:
    """The fewest silos whose sum anybody can see: their shares of noise must be enough.

    Without secure aggregation (`secure`) every silo's own answer is seen.
    """
    if not secure:
        return 1
    if silos < FEWEST:
        raise FairSiloError(
            f"secure aggregation hides nobody among {silos} clients: give at least {FEWEST}, or "
            "`dp_noise` full, with which every client adds all of the noise"
        )
    return default_threshold(silos) if threshold is None else threshold
