"""A column of texts as it is read, block by block, so that no text is in memory twice.

A category is a code per row, and each text once. A column with more texts than any category has is
left out of the features (`infer`): where it can be nothing else, its texts are only counted as soon
as this is known, and the memory does not follow the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from fairsilo.data.columns import MAX_VALUES, MISSING, codes_and_texts, writes_number
from fairsilo.data.dates import may_be_date
from fairsilo.data.dialect import Dialect, may_need_remedy

LOOKED = 100
"""Texts of a column, one of which may say that it holds no numbers and no dates."""
Hashes = NDArray[np.uint64]


@dataclass
class Counted:
    """Different hashes, of 64 bits."""

    known: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    more: list[Hashes] = field(default_factory=list)

    def add(self, hashes: Hashes) -> None:
        """Sorted whenever there are twice as many: each is sorted a few times only."""
        self.more.append(hashes)
        if sum(map(len, self.more)) > len(self.known):
            self.settle()

    def settle(self) -> int:
        """How many different ones there are."""
        self.known, self.more = np.unique(np.concatenate([self.known, *self.more])), []
        return len(self.known)


@dataclass
class Remarks:
    """What is known of a column of free texts: counts, and an example, and none of its cells."""

    missing: int = 0
    first: str | None = None
    """The first in alphabetical order that is no number."""
    texts: Counted = field(default_factory=Counted)
    numbers: Counted = field(default_factory=Counted)

    def add(self, texts: Sequence[str]) -> None:
        """Count the texts that differ from all before."""
        cells = np.array(texts, dtype=object)
        hashes = pd.util.hash_array(cells, categorize=False)
        numeric = pd.to_numeric(pd.Series(cells), errors="coerce").notna().to_numpy()
        self.numbers.add(hashes[numeric])
        self.texts.add(hashes[~numeric])
        known = [] if self.first is None else [self.first]
        self.first = min([*known, *cells[~numeric]], default=None)

    def join(self, other: Remarks | pd.Series[Any]) -> None:
        """Add those of another file, whose texts may have been kept."""
        if isinstance(other, Remarks):
            self.missing += other.missing
            for mine, theirs in ((self.texts, other.texts), (self.numbers, other.numbers)):
                theirs.settle()
                mine.add(theirs.known)
            known = [one for one in (self.first, other.first) if one is not None]
            self.first = min(known, default=None)
            return
        codes, texts = codes_and_texts(other)
        self.missing += int(np.sum(codes < 0))
        self.add(texts)


class Texts:
    """A column's codes and its different texts; or `remarks`, where they make no category.

    `feature`: the column is nothing but a feature, if it is one, and may be left out.
    `missing`: the texts that say that a cell is empty.
    """

    def __init__(self, feature: bool, missing: tuple[str, ...], dialect: Dialect) -> None:
        self.feature, self.missing, self.dialect = feature, missing, dialect
        self.place: dict[str, int] = {}
        self.codes: list[NDArray[Any]] = []
        self.remarks: Remarks | None = None
        self.looks = LOOKED

    def add(self, block: pa.Array) -> None:
        """The cells of further rows."""
        if not pa.types.is_dictionary(block.type):
            block = block.dictionary_encode()
        texts = block.dictionary.to_pylist()
        codes = block.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        if self.remarks is not None:
            self._count(self.remarks, texts, codes)
            return
        place = [self.place.setdefault(text, len(self.place)) for text in texts]
        small = np.int16 if len(self.place) <= np.iinfo(np.int16).max else np.int32
        self.codes.append(np.array([*place, -1], small)[codes])
        if self.feature and len(self.place) > MAX_VALUES and self._is_plain(texts):
            self.remarks = Remarks()
            known, whole = self.result()
            self.place, self.codes = {}, []
            self._count(self.remarks, whole, known)

    def _count(self, remarks: Remarks, texts: Sequence[str], codes: NDArray[Any]) -> None:
        empty = [k for k, text in enumerate(texts) if text in self.missing]
        remarks.missing += int(np.isin(codes, [-1, *empty]).sum())
        remarks.add([text for text in texts if text not in self.missing])

    def _is_plain(self, texts: Iterable[str]) -> bool:
        """Whether one of the texts says that the column holds no numbers, truths or dates."""
        looked = list(islice(texts, min(self.looks, 5)))
        self.looks -= len(looked)
        return any(is_plain(text, self.dialect) for text in looked)

    def result(self) -> tuple[NDArray[Any], list[str]]:
        """A code per row, -1 where there is nothing, and the text that each code stands for."""
        codes = np.concatenate(self.codes) if self.codes else np.zeros(0, np.int16)
        return codes, list(self.place)


def is_plain(text: str, dialect: Dialect) -> bool:
    """Whether a column with this text is one of texts, whatever else is in it."""
    return not (
        text in MISSING
        or writes_number(text)
        or dialect.number(text) is not None
        or may_need_remedy(text)
        or may_be_date(text)
    )


def category(codes: Any, texts: Sequence[str], missing: Sequence[str] = ()) -> pd.Categorical:
    """Codes of texts as a category; texts that mean the same share a code."""
    names = sorted(set(texts).difference(missing))
    place = {name: k for k, name in enumerate(names)}
    index = np.array([*(place.get(one, -1) for one in texts), -1], np.int32)
    return pd.Categorical.from_codes(index[codes], pd.Index(names, dtype=object))
