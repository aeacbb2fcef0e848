"""The silo's side of secure aggregation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from fairsilo.secagg import sealed_shares
from fairsilo.secagg.agreement import Agreement
from fairsilo.secagg.bundle import Bundle, check_range, opened, seal
from fairsilo.secagg.errors import ProtocolError
from fairsilo.secagg.keys import NodeKey, public_bytes, sign
from fairsilo.secagg.masks import bound_to, check_word, commitment, pair_mask, self_mask
from fairsilo.secagg.material import Material
from fairsilo.secagg.ring import DEFAULT_BOUND, Words, encode, exponents
from fairsilo.secagg.shamir import split
from fairsilo.secagg.survivors import (
    Answers,
    checked,
    digest_of,
    require_confirmations,
    statement,
)
from fairsilo.secagg.wire import pack, text_of, texts, unpack


class SiloSession:
    """One silo in one run: advertise, share, receive once per set-up; masked, confirm, reveal per
    round.

    Save `to_bytes` after every call and before the answer is sent, so that no secret is used
    twice. The saved state holds secrets of future rounds: protect it like the node key.
    """

    def __init__(self, agreement: Agreement, silo: str) -> None:
        agreement.check_silo(silo)
        self.agreement = agreement
        self.silo = silo
        self._next = 0  # the lowest round for which secrets may still be made or used
        self._material: Material | None = None
        self._open: int | None = None  # the round that is masked but not yet revealed
        self._sent = b""  # the digest of what was sent in that round
        self._confirmed: dict[str, bytes] | None = None

    def __repr__(self) -> str:
        return f"SiloSession(silo={self.silo!r}, run_id={self.agreement.run_id!r})"

    def advertise(self, first: int, last: int, node_key: NodeKey) -> bytes:
        """Create secrets for rounds first..last, dropping older ones; the signed public keys."""
        check_range(first, last)
        if first < self._next:
            raise ProtocolError(
                f"Silo {self.silo} has already made keys up to round {self._next - 1}; "
                f"a new set-up cannot begin at round {first}."
            )
        registered = self.agreement.public_keys[self.silo]
        if public_bytes(node_key.public_key()) != public_bytes(registered):
            raise ProtocolError(
                f"The node key of silo {self.silo} is not the one in the federation file."
            )
        self._open = self._confirmed = None
        self._material = material = Material.fresh(first, last)
        self._next = last + 1
        context = self.agreement.context
        seeds = b"".join(
            commitment(context, r, material.secrets[r][0]) for r in range(first, last + 1)
        )
        message = seal(
            self.agreement, (self.silo, first, last), (*material.public(), seeds), node_key
        )
        material.bundles = {self.silo: message}
        return message

    def share(self, bundles: Mapping[str, bytes]) -> dict[str, bytes]:
        """Check all silos' signed keys; an encrypted letter of shares for every other silo."""
        material = self._current()
        if material.shared:
            raise ProtocolError(f"Silo {self.silo} has already shared its secrets of this set-up.")
        if bytes(bundles.get(self.silo, b"")) != material.bundles[self.silo]:
            raise ProtocolError(f"The keys sent back to silo {self.silo} are not its own.")
        if len(bundles) < self.agreement.t:
            raise ProtocolError(
                f"Only {len(bundles)} silos sent keys and {self.agreement.t} are needed."
            )
        known = self._opened(bundles)
        keys = [key for bundle in known.values() for key in bundle.public_keys()]
        if len(set(keys)) != len(keys):
            raise ProtocolError("Two silos sent the same keys.")
        names = sorted(known)
        points = [self.agreement.point[name] for name in names]
        pairs: dict[str, list[sealed_shares.Pair]] = {name: [] for name in names}
        for round_ in range(material.first, material.last + 1):
            seeds, keys = (split(s, self.agreement.t, points) for s in material.secrets[round_])
            for name, seed, key in zip(names, seeds, keys, strict=True):
                pairs[name].append((seed, key))
        self._keep(pairs.pop(self.silo), self.silo)
        material.bundles = {name: bytes(bundles[name]) for name in names}
        material.shared = True
        assert material.letter_key is not None
        return {
            name: sealed_shares.write(
                self.agreement.context, material.letter_key, known[self.silo], known[name], given
            )
            for name, given in pairs.items()
        }

    def receive(self, letters: Mapping[str, bytes]) -> None:
        """Store the others' shares. The senders and this silo are the roster of all rounds."""
        material = self._current()
        if material.letter_key is None:
            if not letters:
                return
            if sorted({*letters, self.silo}) == material.roster:
                return  # resent by a server that missed our answer; the first letters count
            raise ProtocolError(f"Silo {self.silo} has already received the shares of this set-up.")
        if not material.shared:
            raise ProtocolError(f"Silo {self.silo} has not yet shared its secrets of this set-up.")
        roster = sorted({*letters, self.silo})
        if self.silo in letters or not set(roster) <= set(material.bundles):
            raise ProtocolError("Shares came from a silo that sent no keys in this set-up.")
        if len(roster) < self.agreement.t:
            raise ProtocolError(
                f"Only {len(roster)} silos sent shares and {self.agreement.t} are needed."
            )
        known = self._opened({name: material.bundles[name] for name in roster}, known=True)
        private, own = material.letter_key, known[self.silo]
        read = {
            name: sealed_shares.read(self.agreement.context, private, known[name], own, letter)
            for name, letter in letters.items()
        }
        for name, given in read.items():
            self._keep(given, name)
        material.bundles = {name: material.bundles[name] for name in roster}
        material.roster, material.letter_key = roster, None

    def expect(self, round_: int) -> None:
        """Refuse a round that `masked` would refuse, before its vector is computed."""
        material = self._current()
        if not material.roster:
            raise ProtocolError(f"Silo {self.silo} has not yet received shares in this set-up.")
        if not material.first <= round_ <= material.last:
            raise ProtocolError(f"Round {round_} is not in the current set-up of {self.silo}.")
        material.require(round_)

    def masked(
        self,
        round_: int,
        vector: ArrayLike,
        bound: ArrayLike = DEFAULT_BOUND,
        question: bytes = b"",
        spoiled: bool = False,
    ) -> Words:
        """The vector as words, hidden by the masks of this round, which are then deleted.

        It can be unmasked only together with vectors that answer the same `question`. `spoiled`:
        the silo had no vector that can be sent; the sum's check word says so, of no single silo.
        """
        self.expect(round_)
        material = self._current()
        silos, context = len(self.agreement.silos), self.agreement.context
        plain = encode(vector, silos, bound)  # refuses bad numbers before a secret is used
        scale = exponents(bound, silos, plain.size // 2).astype("<i8").tobytes()
        kept = {name: material.bundles[name] for name in material.roster}
        bundles = self._opened(kept, known=True)
        seed, key = material.burn(round_)
        self._open = self._confirmed = None
        common = bound_to(context, question, material.roster)
        check = check_word(common, round_, material.roster, scale) + np.uint64(spoiled)
        words = np.concatenate([plain, check])
        words += self_mask(seed, context, round_, self.silo, words.size)
        for name, bundle in bundles.items():
            if name != self.silo:
                pair = (self.silo, name)
                public = bundle.mask_key(round_)
                words += pair_mask(key, public, common, round_, pair, words.size)
        self._open, self._sent = round_, digest_of(words)
        return words

    def confirm(self, round_: int, answers: Answers, node_key: NodeKey) -> bytes:
        """Sign the survivor list of this round, once."""
        material, asked = self._asked(round_, answers)
        if self._confirmed is not None and self._confirmed != asked:
            raise ProtocolError(f"Silo {self.silo} has signed another list for round {round_}.")
        self._confirmed = asked
        said = statement(self.agreement, round_, material.roster, asked)
        return sign(node_key, "survivors", said)

    def reveal(
        self,
        round_: int,
        answers: Answers,
        confirmations: Mapping[str, bytes],
    ) -> bytes:
        """The share of each survivor's seed, and of each dropped silo's mask key.

        Never both of one silo, and only for one list: the shares are deleted afterwards.
        """
        material, asked = self._asked(round_, answers)
        if self._confirmed != asked:
            raise ProtocolError(f"Silo {self.silo} has not signed this survivor list.")
        said = statement(self.agreement, round_, material.roster, asked)
        require_confirmations(self.agreement, said, asked, confirmations)
        held = material.shares.pop(round_)
        self._open = self._confirmed = None
        shown = {name: held[name][0 if name in asked else 1] for name in material.roster}
        return pack("reveal", round=round_, survivors=sorted(asked), shares=texts(shown))

    def to_bytes(self) -> bytes:
        """The whole session, secrets included, for `from_bytes`."""
        return pack(
            "silo",
            agreement=text_of(self.agreement.to_bytes()),
            silo=self.silo,
            next=self._next,
            open=self._open,
            sent=text_of(self._sent),
            confirmed=None if self._confirmed is None else texts(self._confirmed),
            material=None if self._material is None else self._material.to_fields(),
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> SiloSession:
        """Restore a session saved by `to_bytes`."""
        fields = unpack("silo", data)
        session = cls(Agreement.from_bytes(fields.blob("agreement")), fields.text("silo"))
        session._next = fields.number("next")
        session._open = fields.number("open") if "open" in fields else None
        session._sent = fields.blob("sent")
        session._confirmed = fields.blobs("confirmed") if "confirmed" in fields else None
        if "material" in fields:
            session._material = Material.from_fields(fields.sub("material"))
        return session

    def _current(self) -> Material:
        if self._material is None:
            raise ProtocolError(f"Silo {self.silo} has made no keys in this run; begin a set-up.")
        return self._material

    def _opened(self, bundles: Mapping[str, bytes], known: bool = False) -> dict[str, Bundle]:
        """Verified; `known`: by `share`, before they were kept."""
        material = self._current()
        rounds = (material.first, material.last)
        return {n: opened(self.agreement, n, rounds, one, known) for n, one in bundles.items()}

    def _keep(self, given: list[sealed_shares.Pair], owner: str) -> None:
        """Store a silo's shares; of this silo's own secrets only the share of the seed."""
        material = self._current()
        for round_, (seed, key) in enumerate(given, start=material.first):
            own = owner == self.silo
            material.shares.setdefault(round_, {})[owner] = (seed, b"" if own else key)

    def _asked(self, round_: int, answers: Answers) -> tuple[Material, dict[str, bytes]]:
        material = self._current()
        if self._open is None or self._open != round_:
            raise ProtocolError(
                f"Silo {self.silo} shows no shares for round {round_}: it sent nothing in that "
                "round, has already answered a survivor list, or a later round was opened."
            )
        return material, checked(self.agreement, self.silo, self._sent, material.roster, answers)
