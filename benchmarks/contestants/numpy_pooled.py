"""NumPy with all clients' rows in one matrix, since a round is a sum over all rows."""

import numpy as np
from serve import Run, serve

from benchmarks.workload import Workload, flat


def prepare(work: Workload) -> Run:
    x, n = work.x, len(work.y)
    y = work.y[:, None].astype(np.float32)

    def one(start: np.ndarray, rounds: int) -> np.ndarray:
        layers = [(w.astype(np.float32), b.astype(np.float32)) for w, b in work.layers(start)]
        for _ in range(rounds):
            h = [x]
            for weight, bias in layers[:-1]:
                h.append(np.maximum(h[-1] @ weight + bias, 0))
            score = h[-1] @ layers[-1][0] + layers[-1][1]
            back = (1 / (1 + np.exp(-score)) - y) * np.float32(work.alpha / n)
            stepped = []
            for depth in reversed(range(len(layers))):
                weight, bias = layers[depth]
                stepped.append((weight - h[depth].T @ back, bias - back.sum(axis=0)))
                if depth:
                    back = (back @ weight.T) * (h[depth] > 0)
            layers = stepped[::-1]
        return flat(layers)

    return lambda rounds, settings: np.stack([one(s, rounds) for s in work.starts[:settings]])


if __name__ == "__main__":
    serve(prepare)
