"""The agreement that all silos and the server share before the first message."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from cryptography.hazmat.primitives.asymmetric import ec

from fairsilo.secagg.errors import ProtocolError, SecureAggregationError
from fairsilo.secagg.keys import key_bytes, read_public_key
from fairsilo.secagg.ring import MOST_SILOS
from fairsilo.secagg.wire import Fields, pack, unpack
from fairsilo.threshold import FEWEST, default_threshold


@dataclass(frozen=True)
class Agreement:
    """The N silos with their public node keys, the threshold t, and the run.

    `context` is a digest of all of these. Every signature, key and check covers it, so parties
    with different agreements cannot complete a round.
    """

    fingerprint: str
    run_id: str
    silos: Mapping[str, str]
    threshold: int | None = None

    def __post_init__(self) -> None:
        n, t = len(self.silos), self.t
        if n < FEWEST or n > MOST_SILOS:
            raise SecureAggregationError(
                f"Secure aggregation needs {FEWEST} to {MOST_SILOS} silos and the federation has "
                f"{n}; add silos or train with `secure_aggregation` off."
            )
        if t < FEWEST or t > n or 3 * t <= 2 * n:
            raise SecureAggregationError(
                f"The threshold {t} must be at least {FEWEST}, more than two thirds of the {n} "
                f"silos and at most {n}; leave it out for {default_threshold(n)}."
            )
        if len({key_bytes(silo, text) for silo, text in self.silos.items()}) != n:
            raise SecureAggregationError("Two silos of the federation have the same public key.")

    @property
    def t(self) -> int:
        """The fewest silos that must remain, and the number of shares that restore a secret."""
        return default_threshold(len(self.silos)) if self.threshold is None else self.threshold

    @cached_property
    def public_keys(self) -> dict[str, ec.EllipticCurvePublicKey]:
        """The silos' node keys, by name."""
        return {silo: read_public_key(silo, text) for silo, text in self.silos.items()}

    @cached_property
    def point(self) -> dict[str, int]:
        """The number x > 0 of each silo in Shamir's scheme."""
        return {silo: number for number, silo in enumerate(sorted(self.silos), start=1)}

    @cached_property
    def context(self) -> bytes:
        """The digest that binds every message to this federation, run and threshold."""
        keys = {silo: key_bytes(silo, text).decode() for silo, text in self.silos.items()}
        facts = [self.fingerprint, self.run_id, keys, self.t]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).digest()

    def check_silo(self, silo: str) -> None:
        """Refuse a name that is not in the federation file."""
        if silo not in self.silos:
            raise ProtocolError(f"There is no silo {silo!r} in the federation file.")

    def to_bytes(self) -> bytes:
        """The agreement as bytes for `from_bytes`."""
        return pack(
            "agreement",
            fingerprint=self.fingerprint,
            run_id=self.run_id,
            silos=dict(self.silos),
            threshold=self.t,
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Agreement:
        """Restore an agreement saved by `to_bytes`."""
        fields: Fields = unpack("agreement", data)
        return cls(
            fields.text("fingerprint"),
            fields.text("run_id"),
            {silo: fields.sub("silos").text(silo) for silo in fields.sub("silos")},
            fields.number("threshold"),
        )
