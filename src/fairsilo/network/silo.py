"""One silo's answer to one question: a vector, of which only the sum over silos is used.

What is asked and how it is answered is the question's own (`fairsilo.question`). Here is what the
silo decides: whether it answers at all, which rows it has, and what differential privacy costs.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.dp import Budget, BudgetSpent, share
from fairsilo.fairness.constraint import count_cells
from fairsilo.network import audited
from fairsilo.network.audit_columns import Answers, columns_of
from fairsilo.network.audit_columns import audited as as_audited
from fairsilo.network.bounds import check_scores
from fairsilo.network.encoding import encoder_of
from fairsilo.network.federation_file import SET_UP, FederationFile
from fairsilo.network.ledger import count, privacy_conflict, same_table, spend
from fairsilo.network.own_models import load_memory, load_own, save_memory, save_own
from fairsilo.network.rows import digests_of, file_digest, split_rows, weightless_of
from fairsilo.network.settings import Settings
from fairsilo.network.signed import require_signatures
from fairsilo.network.table import read_rows
from fairsilo.network.units import remarks_of
from fairsilo.network.wire import Ask, Memory, Refusal
from fairsilo.predictor.base import HALF
from fairsilo.question import QUESTIONS, Evaluate, Part, Problem, Question, Silo, Unfit

AUDIT = "audit"
"""The purpose of a run that trains nothing."""
COST, REMARKS = "cost", "remarks"
"""Where `answer` leaves, in the silo's memory, what it cost and what the owner should know."""
OTHER_FILE = (
    "the server's federation file is not the one this silo agreed to (fingerprints differ): "
    "compare them with the coordinator"
)
ALWAYS = frozenset({"columns", "counts", "evaluate"})
"""Questions of every training."""
BEFORE = frozenset({"columns", "counts", "histogram", "noisy-columns", "noisy-histogram"})
"""Questions that come before there is an encoder."""
ALWAYS_PRIVATE = frozenset({"noisy-columns", "noisy-counts", "outcomes"})
"""Those of every training under differential privacy."""


def answer(settings: Settings, agreed: FederationFile, ask: Ask, memory: Memory) -> Floats:
    """The silo's vector, or a `Refusal`; any other error tells of rows and stays in the silo.

    Nothing is added to it afterwards: it leaves as it is or behind masks. What a silo does to its
    message for the sake of privacy, noise included, is done here.
    """
    _permit(settings, agreed, ask, memory)
    if agreed.witnesses and ask.purpose != AUDIT:
        require_signatures(agreed, ask)
    question = ask.question
    if not ask.encoded and question.kind not in BEFORE:
        raise Refusal(f"the question {ask.kind!r} needs an encoder, and there is none yet")
    try:
        problem = problem_of(agreed, ask)
        question.check(problem)
    except Unfit as error:
        raise Refusal(str(error)) from None
    check_scores(settings, agreed, problem, ask)
    _pin(memory, ask)
    if ask.purpose != AUDIT:
        # What is refused before this costs the training nothing.
        most = allowance(agreed, ask.question)
        if not count(settings.ledger, _training(settings, ask), ask.kind, most, ask.number):
            raise Refusal(f"a training is answered at most {most} questions of kind {ask.kind!r}")
    opened = _open(settings, agreed, ask, memory)
    audited.admit(settings, ask, opened.guarded)
    silo = opened.silo
    if ask.encoded and "compared" not in memory:
        memory["compared"] = True
        encoder = encoder_of(agreed.pooled_schema(cells_of(agreed, ask)), ask.scalings)
        memory[REMARKS] = [*opened.remarks, *remarks_of(encoder, silo.train.frame)]
    if agreed.dp is not None and question.private:
        return _private(settings, agreed, problem, ask, silo, memory)
    if agreed.dp is None and _too_small(settings, agreed, problem, ask, silo.train):
        return np.full(question.length(problem), np.nan)
    silo.own = load_own(settings, ask)
    known = load_memory(settings, ask)
    silo.memory = dict(known)
    try:
        vector = question.answer(problem, silo)
    except Unfit as error:
        raise Refusal(str(error)) from None
    except Exception as error:
        return _failed(agreed, question.length(problem), error)
    if silo.memory != known:
        save_memory(settings, ask, silo.memory)
    if silo.own is not None and ask.kind in agreed.asks:
        encoder = encoder_of(agreed.pooled_schema(cells_of(agreed, ask)), ask.scalings)
        posed = agreed.posed(encoder, cells_of(agreed, ask))
        save_own(settings, agreed, ask, posed, silo.own)
    audited.note_trained(settings, ask)
    return vector


