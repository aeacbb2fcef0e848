"""A training run over silos: set-up exchanges, the solver's rounds, and what becomes of faults.

The solver and its loop are those of the simulation; this is only the `answer` that they ask. A
silo that gives no usable answer is left out from then on: the rows of the others are counted
again, the weights follow from the new counts, and the solver starts afresh from the point it
stood on, because sums under old and new weights do not compare. Sums of the encoder stay as they
are: an encoder is any fixed scaling, and the optimum does not depend on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.compute import jax
from fairsilo.data.encoder import Encoder, EncoderSums
from fairsilo.dp import Ledger
from fairsilo.engine import Outcome
from fairsilo.engine.loop import drive
from fairsilo.errors import FairSiloError
from fairsilo.evaluate import Tally
from fairsilo.evaluate.evidence import Evidence
from fairsilo.fairness.constraint import Totals, check_defined
from fairsilo.flower.agnostic_silo import KINDS as AGNOSTIC
from fairsilo.flower.agnostic_silo import agnostic_length
from fairsilo.flower.charter import Charter
from fairsilo.flower.gather import Gather
from fairsilo.flower.journal import Entry, Journal
from fairsilo.flower.network import unflatten
from fairsilo.flower.post import Traffic, need
from fairsilo.flower.vectors import evidence_from_vector, length_of, totals_from_vector
from fairsilo.flower.wire import Ask
from fairsilo.model import MODELS
from fairsilo.model.base import Model
from fairsilo.run.private import Released
from fairsilo.solver import SOLVERS, Order, Query, Record, Sums

ROUNDS = ("round", "theta", "attack", "local")
"""The kinds of questions whose sums belong to a point: all silos answer, or they are no use."""
SET_UP = ("encoder", "totals", "columns")
"""Those that come before the rounds, or again after a loss."""
UNLIMITED = 1e9
"""A limit on DGEO that no model reaches."""
Say = Callable[[dict[str, Any]], None]


class Lost(Exception):
    """A silo was lost within a round: count again, then go on with the others."""


@dataclass(frozen=True, eq=False)
class Finished:
    """All that the server knows at the end."""

    encoder: Encoder
    totals: Totals
    outcome: Outcome
    train: Evidence | None
    """None under differential privacy, where `released` is all that is known."""
    test: Evidence
    silos: tuple[str, ...]
    by_silo: dict[str, Tally]
    """Every silo's own training rows, where the server sees its sums."""
    unconstrained: Tally | None
    """The test rows under a model without the constraints, where that was asked for."""
    rounds: tuple[Entry, ...]
    traffic: Traffic
    """Of all questions, those before an interruption included."""
    setup_exchanges: int
    notes: tuple[str, ...]
    seconds: float
    tolerance: float
    """What counts as converged."""
    released: Released | None = None
    ledger: Ledger | None = None
    """What a private run released."""


