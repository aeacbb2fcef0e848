"""The training rows in the order of their silos: silo i holds rows offsets[i] to offsets[i+1]."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import Table
from fairsilo.errors import FairSiloError
from fairsilo.partition.rows import by_client


@dataclass(frozen=True)
class Federation:
    """Rows of several silos, laid end to end."""

    x: Table
    y: Ints
    s: Ints
    offsets: Ints
    groups: int
    """How many groups there are; s is an index into them."""
    classes: int
    """How many classes there are; y is an index into them."""
    weight: Floats | None = None
    """As how many rows each row counts; None: as one."""

    @classmethod
    def of(
        cls,
        x: Table,
        y: Ints,
        s: Ints,
        client: Ints,
        *,
        groups: int,
        classes: int,
        clients: int | None = None,
        weight: Floats | None = None,
    ) -> Federation:
        """Sort rows by client (stable), unless they are; rows of client -1 (test) are left out.

        `clients`: how many there are, some perhaps without a row; else those with rows count.
        """
        order: Ints | slice = slice(None)
        if (client < 0).any() or (np.diff(client) < 0).any():
            order = by_client(client)
        client = client[order]
        if not client.size:
            raise FairSiloError(
                "there are no training rows: lower `test_fraction` or give more rows"
            )
        sizes = np.bincount(client, minlength=clients or 0)
        if clients is None:
            sizes = sizes[sizes > 0]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        weight = None if weight is None else weight[order]
        return cls(x[order], y[order], s[order], offsets, groups, classes, weight)

    @property
    def clients(self) -> int:
        """The number of silos."""
        return len(self.offsets) - 1

    @property
    def rows(self) -> int:
        """The number of rows of all silos."""
        return len(self.y)

    def silos(self) -> Iterator[slice]:
        """The slice of rows that each silo holds."""
        for start, stop in pairwise(self.offsets):
            yield slice(int(start), int(stop))

    def parts(self) -> Iterator[Federation]:
        """Every silo as a federation of one."""
        return map(self.only, range(self.clients))

    def only(self, silo: int) -> Federation:
        """A federation of one: the silo trains alone."""
        part = slice(int(self.offsets[silo]), int(self.offsets[silo + 1]))
        offsets = np.array([0, part.stop - part.start], dtype=np.int64)
        weight = None if self.weight is None else self.weight[part]
        shape = self.groups, self.classes
        return Federation(self.x[part], self.y[part], self.s[part], offsets, *shape, weight)
