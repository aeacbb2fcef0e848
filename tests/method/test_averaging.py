"""FedAvg with local steps, against the same loop in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from fairsilo.errors import FairSiloError
from fairsilo.method import fedavg_local
from fairsilo.method.constrained import fedavg
from fairsilo.solver import Agp, Status
from tests.method.tasks import biased, task
from tests.oracle import Client, federated_gradient

RATE = 0.3


def clients(seed: int, sizes: list[int]) -> list[Client]:
    federation = biased(seed, sizes)
    ones = np.hstack([np.ones((federation.rows, 1)), federation.x])
    return [Client(ones[own], federation.y[own], federation.s[own]) for own in federation.silos()]


def test_one_local_step_is_the_exact_federated_gradient() -> None:
    sizes = [25, 4, 13]
    theta = np.zeros(4)
    for _ in range(5):
        theta = theta - RATE * federated_gradient(theta, clients(0, sizes))
    trained = fedavg_local(task(biased(0, sizes), rounds=5), local_steps=1, rate=RATE)
    np.testing.assert_allclose(trained.outcome.theta, theta, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("sizes", [[25, 4, 13], [300, 3, 2, 4, 5, 3, 2]])
def test_local_steps_are_averaged_by_size(sizes: list[int]) -> None:
    theta, total = np.zeros(4), sum(sizes)
    for _ in range(3):
        ends = []
        for client in clients(1, sizes):
            end = theta
            for _ in range(4):
                end = end - RATE * federated_gradient(end, [client])
            ends.append(len(client.y) / total * end)
        theta = np.sum(ends, axis=0)
    trained = fedavg_local(task(biased(1, sizes), rounds=3), local_steps=4, rate=RATE)
    np.testing.assert_allclose(trained.outcome.theta, theta, rtol=1e-10)


@pytest.mark.slow
def test_it_converges_to_fedavg_with_one_step_and_near_it_with_many() -> None:
    federation = biased(2, [120, 140])
    best = fedavg(task(federation)).outcome
    exact = fedavg_local(task(federation, rounds=4000), local_steps=1, rate=1.0).outcome
    assert exact.status is Status.CONVERGED
    assert float(exact.last.loss) == pytest.approx(float(best.last.loss), abs=1e-8)
    many = fedavg_local(task(federation, rounds=1000), local_steps=20, rate=1.0).outcome
    assert many.rounds < exact.rounds / 2
    assert float(best.last.loss) < float(many.last.loss) < float(best.last.loss) + 0.01


def test_the_default_fedavg_by_the_papers_solver_takes_the_same_steps() -> None:
    federation = biased(3, [30, 20])
    agp = fedavg(task(federation, solver=Agp(), rounds=20)).outcome
    local = fedavg_local(task(federation, rounds=20), local_steps=1, rate=0.05).outcome
    np.testing.assert_allclose(agp.theta, local.theta, atol=1e-6)


def test_senseless_settings_are_refused() -> None:
    with pytest.raises(FairSiloError, match="at least one step"):
        fedavg_local(task(biased(4, [20])), local_steps=0)
