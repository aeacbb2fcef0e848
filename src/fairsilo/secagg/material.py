"""A silo's state between the messages of one set-up: its secrets and others' shares, by round.

Secrets do not outlive their round: `burn` removes those of a round and all earlier ones. Python
cannot guarantee that deleted bytes leave memory, but no later message or saved state contains
them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fairsilo.secagg.errors import ProtocolError
from fairsilo.secagg.masks import KEY_BYTES, new_secret, public_of
from fairsilo.secagg.sealed_shares import Pair
from fairsilo.secagg.shamir import SHARE_BYTES
from fairsilo.secagg.wire import Fields, text_of, texts


@dataclass(repr=False)
class Material:
    """The secrets of rounds first..last; `repr` shows none of them."""

    first: int
    last: int
    letter_key: bytes | None
    secrets: dict[int, Pair]
    """For each unused round: the self-mask seed and the private mask key."""
    bundles: dict[str, bytes] = field(default_factory=dict)
    """The signed bundles of all silos of the set-up, including this silo's."""
    shared: bool = False
    roster: list[str] = field(default_factory=list)
    shares: dict[int, dict[str, Pair]] = field(default_factory=dict)
    """By round and owner: the shares this silo received, and the share of its own seed."""

    @classmethod
    def fresh(cls, first: int, last: int) -> Material:
        """New secrets for every round, from the operating system."""
        pairs = {r: (new_secret(), new_secret()) for r in range(first, last + 1)}
        return cls(first, last, new_secret(), pairs)

    def public(self) -> tuple[bytes, bytes]:
        """The public letter key, and the concatenated public mask keys of the rounds."""
        assert self.letter_key is not None
        masks = b"".join(public_of(self.secrets[r][1]) for r in range(self.first, self.last + 1))
        return public_of(self.letter_key), masks

    def require(self, round_: int) -> None:
        """Refuse a round whose secrets have been used or dropped."""
        if round_ not in self.secrets:
            raise ProtocolError(
                f"Round {round_} has been used or passed; its secrets are gone: open a new round."
            )

    def burn(self, round_: int) -> Pair:
        """Remove and return the secrets of a round; those of earlier rounds are dropped."""
        self.require(round_)
        pair = self.secrets.pop(round_)
        self.secrets = {r: kept for r, kept in self.secrets.items() if r > round_}
        self.shares = {r: kept for r, kept in self.shares.items() if r >= round_}
        return pair

    def to_fields(self) -> dict[str, object]:
        """The fields for the saved state."""
        return {
            "first": self.first,
            "last": self.last,
            "letter_key": None if self.letter_key is None else text_of(self.letter_key),
            "secrets": texts({str(r): seed + key for r, (seed, key) in self.secrets.items()}),
            "bundles": texts(self.bundles),
            "shared": self.shared,
            "roster": self.roster,
            "shares": {
                str(r): texts({silo: seed + key for silo, (seed, key) in given.items()})
                for r, given in self.shares.items()
            },
        }

    @classmethod
    def from_fields(cls, fields: Fields) -> Material:
        """Restore the material from saved fields."""
        own = fields.blobs("secrets", 2 * KEY_BYTES)
        given = fields.sub("shares")
        return cls(
            fields.number("first"),
            fields.number("last"),
            fields.blob("letter_key", KEY_BYTES) if "letter_key" in fields else None,
            {int(r): (pair[:KEY_BYTES], pair[KEY_BYTES:]) for r, pair in own.items()},
            fields.blobs("bundles"),
            fields.flag("shared"),
            fields.names("roster"),
            {
                int(r): {
                    silo: (pair[:SHARE_BYTES], pair[SHARE_BYTES:])
                    for silo, pair in given.blobs(r).items()
                }
                for r in given
            },
        )
