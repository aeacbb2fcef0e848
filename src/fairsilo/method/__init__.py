"""Methods: which rows weigh what, and what follows."""

from fairsilo.method.agnostic import af
from fairsilo.method.averaging import fedavg_local
from fairsilo.method.base import Method, Plain, Predictor, Task, Trained
from fairsilo.method.calibrated import ceo, fit_calibrated
from fairsilo.method.constrained import fedavg, fedfair, lco
from fairsilo.method.equalized_odds import eo, fit_equalized_odds
from fairsilo.method.postprocess import BASES, Fit, repair
from fairsilo.method.separate import st

METHODS: dict[str, Method] = {
    "fedfair": fedfair,
    "lco": lco,
    "fedavg": fedavg,
    "st": st,
    "af": af,
    "eo": eo,
    "ceo": ceo,
}
"""The methods by their names on the command line."""

REPAIRS: dict[str, Fit] = {"eo": fit_equalized_odds, "ceo": fit_calibrated}
"""The methods that change the answers of a trained model; by themselves they follow FedAvg."""

__all__ = [
    "BASES",
    "METHODS",
    "REPAIRS",
    "Method",
    "Plain",
    "Predictor",
    "Task",
    "Trained",
    "fedavg_local",
    "repair",
]
