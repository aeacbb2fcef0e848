"""How many silos a sum must be over before anybody may see it.

Secure aggregation opens no sum over fewer, and differential privacy deals its noise out by that.
"""

FEWEST = 3
"""Among fewer silos a sum hides nobody."""


def default_threshold(silos: int) -> int:
    """t = floor(2N/3) + 1, at least 3: of 4 silos one may drop."""
    return max(FEWEST, 2 * silos // 3 + 1)
