"""The sums of networks: those of the simulation, on JAX, which only such a silo imports."""

from __future__ import annotations

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.compute import jax, jnp
from fairsilo.engine.sums import Rows, row_sums
from fairsilo.errors import FairSiloError
from fairsilo.method.base import Plain
from fairsilo.model import MODELS
from fairsilo.solver.base import Order, Query, Sums

_row_sums = jax.jit(row_sums, static_argnames=("model", "order"))


def network_sums(
    name: str,
    order: str,
    x: Floats,
    y: Ints,
    w: Floats,
    v: Floats,
    theta: Floats,
    mu: Floats,
    classes: int,
) -> Floats:
    """L, D, gradients and the triangle of the Gauss-Newton matrix, as one vector."""
    model = MODELS[name](x.shape[1], classes)
    if theta.shape != (model.size,):
        raise FairSiloError("the server's parameters do not fit the federation file")
    rows = Rows(*map(jnp.asarray, (x, y, w, v)))
    query = Query(jnp.asarray(theta), jnp.asarray(mu))
    return flatten(_row_sums(model, Order(order), rows, query))


def network_predictions(
    name: str, theta: Floats, x: Floats, y: Ints, classes: int
) -> tuple[Floats, Ints]:
    """Losses and predicted classes."""
    predictor = Plain(MODELS[name](x.shape[1], classes), theta)
    return predictor.losses(x, y, y), predictor.labels(x, y)


def flatten(sums: Sums) -> Floats:
    """Sums as one vector: loss, d, grad, jac, one triangle of hess."""
    parts = [np.atleast_1d(sums.loss), np.asarray(sums.d), np.asarray(sums.grad)]
    if sums.jac is not None:
        parts.append(np.asarray(sums.jac).reshape(-1))
    if sums.hess is not None:
        parts.append(np.asarray(sums.hess)[np.triu_indices(len(sums.grad))])
    return np.concatenate(parts).astype(np.float64)


def unflatten(vector: Floats, order: Order, parameters: int, constraints: int) -> Sums:
    """The sums that a vector stands for."""
    loss, vector = vector[0], vector[1:]
    d, vector = vector[:constraints], vector[constraints:]
    grad, vector = vector[:parameters], vector[parameters:]
    if order is Order.LAGRANGIAN:
        return Sums(*map(jnp.asarray, (loss, d, grad)))
    size = constraints * parameters
    jac, vector = vector[:size].reshape(constraints, parameters), vector[size:]
    if order is Order.FIRST:
        return Sums(*map(jnp.asarray, (loss, d, grad, jac)))
    hess = np.zeros((parameters, parameters))
    rows, columns = np.triu_indices(parameters)
    hess[rows, columns] = hess[columns, rows] = vector
    return Sums(*map(jnp.asarray, (loss, d, grad, jac, hess)))
