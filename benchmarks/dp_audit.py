"""Bet on whether a row was trained on, from all that a private training released.

    python -m benchmarks.dp_audit       # 2,000 pairs of trainings, and 2,000 with half the noise
    python -m benchmarks.dp_audit --model additive
    python -m benchmarks.dp_audit --pairs 2000 20000 --out benchmarks/results/dp_audit.json

A canary that moves every sum as far as a row can is in one training of a pair and not in the other.
The bet is the likelihood ratio of all releases: encoder, counts, gradients, losses, curvature and
outcomes; of an additive model histograms, which give steps and curvature, in the encoder's place
(its penalty, which follows from releases, is left out). No bet is better, since whoever makes it
knows every other row. From how often it loses follows a lower bound of epsilon: with 95 %
confidence (Clopper and Pearson) the mechanism is no better than that (as a Gaussian one; Nasr and
others, 2023). All trainings of a kind run at once; sums, clipping, noise and solver are those of
the package.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from dp_accounting import get_epsilon_gaussian
from scipy.stats import beta, norm

from fairsilo.arrays import Floats, Ints
from fairsilo.compute import jax, jnp
from fairsilo.data import Number, Schema
from fairsilo.data.binned import FEWER_STEPS, counted, read_counts
from fairsilo.data.bounded import (
    bounded_grids,
    bounded_sums,
    encoder_in_steps,
    encoder_message,
    encoder_of_sums,
    histogram_message,
)
from fairsilo.dp import Budget, Clip, Message, Plan, Split, share
from fairsilo.dp.gaussian import Source
from fairsilo.engine import FromCells
from fairsilo.fairness import Dgeo
from fairsilo.model import Model, logistic_regression
from fairsilo.question.cells import compared_cells, members, reach
from fairsilo.run.counted import curvature_of
from fairsilo.solver import Noisy, Query
from fairsilo.solver.base import Sums
from fairsilo.sums.clipped import clipped_curvature, clipped_outcomes, clipped_sums
from fairsilo.sums.rows import Rows

SCHEMA = Schema(
    features=(Number(name="x", bounds=(-1.0, 1.0)),),
    label="y", classes=("0", "1"), group="s", groups=("a", "b"),
)  # fmt: skip
PAIR = Dgeo(0, 1, 1)
CELLS = compared_cells([PAIR], 2, 2)
EVERY = [(g, c) for g in (0, 1) for c in (0, 1)]
ROUNDS, LIMIT, CLIP = 2, 0.1, Clip(gradient=0.2, loss=0.3)
"""Small clips, which the canary's gradient and loss pass: then it moves the sums all the way."""
MODELS = {"lr": logistic_regression(1), "additive": logistic_regression(FEWER_STEPS + 1)}
"""With steps, a column for as many as there can be and one for missing cells."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Table:
    """A few rows, the canary last."""

    x: Floats
    y: Ints
    s: Ints

    def only(self, rows: slice) -> Table:
        """Some of the rows."""
        return Table(self.x[rows], self.y[rows], self.s[rows])

    @property
    def frame(self) -> pd.DataFrame:
        """The features."""
        return pd.DataFrame({"x": self.x})

    def rows(self, encoded: Floats, cells: Floats) -> Rows:
        """The rows as sums take them."""
        return Rows(encoded, self.y, np.ones(len(self.y)), cells)  # type: ignore[arg-type]


def tiny() -> Table:
    """Twelve rows of every kind, and as the canary one at the bound, of the rarer class there."""
    x = np.append(np.linspace(-0.2, 0.2, 12), 1.0)
    return Table(x, np.append(np.arange(12) % 2, 0), np.append(np.arange(12) // 2 % 2, 0))


class Bets:
    """Trainings that run at once, and what their releases say of the canary."""

    def __init__(self, there: Floats, noise: float, source: Source) -> None:
        self.there, self.noise, self.source = there, noise, source
        self.scores = np.zeros(len(there))
        """The logarithm of how much likelier the releases are with the canary than without."""

    def release(self, first: Message, sums: Floats, canary: Floats) -> Floats:
        """What every training releases: its sums, the canary's where it is there, and noise."""
        sums, canary = (np.broadcast_to(one, (len(self.there), first.values.size))
                        for one in (sums, canary))  # fmt: skip
        exact = sums + self.there[:, None] * canary
        quiet = replace(first, multiplier=self.noise * first.multiplier)
        sent = np.array([share(replace(quiet, values=one), 1, 1, self.source) for one in exact])
        variance = (first.multiplier * first.sensitivity) ** 2
        self.scores += ((sent - sums - canary / 2) * canary).sum(axis=1) / variance
        return sent


@dataclass(frozen=True, eq=False)
class Encoded:
    """The rows under the encoder that each training released, the canary last."""

    x: Floats
    """(trainings, rows, columns)."""
    curvature: Floats | None = None
    """Of each training, where it follows from what was released."""


