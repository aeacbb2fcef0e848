"""Read a CSV file block by block: numbers as numbers, texts as codes of a dictionary.

Of columns that are not asked for nothing is kept, but every cell is looked at: an unclosed quote
or a letter that is not UTF-8 is an error wherever it is.

The type of a column follows from all of its cells. It is guessed from the first block; a cell that
contradicts the guess makes its column more general, and the file is read again. Arrow takes some
texts for numbers (`0x1F`, `NAN`, 20 digits): where there may be such cells, all are looked at.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from fairsilo.data.asked import Asked
from fairsilo.data.columns import MISSING, is_truth, respelled, writes_number
from fairsilo.data.dialect import Dialect, currencies
from fairsilo.data.schema import Schema
from fairsilo.data.texts import Texts, category
from fairsilo.errors import FairSiloError

WHOLE = re.compile(r"-?(0|[1-9]\d{0,18})")
LONG = re.compile(r"\s*[+-]?\d{20,}\s*")
"""Whole numbers that no number type holds: names, and not numbers."""
FIRST, BLOCK, LARGEST = 1 << 14, 1 << 22, 1 << 26
"""Bytes that types are guessed from at first, that are read at a time, that they are guessed from
at most."""
DIGITS = np.isin(np.arange(256), list(b"0123456789"))
TEXT = pa.dictionary(pa.int32(), pa.string())
RANK = [pa.int64(), pa.float64(), TEXT]
Gathered = Texts | list[pa.Array]
"""A column of texts, or the blocks of a column of numbers."""
WIDER = {pa.int64(): pa.float64(), pa.float64(): TEXT}


def names_of(path: Path, packed: bool, dialect: Dialect) -> list[str]:
    """The names of all columns, which are well-formed."""
    with _as_errors(path):
        return _names(path, packed, dialect)


def read_csv(
    path: Path,
    packed: bool,
    names: Sequence[str],
    asked: Asked,
    schema: Schema | None,
    dialect: Dialect,
) -> dict[str, Any]:
    """The columns asked for; those declared in `schema` have the declared type.

    `names`: those of the file. A column whose texts were only counted is `Remarks`.
    """
    with _as_errors(path):
        columns = _arrow(path, packed, names, asked, schema, dialect)
        # Each goes as soon as pandas has it.
        wanted = [name for name in names if name in columns]
        return {name: _column(columns.pop(name), name, schema, dialect) for name in wanted}


def raw_batches(path: Path, dialect: Dialect) -> Iterator[pa.RecordBatch]:
    """All cells as they are written, block by block."""
    packed = path.suffix.lower() == ".gz"
    names = names_of(path, packed, dialect)
    block = max(BLOCK, _header(names))
    with _as_errors(path):
        yield from _batches(path, packed, dict.fromkeys(names, pa.string()), block, dialect)


def _header(names: Sequence[str]) -> int:
    """Bytes that a first block must have: Arrow wants the whole header in it."""
    return 2 * sum(len(name.encode()) + 3 for name in names)


@contextmanager
def _as_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise FairSiloError(f"{path} is not a whole gzip file; write it again") from None
    except UnicodeDecodeError:
        raise FairSiloError(f"{path} is not text in UTF-8; save it as CSV in UTF-8") from None


def _open(path: Path, packed: bool) -> IO[bytes]:
    return gzip.open(path) if packed else path.open("rb")  # type: ignore[return-value]


def _records(
    path: Path, packed: bool, dialect: Dialect, strict: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Every record that is not blank, with the line it ends in: slow, for the header and errors."""
    with _open(path, packed) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
        reader = csv.reader(text, strict=strict, delimiter=dialect.sep)
        for row in reader:
            if any(field.strip() for field in row):
                yield reader.line_num, row


def _names(path: Path, packed: bool, dialect: Dialect) -> list[str]:
    with _open(path, packed) as raw:
        if b"\0" in raw.read(FIRST):
            raise FairSiloError(f"{path} is binary and not a table; give a CSV file in UTF-8")
    try:
        next(_records(path, packed, dialect))
        with _open(path, packed) as raw:
            text = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
            names = next(row for row in csv.reader(text, delimiter=dialect.sep) if row)
    except StopIteration:
        raise FairSiloError(f"{path} is empty; write a table to it") from None
    except csv.Error:
        raise _no_table(path, packed, dialect) from None
    check_names(path, names)
    return names


def check_names(path: Path, names: Sequence[str]) -> None:
    """Every column has a name of its own, and there is more than one, if it should."""
    for position, name in enumerate(names, start=1):
        if not name.strip():
            raise FairSiloError(f"column {position} of {path} has no name; name it or remove it")
        if names.index(name) != position - 1:
            raise FairSiloError(f"{path} has two columns named {name!r}; rename one")
    marks = [mark for mark in ";\t|," if len(names) == 1 and mark in names[0]]
    if marks:
        other = {"\t": "TAB"}.get(marks[0], marks[0])
        raise FairSiloError(
            f"the fields of {path} are separated by {other} and not as expected: give `sep` "
            f"{other!r}"
        )


