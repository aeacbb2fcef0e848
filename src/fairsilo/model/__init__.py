"""Models: logistic regression, MLP, and any init/apply pair of JAX functions."""

from collections.abc import Callable
from functools import partial

from fairsilo.model.additive import additive
from fairsilo.model.base import Model, Params
from fairsilo.model.linear import logistic_regression
from fairsilo.model.mlp import mlp, sizes_in
from fairsilo.registry import Registry

Make = Callable[[int, int], Model]


class Models(Registry[Make]):
    """Models by name; a network's name may have its sizes, "mlp-32-16"."""

    def __getitem__(self, name: str) -> Make:
        hidden = sizes_in(name)
        return super().__getitem__(name) if hidden is None else partial(mlp, hidden=hidden)


MODELS = Models(
    "model", "fairsilo.models", {"lr": logistic_regression, "mlp": mlp, "additive": additive}
)
"""Models by name: a function of (features, classes) each. Other packages add theirs by the entry
point `fairsilo.models`."""

__all__ = ["MODELS", "Model", "Params", "additive", "logistic_regression", "mlp"]
