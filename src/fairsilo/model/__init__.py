"""Models: logistic regression, MLP, and any init/apply pair of JAX functions."""

from collections.abc import Callable

from fairsilo.model.additive import additive
from fairsilo.model.base import Model, Params
from fairsilo.model.linear import logistic_regression
from fairsilo.model.mlp import mlp
from fairsilo.registry import Registry

MODELS: Registry[Callable[[int, int], Model]] = Registry(
    "model", "fairsilo.models", {"lr": logistic_regression, "mlp": mlp, "additive": additive}
)
"""Models by name: a function of (features, classes) each. Other packages add theirs by the entry
point `fairsilo.models`."""

__all__ = ["MODELS", "Model", "Params", "additive", "logistic_regression", "mlp"]
