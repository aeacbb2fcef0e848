"""AF, AgnosticFair (Du, Xu, Wu, Tong 2021): logistic regression against the worst row weights.

    theta step:  (1/n) sum_j w_j l_j + 2 (1/n) sum_j [ (w_j s_j - sbar_w) u_j ]^2
                 10 full-batch gradient steps at rate 0.1
    alpha step:  the linear program below

in turn, 20 times, beginning with w = 1; the weights after the last theta step would serve nobody
and are not computed. The penalty is a mean of squares and free of tau, as in the authors' public
code. tau, the trade-off, is the problem's epsilon.

The adversary's row weights come from Gaussian kernels, by a linear program:

    w_j(alpha) = sum_r alpha_r K(x_j, z_r),   K(x, z) = exp(-|x - z|^2 / (2 sigma^2))

    max_alpha  sum_j w_j l_j
    s.t.       sum_j w_j = n,   0 <= alpha_r <= 5,
               | (1/n) ( sum_j s_j w_j u_j - sbar_w sum_j u_j ) | <= tau,
               sbar_w = (1/n) sum_j w_j s_j

Every coefficient is a sum over rows: silos send `AttackSums`, the server adds them, solves
and broadcasts alpha and sbar_w. Rows of groups other than the two compared ones weigh in the
loss, and have no part in the covariance, whose n counts the rows of the two.

The authors draw the reference points z from the test inputs. Here they leak no row: each column
is drawn on its own from what the clients' sums say of it, normal with the column's mean and
spread, or, where all values are 0 or 1 (one-hot), 1 at the column's frequency. Columns of one
category drawn apart have the same mean squared distance to a row as one drawn together.
"""

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.engine.base import Engine
from fairsilo.method.base import Method, Trained, only_pair
from fairsilo.predictor.base import Plain
from fairsilo.question.agnostic import POINTS, Attack, AttackSums, Spread, Tilt, TiltSums
from fairsilo.question.base import Problem
from fairsilo.solver import Outcome, Record, Status, Watch

ALPHA_MAX = 5.0
OUTER, STEPS, RATE = 20, 10, 0.1
ROUNDS = OUTER * (STEPS + 1) - 1
"""Questions of the whole schedule."""