def _no_table(path: Path, packed: bool, dialect: Dialect) -> FairSiloError:
    """What is wrong with a file that cannot be cut into rows: a short row is named by its line."""
    try:
        records = _records(path, packed, dialect)
        width = len(next(records)[1])
        for line, row in records:
            if len(row) < width:
                return FairSiloError(
                    f"{path} is not a table: line {line} has {len(row)} of {width} fields; "
                    "correct that row"
                )
    except csv.Error:
        pass
    return FairSiloError(
        f"{path} is not a table: a row has more fields than the header, or a quote is not closed; "
        "correct that row"
    )


def _arrow(
    path: Path,
    packed: bool,
    names: Sequence[str],
    asked: Asked,
    schema: Schema | None,
    dialect: Dialect,
) -> dict[str, Gathered]:
    """The columns asked for, each as its narrowest type, or as the schema declares it."""
    declared: dict[str, Any] = {}
    if schema is not None:
        declared = dict.fromkeys(schema.numbers, pa.float64())
        declared |= dict.fromkeys(schema.dates, TEXT)
        declared |= dict.fromkeys(schema.vocabularies, TEXT)
    unread = dict.fromkeys((name for name in names if name not in asked.columns), pa.string())
    types = {name: pa.int64() for name in names if name not in unread}
    header = _header(names)
    size, block = max(FIRST, header), max(BLOCK, header)
    try:
        _widen_by_first(types, path, packed, size, dialect)
        types |= {name: declared[name] for name in types if name in declared}
        while True:
            try:
                batches = _batches(path, packed, types | unread, block, dialect)
                columns, last = _gathered(batches, types, asked, dialect)
                doubtful = [
                    n for n in _doubtful(columns, path, packed, dialect) if n not in declared
                ]
                texts = dict.fromkeys(doubtful, pa.string())
                if not (
                    texts and _widen(types, _batches(path, packed, texts, block, dialect), dialect)
                ):
                    break
            except pa.ArrowInvalid as error:
                found = re.match(r"In CSV column #(\d+): .*invalid value", str(error), re.DOTALL)
                if found is None:
                    raise
                name = names[int(found[1])]
                types[name] = WIDER[types[name]]
                if size < LARGEST:
                    # Other columns may need the same: look at more, not at the file once for each.
                    size *= 8
                    _widen_by_first(types, path, packed, size, dialect)
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            raise FairSiloError(f"{path} has column names but no rows; add rows") from None
        if "UTF8" in str(error):
            raise UnicodeDecodeError("utf-8", b"", 0, 1, str(error)) from None
        raise _no_table(path, packed, dialect) from None
    _check_quotes(last, path, packed, dialect)
    return columns


def _gathered(
    batches: Iterable[pa.RecordBatch], types: Mapping[str, Any], asked: Asked, dialect: Dialect
) -> tuple[dict[str, Gathered], pa.RecordBatch | None]:
    """The columns of these types, all their blocks; and the block with the last row."""
    columns: dict[str, Gathered] = {
        name: Texts(name in asked.features, ("",), dialect) if kind == TEXT else []
        for name, kind in types.items()
    }
    last = None
    for batch in batches:
        for name, column in columns.items():
            if isinstance(column, Texts):
                column.add(batch[name])
            else:
                column.append(batch[name])
        last = batch if batch.num_rows else last
    return columns, last


def _check_quotes(last: pa.RecordBatch | None, path: Path, packed: bool, dialect: Dialect) -> None:
    """A quote that is never closed takes the rest of the file into the last row."""
    every = [] if last is None else last.columns
    ends = (str(one[-1].as_py()) for one in every if one.type in (TEXT, pa.string()))
    if any("\n" in end for end in ends):
        try:
            for _ in _records(path, packed, dialect, strict=True):
                pass
        except csv.Error as error:
            if "end of data" in str(error):
                raise _no_table(path, packed, dialect) from None


def _widen_by_first(
    types: dict[str, Any], path: Path, packed: bool, size: int, dialect: Dialect
) -> None:
    """Make every type wide enough for the cells of the first bytes."""
    first = next(_batches(path, packed, dict.fromkeys(types, pa.string()), size, dialect), None)
    if first is None or not first.num_rows:
        raise FairSiloError(f"{path} has column names but no rows; add rows")
    for name, kind in types.items():
        types[name] = max(kind, _guessed(first[name], dialect) or TEXT, key=RANK.index)


def _widen(types: dict[str, Any], batches: Iterable[pa.RecordBatch], dialect: Dialect) -> bool:
    """Make the types wide enough for all cells of these columns; say whether one changed."""
    before = dict(types)
    for batch in batches:
        for name in batch.schema.names:
            found = _guessed(batch[name], dialect) or types[name]
            types[name] = max(types[name], found, key=RANK.index)
    return types != before


