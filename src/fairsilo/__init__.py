"""FairSilo: one classifier, several organisations, no rows exchanged, fair between groups."""

__version__ = "0.1.0"
