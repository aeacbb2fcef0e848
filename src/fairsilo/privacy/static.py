"""Sums that stay the same between rounds leak by subtraction; a silo refuses the leaking one.

If a sum of the same numbers is shown over {a, b, c, d} and again over {a, b, c}, the difference
is what d sent. More generally the server can combine all the sums it ever saw: silo i's share is
known as soon as the unit vector e_i lies in the span of the participants' indicator vectors.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np

from fairsilo.privacy.errors import ProtocolError

VERSION = 1


class StaticSumGuard:
    """Remembers over whom each static sum was shown. Kept by a silo across rounds and runs.

    The name should say which numbers are summed ("counts", "encoder", with the fingerprint of
    the rows if they may change). Call `admit` before `reveal`, and save the guard before the
    reply leaves.
    """

    def __init__(self) -> None:
        self._shown: dict[str, list[frozenset[str]]] = {}

    def admit(self, name: str, survivors: Iterable[str]) -> None:
        """Note that the sum `name` is shown over `survivors`, or refuse."""
        asked = frozenset(survivors)
        shown = self._shown.get(name, [])
        if asked in shown:
            return
        # One silo that left, or came, stands alone in the difference of the two sums.
        alone = any(len(one - other) == 1 for past in shown for one, other in _both(past, asked))
        if alone or exposed([*shown, asked]) > exposed(shown):
            raise ProtocolError(
                f"A static sum over {len(asked)} silos is refused: with the sums already shown it "
                "would give one silo's share by subtraction; ask over the same silos, or when at "
                "least two have left."
            )
        self.note(name, asked)

    def note(self, name: str, survivors: Iterable[str]) -> None:
        """Note that the sum `name` is shown over `survivors`, whatever follows from it."""
        asked = frozenset(survivors)
        shown = self._shown.setdefault(name, [])
        if asked not in shown:
            shown.append(asked)

    def to_bytes(self) -> bytes:
        """What `from_bytes` reads; holds names only, no numbers."""
        shown = {name: [sorted(past) for past in sets] for name, sets in self._shown.items()}
        return json.dumps({"version": VERSION, "shown": shown}, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> StaticSumGuard:
        """The guard as it was saved."""
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


def _both(one: frozenset[str], other: frozenset[str]) -> tuple[tuple[frozenset[str], ...], ...]:
    return (one, other), (other, one)


def exposed(sets: list[frozenset[str]]) -> set[str]:
    """The silos whose own share follows from the sums over `sets`."""
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