def train(problem: Problem, engine: Engine, watch: Watch | None = None) -> Trained:
    """Train against the adversary.

    A round is a question: 10 for each theta step, 1 for each alpha step. In the history `d` is the
    covariance that the program bounds by tau, under the weights of that round, `violation` what
    it exceeds tau by, `loss` the plain mean loss and `mu` zero (there is no multiplier). The
    schedule is fixed, so that the end is called converged only where the last gradient happens to
    be within the solver's tolerance.
    """
    outer = min(OUTER, max((problem.rounds + 1) // (STEPS + 1), 1))
    (tau,) = np.broadcast_to(problem.epsilon, 1).tolist()
    game, log = _Game(problem, engine), _Log(tau, watch)
    theta, infeasible = problem.model.start(problem.seed), 0
    weighting = game.even()
    for turn in range(outer):
        for _ in range(STEPS):
            grad, loss, gap = game.gradient(theta, weighting)
            theta = theta - RATE * grad
            size = float(np.abs(grad).max())
            log.add(loss, gap, RATE * size, size)
        if turn == outer - 1:
            break
        new, loss = game.attack(theta, tau)
        infeasible += new is None
        weighting = weighting if new is None else new
        log.add(loss, log.gap, 0.0, log.residual)
    status = Status.CONVERGED if log.residual <= problem.solver.tolerance else Status.RUNNING
    outcome = Outcome(theta, status, len(log.records), log.history())
    up, down = _numbers(problem.model.size, outer)
    notes = (
        f"in {infeasible} of {outer - 1} alpha steps no weights met tau = {tau:g}, and "
        "the last ones were kept",
    )
    plain = Plain(problem.model, theta)
    return Trained((plain,), outcome, up, down, notes if infeasible else ())


class _Game:
    """The server's side: it divides sums by the counts of the silos that are there."""

    def __init__(self, problem: Problem, engine: Engine) -> None:
        self.problem, self.engine = problem, engine
        self.pair = only_pair(problem, "af")
        drawn = engine.ask(problem, Spread()).draw(POINTS, problem.seed)
        self.points = np.asarray(drawn, np.float64).reshape(-1)

    def _counts(self) -> tuple[int, int, int]:
        """Rows of all, of the two groups, and of group a."""
        totals = self.engine.count(self.problem)
        in_a = int(totals.cells[self.pair.a].sum())
        return int(totals.rows), in_a + int(totals.cells[self.pair.b].sum()), in_a

    def even(self) -> Floats:
        """w = 1."""
        _, paired, in_a = self._counts()
        return np.concatenate([[1.0], np.zeros(POINTS), [in_a / paired]])

    def gradient(self, theta: Floats, weighting: Floats) -> tuple[Floats, float, float]:
        """Gradient of the theta step's objective, the mean loss and the covariance."""
        question = Tilt(theta, self.points, weighting)
        sums: TiltSums = self.engine.ask(self.problem, question)
        rows, paired, _ = self._counts()
        grad = sums.grad / rows + 2 / paired * sums.penalty_grad
        return grad, sums.loss / rows, sums.covariance / paired

    def attack(self, theta: Floats, tau: float) -> tuple[Floats | None, float]:
        """The worst weights at theta, None where there are none, and the mean loss."""
        sums: AttackSums = self.engine.ask(self.problem, Attack(theta, self.points))
        rows, paired, _ = self._counts()
        alpha, loss = worst_weights(sums, rows, paired, tau), sums.loss / rows
        if alpha is None:
            return None, loss
        return np.concatenate([[0.0], alpha, [sums.group_kernel @ alpha / paired]]), loss


class _Log:
    """The history as it grows."""

    def __init__(self, tau: float, watch: Watch | None) -> None:
        self.tau, self.watch = tau, watch
        self.gap = self.residual = 0.0
        self.records: list[Record] = []

    def add(self, loss: float, gap: float, step: float, residual: float) -> None:
        """One question."""
        self.gap, self.residual = gap, residual
        values = (loss, [gap], [0.0], step, residual, max(abs(gap) - self.tau, 0.0))
        record = Record(*(np.asarray(value) for value in values))
        self.records.append(record)
        if self.watch:
            self.watch(len(self.records), record)

    def history(self) -> Record:
        """Arrays with one entry per question."""
        return Record.stacked(self.records)


def covariance_row(sums: AttackSums, paired: int) -> Floats:
    """The covariance as a linear function of alpha: its coefficients, (R,)."""
    mean_score = sums.score / paired
    return np.asarray((sums.group_score_kernel - sums.group_kernel * mean_score) / paired)


def worst_weights(sums: AttackSums, rows: int, paired: int, tau: float) -> Floats | None:
    """alpha (R,) of the program, or None where no weights within the bounds are so fair."""
    from scipy.optimize import linprog

    covariance = covariance_row(sums, paired)
    solution = linprog(
        -np.asarray(sums.loss_kernel) / rows,
        A_ub=np.stack([covariance, -covariance]),
        b_ub=[tau, tau],
        A_eq=np.asarray(sums.kernel)[None] / rows,
        b_eq=[1.0],
        bounds=(0, ALPHA_MAX),
        method="highs",
    )
    if not solution.success or solution.x is None:
        return None
    alpha: Floats = np.clip(solution.x, 0, ALPHA_MAX)
    return alpha


def _numbers(parameters: int, outer: int) -> tuple[int, int]:
    """Numbers sent and received per silo and round: the mean over both kinds, rounded up."""
    theta, alpha = outer * STEPS, outer - 1
    up = theta * (2 + 2 * parameters) + alpha * (2 + 4 * POINTS)
    down = (theta + alpha) * parameters + alpha * (1 + POINTS)
    return -(-up // (theta + alpha)), -(-down // (theta + alpha))


af = Method(
    name="af",
    title="AF",
    words="AgnosticFair: rows are reweighed against the worst mixture of clients, under a limit",
    train=train,
    asks=("spread", "tilt", "attack"),
    penalised=False,
    limits="tau",
    one_pair=True,
    models=("lr",),
    own_solver=True,
    rounds=ROUNDS,
    setup=1,
)
