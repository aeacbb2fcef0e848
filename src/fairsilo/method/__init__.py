"""Training methods: each is one file with its spec and a function of (problem, engine)."""

from fairsilo.method.af import af
from fairsilo.method.base import Method, Trained
from fairsilo.method.ceo import ceo
from fairsilo.method.eo import eo
from fairsilo.method.fedavg import fedavg
from fairsilo.method.fedfair import fedfair
from fairsilo.method.lco import lco
from fairsilo.method.st import st
from fairsilo.method.thresholds import thresholds
from fairsilo.registry import Registry

METHODS: Registry[Method] = Registry(
    "method",
    "fairsilo.methods",
    {one.name: one for one in (fedfair, lco, fedavg, st, af, eo, ceo, thresholds)},
)
"""The methods by their names on the command line."""
DEFAULT = fedfair
"""The method of a training that names none."""

__all__ = ["DEFAULT", "METHODS", "Method", "Trained"]
