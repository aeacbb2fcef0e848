"""Flower's simulation (Ray): federated averaging, a NumPy client with one full-batch step.

Every call starts Ray again. The cost of a round is measured between the end of the first and that
of the last, with the CPU time of all of Ray's processes.
"""

import os
import time

os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0")

import numpy as np
from flwr.client import ClientApp, NumPyClient
from flwr.common import Context, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation
from serve import Run, Spent, serve

from benchmarks.arena import cpu_seconds
from benchmarks.workload import Workload, flat, gradient

ENDED: list[tuple[float, float]] = []
"""The clock and the CPU seconds at the end of every round."""


class Silo(NumPyClient):
    """One client with its rows."""

    def __init__(self, work: Workload) -> None:
        self.work = work

    def fit(self, parameters, config):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
        theta = parameters[0]
        return [theta - self.work.alpha * gradient(self.work, theta)], len(self.work.y), {}


class Keep(FedAvg):
    """Federated averaging that keeps the last model."""

    last: np.ndarray

    def aggregate_fit(self, server_round, results, failures):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
        parameters, metrics = super().aggregate_fit(server_round, results, failures)
        assert parameters is not None
        self.last = parameters_to_ndarrays(parameters)[0]
        ENDED.append((time.perf_counter(), cpu_seconds(os.getpid())))
        return parameters, metrics


def prepare(work: Workload) -> Run:
    silos = []
    for rows in work.clients:
        size = np.array([0, rows.stop - rows.start])
        silos.append(
            Workload(work.x[rows], work.y[rows], size, work.hidden, work.starts, work.alpha)
        )

    def client(context: Context):  # type: ignore[no-untyped-def] # noqa: ANN202
        return Silo(silos[int(context.node_config["partition-id"])]).to_client()

    def one(start: np.ndarray, rounds: int) -> np.ndarray:
        count = len(silos)
        strategy = Keep(
            fraction_evaluate=0.0,
            min_fit_clients=count,
            min_available_clients=count,  # otherwise it starts before all clients are there
            initial_parameters=ndarrays_to_parameters([start]),
        )

        def server(_: Context) -> ServerAppComponents:
            return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=rounds))

        ENDED.clear()
        run_simulation(
            server_app=ServerApp(server_fn=server),
            client_app=ClientApp(client_fn=client),
            num_supernodes=len(silos),
            backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
        )
        return flat(work.layers(strategy.last))

    return lambda rounds, settings: np.stack([one(s, rounds) for s in work.starts[:settings]])


def spent() -> Spent:
    """Seconds and CPU seconds of as many rounds as there were."""
    (wall, cpu), (wall_last, cpu_last) = ENDED[0], ENDED[-1]
    share = len(ENDED) / max(len(ENDED) - 1, 1)
    return {"seconds": (wall_last - wall) * share, "cpu": (cpu_last - cpu) * share}


if __name__ == "__main__":
    serve(prepare, spent)
