"""The computation of every contestant, and the oracle that it must match, in NumPy alone.

    theta <- theta - alpha * sum_i (n_i / n) * gradient of client i's mean loss,   `rounds` times

for logistic regression or the 8-4 ReLU network, from each of several starting points (the
settings of a sweep), over rows divided among clients. theta is flat: each layer's weight
(inputs, outputs) row by row, then its bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairsilo.arrays import Floats

CLOSE = 1e-4
"""The largest allowed difference of any entry of theta from the oracle's."""


@dataclass(frozen=True)
class Workload:
    """Rows of clients, laid end to end, starting points and a step size."""

    x: npt.NDArray[np.float32]
    y: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    hidden: tuple[int, ...]
    starts: Floats
    """(settings, parameters)."""
    alpha: float

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Inputs and outputs of every layer."""
        widths = [self.x.shape[1], *self.hidden, 1]
        return list(pairwise(widths))

    @property
    def clients(self) -> list[slice]:
        """The rows of every client."""
        return [slice(int(a), int(b)) for a, b in pairwise(self.offsets)]

    def layers(self, theta: npt.NDArray[Any]) -> list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        """The weight and bias of every layer."""
        found, at = [], 0
        for a, b in self.sizes:
            weight, bias = theta[at : at + a * b].reshape(a, b), theta[at + a * b :][:b]
            found.append((weight, bias))
            at += a * b + b
        return found

    def save(self, path: Path) -> None:
        """Write the file that contestants read."""
        hidden = np.array(self.hidden, np.int64)
        np.savez(path, **{**vars(self), "hidden": hidden})

    @classmethod
    def load(cls, path: Path) -> Workload:
        """Read what `save` wrote."""
        with np.load(path) as file:
            parts = dict(file)
        hidden = tuple(int(size) for size in parts.pop("hidden"))
        return cls(**{**parts, "hidden": hidden, "alpha": float(parts["alpha"])})


def flat(layers: list[tuple[Any, Any]]) -> npt.NDArray[Any]:
    """Concatenate weights and biases into one vector."""
    return np.concatenate([np.ravel(part) for layer in layers for part in layer])


def make(
    x: npt.NDArray[Any],
    y: npt.NDArray[Any],
    offsets: npt.NDArray[np.int64],
    hidden: tuple[int, ...] = (),
    settings: int = 1,
    alpha: float = 0.05,
) -> Workload:
    """A workload with random starting points, the same ones every time."""
    rng = np.random.default_rng(0)
    bare = Workload(x.astype(np.float32), y, offsets, hidden, np.zeros((0, 0)), alpha)
    starts = [
        flat([(rng.normal(0, a**-0.5, (a, b)), np.zeros(b)) for a, b in bare.sizes])
        for _ in range(settings)
    ]
    return Workload(bare.x, y, offsets, hidden, np.stack(starts), alpha)


def gradient(work: Workload, theta: Floats) -> Floats:
    """The gradient of the mean loss over all rows, by hand, client by client."""
    n = len(work.y)
    layers = work.layers(theta)
    total = np.zeros_like(theta)
    for client in work.clients:
        h = [work.x[client].astype(np.float64)]
        for weight, bias in layers[:-1]:
            h.append(np.maximum(h[-1] @ weight + bias, 0))
        score = h[-1] @ layers[-1][0] + layers[-1][1]
        back = (1 / (1 + np.exp(-score)) - work.y[client][:, None]) / n
        parts: list[tuple[Floats, Floats]] = []
        for (weight, _), below in zip(reversed(layers), reversed(h), strict=True):
            parts.append((below.T @ back, back.sum(axis=0)))
            back = (back @ weight.T) * (below > 0)
        total += flat(parts[::-1])
    return total


def oracle(work: Workload, rounds: int, setting: int = 0) -> Floats:
    """Theta after `rounds` rounds from one starting point, float64."""
    theta: Floats = work.starts[setting].copy()
    for _ in range(rounds):
        theta -= work.alpha * gradient(work, theta)
    return theta


def check(work: Workload, rounds: int, theta: npt.ArrayLike, who: str, settings: int = 1) -> float:
    """The largest difference from the oracle; an error if it is above CLOSE."""
    found = np.asarray(theta, np.float64).reshape(-1, work.starts.shape[1])
    if len(found) != settings:
        raise SystemExit(f"{who} returned {len(found)} models instead of {settings}")
    # Only the first and the last setting, because the oracle is slow.
    worst = max(float(np.abs(found[i] - oracle(work, rounds, i)).max()) for i in {0, settings - 1})
    if not worst <= CLOSE:
        raise SystemExit(f"{who} is {worst:.1e} away from the oracle after {rounds} rounds")
    return worst
