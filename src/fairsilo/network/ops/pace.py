"""How long to wait between two looks for work: ever longer the longer nothing came."""

from __future__ import annotations

SHARE = 0.2
"""A look comes late by at most this share of the time that passed without work."""


def pause(idle: float, most: float, least: float = 0.05) -> float:
    """Seconds until the next look, `idle` seconds after the last work."""
    return min(max(SHARE * idle, least), most)
