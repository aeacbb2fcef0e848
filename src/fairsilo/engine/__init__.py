"""Engines: who answers the questions. The network's is `fairsilo.network.engine`."""

from fairsilo.engine.base import Changed, Engine, solve_by_asking
from fairsilo.engine.clientwise import Clientwise, federation_of, silos_of
from fairsilo.engine.pooled import Pooled, solve_many
from fairsilo.engine.private import FromCells, Private, solver_under_noise

ENGINES = ("pooled", "clientwise")
"""The engines of a simulation by their names on the command line."""

__all__ = [
    "ENGINES",
    "Changed",
    "Clientwise",
    "Engine",
    "FromCells",
    "Pooled",
    "Private",
    "federation_of",
    "silos_of",
    "solve_by_asking",
    "solve_many",
    "solver_under_noise",
]
