"""Guard for static sums: those that do not change between rounds leak by subtraction.

If a sum of the same numbers is revealed over {a, b, c, d} and again over {a, b, c}, the difference
is d's share. More generally, the server can combine all the sums it has seen: silo i's share is
known as soon as the unit vector e_i lies in the span of the participants' indicator vectors.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import numpy as np

from fairsilo.secagg.errors import ProtocolError

VERSION = 1


class StaticSumGuard:
    """Records the silos over which each static sum was revealed, across rounds and runs.

    The name should say which numbers are summed ("counts", "encoder", with the fingerprint of
    the rows if they may change). Call `admit` before `reveal`, and save the guard before the
    reply is sent.
    """

    def __init__(self) -> None:
        self._shown: dict[str, list[frozenset[str]]] = {}

    def admit(self, name: str, survivors: Iterable[str]) -> None:
        """Record that the sum `name` is revealed over `survivors`, or refuse it."""
        asked = frozenset(survivors)
        shown = self._shown.get(name, [])
        if asked in shown:
            return
        # If one silo left or joined, the difference of the two sums reveals its share.
        alone = any(1 in (len(past - asked), len(asked - past)) for past in shown)
        if alone or exposed([*shown, asked]) > exposed(shown):
            raise ProtocolError(
                f"A static sum over {len(asked)} silos is refused: with the sums already shown it "
                "would give one silo's share by subtraction; ask over the same silos, or when at "
                "least two have left."
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


def exposed(sets: list[frozenset[str]]) -> set[str]:
    """The silos whose share can be computed from the sums over `sets`."""
    if not sets:
        return set()
    names = sorted(frozenset().union(*sets))
    rows = np.array([[name in past for name in names] for past in sets], dtype=np.float64)
    rank = np.linalg.matrix_rank(rows)
    units = np.eye(len(names))
    return {
        name
        for name, unit in zip(names, units, strict=True)
        if np.linalg.matrix_rank(np.vstack([rows, unit])) == rank
    }