def _scaled(bets: Bets, plan: Plan, rest: Table, one: Table, x: Floats) -> Encoded:
    """The number less its mean, by its spread."""
    first = encoder_message(rest.frame, SCHEMA, plan)
    fitted = bets.release(first, first.values, bounded_sums(one.frame, SCHEMA))
    deviation = first.multiplier * first.sensitivity
    scalings = [encoder_of_sums(SCHEMA, sums, deviation).scalings[0] for sums in fitted]
    mean, scale = np.array([(scaling.mean, scaling.scale) for scaling in scalings]).T
    return Encoded(((x - mean[:, None]) / scale[:, None])[:, :, None])


def _in_steps(bets: Bets, plan: Plan, rest: Table, one: Table, x: Floats) -> Encoded:
    """The number's step, one-hot; columns that a training has no step for stay empty."""
    grids, model = bounded_grids(SCHEMA), MODELS["additive"]
    first = histogram_message(rest.frame, SCHEMA, plan)
    found = bets.release(first, first.values, counted(one.frame, SCHEMA, grids))
    deviation = first.multiplier * first.sensitivity
    columns = np.zeros((len(found), len(x), model.size - 1))
    curvature = np.zeros((len(found), model.size, model.size))
    for i, counts in enumerate(found):
        histograms = read_counts(counts, SCHEMA, grids)
        encoder, rows = encoder_in_steps(SCHEMA, histograms, deviation, 1)
        assert encoder.binned is not None
        steps = encoder.binned.steps[0]
        columns[i, np.arange(len(x)), steps.codes(x)] = 1.0
        own = slice(1 + steps.width)
        curvature[i, own, own] = curvature_of(encoder, rows, logistic_regression(steps.width))
    return Encoded(columns, curvature)


def scores(
    there: Floats,
    budget: Budget,
    noise: float = 1.0,
    source: Source = os.urandom,
    model: str = "lr",
) -> Floats:
    """The bet of one training for each entry of `there`, 1 where it has the canary.

    `noise`: the part of the promised noise that is really added.
    """
    plan = Plan.of(budget, Split(), ROUNDS, curvature=model == "lr")
    both, bets = tiny(), Bets(there, noise, source)
    rest, one = both.only(slice(-1)), both.only(slice(-1, None))
    encoded = (_scaled if model == "lr" else _in_steps)(bets, plan, rest, one, both.x)

    counts, canary = (members(part.y, part.s, EVERY).sum(axis=1) for part in (rest, one))
    sent = bets.release(Message("counts", counts, 1.0, plan.counts), counts, canary)
    cells = np.maximum(sent, 1.0).reshape(-1, 2, 2)

    theta = _train(bets, plan, rest, one, encoded, cells, MODELS[model])
    outcomes = _each(clipped_outcomes, MODELS[model], CLIP.loss)
    sums, canary = (
        np.asarray(outcomes(part.rows(x, members(part.y, part.s, EVERY)), theta))
        for part, x in ((rest, encoded.x[:, :-1]), (one, encoded.x[:, -1:]))
    )
    flat = sums.reshape(len(there), -1), canary.reshape(len(there), -1)
    bets.release(Message("outcomes", flat[0][0], reach(CLIP), plan.final), *flat)
    return bets.scores


def _train(
    bets: Bets,
    plan: Plan,
    rest: Table,
    one: Table,
    encoded: Encoded,
    counts: Floats,
    model: Model,
) -> Floats:
    """Newton under noise, all trainings in step; theta of each."""
    known = encoded.curvature
    solver = Noisy(ROUNDS, 0.1, CLIP.curvature, counted=known is not None)
    theta0, limits = jnp.zeros((len(bets.there), model.size)), jnp.array([LIMIT])
    state = jax.vmap(lambda t: solver.init(t, limits))(theta0)
    step = jax.jit(jax.vmap(solver.step))
    triangle = np.triu_indices(model.size)
    stretch = np.where(triangle[0] == triangle[1], 1.0, np.sqrt(2.0))
    bent_of = [None] * len(counts) if known is None else known
    servers = [
        FromCells([PAIR], one, lambda *_: (), bent)
        for one, bent in zip(counts, bent_of, strict=True)
    ]
    sums_of = _each(clipped_sums, model, CLIP.gradient, CLIP.loss)
    curvature_at = _each(clipped_curvature, model, CLIP.curvature)
    for k in range(ROUNDS):
        bends, found, theta = known is None and k == 0, [], np.asarray(state.theta)
        for part, x in ((rest, encoded.x[:, :-1]), (one, encoded.x[:, -1:])):
            inside = members(part.y, part.s, CELLS)
            cells = np.vstack([inside, 1 - inside.sum(axis=0, keepdims=True)])
            losses, gradients = sums_of(part.rows(x, cells), state.theta)
            sums = [np.asarray(gradients).reshape(len(x), -1), np.asarray(losses)]
            if bends:
                bent = np.asarray(curvature_at(part.rows(x, cells), state.theta))
                sums.append(bent[:, *triangle] * stretch)
            found.append(sums)
        kinds = [("gradients", CLIP.gradient, plan.gradient), ("losses", CLIP.loss, plan.loss)]
        kinds += [("curvature", CLIP.curvature, plan.curvature)] * bends
        released = [
            bets.release(Message(name, sums[0], sensitivity, multiplier), sums, canary)
            for (name, sensitivity, multiplier), sums, canary in zip(kinds, *found, strict=True)
        ]
        answers = []
        for i, server in enumerate(servers):
            gradients, losses = released[0][i].reshape(-1, model.size), released[1][i]
            more = []
            if bends:
                matrix = np.zeros((model.size, model.size))
                matrix[triangle] = released[2][i] / stretch
                more = [np.triu(matrix) + np.triu(matrix, 1).T]
            answers.append(_answer(server, theta[i], gradients, losses, more))
        state = step(state, jax.tree.map(lambda *leaves: np.stack(leaves), *answers))
    return np.asarray(state.theta)


