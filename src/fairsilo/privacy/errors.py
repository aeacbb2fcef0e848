"""What the protocol refuses, and why."""

from __future__ import annotations

from fairsilo.errors import FairSiloError


class SecureAggregationError(FairSiloError):
    """Secure aggregation cannot go on. The message is one sentence that says what to do."""


class ProtocolError(SecureAggregationError):
    """A message or call that would break the protocol's promise: forged, replayed, reused."""


class RepeatRound(SecureAggregationError):
    """Fewer than t silos are left: nothing was learned; repeat with fresh material."""
