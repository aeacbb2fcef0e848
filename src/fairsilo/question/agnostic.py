"""AF's questions: two kinds of sums over a silo's rows, for logistic regression.

    spread   rows, and of every column that does not name the group: sum, squares, off-binary
    attack   kernel, loss, group and group-score kernels (R each), sum of losses, sum of scores;
             gradients of the loss and the group-score kernels, and of the sum of scores

Row weights are linear in the adversary's alpha, and so are losses, covariances and gradients
under them: one exchange a round tells the server all of these for every alpha.

The kernel is K(x_j, z_r) = exp(-|x_j - z_r|^2 / (2 sigma^2)) at reference points z.
"""

from dataclasses import dataclass

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import Table, dense, of_each, pulled
from fairsilo.model.scores import linear_scores, losses_of, probabilities_of, slopes_of
from fairsilo.question.base import Part, Problem, Question, Silo, fitting
from fairsilo.question.plausible import NOTHING, ROUNDING, Known, other_rows, squares_too_small
from fairsilo.question.round_bounds import ROOM
from fairsilo.question.worked import SMALL

POINTS = 30
SIGMA = 2.0


def seen_columns(problem: Problem) -> Ints:
    """The columns that the adversary sees: those that do not name the group."""
    return np.setdiff1d(np.arange(problem.model.features), problem.hidden)


@dataclass(frozen=True)
class ColumnSums:
    """What the reference points are drawn from: sums over rows, per column."""

    rows: int
    total: Floats
    squares: Floats
    off_binary: Floats
    """sum x^2 (1 - x)^2: zero exactly where all values are 0 or 1."""

    def draw(self, points: int, seed: int) -> Floats:
        """Seeded reference points z, (points, columns)."""
        rng = np.random.default_rng(seed)
        mean = self.total / self.rows
        spread = np.sqrt(np.maximum(self.squares / self.rows - mean**2, 0))
        shape = (points, len(mean))
        normal, uniform = rng.standard_normal(shape), rng.random(shape)
        return np.where(self.off_binary == 0, uniform < mean, mean + spread * normal)


class Spread(Question, kind="spread", additive=True):
    """Sums of the encoded columns, asked once."""

    def length(self, problem: Problem) -> int:
        """One, and three for every column."""
        return 1 + 3 * len(seen_columns(problem))

    def answer(self, problem: Problem, silo: Silo) -> Floats:
        """Of the silo's training rows."""
        x = silo.rows(problem).x
        ones, seen = np.ones((len(x), 1)), seen_columns(problem)
        total, squares = pulled(x, ones), pulled(of_each(x, np.square), ones)
        inside = pulled(of_each(x, lambda a: a - (a * (1 - a)) ** 2), ones)
        parts = [one[seen, 0] for one in (total, squares, total - inside)]
        return np.concatenate([[float(len(x))], *parts])

    def read(self, problem: Problem, vector: Floats) -> ColumnSums:
        """The sums by name."""
        return ColumnSums(round(vector[0]), *vector[1:].reshape(3, -1))

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """Squares that the sums allow, over the rows that were counted."""
        rows, (total, squares, off_binary) = vector[0], vector[1:].reshape(3, -1)
        if (off_binary < -ROUNDING * max(rows, 1.0)).any():
            return "a sum of squares is negative"
        counted = squares_too_small(np.full(len(total), rows), total, squares)
        return counted or other_rows(rows, known)


@dataclass(frozen=True)
class AttackSums:
    """What weights of any alpha do: losses and scores under each kernel, and their gradients."""

    kernel: Floats
    """sum_j K_jr, (R,)."""
    loss_kernel: Floats
    """sum_j l_j K_jr."""
    group_kernel: Floats
    """sum_j s_j K_jr."""
    group_score_kernel: Floats
    """sum_j s_j u_j K_jr."""
    loss: float
    """sum_j l_j."""
    score: float
    """sum_j u_j over the rows of the two groups."""
    loss_grads: Floats
    """Gradients of `loss_kernel`, (R, p)."""
    group_score_grads: Floats
    """Gradients of `group_score_kernel`, (R, p)."""
    score_grad: Floats
    """Gradient of `score`, (p,)."""


