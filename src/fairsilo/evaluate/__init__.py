"""Evaluation: tallies of rows, and the metrics that follow from them."""

from fairsilo.evaluate.metrics import average, summary
from fairsilo.evaluate.tally import Tally

__all__ = ["Tally", "average", "summary"]
