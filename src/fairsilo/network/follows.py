"""Whether a question is the one that follows: what a witness compares before it signs.

Both were computed from the same sums by the same code, maybe on other machines: eigenvectors and
factors of another processor move theta in directions that no row sees. So thetas are compared by
the scores that they give over the declared ranges; everything else is compared as it is.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.network.bounds import largest_score
from fairsilo.network.encoding import encoder_of
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.silo import problem_of
from fairsilo.network.wire import Ask

IGNORED = ("question", "signatures")
"""Of a question's frame: the question is looked at by itself."""
SOLVED = ("mu",)
"""Numbers of a question that a solver found, beside theta."""
SCORES = 1e-8
"""The largest difference of scores between two thetas that count as one."""
UNSEEN = 1e-4
"""The same for rows in which a category has a missing or another value. Where no training row has
one, rounding alone decides what it scores; a witness cannot know, so it allows as much where rows
have one."""
PARAMETERS = 1e-6
"""The largest difference of parameters of other models than linear ones, relative to their size."""
NUMBERS = 1e-9
"""The largest difference of other numbers, relative to their size."""


def difference(agreed: FederationFile, expected: Ask, proposed: Ask) -> str:
    """In what a proposed question differs from the expected one; empty where it follows."""
    for one in fields(Ask):
        if one.name in IGNORED:
            continue
        if not _same(one.name, getattr(expected, one.name), getattr(proposed, one.name)):
            return one.name
    if expected.kind != proposed.kind:
        return "kind"
    for one in fields(expected.question):
        mine, theirs = getattr(expected.question, one.name), getattr(proposed.question, one.name)
        if one.name == "theta":
            if not _same_scores(agreed, expected, mine, theirs):
                return "theta"
        elif not _same(one.name, mine, theirs):
            return one.name
    return ""


def _same(name: str, mine: Any, theirs: Any) -> bool:
    if isinstance(mine, np.ndarray):
        # A scale may be as small as it likes: only what a solver ends at has a natural size.
        least = NUMBERS if name in SOLVED else 0.0
        return (
            isinstance(theirs, np.ndarray)
            and mine.shape == theirs.shape
            and np.allclose(mine, theirs, rtol=NUMBERS, atol=least)
        )
    return type(mine) is type(theirs) and mine == theirs


def _same_scores(agreed: FederationFile, ask: Ask, mine: Floats, theirs: Floats) -> bool:
    if mine.shape != theirs.shape or not np.isfinite(theirs).all():
        return False
    if np.array_equal(mine, theirs):
        return True
    problem = problem_of(agreed, ask)
    if problem.model.linear:
        assert problem.schema is not None
        encoder = encoder_of(problem.schema, ask.scalings)
        apart = (theirs - mine).reshape(-1, problem.model.outputs)
        if problem.model.outputs > 1:
            # What all classes have in common changes no probability.
            apart -= apart.mean(axis=1, keepdims=True)
        given = (problem.model, apart.ravel(), encoder)
        return largest_score(*given, named=True) <= SCORES and largest_score(*given) <= UNSEEN
    return np.allclose(mine, theirs, rtol=PARAMETERS, atol=PARAMETERS)
