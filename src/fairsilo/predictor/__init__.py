"""Predictors: the model itself, a model whose answers were repaired, several as one."""

from fairsilo.predictor.base import Plain, Predictor
from fairsilo.predictor.committee import Committee

__all__ = ["Committee", "Plain", "Predictor"]
