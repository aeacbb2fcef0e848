"""Exceptions of the protocol."""

from fairsilo.errors import FairSiloError


class SecureAggregationError(FairSiloError):
    """Secure aggregation cannot continue. The message is one sentence that says what to do."""


class ProtocolError(SecureAggregationError):
    """A message or call that would break the protocol's guarantee: forged, replayed, reused."""


class RepeatRound(SecureAggregationError):
    """Fewer than t silos are left: nothing was revealed; repeat with new keys."""
