"""FedAvg with local steps (McMahan et al. 2017).

    theta_i^0 = theta^k,   theta_i^{e+1} = theta_i^e - rate * grad L_i(theta_i^e),  e < E
    theta^{k+1} = sum_i (m_i / m_total) theta_i^E

A client sends its share of the way it went, (m_i / m_total) (theta^k - theta_i^E) / rate. The sum
of these stands where a solver expects the gradient of L, and for E = 1 it is that gradient, so
that the paper's solver without constraints does the averaging. For E > 1 the fixed point is not
the optimum of L unless all clients are alike.
"""

from __future__ import annotations

from functools import partial, reduce
from operator import add

import numpy as np

from fairsilo.compute import Array, jax, jnp
from fairsilo.engine import Rows, Watch, numbers_down, numbers_up
from fairsilo.engine.loop import drive
from fairsilo.errors import FairSiloError
from fairsilo.method.base import Plain, Task, Trained
from fairsilo.method.stacked import batches, stack
from fairsilo.model.base import Features, Model
from fairsilo.model.loss import cross_entropy
from fairsilo.solver import Agp, Order, Query, Sums


def fedavg_local(
    task: Task, watch: Watch | None = None, *, local_steps: int = 5, rate: float = 0.05
) -> Trained:
    """Full-batch gradient descent, `local_steps` a round at each client, then the average."""
    if local_steps < 1 or not rate > 0:
        raise FairSiloError(
            f"local_steps is {local_steps} and rate is {rate}: give at least one step and a rate "
            "above 0"
        )
    federation, size = task.federation, task.model.size
    share = np.diff(federation.offsets) / federation.rows
    stacks = [
        (jax.tree.map(jnp.asarray, stack(federation, clients, ())), jnp.asarray(share[clients]))
        for clients in batches(federation)
    ]

    def answer(query: Query, order: Order) -> Sums:
        total: Sums = reduce(
            add,
            (local_sums(task.model, local_steps, rate, *part, query.theta) for part in stacks),
        )
        return total

    solver = Agp(alpha=rate, decay=1.0)
    outcome = drive(solver, answer, task.model.start(task.seed), np.zeros(0), task.rounds, watch)
    return Trained(
        (Plain(task.model, outcome.theta),),
        outcome,
        numbers_up(solver.order, size, 0),
        numbers_down(size, 0),
    )


@partial(jax.jit, static_argnames=("model", "steps", "rate"))
def local_sums(
    model: Model, steps: int, rate: float, rows: Rows, shares: Array, theta: Array
) -> Sums:
    """What clients with the given shares m_i / m_total send, added: L and the way they went."""

    def client(x: Features, y: Array, w: Array) -> tuple[Array, Array]:
        def loss(at: Array) -> Array:
            return w @ cross_entropy(model.scores(at, x), y)

        first, gradient = jax.value_and_grad(loss)(theta)
        # The first step is taken apart: with E = 1 the way is the gradient to the last bit.
        after = theta - rate * gradient
        end = jax.lax.fori_loop(1, steps, lambda _, at: at - rate * jax.grad(loss)(at), after)
        return first, gradient + (after - end) / rate

    losses, ways = jax.vmap(client)(rows.x, rows.y, rows.w)
    return Sums(shares @ losses, jnp.zeros(0, theta.dtype), shares @ ways)
