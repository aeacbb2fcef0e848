"""Solvers: AGP (the paper), Newton-SQP and L-BFGS-SQP. Pure init / query / step / done."""

from fairsilo.solver.agp import Agp
from fairsilo.solver.base import (
    Order,
    Outcome,
    Query,
    Record,
    Solver,
    State,
    Status,
    Sums,
    Watch,
    done,
)
from fairsilo.solver.lbfgs import Lbfgs
from fairsilo.solver.newton import Newton
from fairsilo.solver.noisy import Noisy
from fairsilo.solver.rates import Rates

SOLVERS: dict[str, type[Newton] | type[Lbfgs] | type[Agp]] = {
    "newton": Newton,
    "lbfgs": Lbfgs,
    "agp": Agp,
}
"""The solvers by their names on the command line."""

__all__ = [
    "SOLVERS",
    "Agp",
    "Lbfgs",
    "Newton",
    "Noisy",
    "Order",
    "Outcome",
    "Query",
    "Rates",
    "Record",
    "Solver",
    "State",
    "Status",
    "Sums",
    "Watch",
    "done",
]
