"""What a penalty is about: which parameters of a model are pulled, and towards what.

Of `lr` and `mlp` all weights, towards zero. Of an additive model every block has strengths of its
own: of a number one for the second differences along its curve, from which spikes and missing cells
are left out, and one for its height; of a category and of a pair one for its height.

A strength that is given counts against what all rows weigh, one that is chosen against how many
they are: the scale of weights says nothing of how sure a sum is.

Under differential privacy strengths follow from the noise, not from the rows: multiples of its
deviation in the sum of the gradients, if all rounds were one.
"""

from __future__ import annotations

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.data.binned import Block
from fairsilo.data.steps import Steps
from fairsilo.engine import Engine
from fairsilo.fairness.constraint import class_factors
from fairsilo.question import Problem
from fairsilo.run.problem import Posed
from fairsilo.solver.penalty import Penalty, Term

NOISY_HEIGHT, NOISY_CURVE = 0.3, 3.0
"""Under noise. A third or three times as much moves AUC on validation rows of ADULT by 0.001."""
SLIGHT = 1e-3
"""A ridge that decides between an intercept and equal heights of all steps of a block."""


def rows_alike(problem: Problem, engine: Engine) -> float:
    """How many rows there are, whatever they weigh; where classes have weights, as many as are
    worth as much with the same weight, (sum w)^2 / sum w^2."""
    counts = engine.count(problem, unweighted=True)
    if problem.class_weight is None:
        return float(counts.rows)
    each = class_factors(problem.class_weight, engine.count(problem).by_class)
    return float((each @ counts.by_class) ** 2 / (each**2 @ counts.by_class))


def first_penalty(posed: Posed, problem: Problem, rows: float) -> Penalty:
    """The penalty of the model, with strengths 1."""
    binned, model = posed.encoder.binned, problem.model
    if binned is None:
        places = model.weights
        terms: tuple[Term, ...] = (Term("weights", places, np.ones(len(places))),)
        return Penalty(terms, (1.0,), rows, model.size)
    blocks = binned.blocks(posed.encoder.schema)
    terms = tuple(term for block in blocks for term in _terms(block, model.outputs))
    return Penalty(terms, (1.0,) * len(terms), rows, model.size, SLIGHT)


def _terms(block: Block, outputs: int) -> list[Term]:
    """The terms of one block; theta has the bias first, then the columns, score by score."""
    first = (1 + block.start) * outputs
    places = np.arange(first, first + block.width * outputs)
    terms = [Term(block.name, places, np.ones(len(places)))]
    if block.steps is not None:
        matrix = roughness(block.steps)
        if matrix.any():
            bent: Floats = np.kron(matrix, np.eye(outputs)).astype(np.float64)
            terms.append(Term(f"{block.name} (curve)", places, bent))
    return terms


def by_noise(penalty: Penalty, noise: float) -> Penalty:
    """The same with the strengths that suit this noise in the sum of the gradients."""
    curves = (term.matrix.ndim == 2 for term in penalty.terms)
    return penalty.of_strengths([noise * (NOISY_CURVE if k else NOISY_HEIGHT) for k in curves])


def roughness(steps: Steps) -> Floats:
    """S with t'St the sum of squared second differences of the steps' heights t."""
    every = range(len(steps.edges) + 1)
    along = [k for k in every if k not in steps.spikes]
    if len(along) < 3:
        return np.zeros((steps.width, steps.width))
    difference = np.diff(np.eye(steps.width)[along], 2, axis=0)
    matrix: Floats = difference.T @ difference
    return matrix
