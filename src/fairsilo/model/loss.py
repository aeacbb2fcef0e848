"""Cross-entropy per row, its curvature in the scores, and class probabilities."""

from fairsilo.compute import Array, jax, jnp


def cross_entropy(scores: Array, y: Array) -> Array:
    """l_j = -log p(y_j | x_j), one number per row, for scores (n, outputs)."""
    if scores.shape[-1] == 1:
        u = scores[:, 0]
        margin = jnp.where(y == 1, u, -u)
        return jax.nn.softplus(-margin)
    log_p = jax.nn.log_softmax(scores, axis=-1)
    return -jnp.take_along_axis(log_p, y[:, None].astype(jnp.int32), axis=-1)[:, 0]


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