class Session:
    """One run. `say` is told of everything that happens, as it happens."""

    def __init__(
        self,
        charter: Charter,
        gather: Gather,
        journal: Journal,
        silos: Sequence[str],
        say: Say,
    ) -> None:
        self.charter, self.gather, self.journal, self.say = charter, gather, journal, say
        self.silos = tuple(silos)
        self.constraints = len(charter.constraints)
        self.epsilon = np.full(self.constraints, charter.epsilon)
        self.entries: list[Entry] = []
        self.records: list[Record] = []
        self.notes: list[str] = []
        self.number = 0
        self.width = 0
        self.scalings: Floats = np.zeros(0)
        self.totals: Floats = np.zeros(0)
        self.points: Floats = np.zeros(0)
        self.columns = 0
        self.asked: Floats = np.zeros(0)
        self.theta: Floats = np.zeros(0)
        self.tolerance = SOLVERS[charter.solver]().tolerance

    def train(self, baseline: bool = False) -> Finished:
        """Fit the encoder, count, train, evaluate; `baseline`: again without the constraints."""
        charter = self.charter
        encoder = self._fit_encoder()
        self._note_absent()
        totals = self._count()
        model = MODELS[charter.model](len(encoder.feature_names), charter.shape[1])
        self.width, self.theta = model.size, model.start(charter.seed)
        outcome, totals = self.solve(encoder, model, totals)
        self._note_small(totals)
        train, test = self._evaluate(outcome)
        evaluated = self.entries[-1]
        rounds = tuple(e for e in self.entries if e.kind in ROUNDS and e.vector is not None)
        free = None
        if baseline and self.constraints:
            kept, self.records = self.records, []
            self.theta, self.epsilon = outcome.theta, np.full(self.constraints, UNLIMITED)
            free = self._evaluate(self.solve(encoder, model, totals)[0])[1].tally
            self.records = kept
        return Finished(
            encoder=encoder,
            totals=totals,
            outcome=outcome,
            train=train,
            test=test,
            silos=evaluated.silos,
            by_silo={
                name: evidence_from_vector(part, charter)[0].tally
                for name, part in evaluated.parts.items()
            },
            unconstrained=free,
            rounds=rounds,
            traffic=sum((e.traffic for e in self.entries), Traffic()),
            setup_exchanges=sum(e.traffic.exchanges for e in self.entries if e.kind in SET_UP),
            notes=tuple(self.notes),
            seconds=sum(e.seconds for e in self.entries),
            tolerance=self.tolerance,
        )

    def _evaluate(self, outcome: Outcome) -> tuple[Evidence | None, Evidence]:
        vector = self._sum("evaluate", theta=np.asarray(outcome.theta))
        return evidence_from_vector(vector, self.charter)

    def solve(self, encoder: Encoder, model: Model, totals: Totals) -> tuple[Outcome, Totals]:
        """Drive the solver; after a loss, again from where it stood with the silos left."""
        charter = self.charter
        solver = SOLVERS[charter.solver]()
        while True:
            left = max(charter.rounds - len(self.records), 1)
            try:
                ended = drive(solver, self.answer, self.theta, self.epsilon, left, self._watch)
                break
            except Lost:
                if self.gather.secure:
                    # Sums at a point that all silos answered for would, asked for again without
                    # one of them, show that one's part.
                    self.theta = self.asked
                totals = self._count()
        history: Record = jax.tree.map(lambda *leaves: np.stack(leaves), *self.records)
        return Outcome(ended.theta, ended.status, len(self.records), history), totals

    def answer(self, query: Query, order: Order) -> Sums:
        """What the solver asks for: the sum over all silos, or `Lost`."""
        self.asked = np.asarray(query.theta)
        mu = np.asarray(query.mu)
        vector = self._sum("round", order=order.value, theta=self.asked, mu=mu)
        return unflatten(vector, order, self.width, self.constraints)

    def _fit_encoder(self) -> Encoder:
        vector = self._sum("encoder")
        names = self.charter.table.numbers
        count, total, squares = vector[1:].reshape(3, len(names))
        sums = EncoderSums(names, round(vector[0]), count, total, squares)
        return self._keep(Encoder.fit(self.charter.table, sums))

    def _keep(self, encoder: Encoder) -> Encoder:
        """Remember the encoder in the form in which the silos are told."""
        rows = [[s.mean, s.scale, float(s.missing)] for s in encoder.scalings]
        self.scalings = np.array(rows, np.float64).reshape(-1)
        return encoder

    def _note_absent(self) -> None:
        first = self.entries[0]
        for name in self.charter.names:
            if name not in first.silos and name not in first.lost:
                self.notes.append(
                    f"silo {name} was not connected when the run began and took no part in it"
                )

    def _note_small(self, totals: Totals) -> None:
        """How many silos leave cells out: which ones, and of how many rows, is theirs to know."""
        if self.charter.dp is not None or self.charter.method not in ("fedfair", "lco"):
            return
        few = len(self.silos) - int(totals.taking_part.min())
        if few:
            self.notes.append(
                f"{few} of {len(self.silos)} silos have no rows, or fewer than they demand of "
                "themselves, in one of the constrained cells and leave its rows out of the "
                "constraint"
            )

    def _count(self) -> Totals:
        charter = self.charter
        self.totals = self._sum("totals")
        totals = totals_from_vector(self.totals, charter)
        if np.count_nonzero(totals.cells.sum(axis=0)) < 2:
            raise FairSiloError(
                "the silos' training rows are all of one class: give rows of at least two classes"
            )
        if charter.method in ("fedfair", "lco"):
            check_defined(
                charter.pairs,
                "local" if charter.method == "lco" else charter.estimator,
                totals,
                charter.table.groups,
                charter.table.classes,
            )
        return totals

    def _sum(
        self, kind: str, *, order: str = "", theta: Floats | None = None, mu: Floats | None = None
    ) -> Floats:
        """A sum over the silos: from the journal where the run was interrupted, else asked for."""
        entry = self.journal.replay()
        if entry is None:
            entry = self._ask(kind, order, np.zeros(0) if theta is None else theta, mu)
        elif entry.kind != kind:
            raise FairSiloError("the journal does not fit this run: run without --resume")
        else:
            self.say({"event": "replayed", "kind": kind, "number": entry.number})
        self.entries.append(entry)
        self.number, self.silos = entry.number, entry.silos
        for name, why in sorted(entry.lost.items()):
            after = (
                f"the evaluation is over the other {len(entry.silos)}"
                if kind == "evaluate"
                else f"training went on with the other {len(entry.silos)}, weights taken anew from "
                "their rows"
            )
            self.notes.append(f"silo {name} {why} ({kind} question {entry.number}); {after}")
            self.say({"event": "lost", "silo": name, "why": why})
        if entry.vector is None:
            raise Lost
        return entry.vector

    def _ask(self, kind: str, order: str, theta: Floats, mu: Floats | None) -> Entry:
        charter, started = self.charter, time.monotonic()
        ask = Ask(
            kind=kind,
            number=self.number + 1,
            fingerprint=charter.fingerprint,
            purpose=charter.method,
            order=order,
            scalings=self.scalings,
            totals=self.totals if kind in ("round", "local") else np.zeros(0),
            theta=theta,
            mu=np.zeros(0) if mu is None else mu,
            points=self.points if kind in ("theta", "attack") else np.zeros(0),
            training=self.journal.training,
        )
        length = (
            agnostic_length(kind, self.width, self.columns)
            if kind in AGNOSTIC
            else length_of(kind, order, charter, self.width)
        )
        self._before(kind, order)
        before = replace(self.gather.traffic)
        collected = self.gather.collect(ask, self.silos, length)
        lost = {name: fault.why for name, fault in collected.faults.items()}
        need(collected.silos, charter.minimum_silos, collected.faults)
        self._refuse_loss(kind, lost)
        partial = bool(lost) and kind in ROUNDS and charter.dp is None
        entry = Entry(
            kind=kind,
            number=ask.number,
            silos=collected.silos,
            seconds=time.monotonic() - started,
            lost=lost,
            traffic=self.gather.traffic.since(before),
            vector=None if partial else collected.vector,
            parts=collected.parts if kind == "evaluate" and charter.dp is None else {},
        )
        self.journal.append(entry)
        return entry

    def _before(self, kind: str, order: str) -> None:
        """What is done before a question leaves: nothing."""

    def _refuse_loss(self, kind: str, lost: dict[str, str]) -> None:
        """Stop where going on without a silo would show what it holds."""
        shown = self.gather.secure and len(lost) == 1 and not self.charter.recount
        if kind in ROUNDS and shown:
            name, why = next(iter(lost.items()))
            raise FairSiloError(
                f"silo {name} {why}, and counting rows again without it would show its counts to "
                "the server, which the federation file does not allow: use --resume when it is back"
            )

    def _watch(self, number: int, record: Record) -> None:
        """After every step: remember it, and where the solver stands if it took the step."""
        if not self.records or float(record.step) > 0:
            self.theta = self.asked
        self.records.append(record)
        d = np.asarray(record.d)
        entry = self.entries[-1]
        self.say(
            {
                "event": "round",
                "round": len(self.records),
                "loss": float(record.loss),
                "d": float(np.abs(d).max()) if d.size else None,
                "residual": float(record.residual),
                "silos": len(entry.silos),
                "seconds": entry.seconds,
            }
        )
