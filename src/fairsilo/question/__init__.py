"""Questions: what silos are asked, how they answer from their rows, what the sum means."""

from fairsilo.question.base import QUESTIONS, Part, Problem, Question, Silo, Unfit
from fairsilo.question.cells import Cells, NoisyCounts, Outcomes
from fairsilo.question.columns import Columns, NoisyColumns
from fairsilo.question.counts import Counts
from fairsilo.question.crossings import Crossings
from fairsilo.question.evaluate import Evaluate
from fairsilo.question.histogram import Histogram, NoisyHistogram
from fairsilo.question.local import Local
from fairsilo.question.plausible import NOTHING, Known
from fairsilo.question.round import Round

__all__ = [
    "NOTHING",
    "QUESTIONS",
    "Cells",
    "Columns",
    "Counts",
    "Crossings",
    "Evaluate",
    "Histogram",
    "Known",
    "Local",
    "NoisyColumns",
    "NoisyCounts",
    "NoisyHistogram",
    "Outcomes",
    "Part",
    "Problem",
    "Question",
    "Round",
    "Silo",
    "Unfit",
]