def _failed(agreed: FederationFile, length: int, error: Exception) -> Floats:
    """A question may be such that it fails on some rows only: behind masks the sum alone tells."""
    if not agreed.secure_aggregation:
        raise error
    logging.getLogger("flwr").error("fairsilo: the question had no answer", exc_info=error)
    return np.full(length, np.nan)


def problem_of(agreed: FederationFile, ask: Ask) -> Problem:
    """What is trained, with the encoder and the groups that the server named."""
    cells = cells_of(agreed, ask)
    problem = agreed.problem(ask.scalings if ask.encoded else None, cells)
    if ask.purpose == AUDIT:
        return as_audited(agreed, problem)
    return replace(problem, rest=agreed.sets_aside)


def cells_of(agreed: FederationFile, ask: Ask) -> Ints | None:
    """The counts by which small groups are pooled; None where none are."""
    if not ask.cells.size:
        return None
    shape = (len(agreed.table.groups), len(agreed.table.classes))
    if ask.cells.size != np.prod(shape) or not np.isfinite(ask.cells).all():
        raise Unfit("the server's counts do not fit the federation file")
    return np.rint(ask.cells).astype(np.int64).reshape(shape)


def _private(
    settings: Settings,
    agreed: FederationFile,
    problem: Problem,
    ask: Ask,
    silo: Silo,
    memory: Memory,
) -> Floats:
    """The sums of the training rows that the question asks for, paid for, with noise.

    How much noise, how much of a row and how much a training may release is the federation file's,
    whose fingerprint the silos compared; how much in all is the silo's own settings'. No answer
    depends on an exact count of training rows: noise hides small cells.
    """
    messages = ask.question.messages(problem, silo)
    assert settings.dp_budget_epsilon is not None
    assert agreed.dp is not None
    budget = Budget(settings.dp_budget_epsilon, settings.dp_budget_delta)
    promise = Budget(agreed.dp.epsilon, agreed.dp.delta)
    try:
        releases = [message.release for message in messages]
        training, split = _training(settings, ask), agreed.split or ""
        spend(settings.ledger, budget, releases, training, promise, split)
    except BudgetSpent:
        raise Refusal(
            f"this answer would pass what the federation file promises of one training, "
            f"({promise.epsilon:g}, {promise.delta:g}), or the silo's own privacy budget for all "
            f"runs together, ({budget.epsilon:g}, {budget.delta:g}): its operator can raise "
            "dp_budget_epsilon"
        ) from None
    memory[COST] = sum(message.release.cost for message in messages)
    return np.concatenate([share(message, agreed.smallest_sum) for message in messages])


@dataclass(frozen=True, eq=False)
class _Opened:
    """A silo's rows as one question needs them, and by what they are known (`digests_of`)."""

    silo: Silo
    table: str
    guarded: str
    remarks: tuple[str, ...]
    """What the owner is told of the rows."""


_KEPT: dict[Any, tuple[Any, _Opened]] = {}
"""For each table the rows as they were last encoded, with what they were made from."""
_ROWS: dict[Any, tuple[Any, _Opened]] = {}
"""The same of rows that are not encoded."""


def _open(settings: Settings, agreed: FederationFile, ask: Ask, memory: Memory) -> _Opened:
    """The silo's rows; read and encoded once for as long as the file and the encoder stay."""
    cells = cells_of(agreed, ask)
    read_from = (file_digest(settings), agreed.fingerprint, ask.cells.tobytes())
    made_from = (*read_from, ask.encoded, ask.scalings.tobytes())
    place = (settings.name, settings.data, settings.query)
    before, opened = _KEPT.get(place, (None, None))
    if opened is None or before != made_from or made_from[0] is None:
        before, rows = _ROWS.get(place, (None, None))
        if rows is None or before != read_from or read_from[0] is None:
            rows = _read(settings, agreed, cells)
            _ROWS[place] = (read_from, rows)
        opened = _encoded(rows, agreed, ask, cells)
        _KEPT[place] = (made_from, opened)
    _unchanged(settings, agreed, ask, opened.table, memory)
    memory["guarded"] = opened.guarded
    shared = agreed.trains.shared or ask.purpose == AUDIT
    opened.silo.min_cell = settings.minimum_cell if shared else 0
    opened.silo.answers = columns_of(settings, agreed)
    return opened


