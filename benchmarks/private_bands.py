"""What bands of an additive model would be without its curvature.

    python -m benchmarks.private_bands

ADULT under differential privacy, no limit. The deviation of every height is computed twice: from
the curvature of the training rows, which is not released, and from the counts of columns, which
are, as if features were independent. Then: how much of the curvature the noise would leave, if a
fifth of the budget paid for it.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import expit

from fairsilo.arrays import Floats
from fairsilo.coded import dense
from fairsilo.method.fedavg import unconstrained
from fairsilo.run import Options
from fairsilo.run.prepare import prepare
from fairsilo.run.private import begin, mechanism_of
from fairsilo.run.terms import blocks_of
from fairsilo.solver.penalty import Penalty

SHARE = 0.2
"""Of the budget, for the curvature."""


def deviations(curvature: Floats, blocks: list[slice], shares: Floats) -> list[Floats]:
    """Those of every block's heights around their mean, by the covariance curvature^-1."""
    covariance, found = np.linalg.inv(curvature), []
    for at in blocks:
        centre = np.eye(at.stop - at.start) - shares[at] / shares[at].sum()
        found.append(np.sqrt(np.diag(centre @ covariance[at, at] @ centre.T)))
    return found


def main() -> None:
    """A line for every feature, and one for the curvature."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--budget", type=float, default=4.0)
    budget = parser.parse_args().budget
    options = Options("adult", model="additive", method="fedavg", dp_epsilon=budget)
    mechanism = mechanism_of(options)
    problem, prepared, engine = begin(options, prepare(options, mechanism), mechanism)
    theta = np.asarray(engine.solve(unconstrained(problem)).theta)
    federation = prepared.federation
    rows = np.hstack([np.ones((federation.rows, 1)), dense(federation.x)])
    sure = expit(rows @ theta) * expit(-rows @ theta)
    true = (rows.T * sure) @ rows
    named = blocks_of(prepared.encoder)
    blocks = [slice(1 + one.start, 1 + one.start + one.width) for one in named]
    shares = rows.mean(axis=0)
    counted = np.outer(shares, shares)
    for at in blocks:
        counted[at, at] = np.diag(shares[at])
    assert isinstance(problem.penalty, Penalty)
    form = problem.penalty.matrix
    pulled = federation.rows * (np.diag(form) if form.ndim == 1 else form)
    whole = deviations(true + pulled, blocks, shares)
    alone = deviations(sure.sum() * counted + pulled, blocks, shares)
    print("times a band by counts would have to be wider: median and largest of a feature")
    for one, by_rows, by_counts in zip(named, whole, alone, strict=True):
        ratio = by_rows / by_counts
        print(f"{one.name:16} {np.median(ratio):5.1f} {ratio.max():5.1f}")
    # A row's part p (1 - p) zz' is at most a quarter of its ones, squared.
    longest = (1 + len(blocks)) / 4
    noise = np.random.default_rng(0).normal(size=true.shape)
    noise *= longest / np.sqrt(SHARE * mechanism.ledger.budget.total)
    most = np.abs(np.linalg.eigvalsh(np.tril(noise) + np.tril(noise, -1).T)).max()
    drowned = np.mean(np.linalg.eigvalsh(true) < most)
    print(f"of {len(true)} eigenvalues of the curvature {drowned:.0%} are below its noise")


if __name__ == "__main__":
    main()
