"""What one silo is about to release under differential privacy: sums over its cells, clipped.

The rows fall into disjoint cells: one for each constrained group in the protected class, and all
other rows. A silo's messages are sums over cells, not divided by anything. They are the same in
simulation and over a network, where a silo makes them far away from everybody else.

    counts      rows of every (group, class)
    gradients   of every cell
    losses      of every cell
    curvature   of L: one triangle, off the diagonal times sqrt(2), which has the matrix's length
    outcomes    losses and rows predicted right of every (group, class) under a trained model
"""

from __future__ import annotations

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.compute import jnp
from fairsilo.dp import Clip, Message, Plan
from fairsilo.engine.clipped import clipped_curvature, clipped_outcomes, clipped_sums
from fairsilo.engine.sums import Rows
from fairsilo.fairness.constraint import Cells, count_cells
from fairsilo.model.base import Model


def every(groups: int, classes: int) -> Cells:
    """All cells there are."""
    return [(g, c) for g in range(groups) for c in range(classes)]


def members(y: Ints, s: Ints, cells: Cells) -> Floats:
    """Who is in which cell, (cells, n)."""
    return np.array([(s == g) & (y == c) for g, c in cells], np.float64).reshape(len(cells), len(y))


def members_and_others(y: Ints, s: Ints, cells: Cells) -> Floats:
    """Who is in which cell, and last who is in none of them."""
    inside = members(y, s, cells)
    return np.vstack([inside, 1 - inside.sum(axis=0, keepdims=True)])


def count_message(y: Ints, s: Ints, groups: int, classes: int, plan: Plan) -> Message:
    """One row changes one count by one."""
    counts = count_cells(y, s, groups, classes).ravel().astype(np.float64)
    return Message("counts", counts, 1.0, plan.counts)


def counts_of(total: Floats, groups: int, classes: int) -> Floats:
    """m^{s,c} from the released sum, at least one each."""
    return np.maximum(total, 1.0).reshape(groups, classes)


def round_messages(
    model: Model, rows: Rows, theta: Floats, plan: Plan, clip: Clip, curvature: bool
) -> list[Message]:
    """The answer to one round's question; `rows.v` says who is in which cell."""
    point = jnp.asarray(theta)
    losses, gradients = clipped_sums(model, rows, point, clip.gradient, clip.loss)
    found = [
        Message("gradients", np.asarray(gradients).ravel(), clip.gradient, plan.gradient),
        Message("losses", np.asarray(losses), clip.loss, plan.loss),
    ]
    if curvature:
        matrix = np.asarray(clipped_curvature(model, rows, point, clip.curvature))
        upper, stretch = _triangle(model.size)
        bent = Message("curvature", matrix[upper] * stretch, clip.curvature, plan.curvature)
        found.append(bent)
    return found


def matrix_of(triangle: Floats, size: int) -> Floats:
    """The curvature from the released triangle."""
    upper, stretch = _triangle(size)
    matrix = np.zeros((size, size))
    matrix[upper] = triangle / stretch
    whole: Floats = np.triu(matrix) + np.triu(matrix, 1).T
    return whole


def _triangle(size: int) -> tuple[tuple[Ints, Ints], Floats]:
    upper = np.triu_indices(size)
    return upper, np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))


def outcome_message(model: Model, rows: Rows, theta: Floats, plan: Plan, clip: Clip) -> Message:
    """`rows.v` says who is in which of all cells."""
    found = np.asarray(clipped_outcomes(model, rows, jnp.asarray(theta), clip.loss)).ravel()
    return Message("outcomes", found, clip.loss * np.sqrt(2), plan.final)


def outcomes_of(total: Floats, groups: int, classes: int, clip: Clip) -> tuple[Floats, Floats]:
    """Losses and rows predicted right of every cell, from the released sum."""
    losses, right = total.reshape(2, groups, classes)
    return losses, right / clip.loss
