"""A trained model as its user sees it: rows in, probabilities, classes and losses out."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fairsilo.arrays import Floats, Ints
from fairsilo.compute import jax, jnp
from fairsilo.model.base import Model
from fairsilo.model.loss import cross_entropy, probabilities


class Predictor(Protocol):
    """A trained model as its user sees it: rows in, probabilities and classes out."""

    def probabilities(self, x: Floats, s: Ints) -> Floats:
        """Class probabilities, (n, classes)."""

    def labels(self, x: Floats, s: Ints, seed: int) -> Ints:
        """Predicted classes; the seed matters only to predictors that draw."""

    def losses(self, x: Floats, y: Ints, s: Ints) -> Floats:
        """The loss of every row."""


@partial(jax.jit, static_argnames="model")
def _probabilities(model: Model, theta: jax.Array, x: jax.Array) -> jax.Array:
    return probabilities(model.scores(theta, x))


@partial(jax.jit, static_argnames="model")
def _losses(model: Model, theta: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return cross_entropy(model.scores(theta, x), y)


SMALL = 1 << 15
"""Tables of fewer rows come in many sizes: those of clients, or batches to predict."""


def filled_size(count: int) -> int:
    """At most an eighth more rows, so that a program serves tables of many sizes."""
    step = 1 << max(count.bit_length() - 4, 0)
    return -(-count // step) * step if count < SMALL else count


def filled(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The rows, and rows of zeros after them."""
    more = filled_size(len(rows)) - len(rows)
    return np.pad(rows, [(0, more)] + [(0, 0)] * (rows.ndim - 1)) if more else rows


@dataclass(frozen=True)
class Plain:
    """The model itself: the most probable class, the lower one on a tie."""

    model: Model
    theta: Floats

    def probabilities(self, x: Floats, s: Ints) -> Floats:
        """Class probabilities, (n, classes)."""
        rows = jnp.asarray(filled(x))
        return np.asarray(_probabilities(self.model, self.theta, rows))[: len(x)]

    def labels(self, x: Floats, s: Ints, seed: int = 0) -> Ints:
        """The most probable class."""
        best: Ints = np.argmax(self.probabilities(x, s), axis=1).astype(np.int64)
        return best

    def losses(self, x: Floats, y: Ints, s: Ints) -> Floats:
        """Cross-entropy of every row."""
        rows, labels = jnp.asarray(filled(x)), jnp.asarray(filled(y))
        return np.asarray(_losses(self.model, self.theta, rows, labels))[: len(x)]


def _output(
    model: Model, x: jax.Array, y: jax.Array, theta: jax.Array
) -> tuple[jax.Array, jax.Array]:
    scores = model.scores(theta, x)
    return jnp.argmax(probabilities(scores), axis=1), cross_entropy(scores, y)


@partial(jax.jit, static_argnames="model")
def _outputs(
    model: Model, thetas: jax.Array, x: jax.Array, y: jax.Array
) -> tuple[jax.Array, jax.Array]:
    both: tuple[jax.Array, jax.Array] = jax.lax.map(
        partial(_output, model, x, y), thetas, batch_size=16
    )
    return both


@partial(jax.jit, static_argnames="model")
def _own_outputs(
    model: Model, thetas: jax.Array, x: jax.Array, y: jax.Array
) -> tuple[jax.Array, jax.Array]:
    def one(own: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        thetas, x, y = own
        return jax.vmap(partial(_output, model, x, y))(thetas)

    both: tuple[jax.Array, jax.Array] = jax.lax.map(one, (thetas, x, y))
    return both


def own_outputs(model: Model, thetas: Floats, x: Floats, y: Ints) -> tuple[Ints, Floats]:
    """Labels and losses of R models for each of C tables: thetas (C, R, p), x (C, n, d)."""
    labels, losses = _own_outputs(model, *map(jnp.asarray, (thetas, x, y)))
    return np.asarray(labels, np.int64), np.asarray(losses)


def labels_and_losses(predictors: Sequence[Plain], x: Floats, y: Ints) -> list[tuple[Ints, Floats]]:
    """What `labels` and `losses` of each say, for many models of one kind in one program."""
    thetas = np.stack([one.theta for one in predictors])
    rows, classes = jnp.asarray(filled(x)), jnp.asarray(filled(y))
    labels, losses = (
        np.asarray(part)[:, : len(x)]
        for part in _outputs(predictors[0].model, thetas, rows, classes)
    )
    return list(zip(labels.astype(np.int64), losses, strict=True))
