"""AF, AgnosticFair (Du, Xu, Wu, Tong 2021): logistic regression against the worst row weights.

    min_theta  max_w (1/n) sum_j w_j l_j      s.t.   max_w |C(theta, w)| <= tau

    C(theta, w) = (1/n) sum_j (w_j s_j - sbar_w) u_j,     sbar_w = (1/n) sum_j w_j s_j

C = E_w[s u] - E_w[s] mean(u), where mean(u) has no weights: so it is linear in w. Where the
weights leave the mean score as it is, as w = 1 does, C is the covariance of group and score. Under
others it is that plus E_w[s] (E_w[u] - mean(u)), which is not zero where group and score are
independent: tau also limits how far weights can move the scores. The weights of the constraint and
those of the loss are the worst each for themselves. They come from Gaussian kernels:

    w_j = sum_r alpha_r K(x_j, z_r),   sum_j w_j = n,  0 <= alpha_r <= 5
    K(x, z) = exp(-|x - z|^2 / (2 sigma^2))

Both maxima are linear programs in alpha, whose answer jumps from corner to corner as theta moves. A
small price on alpha, (PRICE / 2) mean_r (alpha_r / 5)^2, makes it unique and continuous. In the
constraint only what a price is above the least one counts, so that theta = 0 keeps to every tau; a
worst |C| without a price may be above tau by as much, at most PRICE / 2. C is linear in theta, so
that the whole is convex and smooth, and L-BFGS-SQP takes it to its optimum, which does not depend
on the way there.

Everything is linear in alpha, so that silos send sums for each kernel (`question.agnostic`), and
the server finds the worst weights. Rows of groups other than the two compared ones weigh in the
loss, and have no part in the covariance, whose n counts the rows of the two.

The authors draw the reference points z from the test inputs. Here they leak no row: each column
is drawn on its own from what the clients' sums say of it, normal with the column's mean and
spread, or, where all values are 0 or 1 (one-hot), 1 at the column's frequency. Columns of one
category drawn apart have the same mean squared distance to a row as one drawn together.
"""

from dataclasses import replace

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.engine.base import Changed, Engine
from fairsilo.engine.loop import drive
from fairsilo.errors import FairSiloError
from fairsilo.method.base import Method, Trained, only_pair
from fairsilo.predictor.base import Plain
from fairsilo.question.agnostic import POINTS, SIGMA, Attack, AttackSums, Spread
from fairsilo.question.base import Problem
from fairsilo.solver import Lbfgs, Order, Outcome, Query, Record, Sums, Watch

ALPHA_MAX = 5.0
PRICE = 0.05
STEEP = PRICE / (ALPHA_MAX**2 * POINTS)
"""The price is STEEP / 2 times the sum of squares of alpha."""
ROUNDS = 600
NEGLIGIBLE = 1e-12
"""A kernel of this share of the largest one reaches no rows."""
OFF = 1e-6
"""How far from one the mean weight may be."""


def train(problem: Problem, engine: Engine, watch: Watch | None = None) -> Trained:
    """Train against the adversary.

    In the history `loss` is the loss under the worst weights less their price, `d` is C under the
    worst weights less theirs, of both signs the larger one, `mu` the sum of the two multipliers.
    """
    game = _Game(problem, engine)
    outcome = game.play(watch)
    size = problem.model.size
    up = Attack(outcome.theta, game.points).length(problem)
    down = size + len(game.points)
    return Trained((Plain(problem.model, outcome.theta),), outcome, up, down)


