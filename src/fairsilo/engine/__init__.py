"""Engines: who computes the sums."""

from fairsilo.engine.base import Outcome, Watch, numbers_down, numbers_up
from fairsilo.engine.clientwise import Clientwise
from fairsilo.engine.coded import Coded, Layout, Table, code, dense
from fairsilo.engine.collect import aligned, collect
from fairsilo.engine.pooled import Pooled
from fairsilo.engine.private import FromCells, Private, noisy_counts, noisy_outcomes
from fairsilo.engine.sums import Measure, Rows, even, local_sums, row_sums, stack_silos

__all__ = [
    "Clientwise",
    "Coded",
    "FromCells",
    "Layout",
    "Measure",
    "Outcome",
    "Pooled",
    "Private",
    "Rows",
    "Table",
    "Watch",
    "aligned",
    "code",
    "collect",
    "dense",
    "even",
    "local_sums",
    "noisy_counts",
    "noisy_outcomes",
    "numbers_down",
    "numbers_up",
    "row_sums",
    "stack_silos",
]
