"""The run folder of a network run: the same files as `fairsilo train`, from sums alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairsilo.engine import numbers_down
from fairsilo.evaluate import Tally, cells_of, clients_of, summary
from fairsilo.evaluate.certificate import Names, certify
from fairsilo.evaluate.metrics import accuracy, deo, dgeo_pooled, largest, loss
from fairsilo.flower.charter import Charter
from fairsilo.flower.options import options_of
from fairsilo.flower.session import Finished
from fairsilo.flower.vectors import length_of
from fairsilo.method.base import Plain, Trained
from fairsilo.model import MODELS
from fairsilo.partition.federation import Federation
from fairsilo.run import Run
from fairsilo.run.gaps import constraint_gaps, gaps_of
from fairsilo.run.prepare import Prepared
from fairsilo.run.private import released_training, spent
from fairsilo.run.train import Training, ending, without_figures
from fairsilo.solver import SOLVERS, Status


def build_run(charter: Charter, finished: Finished, secure: bool) -> Run:
    """What `fairsilo.run.save` writes."""
    width = len(finished.encoder.feature_names)
    model = MODELS[charter.model](width, charter.shape[1])
    solver = SOLVERS[charter.solver]()
    constraints = len(charter.constraints)
    trained = Trained(
        (Plain(model, finished.outcome.theta),),
        finished.outcome,
        length_of("round", solver.order.value, charter, model.size),
        numbers_down(model.size, constraints),
        finished.notes,
    )
    prepared = _prepared(charter, finished, width)
    metrics = _metrics(charter, finished, prepared, secure)
    return Run(options_of(charter, charter.name), prepared, trained, metrics)


def _prepared(charter: Charter, finished: Finished, width: int) -> Prepared:
    """Everything but rows, which the server has none of."""
    groups, classes = charter.shape
    none = np.zeros(0, np.int64)
    empty = Federation(
        np.zeros((0, width)),
        none,
        none,
        np.zeros(len(finished.silos) + 1, np.int64),
        groups,
        classes,
    )
    return Prepared(
        schema=charter.table,
        encoder=finished.encoder,
        federation=empty,
        client_names=finished.silos,
        test_x=np.zeros((0, width)),
        test_y=none,
        test_s=none,
        constraints=charter.pairs,
        protected_class=charter.protected_class,
        groups=charter.groups,
        group_columns=(),
    )


def _metrics(
    charter: Charter, finished: Finished, prepared: Prepared, secure: bool
) -> dict[str, Any]:
    outcome, pairs, traffic = finished.outcome, charter.pairs, finished.traffic
    training, test = _training(charter, finished), finished.test.tally
    limit = charter.epsilon if charter.method in ("fedfair", "lco") else None
    names = Names(charter.table.groups, charter.table.classes)
    found = {
        "method": charter.method,
        "solver": "own" if charter.method == "af" else charter.solver,
        "model": charter.model,
        "estimator": {"lco": "local", "fedfair": charter.estimator}.get(charter.method),
        "notion": "equal-opportunity",
        "epsilon": limit,
        "target_deo": None,
        **({"tau": charter.epsilon} if charter.method == "af" else {}),
        "clients": len(finished.silos),
        "rounds": outcome.rounds,
        "rounds_before": 0,
        "converged": outcome.status is Status.CONVERGED,
        "reason": training.reason,
        "train": training.figures,
        "test": evaluated(charter, test),
        "constraints": constraint_gaps(prepared, limit, training.gaps, test),
        "constant": constant(charter, finished.totals.cells, test),
        "certificate": certify(finished.test, pairs, names, limit, by_silo=True),
        "bytes_up": traffic.up,
        "bytes_down": traffic.down,
        "setup_exchanges": finished.setup_exchanges,
        "seconds": finished.seconds,
        "notes": list(finished.notes),
        **(
            {}
            if finished.unconstrained is None
            else {"unconstrained": {"test": summary(finished.unconstrained, pairs)}}
        ),
        "by_client": training.by_client,
        "network": {
            "fingerprint": charter.fingerprint,
            "secure_aggregation": secure,
            "silos": list(finished.silos),
            "exchanges": traffic.exchanges,
            "rounds": [
                {"round": k + 1, "silos": len(entry.silos), "seconds": entry.seconds}
                for k, entry in enumerate(finished.rounds)
            ],
        },
    }
    if finished.ledger is not None:
        noise = "shared" if charter.secure_aggregation else "full"
        found["dp"] = spent(finished.ledger, noise, charter.smallest_sum)
    return without_figures(found) if outcome.status is Status.DIVERGED else found


def _training(charter: Charter, finished: Finished) -> Training:
    """What is said of the training rows: their tallies, or what was released of them."""
    pairs, outcome, tolerance = charter.pairs, finished.outcome, finished.tolerance
    if finished.train is None:
        assert finished.released is not None
        return released_training(
            finished.released, pairs, outcome, tolerance, finished.test.tally, charter.table
        )
    train = finished.train.tally
    mean = largest([finished.train.losses.mean(k) for k in range(len(pairs))])
    return Training(
        figures={
            "rows": int(train.counts.sum()),
            "loss": loss(train),
            "accuracy": accuracy(train),
            "deo": deo(train, pairs),
            "rate_gap": deo(train, pairs),
            "dgeo_mean": mean,
            "dgeo_pooled": dgeo_pooled(train, pairs),
        },
        by_client=clients_of(finished.by_silo, pairs),
        reason=ending(outcome, tolerance, train, charter.table.classes),
        gaps=[gaps_of(train, pair) for pair in pairs],
    )


def evaluated(charter: Charter, tally: Tally) -> dict[str, Any]:
    """Metrics and cells of some rows, from their tally."""
    return {
        "rows": int(tally.counts.sum()),
        **summary(tally, charter.pairs),
        "cells": cells_of([tally], charter.table.groups, charter.table.classes),
    }


def constant(charter: Charter, cells: np.ndarray, test: Tally) -> dict[str, float | None]:
    """Always the most frequent training class: what any model has to beat."""
    common = int(np.argmax(cells.sum(axis=0)))
    counts = np.zeros_like(test.counts)
    counts[:, :, common] = test.cells
    result = summary(Tally(counts, 0 * test.losses, 0 * test.squares), charter.pairs)
    result.pop("dgeo_pooled")
    return result