class _Game:
    """The server's side: it finds the worst weights from sums over the silos that are there."""

    def __init__(self, problem: Problem, engine: Engine) -> None:
        self.problem, self.engine = problem, engine
        self.pair = only_pair(problem, "af")
        drawn = engine.ask(problem, Spread()).draw(POINTS, problem.seed)
        self.points = np.asarray(drawn, np.float64).reshape(-1)
        self.theta = problem.model.start(problem.seed)

    def play(self, watch: Watch | None) -> Outcome:
        """To the optimum; after the loss of a silo again, from where it stood."""
        limits = np.full(2, float(np.max(self.problem.epsilon)))
        records: list[Record] = []

        def note(number: int, record: Record) -> None:
            largest = record.d[int(np.argmax(np.abs(record.d)))]
            told = replace(record, d=np.array([largest]), mu=np.array([record.mu.sum()]))
            records.append(told)
            if watch:
                watch(len(records), told)

        while True:
            self.silos = self.engine.clients
            left = max(self.problem.rounds - len(records), 1)
            try:
                ended = drive(Lbfgs(), self.answer, self.theta, limits, left, note)
            except Changed as change:
                self.theta = change.onward(self.theta, self.theta)
                continue
            return replace(ended, rounds=len(records), history=Record.stacked(records))

    def answer(self, query: Query, order: Order) -> Sums:
        """Loss and covariances under the worst weights at theta, and their gradients."""
        self.theta = np.asarray(query.theta, np.float64)
        asked = Attack(self.theta, self.points)
        sums: AttackSums = self.engine.ask(self.problem, asked)
        if self.engine.clients != self.silos:
            raise Changed
        totals = self.engine.count(self.problem)
        cells = totals.cells[[self.pair.a, self.pair.b]]
        return under_worst_weights(sums, float(totals.rows), float(cells.sum()))


def under_worst_weights(sums: AttackSums, rows: float, paired: float) -> Sums:
    """L and its gradient under the worst weights; the largest and the smallest C.

    Between the two lies C under the cheapest weights, so that the limit -tau of the smallest holds
    for the largest, too, and tau the other way round: |d| <= tau is convex.
    """
    kernel, losses = sums.kernel / rows, sums.loss_kernel / rows
    scores, slopes = covariances(sums, paired)
    worst = worst_weights(losses, kernel)
    high, low = worst_weights(scores, kernel), worst_weights(-scores, kernel)
    least = price(worst_weights(np.zeros_like(kernel), kernel))
    return Sums(
        loss=np.array(losses @ worst - price(worst)),
        d=np.array([scores @ high - price(high) + least, scores @ low + price(low) - least]),
        grad=worst @ sums.loss_grads / rows,
        jac=np.stack([high @ slopes, low @ slopes]),
    )


def covariances(sums: AttackSums, paired: float) -> tuple[Floats, Floats]:
    """C as a linear function of alpha: its coefficients (R,), and their gradients (R, p)."""
    mean, mean_grad = sums.score / paired, sums.score_grad / paired
    scores = (sums.group_score_kernel - sums.group_kernel * mean) / paired
    slopes = (sums.group_score_grads - np.outer(sums.group_kernel, mean_grad)) / paired
    return scores, slopes


def price(alpha: Floats) -> float:
    """What the adversary pays for its weights."""
    return float(STEEP / 2 * alpha @ alpha)


def worst_weights(gain: Floats, kernel: Floats) -> Floats:
    """alpha (R,) with the largest gain @ alpha - price, s.t. kernel @ alpha = 1, 0 <= alpha <= 5.

    alpha_r = (gain_r - level * kernel_r) / STEEP within its bounds. The mean weight falls with the
    level, in straight lines between the levels at which some alpha_r comes to a bound: the level at
    which it is one lies on one of them.
    """
    if ALPHA_MAX * kernel.sum() < 1:
        raise FairSiloError(
            f"method af has kernels of width {SIGMA:g}, which reach too few rows of a table of so "
            "many columns to weigh them: use fewer `features`, or `method` fedfair"
        )
    # Smaller ones weigh nothing, whatever their alpha.
    seen = kernel > NEGLIGIBLE * kernel.max()
    bounds = gain[seen] - np.array([[0.0], [ALPHA_MAX * STEEP]])
    ends = np.sort((bounds / kernel[seen]).ravel())
    weighs = np.clip((gain - ends[:, None] * kernel) / STEEP, 0, ALPHA_MAX) @ kernel
    level = float(np.interp(-1.0, -weighs, ends))
    alpha = np.clip((gain - level * kernel) / STEEP, 0, ALPHA_MAX)
    if abs(kernel @ alpha - 1) > OFF:
        raise FairSiloError(
            "method af found no weights that are one on average, because scores became too large: "
            "use a smaller `epsilon`, fewer `features`, or `method` fedfair"
        )
    return alpha


af = Method(
    name="af",
    title="AF",
    words="AgnosticFair: one model for the worst weights that rows may get, under a limit",
    train=train,
    asks=("spread", "attack"),
    penalised=False,
    limits="tau",
    one_pair=True,
    models=("lr",),
    own_solver=True,
    rounds=ROUNDS,
    revision=2,
    setup=1,
)
