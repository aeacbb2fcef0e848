"""Weighted rows, summed: the one computation of a round, and a solver's loop compiled with it."""

from fairsilo.sums.coded import Coded, Layout, Table, code, dense
from fairsilo.sums.collect import aligned, collect
from fairsilo.sums.compiled import Compiled
from fairsilo.sums.rows import Measure, Rows, even, local_sums, padded, row_sums, stack_silos

__all__ = [
    "Coded",
    "Compiled",
    "Layout",
    "Measure",
    "Rows",
    "Table",
    "aligned",
    "code",
    "collect",
    "dense",
    "even",
    "local_sums",
    "padded",
    "row_sums",
    "stack_silos",
]
