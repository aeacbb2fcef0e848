"""The quadratic program of one SQP round, through its K-dimensional dual.

    min_d  g.d + d'Bd/2 + rho * sum_k max(|D_k + J_k d| - epsilon_k, 0)

The penalty makes it solvable even where the linearised constraints contradict
each other (the elastic mode). Its dual is a lasso with a box,

    min_mu  mu'Q mu/2 + b.mu + sum_k epsilon_k |mu_k|,   |mu_k| <= rho,
    Q = J B^-1 J',  b = J B^-1 g - D,

which coordinate descent solves also when Q is singular, as it is for the pairs
of three groups. For one constraint a single pass is the closed form.
"""

from fairsilo.compute import Array, jax, jnp

SWEEPS = 2_000


def solve_dual(q: Array, b: Array, epsilon: Array, rho: Array) -> Array:
    """The multipliers mu (K,) of the program above."""
    k = b.shape[0]
    if k == 0:
        return b
    scale = jnp.diagonal(q)
    scale = jnp.maximum(scale, 1e-14 * jnp.max(scale) + 1e-300)

    def coordinate(i: int, mu: Array) -> Array:
        r = b[i] + q[i] @ mu - q[i, i] * mu[i]
        shrunk = jnp.sign(r) * jnp.maximum(jnp.abs(r) - epsilon[i], 0)
        return mu.at[i].set(jnp.clip(-shrunk / scale[i], -rho, rho))

    def sweep(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, mu, _ = carry
        new = jax.lax.fori_loop(0, k, coordinate, mu)
        return count + 1, new, jnp.max(jnp.abs(new - mu))

    def going(carry: tuple[Array, Array, Array]) -> Array:
        count, mu, change = carry
        return (count < SWEEPS) & (change > 1e-13 * (1 + jnp.max(jnp.abs(mu))))

    start = (jnp.array(0), jnp.zeros_like(b), jnp.array(jnp.inf, b.dtype))
    return jax.lax.while_loop(going, sweep, start)[1]


def excess(d: Array, epsilon: Array) -> Array:
    """sum_k max(|D_k| - epsilon_k, 0)."""
    return jnp.sum(jnp.maximum(jnp.abs(d) - epsilon, 0))


def merit(loss: Array, d: Array, epsilon: Array, rho: Array) -> Array:
    """phi = L + rho * sum_k max(|D_k| - epsilon_k, 0): what an accepted step must reduce."""
    return loss + rho * excess(d, epsilon)
