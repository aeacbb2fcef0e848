"""Evaluation: tallies of rows, and the metrics that follow from them."""

from fairsilo.evaluate.metrics import average, cells_of, claims_of, clients_of, summary
from fairsilo.evaluate.tally import Tally

__all__ = ["Tally", "average", "cells_of", "claims_of", "clients_of", "summary"]
