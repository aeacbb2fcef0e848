"""Fully connected network with ReLU units; hidden layers of 8 and 4 as in the paper."""

from functools import lru_cache

from fairsilo.arrays import Array
from fairsilo.model.base import Model, Params
from fairsilo.model.linear import apply_dense, apply_small, init_dense


@lru_cache(maxsize=64)
def mlp(features: int, classes: int = 2, hidden: tuple[int, ...] = (8, 4)) -> Model:
    """A ReLU network with the given hidden layer sizes."""
    outputs = 1 if classes == 2 else classes
    sizes = (features, *hidden, outputs)

    def init(key: Array) -> Params:
        from fairsilo.compute import jax

        keys = jax.random.split(key, len(sizes) - 1)
        return [
            init_dense(k, inputs, outs)
            for k, inputs, outs in zip(keys, sizes[:-1], sizes[1:], strict=True)
        ]

    def apply(layers: Params, x: Array) -> Array:
        from fairsilo.compute import jax

        x = apply_dense(layers[0], x)
        for layer in layers[1:]:
            x = apply_small(layer, jax.nn.relu(x))
        return x

    return Model("mlp", features, classes, init, apply, only_multiplies=True, relu=True)
