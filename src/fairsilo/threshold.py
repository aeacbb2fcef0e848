"""The threshold t: the fewest silos whose sum may be revealed.

Secure aggregation opens no sum over fewer, and differential privacy divides its noise by t.
"""

FEWEST = 3
"""A sum over fewer silos does not hide their values."""


def default_threshold(silos: int) -> int:
    """t = floor(2N/3) + 1, at least 3; for example, one of 4 silos may drop out."""
    return max(FEWEST, 2 * silos // 3 + 1)
