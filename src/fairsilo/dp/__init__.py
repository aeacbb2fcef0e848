"""Differential privacy of silos' releases: budget, noise, clipping bounds, plan."""

from fairsilo.dp.budget import Budget, BudgetSpent, Ledger, Release, epsilon_of
from fairsilo.dp.mechanism import Mechanism, Message, deviation, share
from fairsilo.dp.plan import Clip, Plan, Split

__all__ = [
    "Budget",
    "BudgetSpent",
    "Clip",
    "Ledger",
    "Mechanism",
    "Message",
    "Plan",
    "Release",
    "Split",
    "deviation",
    "epsilon_of",
    "share",
]
