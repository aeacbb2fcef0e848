"""Everything that opened one sum: whoever has it can check the sum and add it up again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numpy.typing import ArrayLike

from fairsilo.arrays import Floats
from fairsilo.secagg.agreement import Agreement
from fairsilo.secagg.bundle import opened
from fairsilo.secagg.errors import ProtocolError
from fairsilo.secagg.ring import DEFAULT_BOUND, Words
from fairsilo.secagg.survivors import digest_of, require_confirmations, statement
from fairsilo.secagg.unmask import opened_sum, read_reveal


@dataclass(frozen=True, eq=False)
class Transcript:
    """The messages of one round, as the silos sent them; the set-up's signed keys with them."""

    rounds: tuple[int, int]
    """First and last round of the set-up."""
    number: int
    bundles: Mapping[str, bytes]
    """Of the roster."""
    vectors: Mapping[str, Words]
    """The survivors' masked answers."""
    confirmations: Mapping[str, bytes]
    """The survivors' signatures on the list of their answers."""
    reveals: Mapping[str, bytes]
    """The shares that were shown."""

    def total(
        self, agreement: Agreement, question: bytes, bound: ArrayLike = DEFAULT_BOUND
    ) -> Floats:
        """The sum over the survivors, of answers to this question that all of them signed."""
        survivors, roster = sorted(self.vectors), sorted(self.bundles)
        if not set(survivors) <= set(roster) or len(survivors) < agreement.t:
            raise ProtocolError("A sum is over silos that are too few, or not of its set-up.")
        answers = {name: digest_of(self.vectors[name]) for name in survivors}
        said = statement(agreement, self.number, roster, answers)
        require_confirmations(agreement, said, answers, self.confirmations)
        known = {
            name: opened(agreement, name, self.rounds, bundle)
            for name, bundle in self.bundles.items()
        }
        shares = {
            name: read_reveal(self.number, roster, survivors, reply)
            for name, reply in self.reveals.items()
        }
        return opened_sum(agreement, self.number, question, bound, known, self.vectors, shares)
