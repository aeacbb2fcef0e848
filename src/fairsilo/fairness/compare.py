"""Who is compared with whom: every pair of groups, or each group with all the others."""

import itertools
from collections.abc import Sequence
from typing import Literal, get_args

Against = Literal["pairs", "rest"]
AGAINST: tuple[Against, ...] = get_args(Against)
Comparison = tuple[tuple[int, ...], tuple[int, ...]]
"""Groups on either side, as indices."""


def comparisons(groups: Sequence[int], against: Against) -> tuple[Comparison, ...]:
    """The comparisons of the groups, in their order.

    Of two groups each is the other's rest, so that there is one comparison in any case.
    """
    if against == "pairs" or len(groups) == 2:
        return tuple(((a,), (b,)) for a, b in itertools.combinations(groups, 2))
    return tuple(((a,), tuple(b for b in groups if b != a)) for a in groups)