def _doubtful(
    columns: Mapping[str, Gathered], path: Path, packed: bool, dialect: Dialect
) -> Iterator[str]:
    """The columns of numbers that may hold a text which Arrow takes for a number."""
    numbers = {name: one for name, one in columns.items() if not isinstance(one, Texts)}
    whole = [name for name, one in numbers.items() if one and one[0].type == pa.int64()]
    if whole and _has_codes(path, packed, dialect):
        yield from whole
    for name in numbers.keys() - {*whole}:
        if any(pc.any(pc.invert(pc.less(pc.abs(one), 1e19))).as_py() for one in numbers[name]):
            yield name


def _has_codes(path: Path, packed: bool, dialect: Dialect) -> bool:
    """Whether there are hexadecimals, or fields of digits that begin with a zero."""
    ends = re.escape(dialect.sep.encode()) + rb'\n"'
    zeros = re.compile(rb"[%b]0[0-9]+[%b\r]" % (ends, ends))
    begins = np.isin(np.arange(256), list(dialect.sep.encode() + b'\n"'))
    with _open(path, packed) as raw:
        last = b""
        while block := raw.read(BLOCK):
            block = last + block
            # One letter is found much sooner than two.
            if (b"x" in block and b"0x" in block) or (b"X" in block and b"0X" in block):
                return True
            # Few zeros begin a field: the expression, which is slow, looks at few blocks.
            each = np.frombuffer(block, np.uint8)
            place = np.flatnonzero(each[1:-1] == ord("0"))
            place = place[begins[each[place]]]
            if DIGITS[each[place + 2]].any() and zeros.search(block):
                return True
            last = block[-32:]
    return False


def _batches(
    path: Path, packed: bool, types: Mapping[str, Any], size: int, dialect: Dialect
) -> Iterator[pa.RecordBatch]:
    with _open(path, packed) as raw:
        yield from arrow_csv.open_csv(
            raw,
            arrow_csv.ReadOptions(block_size=size, use_threads=False),
            arrow_csv.ParseOptions(
                delimiter=dialect.sep,
                newlines_in_values=True,
                invalid_row_handler=lambda row: "error" if row.text.strip() else "skip",
            ),
            arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=list(MISSING),
                strings_can_be_null=False,
                decimal_point=dialect.decimal,
            ),
        )


def _guessed(column: pa.Array, dialect: Dialect) -> pa.DataType | None:
    """The narrowest type that all cells have; None if all are missing."""
    texts = set(column.unique().to_pylist()).difference(MISSING)
    if not texts:
        return None
    if all(map(WHOLE.fullmatch, texts)):
        return pa.int64()
    numbers = all(map(dialect.plain.fullmatch, texts)) and not any(map(LONG.fullmatch, texts))
    return pa.float64() if numbers else TEXT


def _column(found: Gathered, name: str, schema: Schema | None, dialect: Dialect) -> Any:
    """A column as pandas has it: numbers, or a category, whose texts are read one by one."""
    if not isinstance(found, Texts):
        values = pa.chunked_array(found).to_numpy()
        return values if values.flags.writeable else values.copy()
    if found.remarks is not None:
        return found.remarks
    codes, texts = found.result()
    declared = None if schema is None else schema.vocabularies.get(name)
    if declared is not None:
        missing = MISSING if all(map(writes_number, declared)) else ("",)
        spelled = [one if one in missing else respelled(one, declared) for one in texts]
        return category(codes, spelled, missing)
    if schema is not None and name in schema.dates:
        return category(codes, texts, MISSING)
    return _read(codes, texts, dialect, schema is not None and name in schema.numbers)


def _read(codes: Any, texts: Sequence[str], dialect: Dialect, meant: bool) -> Any:
    """A column of texts as numbers where all of them are, as true and false, or as it stands.

    `meant`: the column is declared to hold numbers, and every cell is read by itself.
    """
    known = [one for one in texts if one not in MISSING]
    long = not meant and any(map(LONG.fullmatch, known))
    # Most columns of texts are known by the first.
    if not long and (meant or not known or dialect.number(known[0]) is not None):
        read = {one: dialect.number(one) for one in known}
        if None not in read.values() and (meant or currencies(known) < 2):
            return np.array([*(read.get(one, np.nan) for one in texts), np.nan], float)[codes]
        if meant:
            # What can be read is, cell by cell; what cannot is left as it stands.
            spelled = [one if read.get(one) is None else repr(read[one]) for one in texts]
            return category(codes, spelled, MISSING)
    if all(map(is_truth, known)):
        spelled = [one.strip().capitalize() if is_truth(one) else one for one in texts]
        return category(codes, spelled, MISSING)
    return category(codes, texts, ("",))