def _answer(
    server: FromCells, theta: Floats, gradients: Floats, losses: Floats, more: list[Floats]
) -> Sums:
    """What the solver of one training gets to see."""
    server.ask = lambda *_: [gradients, losses, *more]
    return server.answer(Query(theta, np.zeros(1)), Noisy.order)


_EACH = Rows(0, None, None, None)  # type: ignore[arg-type]


@cache
def _each(of: Callable[..., Any], model: Model, *bounds: float) -> Callable[..., Any]:
    """The sums of all trainings, each with rows and theta of its own."""
    return jax.jit(jax.vmap(lambda rows, t: of(model, rows, t, *bounds), (_EACH, 0)))


@dataclass(frozen=True)
class Bound:
    """What the bets prove, with 95 % confidence."""

    epsilon: float
    """A lower bound, for a mechanism that is as private as a Gaussian one."""
    any_epsilon: float
    """A lower bound that supposes nothing."""
    guess: float
    """The epsilon that fits the bets best, without confidence."""


def bound(
    present: Sequence[float] | Floats, absent: Sequence[float] | Floats, delta: float
) -> Bound:
    """The bet is on presence where the score is above 0; how often it loses bounds epsilon."""
    missed, false = np.sum(np.asarray(present) <= 0), np.sum(np.asarray(absent) > 0)
    level = (1 + CONFIDENCE) / 2
    worst = [
        float(beta.ppf(level, lost + 1, len(of) - lost))
        for lost, of in ((missed, present), (false, absent))
    ]
    shift = -norm.ppf(worst[0]) - norm.ppf(worst[1])
    seen = -norm.ppf(missed / len(present)) - norm.ppf(false / len(absent))
    free = np.log(max(1 - delta - worst[0], 1e-300) / worst[1])
    return Bound(
        *(float(max(one, 0.0)) for one in (_epsilon(shift, delta), free, _epsilon(seen, delta)))
    )


def _epsilon(shift: float, delta: float) -> float:
    return float(get_epsilon_gaussian(1 / shift, delta)) if shift > 0 else 0.0


def audit(
    pairs: int,
    budget: Budget,
    noise: float = 1.0,
    source: Source = os.urandom,
    model: str = "lr",
) -> Bound:
    """Trainings with and without the canary, so many of each, and what the bets prove."""
    there = np.repeat([1.0, 0.0], pairs)
    found = scores(there, budget, noise, source, model)
    return bound(found[:pairs], found[pairs:], budget.delta)


def main() -> None:
    """Print the audits; write them."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--pairs", type=int, nargs="+", default=[2000])
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    budget = Budget(asked.epsilon, 1e-5)
    lines = []
    for model, noise, pairs in itertools.product(asked.model, (1.0, 0.5), asked.pairs):
        began = time.process_time()
        found = audit(pairs, budget, noise, model=model)
        spent = time.process_time() - began
        print(
            f"{model}, promised {budget.epsilon:g}, {noise:g} of its noise, {pairs:,} pairs: "
            f"epsilon is at least {found.epsilon:.2f} (supposing nothing {found.any_epsilon:.2f}), "
            f"best guess {found.guess:.2f}; {spent:.1f} s of CPU time"
        )
        promised = {"model": model, "promised": budget.epsilon, "delta": budget.delta}
        about = {"noise": noise, "pairs": pairs, "cpu_seconds": round(spent, 1)}
        told = {name: round(one, 4) for name, one in asdict(found).items()}
        lines.append({**promised, **about, **told})
    if asked.out:
        asked.out.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
