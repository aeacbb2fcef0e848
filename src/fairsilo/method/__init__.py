"""Methods: which rows weigh what, and what follows."""

from fairsilo.method.agnostic import af
from fairsilo.method.averaging import fedavg_local
from fairsilo.method.base import Method, Plain, Predictor, Task, Trained
from fairsilo.method.calibrated import ceo
from fairsilo.method.constrained import fedavg, fedfair, lco
from fairsilo.method.equalized_odds import eo
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

__all__ = ["METHODS", "Method", "Plain", "Predictor", "Task", "Trained", "fedavg_local"]
