"""The live page of a run: made from its progress file alone, on loopback."""

from fairsilo.report.live.serve import Watching, watching

__all__ = ["Watching", "watching"]
