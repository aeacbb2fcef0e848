"""Engines: who computes the sums."""

from fairsilo.engine.base import Outcome, Watch, numbers_down, numbers_up
from fairsilo.engine.clientwise import Clientwise
from fairsilo.engine.pooled import Pooled
from fairsilo.engine.sums import Rows, row_sums

__all__ = [
    "Clientwise",
    "Outcome",
    "Pooled",
    "Rows",
    "Watch",
    "numbers_down",
    "numbers_up",
    "row_sums",
]
