"""A training run from options to its folder."""

from fairsilo.run.options import Options
from fairsilo.run.store import Saved, load, save
from fairsilo.run.train import Run, execute

__all__ = ["Options", "Run", "Saved", "execute", "load", "save"]
