"""AF, AgnosticFair (Du, Xu, Wu, Tong 2021): logistic regression against the worst row weights.

    theta step:  (1/n) sum_j w_j l_j + 2 (1/n) sum_j [ (w_j s_j - sbar_w) u_j ]^2
                 10 full-batch gradient steps at rate 0.1
    alpha step:  the linear program of `adversary`

in turn, 20 times, beginning with w = 1; the weights after the last theta step would serve nobody
and are not computed. The penalty is a mean of squares and free of tau, as in the authors' public
code (`squares`); `covariance` is 2 [ (1/n) sum_j (w_j s_j - sbar_w) u_j ]^2, the square of what the
program bounds. tau, the trade-off, is the task's epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from fairsilo.compute import Array, jax, jnp
from fairsilo.engine import Outcome, Watch
from fairsilo.errors import FairSiloError
from fairsilo.fairness.constraint import Dgeo
from fairsilo.method.adversary import POINTS, ColumnSums, kernels, worst_weights
from fairsilo.method.agnostic_sums import (
    AgnosticRows,
    Penalty,
    Weighting,
    adversary_sums,
    theta_sums,
)
from fairsilo.method.base import Plain, Task, Trained
from fairsilo.method.postprocess import only_pair
from fairsilo.model.base import Model
from fairsilo.solver import Record, Status

OUTER, STEPS, RATE = 20, 10, 0.1


def af(
    task: Task, watch: Watch | None = None, *, penalty: Penalty = "squares", outer: int = OUTER
) -> Trained:
    """Train against the adversary.

    A round is a query: 10 for each theta step, 1 for each alpha step. In the history `d` is the
    covariance that the program bounds by tau, under the weights of that round, `violation` what
    it exceeds tau by, `loss` the plain mean loss and `mu` zero (there is no multiplier). The
    schedule is fixed, so that the end is called converged only where the last gradient happens to
    be within the task solver's tolerance.
    """
    game = _Game.of(task, only_pair(task, "af"))
    (tau,) = np.broadcast_to(task.epsilon, 1).tolist()
    theta, infeasible = jnp.asarray(task.model.start(task.seed)), 0
    weighting = game.even()
    log = _Log(tau, watch)
    for turn in range(outer):
        for _ in range(STEPS):
            grad, loss, gap = game.gradient(task.model, penalty, theta, weighting)
            theta = theta - RATE * grad
            size = float(jnp.max(jnp.abs(grad)))
            log.add(loss, gap, RATE * size, size)
        if turn == outer - 1:
            break
        new, loss = game.attack(task.model, theta, tau)
        infeasible += new is None
        weighting = new or weighting
        log.add(loss, log.gap, 0.0, log.residual)
    tolerance = getattr(task.solver, "tolerance", 0.0)
    status = Status.CONVERGED if log.residual <= tolerance else Status.RUNNING
    outcome = Outcome(np.asarray(theta), status, len(log.records), log.history())
    up, down = _numbers(task.model.size, outer)
    notes = (
        f"in {infeasible} of {outer - 1} alpha steps no weights met tau = {tau:g}, and "
        "the last ones were kept",
    )
    return Trained(
        (Plain(task.model, outcome.theta),), outcome, up, down, notes if infeasible else ()
    )


@dataclass(frozen=True)
class _Game:
    """The rows, in one piece or client by client: as everything asked for is a sum, the same."""

    parts: tuple[AgnosticRows, ...]
    rows: int
    paired: int
    in_a: int

    @classmethod
    def of(cls, task: Task, pair: Dgeo) -> _Game:
        if task.model.name != "lr":
            raise FairSiloError(
                f"method af is for logistic regression, not for the model {task.model.name!r}: "
                "use --model lr, or --method fedfair"
            )
        federation = task.federation
        columns = np.setdiff1d(np.arange(federation.x.shape[1]), task.group_columns)
        seen, s = federation.x[:, columns], federation.s
        silos = list(federation.silos())
        points = reduce(add, (ColumnSums.of(seen[own]) for own in silos)).draw(POINTS, task.seed)
        in_a, paired = s == pair.a, (s == pair.a) | (s == pair.b)
        whole = (
            federation.x, federation.y, in_a * 1.0, paired * 1.0, kernels(seen, points)
        )  # fmt: skip
        cuts = silos if task.engine == "clientwise" else [slice(None)]
        parts = tuple(AgnosticRows(*(jnp.asarray(array[own]) for array in whole)) for own in cuts)
        return cls(parts, federation.rows, int(paired.sum()), int(in_a.sum()))

    def even(self) -> Weighting:
        """w = 1."""
        sbar = jnp.asarray(self.in_a / self.paired)
        return Weighting(jnp.asarray(1.0), jnp.zeros(POINTS), sbar)

    def gradient(
        self, model: Model, penalty: Penalty, theta: Array, weighting: Weighting
    ) -> tuple[Array, float, float]:
        """Gradient of the theta step's objective, the mean loss and the covariance."""
        sums = reduce(add, (theta_sums(model, penalty, p, theta, weighting) for p in self.parts))
        gap = float(sums.covariance) / self.paired
        inner = 2 / self.paired if penalty == "squares" else 4 * gap / self.paired
        return (
            sums.grad / self.rows + inner * sums.penalty_grad,
            float(sums.loss) / self.rows,
            gap,
        )

    def attack(self, model: Model, theta: Array, tau: float) -> tuple[Weighting | None, float]:
        """The worst weights at theta, None where there are none, and the mean loss."""
        sums = reduce(add, (adversary_sums(model, part, theta) for part in self.parts))
        alpha = worst_weights(sums, self.rows, self.paired, tau)
        loss = float(sums.loss) / self.rows
        if alpha is None:
            return None, loss
        sbar = jnp.asarray(np.asarray(sums.group_kernel) @ alpha / self.paired)
        return Weighting(jnp.asarray(0.0), jnp.asarray(alpha), sbar), loss


class _Log:
    """The history as it grows."""

    def __init__(self, tau: float, watch: Watch | None) -> None:
        self.tau, self.watch = tau, watch
        self.gap = self.residual = 0.0
        self.records: list[Record] = []

    def add(self, loss: float, gap: float, step: float, residual: float) -> None:
        """One query."""
        self.gap, self.residual = gap, residual
        values = (loss, [gap], [0.0], step, residual, max(abs(gap) - self.tau, 0.0))
        record = Record(*(np.asarray(value) for value in values))  # type: ignore[arg-type]
        self.records.append(record)
        if self.watch:
            self.watch(len(self.records), record)

    def history(self) -> Record:
        """Arrays with one entry per query."""
        stacked: Record = jax.tree.map(lambda *leaves: np.stack(leaves), *self.records)
        return stacked


def _numbers(parameters: int, outer: int) -> tuple[int, int]:
    """Numbers sent and received per client and round: the mean over both kinds, rounded up."""
    theta, alpha = outer * STEPS, outer - 1
    up = theta * (2 + 2 * parameters) + alpha * (2 + 4 * POINTS)
    down = (theta + alpha) * parameters + alpha * (1 + POINTS)
    return -(-up // (theta + alpha)), -(-down // (theta + alpha))
