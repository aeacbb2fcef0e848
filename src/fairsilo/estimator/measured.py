"""A fit measured on rows that are given later: the run folder, the report and the card of it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import Table
from fairsilo.estimator.fitted_state import Kept
from fairsilo.method import Trained
from fairsilo.partition.federation import Federation
from fairsilo.run.measure import Seen, Training, bytes_sent, measure, setup_questions
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared
from fairsilo.run.problem import Posed, plan
from fairsilo.run.tallies import test_evidence
from fairsilo.run.train import Run

GIVEN = (
    "the test rows are those that were given to be measured: if training saw some of them, the "
    "model looks better than it is"
)


@dataclass(frozen=True, eq=False)
class Told:
    """What is known of a fit without its rows; it can be pickled."""

    options: Options
    posed: Posed
    trained: Trained
    """Without its models, which `Kept` has."""
    training: Training
    clients: tuple[str, ...]
    seconds: float

    @classmethod
    def of(
        cls,
        options: Options,
        prepared: Prepared,
        trained: Trained,
        training: Training,
        seconds: float,
    ) -> Told:
        """Of a finished training."""
        posed = Posed(**{one.name: getattr(prepared, one.name) for one in fields(Posed)})
        bare = replace(trained, predictors=())
        return cls(options, posed, bare, training, prepared.client_names, seconds)

    def run(
        self,
        kept: Kept,
        x: Table,
        y: Ints,
        s: Ints,
        client: Ints | None,
        weight: Floats | None,
        dp: dict[str, Any] | None,
        terms: list[dict[str, Any]],
    ) -> Run:
        """The run whose test rows these are."""
        members, posed = tuple(kept.committee().members), self.posed
        trained = replace(self.trained, predictors=members)
        shape = len(posed.schema.groups), len(posed.schema.classes)
        none = Federation(x[:0], y[:0], s[:0], np.zeros(1, np.int64), *shape)
        tested = Prepared(
            **vars(posed),
            federation=none,
            client_names=self.clients,
            test_x=x,
            test_y=y,
            test_s=s,
            test_client=client,
            test_weight=weight,
        )
        problem = plan(self.options, posed)
        setup = setup_questions(self.options, posed, problem)
        seen = Seen(
            self.training,
            [test_evidence(tested, one, self.options.seed) for one in members],
            len(self.clients),
            {**bytes_sent(trained, 0, False), "setup_exchanges": setup},
            client is not None,
            # Whoever calls may give rows of fit.
            unseen=False,
        )
        metrics = measure(self.options, posed, problem, trained, seen, self.seconds)
        metrics["notes"].append(GIVEN)
        if dp is not None:
            metrics["dp"] = dp
        return Run(self.options, posed, self.clients, trained, metrics, terms)
