"""A model is a pair of functions, init and apply; the solvers see one flat vector theta."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from fairsilo.arrays import Array, Floats
from fairsilo.coded import dense

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
    """Whether this is logistic regression, which NumPy computes: no JAX, no compiler."""
    binned: bool = False
    """Whether numbers are encoded as steps."""
    relu: bool = False
    """Whether the parameters are a list of dense layers, with ReLU units between them."""
    begin: Floats | None = field(default=None, compare=False)
    """Where training starts, if not where `init` says."""
    cut: float = 0.5
    """Of two classes, from which probability on the second is predicted where rates are limited."""

    @property
    def bar(self) -> float:
        """The score there."""
        return math.log(self.cut / (1 - self.cut))

    @property
    def outputs(self) -> int:
        """How many scores a row gets: one for two classes, else one per class."""
        return 1 if self.classes == 2 else self.classes

    @cached_property
    def _shapes(self) -> Params:
        from fairsilo.compute import jax

        return jax.eval_shape(lambda: self.init(jax.random.key(0)))

    @cached_property
    def _unravel(self) -> Callable[[Array], Params]:
        from jax.flatten_util import ravel_pytree

        from fairsilo.compute import jax

        example = jax.tree.map(lambda leaf: np.zeros(leaf.shape), self._shapes)
        return ravel_pytree(example)[1]

    @cached_property
    def size(self) -> int:
        """The number of parameters; nothing is compiled to know it."""
        if self.linear:
            return (1 + self.features) * self.outputs
        from fairsilo.compute import jax

        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(self._shapes))

    @cached_property
    def weights(self) -> np.ndarray:
        """Where in theta the weights lie, as far as they are matrices: what is left are biases."""
        if self.linear:
            return np.arange(self.outputs, self.size)
        from fairsilo.compute import jax

        leaves = jax.tree.leaves(self._shapes)
        kinds = [np.full(math.prod(leaf.shape), len(leaf.shape) > 1) for leaf in leaves]
        return np.flatnonzero(np.concatenate([*kinds, np.zeros(0, bool)]))

    def unravel(self, theta: Array) -> Params:
        """Turn the flat vector theta into parameters for `apply`."""
        from fairsilo.compute import jax

        return jax.tree.map(lambda leaf: leaf.astype(theta.dtype), self._unravel(theta))

    def start(self, seed: int) -> Floats:
        """Seeded starting parameters as a flat float64 vector."""
        if self.begin is not None:
            return self.begin
        if self.linear:
            # There all rows have the same loss, so that every constraint is satisfied.
            return np.zeros(self.size)
        from fairsilo.compute import jax

        leaves = jax.tree.leaves(self.init(jax.random.key(seed)))
        return np.concatenate([np.ravel(leaf) for leaf in leaves]).astype(np.float64)

    def seen(self, x: Any) -> Any:
        """The rows as `apply` takes them: coded ones only where it does nothing but multiply."""
        return x if self.only_multiplies else dense(x)

    def starting_at(self, theta: Floats) -> "Model":
        """The same model, whose training starts at this point."""
        return replace(self, begin=theta)

    def scores_of_many(self, thetas: Array, x: Features) -> Array:
        """Scores (n, runs, outputs) of the rows x under each of the flat vectors (runs, p)."""
        from fairsilo.compute import jax

        if self.apply_many is None:
            return jax.vmap(self.scores, in_axes=(0, None), out_axes=1)(thetas, x)
        return self.apply_many(jax.vmap(self.unravel)(thetas), self.seen(x))

    def scores(self, theta: Array, x: Features) -> Array:
        """Scores (n, outputs) of the rows x under the flat vector theta."""
        return self.apply(self.unravel(theta), self.seen(x))
