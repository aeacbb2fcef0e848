"""The quadratic program of one SQP round, through its K-dimensional dual.

    min_d  g.d + d'Bd/2 + rho * sum_k max(|D_k + J_k d| - epsilon_k, 0)

The penalty makes it solvable even where the linearised constraints contradict
each other (the elastic mode). Its dual is a lasso with a box,

    min_mu  mu'Q mu/2 + b.mu + sum_k epsilon_k |mu_k|,   |mu_k| <= rho,
    Q = J B^-1 J',  b = J B^-1 g - D,

Coordinate descent solves it also when Q is singular, as it is for the pairs of three groups;
for one constraint a single pass is the closed form. Many constraints start from a guess which
multipliers are zero, free or at the box, repaired a few times (a semismooth Newton method),
where that guess solves the program.
"""

from fairsilo.compute import Array, jax, jnp

SWEEPS = 2_000
GUESSES = 12
FEW = 8
"""Up to so many constraints coordinate descent alone is quick, and more exact."""


def solve_dual(q: Array, b: Array, epsilon: Array, rho: Array) -> Array:
    """The multipliers mu (K,) of the program above."""
    k = b.shape[0]
    if k == 0:
        return b
    scale = jnp.diagonal(q)
    scale = jnp.maximum(scale, 1e-14 * jnp.max(scale) + 1e-300)
    start = jnp.zeros_like(b) if k <= FEW else _guess(q, b, epsilon, rho, scale)

    def coordinate(i: int, mu: Array) -> Array:
        r = b[i] + q[i] @ mu - q[i, i] * mu[i]
        return mu.at[i].set(jnp.clip(-_shrink(r, epsilon[i]) / scale[i], -rho, rho))

    def sweep(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, mu, _ = carry
        new = jax.lax.fori_loop(0, k, coordinate, mu)
        return count + 1, new, jnp.max(jnp.abs(new - mu))

    def going(carry: tuple[Array, Array, Array]) -> Array:
        count, mu, change = carry
        return (count < SWEEPS) & (change > 1e-11 * (1 + jnp.max(jnp.abs(mu))))

    return jax.lax.while_loop(going, sweep, (jnp.array(0), start, jnp.array(jnp.inf, b.dtype)))[1]


def _shrink(r: Array, epsilon: Array) -> Array:
    """Soft threshold: r moved towards zero by epsilon."""
    return jnp.sign(r) * jnp.maximum(jnp.abs(r) - epsilon, 0)


def _guess(q: Array, b: Array, epsilon: Array, rho: Array, scale: Array) -> Array:
    """Semismooth Newton on mu = clip(shrink(mu - (Q mu + b)/scale)), from mu = 0.

    Rows of free multipliers are solved for, the others are set to zero or to the box.
    """
    ridge = 1e-9 * jnp.max(scale)

    def repair(_: int, mu: Array) -> Array:
        moved = _shrink(mu - (q @ mu + b) / scale, epsilon / scale)
        free = (moved != 0) & (jnp.abs(moved) < rho)
        fixed = jnp.clip(moved, -rho, rho)
        matrix = jnp.where(free[:, None], q + ridge * jnp.eye(len(b)), jnp.eye(len(b)))
        right = jnp.where(free, -b - jnp.sign(moved) * epsilon, fixed)
        solved = jnp.clip(jnp.linalg.solve(matrix, right), -rho, rho)
        return jnp.where(jnp.all(jnp.isfinite(solved)), solved, mu)

    mu = jax.lax.fori_loop(0, GUESSES, repair, jnp.zeros_like(b))
    wanted = jnp.clip(_shrink(mu - (q @ mu + b) / scale, epsilon / scale), -rho, rho)
    right = jnp.max(jnp.abs(mu - wanted)) <= 1e-9 * (1 + jnp.max(jnp.abs(mu)))
    # A wrong guess is a bad place to start from: dependent constraints make it huge.
    return jnp.where(right, mu, 0)


def excess(d: Array, epsilon: Array) -> Array:
    """sum_k max(|D_k| - epsilon_k, 0)."""
    return jnp.sum(jnp.maximum(jnp.abs(d) - epsilon, 0))


def merit(loss: Array, d: Array, epsilon: Array, rho: Array) -> Array:
    """phi = L + rho * sum_k max(|D_k| - epsilon_k, 0): what an accepted step must reduce."""
    return loss + rho * excess(d, epsilon)
