"""The paper's equations in slow float64 NumPy, client by client, row by row.

No code is shared with the package: the loss, its gradient and its Hessian are
written out by hand for binary logistic regression, and each equation is named.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairsilo.arrays import Floats, Ints


@dataclass
class Client:
    """B_i: the rows of one client; columns of x include a last one of ones (the bias)."""

    x: Floats
    y: Ints
    s: Ints


def row_loss(theta: Floats, x: Floats, y: int) -> float:
    """Cross-entropy of one row: log(1 + exp(-z)), z = +-theta.x."""
    z = float(theta @ x) * (1 if y == 1 else -1)
    return float(np.logaddexp(0.0, -z))


def row_gradient(theta: Floats, x: Floats, y: int) -> Floats:
    """(p - y) x."""
    p = 1 / (1 + np.exp(-float(theta @ x)))
    gradient: Floats = (p - (1 if y == 1 else 0)) * x
    return gradient


def row_hessian(theta: Floats, x: Floats) -> Floats:
    """p (1 - p) x x'."""
    p = 1 / (1 + np.exp(-float(theta @ x)))
    hessian: Floats = p * (1 - p) * np.outer(x, x)
    return hessian


def average(function, theta: Floats, client: Client, pick: list[int]):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """(1/m) sum over the picked rows."""
    return sum(function(theta, client.x[j], int(client.y[j])) for j in pick) / len(pick)


def cell(client: Client, group: int, c: int) -> list[int]:
    """The rows of B_i in group s with class c."""
    return [j for j in range(len(client.y)) if client.y[j] == c and client.s[j] == group]


def federated_loss(theta: Floats, clients: list[Client]) -> float:
    """Equation (3): sum_i m_i / m_total * L_i."""
    total = sum(len(b.y) for b in clients)
    return sum(
        len(b.y) / total * float(average(row_loss, theta, b, list(range(len(b.y)))))
        for b in clients
        if len(b.y)
    )


def federated_gradient(theta: Floats, clients: list[Client]) -> Floats:
    """The gradient of equation (3)."""
    total = sum(len(b.y) for b in clients)
    result = np.zeros_like(theta)
    for b in clients:
        for j in range(len(b.y)):
            result += row_gradient(theta, b.x[j], int(b.y[j])) / total
    return result


def local_estimates(function, theta: Floats, clients: list[Client], a: int, b: int, c: int):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """D_i = L_i^{a,c} - L_i^{b,c} (or its gradient) of every client that has both cells."""
    results = []
    for client in clients:
        in_a, in_b = cell(client, a, c), cell(client, b, c)
        if in_a and in_b:
            results.append(
                average(function, theta, client, in_a) - average(function, theta, client, in_b)
            )
    return results


def estimate(function, theta: Floats, clients: list[Client], a: int, b: int, c: int, how: str):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """D by the paper's federated estimation (`mean`) or on the union of all rows (`pooled`)."""
    if how == "mean":
        local = local_estimates(function, theta, clients, a, b, c)
        return sum(local) / len(local)
    union = Client(
        np.concatenate([k.x for k in clients]),
        np.concatenate([k.y for k in clients]),
        np.concatenate([k.s for k in clients]),
    )
    return local_estimates(function, theta, [union], a, b, c)[0]


def agp(
    theta: Floats,
    clients: list[Client],
    pair: tuple[int, int, int],
    epsilon: float,
    rounds: int,
    how: str = "mean",
    alpha: float = 0.05,
    beta: float = 0.05,
    gamma: float = 0.001,
) -> tuple[Floats, float, float]:
    """Algorithm 1: equations (14), (16) and (17), the dual step with theta^k."""
    lambda_a = lambda_b = 0.0
    for _ in range(rounds):
        d = float(estimate(row_loss, theta, clients, *pair, how))
        gradient = federated_gradient(theta, clients) + (lambda_a - lambda_b) * estimate(
            row_gradient, theta, clients, *pair, how
        )
        theta = theta - alpha * gradient
        lambda_a = max((1 - gamma * beta) * lambda_a + beta * d - beta * epsilon, 0.0)
        lambda_b = max((1 - gamma * beta) * lambda_b - beta * d - beta * epsilon, 0.0)
    return theta, lambda_a, lambda_b
