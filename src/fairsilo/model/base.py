"""A model is a pair of functions, init and apply; the solvers see one flat vector theta."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from jax.flatten_util import ravel_pytree

from fairsilo.coded import dense
from fairsilo.compute import Array, jax, jnp

Params = Any
"""Any JAX pytree of arrays."""


class Features(Protocol):
    """Rows (n, features) as a model sees them: anything that supports `x @ weight`."""

    def __matmul__(self, weight: Array) -> Array: ...


@dataclass(frozen=True)
class Model:
    """An init/apply pair of JAX functions for `features` inputs and `classes` classes.

    `apply(params, x)` maps rows (n, features) to scores (n, outputs): one score
    (the log-odds of class 1) for two classes, one score per class for more.
    """

    name: str
    features: int
    classes: int
    init: Callable[[Array], Params]
    apply: Callable[[Params, Any], Array]
    apply_many: Callable[[Params, Any], Array] | None = None
    """`apply` for the parameters of many runs in one product, (n, runs, outputs), if possible."""
    only_multiplies: bool = False
    """Whether `apply` uses x only in `x @ weight`, so that x need not be an array."""
    linear: bool = False
    """Whether this is logistic regression, whose sums silos compute without a compiler."""
    binned: bool = False
    """Whether numbers are encoded as steps."""
    relu: bool = False
    """Whether the parameters are a list of dense layers, with ReLU units between them."""

    @property
    def outputs(self) -> int:
        """How many scores a row gets: one for two classes, else one per class."""
        return 1 if self.classes == 2 else self.classes

    @cached_property
    def _shapes(self) -> Params:
        return jax.eval_shape(lambda: self.init(jax.random.key(0)))

    @cached_property
    def _unravel(self) -> Callable[[Array], Params]:
        example = jax.tree.map(lambda leaf: np.zeros(leaf.shape), self._shapes)
        return ravel_pytree(example)[1]

    @cached_property
    def size(self) -> int:
        """The number of parameters; nothing is compiled to know it."""
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(self._shapes))

    @cached_property
    def weights(self) -> np.ndarray:
        """Where in theta the weights lie, as far as they are matrices: what is left are biases."""
        leaves = jax.tree.leaves(self._shapes)
        kinds = [np.full(math.prod(leaf.shape), len(leaf.shape) > 1) for leaf in leaves]
        return np.flatnonzero(np.concatenate([*kinds, np.zeros(0, bool)]))

    def unravel(self, theta: Array) -> Params:
        """Turn the flat vector theta into parameters for `apply`."""
        return jax.tree.map(lambda leaf: leaf.astype(theta.dtype), self._unravel(theta))

    def start(self, seed: int) -> np.ndarray:
        """Seeded starting parameters as a flat float64 vector."""
        leaves = jax.tree.leaves(self.init(jax.random.key(seed)))
        return np.concatenate([np.ravel(leaf) for leaf in leaves]).astype(np.float64)

    def seen(self, x: Any) -> Any:
        """The rows as `apply` takes them: coded ones only where it does nothing but multiply."""
        return x if self.only_multiplies else dense(x)

    def starting_at(self, theta: np.ndarray) -> "Model":
        """The same model, whose training starts at this point."""
        return replace(self, init=lambda key: self.unravel(jnp.asarray(theta)))

    def scores_of_many(self, thetas: Array, x: Features) -> Array:
        """Scores (n, runs, outputs) of the rows x under each of the flat vectors (runs, p)."""
        if self.apply_many is None:
            return jax.vmap(self.scores, in_axes=(0, None), out_axes=1)(thetas, x)
        return self.apply_many(jax.vmap(self.unravel)(thetas), self.seen(x))

    def scores(self, theta: Array, x: Features) -> Array:
        """Scores (n, outputs) of the rows x under the flat vector theta."""
        return self.apply(self.unravel(theta), self.seen(x))
