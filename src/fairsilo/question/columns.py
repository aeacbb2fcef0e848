"""Sums of the numeric columns, from which the encoder is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.dp import Message, Release
from fairsilo.question.base import Noisy, Problem, Question, Silo
from fairsilo.question.plausible import (
    NOTHING,
    Known,
    negative_counts,
    other_rows,
    room,
    squares_too_small,
    whole_counts,
)

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
        sums = EncoderSums.of(silo.train.frame, problem.schema, silo.train.times(problem))
        return np.concatenate([[float(sums.rows)], sums.count, sums.total, sums.squares])

    def read(self, problem: Problem, vector: Floats) -> EncoderSums:
        """The sums by name."""
        from fairsilo.data.encoder import EncoderSums

        assert problem.schema is not None
        names = problem.schema.numbers
        count, total, squares = vector[1:].reshape(3, len(names))
        return EncoderSums(names, float(vector[0]), count, total, squares)

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """A column has at most as many values as rows, and squares that its sum allows."""
        count, total, squares = vector[1:].reshape(3, -1)
        weighted = problem.weighted
        if (count > vector[0] + room(vector[0], weighted)).any():
            return "a column has more values than rows"
        counts = np.concatenate([vector[:1], count])
        return (
            (negative_counts(counts, weighted) if weighted else whole_counts(counts))
            or squares_too_small(count, total, squares)
            or other_rows(vector[0], known, weighted)
        )


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

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """Every row adds at most one to each sum, beside noise."""
        from fairsilo.data.bounded import sensitivity

        assert problem.schema is not None
        assert problem.promise is not None
        noise = known.noise(sensitivity(problem.schema), problem.promise.plan.encoder)
        rows, (missing, total, squares) = vector[0], vector[1:].reshape(-1, 3).T
        beyond = max((-missing).max(initial=0.0), (-squares).max(initial=0.0), -rows) > noise
        most = np.abs([missing, total, squares]).max(initial=0.0)
        if beyond or most > max(rows, 0.0) + 2 * noise:
            return "sums within declared bounds are larger than noise and the rows allow"
        return ""
