"""The network as an engine: a question goes to the silos, the sum of their answers comes back.

Methods are those of the simulation. A silo that gives no usable answer is left out from then on:
the rows of the others are counted again, the weights follow from the new counts, and the solver
starts afresh from the point it stood on, because sums under old and new weights do not compare.
Sums of the encoder stay as they are: an encoder is any fixed scaling, and the optimum does not
depend on it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.data.schema import Schema
from fairsilo.engine.base import Changed, answers, at_rest
from fairsilo.engine.loop import drive
from fairsilo.errors import FairSiloError
from fairsilo.evaluate import Tally
from fairsilo.fairness.constraint import Totals
from fairsilo.network.aggregate import Aggregate, Collected
from fairsilo.network.encoding import scalings_of
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.journal import Entry, Journal
from fairsilo.network.lies import Earlier
from fairsilo.network.transport import Traffic, need
from fairsilo.network.wire import Ask
from fairsilo.predictor import Predictor
from fairsilo.progress import round_event
from fairsilo.question import Counts, Evaluate, Problem, Question
from fairsilo.run.problem import Posed
from fairsilo.solver import Outcome, Record, Watch

Say = Callable[[dict[str, Any]], None]


def phase_of(question: Question) -> str:
    """The part of a run to which a question belongs."""
    if question.kind in ("evaluate", "outcomes"):
        return "evaluation"
    return "rounds" if question.moving else "set-up"


def _digest(theta: Floats) -> bytes:
    return hashlib.sha256(theta.tobytes()).digest()


class Network:
    """Silos far away. `say` is told of everything that happens, as it happens."""

    min_cell: int | None = None

    def __init__(
        self,
        agreed: FederationFile,
        gather: Aggregate,
        journal: Journal,
        silos: Sequence[str],
        say: Say,
    ) -> None:
        self.agreed, self.gather, self.journal, self.say = agreed, gather, journal, say
        self.silos = tuple(silos)
        self.entries: list[Entry] = []
        self.notes: list[str] = list(journal.interruptions)
        self.number = 0
        self.told = 0
        """How many entries belong to rounds that were told of."""
        self.expected = 0
        """How many questions come before the rounds; 0: nobody knows."""
        self.history = ""
        self.posed: Posed | None = None
        self.cells: Floats = np.zeros(0)
        self.theta: Floats = np.zeros(0)
        """The point of the last question that has one."""
        self.opened: dict[bytes, tuple[str, ...]] = {}
        """By point, over whom sums of a training were opened there first."""
        self._totals: dict[tuple[bool, bool], Totals] = {}
        """By whether rows are set aside, and whether each counts as one."""
        self.earlier = Earlier(agreed)

    @property
    def clients(self) -> int:
        """How many silos are left."""
        return len(self.silos)

    def own(self) -> tuple[Predictor, ...]:
        """None: silos show their own models to nobody."""
        return ()

    def regroup(self, schema: Schema, cells: Ints, index: Ints) -> None:
        """Small groups are pooled by these counts, which every question now carries."""
        self.cells = cells.astype(np.float64).ravel()

    def learn(self, posed: Posed) -> None:
        """The encoder is fitted: every question now carries its numbers."""
        self.posed = posed

    def count(self, problem: Problem, unweighted: bool = False) -> Totals:
        """The counts of the silos that are left, asked for once."""
        key = (problem.rest, unweighted and problem.weighted)
        if key not in self._totals:
            assert self.posed is not None
            whole = replace(problem, constraints=self.posed.constraints)
            self._totals[key] = self.ask(whole, Counts(*key))
        totals = self._totals[key]
        return totals if problem.constraints else replace(totals, taking_part=np.zeros(0, np.int64))

    def ask(self, problem: Problem, question: Question) -> Any:
        """A sum over the silos: from the journal where the run was interrupted, else asked for."""
        while True:
            point = getattr(question, "theta", None)
            if point is not None:
                self.theta = point
            vector = self._sum(problem, question)
            if vector is not None and question.moving and point is not None:
                self.opened.setdefault(_digest(point), self.silos)
            if vector is not None:
                break
            if not (question.additive and self._allows(self.theta)):
                raise Changed(self._start(problem) if self.gather.secure else None)
            # Silos open sums of a training over those whose rows were counted together.
            self.count(problem)
        cells = self._known_cells()
        self.earlier.judge(problem, question, self.number, self.silos, vector, cells)
        return question.read(problem, self.journal.beside(self.number, vector))

    def _allows(self, theta: Floats) -> bool:
        """Whether the silos that are left answer for this point: behind masks, sums at one that
        others answered for, too, would show what those hold."""
        return not self.gather.secure or self.opened.get(_digest(theta), self.silos) == self.silos

    def _start(self, problem: Problem) -> Floats:
        """Where every training starts: what is opened there is guarded with the counts."""
        return replace(problem.model, begin=None).start(self.agreed.seed)

    def noise(self, problem: Problem) -> float:
        """None."""
        return 0.0

    def solve(self, problem: Problem, watch: Watch | None = None) -> Outcome:
        """Drive the solver; after a loss, again with the silos left."""
        theta, records = problem.start, list[Record]()
        if not self._allows(theta):
            theta = self._start(problem)
        answer = answers(self, problem)

        def note(number: int, record: Record) -> None:
            nonlocal theta
            if not records or float(record.step) > 0:
                theta = self.theta
            records.append(record)
            if watch:
                watch(len(records), record)

        while True:
            left = max(problem.rounds - len(records), 1)
            try:
                ended = drive(
                    problem.solver, answer, theta, problem.limits, left, note, problem.penalty
                )
                break
            except Changed as change:
                theta = change.onward(theta, self.theta)
        history = Record.stacked(records)
        return at_rest(problem, replace(ended, rounds=len(records), history=history))

    def watch(self, number: int, record: Record) -> None:
        """Tell of a round."""
        own, self.told = self.entries[self.told :], len(self.entries)
        sent = sum((entry.traffic for entry in own), Traffic())
        seconds = sum(entry.seconds for entry in own)
        silos = len(self.entries[-1].silos)
        about = {"silos": silos, "seconds": seconds, "up": sent.up, "down": sent.down}
        self.say({**round_event(number, record), **about, "phase": "rounds"})

    def by_silo(self, problem: Problem) -> dict[str, Tally]:
        """Every silo's own training rows, where the server sees its last evaluation."""
        whole = Evaluate(np.zeros(0), scores="test")
        seen = {name: whole.read(problem, part)[0] for name, part in self.entries[-1].parts.items()}
        return {name: one.tally for name, one in seen.items() if one is not None}

    def _sum(self, problem: Problem, question: Question) -> Floats | None:
        """The sum, or None where a silo was lost and the sum is of no use."""
        kind = question.kind
        phase = phase_of(question)
        entry = self.journal.replay()
        if entry is None:
            number = self.number + 1
            of = {"of": self.expected} if phase == "set-up" and number <= self.expected else {}
            about = {"kind": kind, "number": number, "phase": phase, **of}
            self.say({"event": "asking", "silos": self.silos, **about})
            entry = self._ask(problem, question)
            sent = {"up": entry.traffic.up, "down": entry.traffic.down, "seconds": entry.seconds}
            self.say({"event": "asked", "silos": entry.silos, **about, **sent})
        elif entry.kind != kind:
            raise FairSiloError("the journal does not fit this run: run without `resume`")
        else:
            self.say({"event": "replayed", "kind": kind, "number": entry.number, "phase": phase})
        self.entries.append(entry)
        if phase == "set-up":
            self.told = len(self.entries)
        for name, seconds in sorted(entry.waited.items()):
            self.notes.append(
                f"silo {name} was lost for {seconds:.0f} s ({kind} question {entry.number}) and "
                "came back: the run waited for it"
            )
        self.number, self.silos = entry.number, entry.silos
        if entry.lost:
            self._totals.clear()
        for name, why in sorted(entry.lost.items()):
            after = (
                f"the evaluation is over the other {len(entry.silos)}"
                if kind == "evaluate"
                else f"training went on with the other {len(entry.silos)}, weights taken anew from "
                "their rows"
            )
            self.notes.append(f"silo {name} {why} ({kind} question {entry.number}); {after}")
            self.say({"event": "lost", "silo": name, "why": why})
        if entry.vector is not None:
            parts = (
                self.history,
                str(entry.number),
                kind,
                *entry.silos,
                entry.vector.tobytes().hex(),
            )
            self.history = hashlib.sha256("|".join(parts).encode()).hexdigest()
        return entry.vector

    def _ask(self, problem: Problem, question: Question) -> Entry:
        agreed, started = self.agreed, time.monotonic()
        encoded = self.posed is not None
        ask = Ask(
            question,
            number=self.number + 1,
            fingerprint=agreed.fingerprint,
            purpose=agreed.method,
            encoded=encoded,
            scalings=scalings_of(self.posed.encoder) if self.posed is not None else np.zeros(0),
            cells=self.cells,
            training=self.journal.training,
            history=self.history,
        )
        self._before(problem, question)
        before = replace(self.gather.traffic)
        collected = self.gather.collect(ask, self.silos, question.length(problem))
        self._after(collected)
        lost = {name: fault.why for name, fault in collected.faults.items()}
        need(collected.silos, agreed.minimum_silos, collected.faults)
        self.earlier.judge_each(problem, question, ask.number, collected.parts)
        self._refuse_loss(question, lost)
        partial = bool(lost) and question.moving and agreed.dp is None
        shown = question.kind == "evaluate" and agreed.dp is None
        entry = Entry(
            kind=question.kind,
            number=ask.number,
            silos=collected.silos,
            seconds=time.monotonic() - started,
            lost=lost,
            waited=dict(self.gather.patience.waited),
            traffic=self.gather.traffic.since(before),
            vector=None if partial else collected.vector,
            parts=collected.parts if shown else {},
        )
        self.journal.append(entry)
        return entry

    def _known_cells(self) -> Ints | Floats | None:
        """The counts of the silos that are left, as far as they are known."""
        counted = self._totals.get((False, False))
        return None if counted is None else counted.cells

    def _before(self, problem: Problem, question: Question) -> None:
        """Hook: private runs charge the ledger here."""

    def _after(self, collected: Collected) -> None:
        """Hook: what a private run's witness is told of the ledger."""

    def _refuse_loss(self, question: Question, lost: dict[str, str]) -> None:
        """Stop where going on without a silo would show what it holds."""
        shown = self.gather.secure and len(lost) == 1 and not self.agreed.recount
        if question.moving and shown:
            name, why = next(iter(lost.items()))
            raise FairSiloError(
                f"silo {name} {why}, and counting rows again without it would show its counts to "
                "the server, which the federation file does not allow: use `resume` when it is back"
            )

    def note_absent(self) -> None:
        """Say who was not there from the beginning."""
        first = self.entries[0]
        for name in self.agreed.names:
            if name not in first.silos and name not in first.lost:
                self.notes.append(
                    f"silo {name} was not connected when the run began and took no part in it"
                )

    @property
    def traffic(self) -> Traffic:
        """Of all questions, those before an interruption included."""
        return sum((entry.traffic for entry in self.entries), Traffic())
