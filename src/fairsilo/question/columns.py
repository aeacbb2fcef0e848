"""Sums of the numeric columns, from which the encoder is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.dp import Message, Release
from fairsilo.question.base import Noisy, Problem, Question, Silo

if TYPE_CHECKING:
    from fairsilo.data.encoder import EncoderSums


class Columns(Question, kind="columns", additive=True):
    """Rows, then count, sum and sum of squares of every numeric column."""

    def length(self, problem: Problem) -> int:
        """One, and three for every numeric column."""
        assert problem.schema is not None
        return 1 + 3 * len(problem.schema.numbers)

    def answer(self, problem: Problem, silo: Silo) -> Floats:
        """Of the silo's training rows."""
        from fairsilo.data.encoder import EncoderSums

        assert problem.schema is not None
        sums = EncoderSums.of(silo.train.frame, problem.schema)
        return np.concatenate([[float(sums.rows)], sums.count, sums.total, sums.squares])

    def read(self, problem: Problem, vector: Floats) -> EncoderSums:
        """The sums by name."""
        from fairsilo.data.encoder import EncoderSums

        assert problem.schema is not None
        names = problem.schema.numbers
        count, total, squares = vector[1:].reshape(3, len(names))
        return EncoderSums(names, round(vector[0]), count, total, squares)

    def implausible(self, problem: Problem, vector: Floats) -> str:
        """A column has at most as many values as rows, and no negative squares."""
        count, _, squares = vector[1:].reshape(3, -1)
        if (count < -0.5).any() or (count > vector[0] + 0.5).any() or (squares < 0).any():
            return "a column has more values than rows, or a negative sum of squares"
        return ""


class NoisyColumns(Noisy, kind="noisy-columns", additive=True):
    """Rows, and of every numeric column missing cells, sum and squares within its bounds."""

    def length(self, problem: Problem) -> int:
        """One, and three for every numeric column."""
        assert problem.schema is not None
        return 1 + 3 * len(problem.schema.numbers)

    def messages(self, problem: Problem, silo: Silo) -> Sequence[Message]:
        """One message."""
        from fairsilo.data.bounded import encoder_message

        assert problem.schema is not None
        assert problem.promise is not None
        return [encoder_message(silo.train.frame, problem.schema, problem.promise.plan)]

    def releases(self, problem: Problem) -> list[Release]:
        """One release."""
        assert problem.promise is not None
        return [Release("encoder", problem.promise.plan.encoder)]

    def read(self, problem: Problem, vector: Floats) -> Floats:
        """The sums, for `data.bounded.encoder_of_sums`."""
        return vector
