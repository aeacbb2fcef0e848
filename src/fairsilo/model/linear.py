"""Logistic regression, multinomial for more than two classes."""

from functools import lru_cache

import numpy as np

from fairsilo.arrays import Array
from fairsilo.model.base import Model, Params

SMALL = 64
"""The most weights of a layer that `apply_small` treats as small."""


def init_dense(key: Array, inputs: int, outputs: int) -> Params:
    """One dense layer, uniform in +-1/sqrt(inputs): the default of the paper's PyTorch."""
    from fairsilo.compute import jax, jnp

    bound = inputs**-0.5
    key_weight, key_bias = jax.random.split(key)
    return {
        "weight": jax.random.uniform(key_weight, (inputs, outputs), jnp.float64, -bound, bound),
        "bias": jax.random.uniform(key_bias, (outputs,), jnp.float64, -bound, bound),
    }


def apply_dense(layer: Params, x: Array) -> Array:
    """x @ weight + bias."""
    return x @ layer["weight"] + layer["bias"]


def apply_small(layer: Params, x: Array) -> Array:
    """`apply_dense` for a layer between few units.

    On a GPU it is a sum of products, which XLA fuses with its neighbours: a library call for an
    8 by 4 matrix product is mostly overhead (10 x 7 runs of the 8-4 network over 26,000 rows on
    one H200: 0.44 ms a round instead of 0.51).
    """
    from fairsilo.compute import jax, jnp

    inputs, outputs = layer["weight"].shape
    if jax.default_backend() == "cpu" or inputs * outputs > SMALL:
        return apply_dense(layer, x)
    return jnp.sum(x[..., :, None] * layer["weight"], axis=-2) + layer["bias"]


def apply_dense_of_many(layers: Params, x: Array) -> Array:
    """`apply_dense` for weights (runs, inputs, outputs): one product, (n, runs, outputs)."""
    from fairsilo.compute import jnp

    runs, inputs, outputs = layers["weight"].shape
    wide = jnp.moveaxis(layers["weight"], 0, 1).reshape(inputs, runs * outputs)
    return (x @ wide + layers["bias"].reshape(-1)).reshape(-1, runs, outputs)


@lru_cache(maxsize=64)
def logistic_regression(features: int, classes: int = 2) -> Model:
    """Linear scores; `classes` > 2 gives multinomial logistic regression.

    It starts at zero for every seed: there all rows have the same loss, so that every constraint
    is satisfied, and Newton-SQP needs fewer rounds than from a random point.
    """
    outputs = 1 if classes == 2 else classes

    def init(key: Array) -> Params:
        return {"weight": np.zeros((features, outputs)), "bias": np.zeros(outputs)}

    return Model("lr", features, classes, init, apply_dense, apply_dense_of_many, True, True)
