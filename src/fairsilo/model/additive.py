"""An additive model: logistic regression on steps of numbers and on categories.

A score is a sum of curves, one for each number, and of values, one for each category. That is all
in the encoder (`data.binned`): the model is the same.
"""

from dataclasses import replace
from functools import lru_cache

from fairsilo.model.base import Model
from fairsilo.model.linear import logistic_regression


@lru_cache(maxsize=64)
def additive(features: int, classes: int = 2) -> Model:
    """A coefficient for every step and value, and an intercept."""
    return replace(logistic_regression(features, classes), name="additive", binned=True)
