"""Sums that no rows could give stop a run, with a sentence that names who took part.

Behind masks that is everybody; in the clear each silo's own answer is looked at, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fairsilo.arrays import Floats, Ints
from fairsilo.dp import deviation
from fairsilo.errors import FairSiloError
from fairsilo.network.federation_file import FederationFile
from fairsilo.question import Columns, Counts, Problem, Question
from fairsilo.question.plausible import Known


class Earlier:
    """What the silos said before, by which their next answers are judged."""

    def __init__(self, agreed: FederationFile) -> None:
        self.agreed = agreed
        self.encoded: float | None = None
        self.rows: dict[tuple[str, ...], float] = {}
        """The training rows of some silos together."""

    def known(self, silos: Sequence[str], cells: Ints | Floats | None) -> Known:
        """Of the sum over these silos."""
        count, smallest = len(silos), self.agreed.smallest_sum

        def noise(reach: float, multiplier: float) -> float:
            return deviation(reach, multiplier, count, smallest)

        return Known(
            rows=self.rows.get(tuple(silos)),
            cells=cells,
            encoded=self.encoded,
            silos=count,
            deviation=None if self.agreed.dp is None else noise,
        )

    def judge(
        self,
        problem: Problem,
        question: Question,
        number: int,
        silos: Sequence[str],
        vector: Floats,
        cells: Ints | Floats | None = None,
    ) -> None:
        """Refuse a sum that cannot be right; note what later answers must agree with."""
        known = self.known(silos, cells)
        refuse_implausible(question, problem, vector, known, number, silos)
        self._note(question, tuple(silos), vector)
        if isinstance(question, Columns):
            self.encoded = float(vector[0])

    def judge_each(
        self, problem: Problem, question: Question, number: int, parts: Mapping[str, Floats]
    ) -> None:
        """The same of each silo's own answer, where the server sees it."""
        for name, part in parts.items():
            known = replace(self.known((name,), None), alone=True)
            refuse_implausible(question, problem, part, known, number, (name,))
            self._note(question, (name,), part)

    def _note(self, question: Question, silos: tuple[str, ...], vector: Floats) -> None:
        counts = isinstance(question, Counts) and not (question.rest or question.unweighted)
        if counts or isinstance(question, Columns):
            self.rows[silos] = float(vector[0])


def refuse_implausible(
    question: Question,
    problem: Problem,
    vector: Floats,
    known: Known,
    number: int,
    silos: Sequence[str],
) -> None:
    """Stop with a sentence where no rows could give this."""
    wrong = question.implausible(problem, vector, known)
    if wrong:
        raise FairSiloError(
            f"the silos' answers to question {number} ({question.kind}) cannot be right: "
            f"{wrong}; {', '.join(silos)} took part"
        )
