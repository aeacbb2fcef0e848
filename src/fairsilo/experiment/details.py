"""Who pays for a model, and what training it sent: what the pages of compare and sweep show."""

from __future__ import annotations

from fairsilo.evaluate import Tally, clients_of
from fairsilo.experiment.endings import RATE
from fairsilo.method import Trained
from fairsilo.run.prepare import Prepared
from fairsilo.run.train import bytes_sent, tallies_of_clients
from fairsilo.solver import Agp, Solver


def group_rates(prepared: Prepared, tally: Tally) -> dict[str, float]:
    """For each compared group, the share of its protected-class rows that is recognised."""
    schema = prepared.schema
    protected = schema.classes.index(prepared.protected_class)
    rows = [schema.groups.index(name) for name in prepared.groups]
    return {
        f"{RATE}{schema.groups[row]}": float(
            tally.right[row, protected] / tally.cells[row, protected]
        )
        for row in rows
    }


def by_client(prepared: Prepared, trained: Trained, seed: int) -> dict[str, float]:
    """The least and the most accurate client and the largest gap, on the clients' training rows."""
    tallies = tallies_of_clients(prepared, trained, seed)
    named = dict(zip(prepared.client_names, tallies, strict=True))
    found = clients_of(named, prepared.constraints)
    accuracies = [one["accuracy"] for one in found if one["accuracy"] is not None]
    gaps = [one["dgeo"] for one in found if one["dgeo"] is not None]
    return {
        "client_accuracy_least": min(accuracies),
        "client_accuracy_most": max(accuracies),
        "client_dgeo_largest": max(map(abs, gaps), default=float("nan")),
    }


def sent(prepared: Prepared, trained: Trained, solver: Solver, method: str) -> dict[str, int]:
    """Bytes that all clients together sent and received while training."""
    single = isinstance(solver, Agp) and method != "af"
    return bytes_sent(trained, prepared.federation.clients, single)
