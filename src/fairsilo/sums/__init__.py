"""Weighted rows, summed: the one computation of a round, and a solver's loop compiled with it."""

from fairsilo.sums.coded import Placed, Table, placed
from fairsilo.sums.compiled import Compiled
from fairsilo.sums.rows import Rows, even, local_sums, padded, row_sums, stack_silos

__all__ = [
    "Compiled",
    "Placed",
    "Rows",
    "Table",
    "even",
    "local_sums",
    "padded",
    "placed",
    "row_sums",
    "stack_silos",
]