def _read(settings: Settings, agreed: FederationFile, cells: Ints | None) -> _Opened:
    frame = read_rows(settings, agreed.table, agreed.split, agreed.weight)
    train, test = split_rows(frame, agreed, agreed.pooled_schema(cells))
    silo = Silo(train, test, index=agreed.names.index(settings.name))
    remarks = weightless_of(len(frame), train, test, agreed)
    return _Opened(silo, *digests_of(settings, frame, agreed), remarks)


def _encoded(rows: _Opened, agreed: FederationFile, ask: Ask, cells: Ints | None) -> _Opened:
    """The rows under the encoder that the server named, if any."""
    train, test = rows.silo.train, rows.silo.test
    if ask.encoded:
        encoder = encoder_of(agreed.pooled_schema(cells), ask.scalings)
        train, test = (replace(part, x=encoder.encode(part.frame)) for part in (train, test))
    return replace(rows, silo=Silo(train, test, index=rows.silo.index))


def keep_purpose(purpose: object, agreed: FederationFile, memory: Memory) -> None:
    """What a run is for stays what it was when it was first named, and the owner asked."""
    if purpose not in (agreed.method, AUDIT):
        raise Refusal(f"the federation file does not name the method {str(purpose)[:40]!r}")
    if memory.setdefault("purpose", str(purpose)) != purpose:
        raise Refusal("a run either trains or audits: its owner was asked for one of the two")


def _permit(settings: Settings, agreed: FederationFile, ask: Ask, memory: Memory) -> None:
    if ask.fingerprint != agreed.fingerprint:
        raise Refusal(OTHER_FILE)
    if settings.name not in agreed.names:
        raise Refusal("the federation file does not name this silo")
    if not settings.answers_for(ask.purpose):
        raise Refusal(f"this silo does not answer for {ask.purpose!r}")
    keep_purpose(ask.purpose, agreed, memory)
    if ask.purpose == AUDIT:
        _permit_audit(settings, agreed, ask.question)
    elif not _asked_for(agreed, ask.question):
        raise Refusal(f"the federation's method {agreed.method!r} has no question {ask.kind!r}")
    elif ask.number < 1 or not ask.training:
        raise Refusal("a training has a name, and its questions are numbered from 1")
    conflict = privacy_conflict(settings, agreed)
    if conflict:
        raise Refusal(conflict)
    if not agreed.secure_aggregation and not settings.plain:
        raise Refusal(
            "the federation file has no secure aggregation and this silo does not answer in the "
            "clear (plain = true in its settings would allow it)"
        )
    answers = int(memory.get("answers", 0))
    if answers >= settings.maximum_answers:
        raise Refusal(f"this silo gives at most {settings.maximum_answers} answers per run")
    memory["answers"] = answers + 1


def _asked_for(agreed: FederationFile, question: Question) -> bool:
    """Whether the federation's method asks this; every method may train without limits, too."""
    if getattr(question, "cut", HALF) != HALF and agreed.decide_at is None:
        return False
    if isinstance(question, Evaluate) and question.cuts.size and not agreed.spec.decides:
        return False
    if agreed.dp is not None and isinstance(question, Evaluate):
        return question.test_only
    if question.private != (agreed.dp is not None):
        return False
    if getattr(question, "fit", agreed.method) != agreed.method:
        return False
    always = ALWAYS if agreed.dp is None else ALWAYS_PRIVATE
    unlimited = not getattr(question, "limited", True)
    return question.kind in always or question.kind in agreed.asks or unlimited


def kinds_of(agreed: FederationFile) -> list[str]:
    """The kinds of questions that a training by this federation file asks."""
    private = agreed.dp is not None
    named = (ALWAYS_PRIVATE if private else ALWAYS) | agreed.asks
    return sorted({*(k for k in named if QUESTIONS[k].private == private), Evaluate.kind})


