"""FairSilo's pooled engine: all clients' rows in one compiled loop over rounds."""

import numpy as np
from serve import Run, serve

from benchmarks.workload import Workload, flat
from fairsilo.model import Model, logistic_regression, mlp
from fairsilo.solver import Agp
from fairsilo.sums import Compiled, Rows


def theirs(model: Model, work: Workload, theta: np.ndarray) -> np.ndarray:
    """Reorder parameters from the workload's order to the model's (a layer's bias first)."""
    return np.concatenate([np.concatenate([b, w.ravel()]) for w, b in work.layers(theta)])


def back(work: Workload, theta: np.ndarray) -> np.ndarray:
    """Reorder parameters from the model's order to the workload's."""
    parts, at = [], 0
    for a, b in work.sizes:
        parts.append((theta[at + b : at + b + a * b], theta[at : at + b]))
        at += b + a * b
    return flat(parts)


def prepare(work: Workload) -> Run:
    features, n = work.x.shape[1], len(work.y)
    model = mlp(features, 2, work.hidden) if work.hidden else logistic_regression(features)
    rows = Rows(work.x, work.y, np.full(n, 1 / n), np.zeros((0, n)))  # type: ignore[arg-type]
    engine = Compiled(model, rows, np.float32)
    starts = np.stack([theirs(model, work, start) for start in work.starts])
    solver = Agp(alpha=work.alpha, tolerance=0.0)

    def run(rounds: int, settings: int) -> np.ndarray:
        done = engine.solve_many(
            solver, starts[:settings], np.zeros((settings, 0)), rounds, thin=True
        )
        return np.stack([back(work, outcome.theta) for outcome in done])

    return run


if __name__ == "__main__":
    serve(prepare)
