"""A plain PyTorch loop over clients, as a researcher would write for the paper's experiments."""

import numpy as np
import torch
from serve import Run, serve

from benchmarks.workload import Workload, flat


def network(work: Workload, start: np.ndarray) -> torch.nn.Sequential:
    parts: list[torch.nn.Module] = []
    for weight, bias in work.layers(start):
        layer = torch.nn.Linear(*weight.shape)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(weight.T))
            layer.bias.copy_(torch.tensor(bias))
        parts += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1])


def theta_of(model: torch.nn.Sequential) -> np.ndarray:
    linear = [part for part in model if isinstance(part, torch.nn.Linear)]
    return flat([(p.weight.detach().numpy().T, p.bias.detach().numpy()) for p in linear])


def prepare(work: Workload) -> Run:
    n = len(work.y)
    clients = [
        (torch.tensor(work.x[rows]), torch.tensor(work.y[rows, None], dtype=torch.float32))
        for rows in work.clients
    ]
    mean_loss = torch.nn.BCEWithLogitsLoss()

    def one(start: np.ndarray, rounds: int) -> np.ndarray:
        model = network(work, start)
        optimizer = torch.optim.SGD(model.parameters(), lr=work.alpha)
        for _ in range(rounds):
            optimizer.zero_grad()
            for x, y in clients:
                (mean_loss(model(x), y) * (len(y) / n)).backward()
            optimizer.step()
        return theta_of(model)

    return lambda rounds, settings: np.stack([one(s, rounds) for s in work.starts[:settings]])


if __name__ == "__main__":
    serve(prepare)