def _permit_audit(settings: Settings, agreed: FederationFile, question: Question) -> None:
    if not isinstance(question, Evaluate | Answers):
        raise Refusal("an audit asks for tallies only")
    if isinstance(question, Evaluate) and (not question.audit or question.scores == "both"):
        raise Refusal("an audit sees nothing of small cells")
    if agreed.dp is not None and not question.test_only:
        raise Refusal("under differential privacy an audit is of test rows only")
    if isinstance(question, Answers) and not question.named_by(settings):
        raise Refusal(
            "this silo's settings name no column with another model's answers "
            "(audit_predictions, audit_probability)"
        )


def _too_small(
    settings: Settings, agreed: FederationFile, problem: Problem, ask: Ask, train: Part
) -> bool:
    """Refuse with fewer rows than the owner demands, whatever is asked.

    True: groups are pooled by the server's word, and of counts of its choice only the sum tells.
    """
    if len(train) < settings.minimum_rows:
        raise Refusal(
            f"this silo has fewer training rows than it demands of itself ({settings.minimum_rows})"
        )
    cells = count_cells(train.y, train.s, *problem.shape)
    # AF's sums are over groups as such; with a constraint the silo leaves small cells out.
    pairs = problem.cell_pairs if agreed.trains.limits == "tau" else ()
    small = (p.c for p in pairs for g in (p.a, p.b) if 0 < cells[g, p.c] < settings.minimum_cell)
    if (of := next(small, None)) is None:
        return False
    few, name = settings.minimum_cell, agreed.table.classes[of]
    why = f"this silo has fewer than {few} training rows of a group in class {name!r}"
    if not ask.cells.size or not agreed.secure_aggregation:
        raise Refusal(why)
    logging.getLogger("flwr").error("fairsilo: %s", why)
    return True


def _unchanged(
    settings: Settings, agreed: FederationFile, ask: Ask, digest: str, memory: Memory
) -> None:
    """Refuse to go on with other rows (or another order of rows) than the training began with.

    Under differential privacy that would tell of a single row that came or went. The sums are then
    over other rows, which their noise and the ledger cover; only the silo's own log says so.
    """
    same = memory.setdefault("table", digest) == digest
    if ask.training:
        same &= same_table(settings.ledger, _training(settings, ask), digest)
    if not same and agreed.dp is None:
        raise Refusal(
            "the silo's table changed since the run began (a query needs ORDER BY): start again"
        )
    if not same:
        logging.getLogger("flwr").warning("fairsilo: the table changed since the run began")


def _training(settings: Settings, ask: Ask) -> str:
    """By what a silo knows a training again; two silos may keep one ledger."""
    return hashlib.sha256(f"{ask.training} {settings.name}".encode()).hexdigest()[:32]


def start_of(agreed: FederationFile, ask: Ask) -> Floats:
    """The point at which every training by this federation file starts."""
    return problem_of(agreed, ask).model.start(agreed.seed)


def allowance(agreed: FederationFile, question: Question) -> int:
    """How many questions of its kind a training is answered: twice what it asks undisturbed.

    Training goes on after a loss, and may end with a second one without limits.
    """
    if question.moving:
        return 2 * agreed.rounds * (agreed.trainings + 1)
    return 2 * (SET_UP + 3 * agreed.trainings)


def _pin(memory: Memory, ask: Ask) -> None:
    """Refuse a training, an encoder or pooled groups that differ from those the run began with,
    and a question from before the last one.

    Pairs of features may come once, after the curves are trained; the rest stays as it was.
    """
    if memory.setdefault("training", ask.training) != ask.training:
        raise Refusal("the server named another training within a run")
    last = int(memory.get("number", 0))
    if ask.number < last:
        raise Refusal(f"question {ask.number} comes after question {last} of the run")
    memory["number"] = ask.number
    if not ask.encoded:
        return
    scalings, cells = ask.scalings.tobytes(), ask.cells.tobytes()
    before = memory.setdefault("scalings", scalings)
    if before != scalings and "pairs" not in memory and scalings.startswith(before):
        memory["pairs"], memory["scalings"], before = True, scalings, scalings
    if before != scalings or memory.setdefault("cells", cells) != cells:
        raise Refusal("the server changed the encoder within a run")
