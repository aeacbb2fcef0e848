"""Guard for static sums: those that do not change between rounds leak by subtraction.

If a sum of the same numbers is revealed over {a, b, c, d} and again over {a, b, c}, the difference
is d's share. More generally, the server can combine all the sums it has seen: silo i's share is
known as soon as the unit vector e_i lies in the span of the participants' indicator vectors.

A silo knows only of the sums that it was in, so the rule must hold of any two sums that one silo
was in, and be enough for all of them together: of two sets the larger contains the smaller, with
at least two silos more, and less than twice as many. Every silo of a sum agrees to it, so any two
sets that meet are known to a silo that both contain. Hence all sets that are ever shown are apart
or one within the other. A set has at most one largest part, because two would each be more than
half of it and so meet; it has two silos or more beside that part. So the sums tell of groups of
two silos or more, and of no single one.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping

from fairsilo.secagg.errors import ProtocolError

VERSION = 1


class StaticSumGuard:
    """Records the silos over which each static sum was revealed, across rounds and runs.

    The name should say which numbers are summed ("counts", "encoder", with the fingerprint of
    the rows if they may change). Call `admit`, and save the guard, before the signature of
    `confirm` is sent.
    """

    def __init__(self) -> None:
        self._shown: dict[str, list[frozenset[str]]] = {}

    def admit(self, name: str, survivors: Iterable[str]) -> None:
        """Record that the sum `name` is revealed over `survivors`, or refuse it."""
        asked = frozenset(survivors)
        shown = self._shown.get(name, [])
        if asked in shown:
            return
        # What was noted without a check may already break the rule: then nothing new is shown.
        sets = sorted([*shown, asked], key=len)
        if not all(_apart(small, large) for small, large in itertools.combinations(sets, 2)):
            raise ProtocolError(
                f"A static sum over {len(asked)} silos is refused: with the sums already shown it "
                "could give one silo's share by subtraction; ask over the same silos, or after two "
                "or more have left, though not half, or have joined, though not as many again."
            )
        self.note(name, asked)

    def note(self, name: str, survivors: Iterable[str]) -> None:
        """Record that the sum `name` is revealed over `survivors`, without a check."""
        asked = frozenset(survivors)
        shown = self._shown.setdefault(name, [])
        if asked not in shown:
            shown.append(asked)

    def shown(self, name: str) -> list[frozenset[str]]:
        """Over whom the sum `name` was revealed so far."""
        return list(self._shown.get(name, []))

    def rename(self, names: Mapping[str, str]) -> None:
        """Take silos for others from now on, in the past too: they were found to be the same."""
        for name, sets in self._shown.items():
            same = (frozenset(names.get(one, one) for one in past) for past in sets)
            self._shown[name] = list(dict.fromkeys(same))

    def to_bytes(self) -> bytes:
        """The guard as bytes for `from_bytes`; it contains names only, no numbers."""
        shown = {name: [sorted(past) for past in sets] for name, sets in self._shown.items()}
        return json.dumps({"version": VERSION, "shown": shown}, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> StaticSumGuard:
        """Restore a guard saved by `to_bytes`."""
        try:
            saved = json.loads(data)
            if saved["version"] != VERSION:
                raise ValueError(saved["version"])
            shown = {
                str(name): [frozenset(map(str, past)) for past in sets]
                for name, sets in saved["shown"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ProtocolError(
                "The saved list of static sums cannot be read; it was written by another version."
            ) from error
        guard = cls()
        guard._shown = shown
        return guard


def _apart(small: frozenset[str], large: frozenset[str]) -> bool:
    """Whether sums over both show no single silo, also with sums that neither's silos know."""
    return small < large and len(small) + 2 <= len(large) < 2 * len(small)
