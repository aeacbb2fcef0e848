"""Models: logistic regression, MLP, and any init/apply pair of JAX functions."""

from fairsilo.model.base import Model, Params
from fairsilo.model.linear import logistic_regression
from fairsilo.model.mlp import mlp

MODELS = {"lr": logistic_regression, "mlp": mlp}
"""The models that have a name on the command line."""

__all__ = ["MODELS", "Model", "Params", "logistic_regression", "mlp"]
