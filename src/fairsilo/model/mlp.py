"""Fully connected network with ReLU units; hidden layers of 8 and 4 as in the paper."""

from collections.abc import Sequence
from functools import lru_cache

from fairsilo.arrays import Array
from fairsilo.errors import FairSiloError
from fairsilo.model.base import Model, Params
from fairsilo.model.linear import apply_dense, apply_small, init_dense

WIDEST = 1024
"""The most units of a hidden layer."""


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

    name = sized(hidden)
    return Model(name, features, classes, init, apply, only_multiplies=True, relu=True)


def sized(hidden: tuple[int, ...]) -> str:
    """The name of the network with hidden layers of these sizes: "mlp-32-16"; "mlp" of 8 and 4."""
    return "mlp" if hidden == (8, 4) else "-".join(map(str, ("mlp", *hidden)))


def with_sizes(model: str, hidden: Sequence[int] | None) -> str:
    """The model's name with the sizes of its hidden layers, where some are given."""
    if hidden is None:
        return model
    sizes = tuple(hidden)
    if not sizes or not all(isinstance(one, int) and 0 < one <= WIDEST for one in sizes):
        raise FairSiloError(
            f"`hidden` is {sizes}: give whole numbers from 1 to {WIDEST}, such as 32,16"
        )
    if model not in ("mlp", sized(sizes)):
        raise FairSiloError(f"`hidden` is for `model` mlp and not for {model}: leave it out")
    return sized(sizes)


def sizes_in(name: str) -> tuple[int, ...] | None:
    """The sizes in such a name; None where it is no such name."""
    kind, *sizes = name.split("-")
    if kind != "mlp" or not sizes or not all(one.isdecimal() and int(one) for one in sizes):
        return None
    return tuple(map(int, sizes))
