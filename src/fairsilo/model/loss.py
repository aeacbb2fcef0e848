"""Cross-entropy per row, its curvature in the scores, and class probabilities.

Also a row's 0-1 error and its smooth surrogate, which targets in rates are made of.
"""

from fairsilo.compute import Array, jax, jnp


def cross_entropy(scores: Array, y: Array) -> Array:
    """l_j = -log p(y_j | x_j) for scores (..., outputs); y has their leading axes, or ones."""
    if scores.shape[-1] == 1:
        return _softplus(scores[..., 0] * jnp.where(y == 1, -1, 1).astype(scores.dtype))
    log_p = jax.nn.log_softmax(scores, axis=-1)
    classes = jnp.broadcast_to(y, log_p.shape[:-1])[..., None].astype(jnp.int32)
    return -jnp.take_along_axis(log_p, classes, axis=-1)[..., 0]


@jax.custom_jvp
def _softplus(u: Array) -> Array:
    """log(1 + exp(u)) without overflow."""
    return _softplus_and_slope(u)[0]


@_softplus.defjvp
def _softplus_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    value, slope = _softplus_and_slope(*primals)
    return value, slope * tangents[0]


def _softplus_and_slope(u: Array) -> tuple[Array, Array]:
    """Softplus and its slope from one exponential, which XLA would otherwise compute twice."""
    e = jnp.exp(-jnp.abs(u))
    # In float32, rounding in the sum over rows hides the gain of log1p.
    log = jnp.log1p(e) if u.dtype == jnp.float64 else jnp.log(1 + e)
    return jnp.maximum(u, 0) + log, jnp.where(u >= 0, 1, e) / (1 + e)


def curvature(scores: Array) -> Array:
    """d^2 l_j / d scores^2, (n, outputs, outputs); it does not depend on the class y_j."""
    if scores.shape[-1] == 1:
        p = jax.nn.sigmoid(scores)
        return (p * (1 - p))[:, :, None]
    p = jax.nn.softmax(scores, axis=-1)
    eye: Array = jnp.eye(scores.shape[-1], dtype=scores.dtype)
    return p[:, :, None] * (eye - p[:, None, :])


def probabilities(scores: Array) -> Array:
    """Class probabilities (n, classes)."""
    if scores.shape[-1] == 1:
        p = jax.nn.sigmoid(scores)
        return jnp.concatenate([1 - p, p], axis=-1)
    return jax.nn.softmax(scores, axis=-1)


SHARPNESS = 2.0
"""How much steeper the smooth error is than the probability: steep enough that its slope tells how
many rows change sides, flat enough that many rows contribute."""


def error(scores: Array, y: Array, cut: float = 0.5) -> Array:
    """1 where the most probable class (the lower one on a tie) is not the row's own, else 0.

    With another cut, the second class of two is predicted from that probability on.
    """
    p = probabilities(scores)
    predicted = jnp.argmax(p, axis=-1) if cut == 0.5 else p[..., 1] >= cut
    wrong: Array = (predicted != y).astype(scores.dtype)
    return wrong


def smooth_error(scores: Array, y: Array) -> Array:
    """q_j = 1 - softmax(SHARPNESS * scores_j)[y_j]."""
    right: Array = jnp.take_along_axis(
        probabilities(SHARPNESS * scores), y[:, None].astype(jnp.int32), axis=-1
    )[:, 0]
    return 1 - right


def error_curvature(scores: Array, y: Array) -> Array:
    """d^2 q_j / d scores^2, (n, outputs, outputs)."""
    p = probabilities(SHARPNESS * scores)
    own = jax.nn.one_hot(y, p.shape[-1], dtype=p.dtype)
    away = own - p
    right = jnp.sum(own * p, axis=-1)[:, None, None]
    eye: Array = jnp.eye(p.shape[-1], dtype=p.dtype)
    bend = right * (p[:, :, None] * (eye - p[:, None, :]) - away[:, :, None] * away[:, None, :])
    bend = SHARPNESS**2 * bend
    # For two classes, the single score belongs to class 1, and class 0 has score zero.
    return bend[:, 1:, 1:] if scores.shape[-1] == 1 else bend