@dataclass(frozen=True, eq=False)
class Attack(Question, kind="attack", moving=True, additive=True):
    """Losses and scores at theta under each of the adversary's kernels."""

    theta: Floats
    points: Floats
    """The reference points, one after the other."""

    def check(self, problem: Problem) -> None:
        """Theta and points have the problem's sizes."""
        points = (POINTS * len(seen_columns(problem)),)
        fitting(self, theta=(problem.model.size,), points=points)

    def length(self, problem: Problem) -> int:
        """Four for every point, two, and the gradients."""
        return 4 * POINTS + 2 + (2 * POINTS + 1) * problem.model.size

    def answer(self, problem: Problem, silo: Silo) -> Floats:
        """Of the silo's training rows."""
        part, in_a, paired, kernel = self._rows(problem, silo)
        x = silo.cache["full"]
        if "pulled" not in silo.cache:
            # What does not depend on theta.
            still = np.concatenate([kernel * in_a[:, None], paired[:, None]], axis=1)
            silo.cache["pulled"] = _pulled(x, still)
        scores = linear_scores(self.theta, x, problem.classes)
        losses, u = losses_of(scores, part.y), scores[:, 0]
        slope = slopes_of(probabilities_of(scores), part.y, scores.shape[1])
        weights = np.stack([np.ones_like(u), losses, in_a, in_a * u])
        head, kernels = [losses.sum(), paired @ u], (weights @ kernel).ravel()
        return np.concatenate([kernels, head, _pulled(x, kernel * slope), silo.cache["pulled"]])

    def _rows(self, problem: Problem, silo: Silo) -> tuple[Part, Floats, Floats, Floats]:
        """The rows, who is in group a, who in either group, and the kernel (n, R)."""
        part, (pair,) = silo.rows(problem), problem.cell_pairs
        key = self.points.tobytes()
        if silo.cache.get("points") != key:
            seen = seen_columns(problem)
            points = np.zeros((problem.model.features, POINTS))
            points[seen] = self.points.reshape(POINTS, len(seen)).T
            mask = np.zeros((len(points), 1))
            mask[seen] = 1.0
            lengths = of_each(part.x, np.square) @ mask
            squares = lengths + (points**2).sum(axis=0) - 2 * (part.x @ points)
            kernel = np.exp(-np.maximum(squares, 0) / (2 * SIGMA**2))
            silo.cache["points"], silo.cache["kernel"] = key, kernel
            # With thirty columns of weights the product with the full table is faster.
            small = len(part) * len(points) <= SMALL
            silo.cache["full"] = dense(part.x) if small else part.x
            silo.cache.pop("pulled", None)
        in_a = (part.s == pair.a) * 1.0
        return part, in_a, in_a + (part.s == pair.b), silo.cache["kernel"]

    def read(self, problem: Problem, vector: Floats) -> AttackSums:
        """The sums by name."""
        kernels, (loss, score), grads = np.split(vector, [4 * POINTS, 4 * POINTS + 2])
        of_losses, of_scores, of_sum = np.split(
            grads.reshape(-1, problem.model.size), [POINTS, 2 * POINTS]
        )
        one, lost, in_a, scored = kernels.reshape(4, POINTS)
        ends = (float(loss), float(score), of_losses, of_scores, of_sum[0])
        return AttackSums(one, lost, in_a, scored, *ends)

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """A kernel is between 0 and 1, a loss is not negative, |gradient| <= sum_j |x_j|."""
        found = self.read(problem, vector)
        room = ROUNDING * (1 + abs(found.loss) + (known.rows or 0))
        parts = (found.kernel, found.loss_kernel, found.group_kernel)
        if min(one.min() for one in parts) < -room or found.loss < -room:
            return "a sum of losses or of kernels is negative"
        rows = np.inf if known.rows is None else known.rows
        if (
            found.kernel.max() > rows + room
            or found.loss_kernel.max() > found.loss + room
            or (found.group_kernel > found.kernel + room).any()
        ):
            return "a sum of kernels is larger than the rows allow"
        if known.encoded is not None:
            # As in `round_bounds`; a kernel is at most 1.
            grads = (found.loss_grads, found.group_score_grads, found.score_grad)
            if any((np.abs(one) > ROOM * known.encoded + ROUNDING).any() for one in grads):
                return "a gradient is larger than any rows allow"
        return self._wrong_at_zero(found, known)

    def _wrong_at_zero(self, found: AttackSums, known: Known) -> str:
        """At theta = 0 every row has the loss log 2 and the score 0."""
        if self.theta.any():
            return ""
        room = ROUNDING * (1 + (known.rows or 0))
        other = known.rows is not None and abs(found.loss - known.rows * np.log(2)) > room
        if other or abs(found.score) > room:
            return "a model without weights has other losses than log 2, or scores"
        return ""


def _pulled(x: Table, weights: Floats) -> Floats:
    """Gradients under each column of weights (n, R): sums of the rows, a one before each."""
    return np.concatenate([weights.sum(axis=0)[None], pulled(x, weights)]).T.ravel()
