"""Methods: which rows weigh what, and what follows."""

from fairsilo.method.base import Method, Plain, Predictor, Task, Trained
from fairsilo.method.constrained import fedavg, fedfair, lco

METHODS: dict[str, Method] = {"fedfair": fedfair, "lco": lco, "fedavg": fedavg}
"""The methods by their names on the command line."""

__all__ = ["METHODS", "Method", "Plain", "Predictor", "Task", "Trained"]
