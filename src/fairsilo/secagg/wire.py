"""Messages and saved states as bytes: JSON with a kind and a format version, never pickle."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import TypeVar

from fairsilo.secagg.errors import ProtocolError

VERSION = 1
T = TypeVar("T")


def text_of(data: bytes) -> str:
    """Bytes as a JSON string."""
    return base64.b64encode(data).decode()


def pack(kind: str, **fields: object) -> bytes:
    """One message; the same fields always give the same bytes."""
    whole = {"kind": kind, "version": VERSION, "fields": fields}
    return json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()


def unpack(kind: str, data: bytes) -> Fields:
    """The fields of a message of this kind; any other message is an error."""
    try:
        # Of a number, `bytes` would make as many zeros.
        if not isinstance(data, bytes):
            raise TypeError
        whole = json.loads(data)
    except (ValueError, TypeError, RecursionError) as error:
        raise ProtocolError(f"A message of secure aggregation ({kind}) cannot be read.") from error
    if not isinstance(whole, dict) or whole.get("kind") != kind:
        raise ProtocolError(f"A message of secure aggregation is not of the kind {kind}.")
    if whole.get("version") != VERSION:
        raise ProtocolError(
            f"A message of secure aggregation ({kind}) has format {whole.get('version')} and this "
            f"version reads {VERSION}; install the same fairsilo everywhere."
        )
    return Fields(kind, whole.get("fields"))


class Fields:
    """Typed access to the fields of an untrusted message."""

    def __init__(self, kind: str, values: object) -> None:
        if not isinstance(values, dict):
            raise ProtocolError(f"A message of secure aggregation ({kind}) has no fields.")
        self._kind = kind
        self._values: Mapping[str, object] = values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def _bad(self, name: str) -> ProtocolError:
        return ProtocolError(
            f"The field {name!r} of a message of secure aggregation ({self._kind}) "
            "is missing or malformed."
        )

    def _of(self, name: str, kind: type[T]) -> T:
        value = self._values.get(name)
        if not isinstance(value, kind):
            raise self._bad(name)
        return value

    def text(self, name: str) -> str:
        """A string."""
        return self._of(name, str)

    def number(self, name: str) -> int:
        """A non-negative integer."""
        value = self._of(name, int)
        if isinstance(value, bool) or value < 0:
            raise self._bad(name)
        return value

    def flag(self, name: str) -> bool:
        """True or false."""
        return self._of(name, bool)

    def blob(self, name: str, size: int | None = None) -> bytes:
        """Bytes, of length `size` if given."""
        try:
            value = base64.b64decode(self.text(name), validate=True)
        except (binascii.Error, ValueError) as error:
            raise self._bad(name) from error
        if size is not None and len(value) != size:
            raise self._bad(name)
        return value

    def names(self, name: str) -> list[str]:
        """A list of strings."""
        value = self._of(name, list)
        if not all(isinstance(item, str) for item in value):
            raise self._bad(name)
        return [str(item) for item in value]

    def sub(self, name: str) -> Fields:
        """A nested object."""
        return Fields(self._kind, self._of(name, dict))

    def blobs(self, name: str, size: int | None = None) -> dict[str, bytes]:
        """An object whose values are bytes."""
        table = self.sub(name)
        return {key: table.blob(key, size) for key in table}


def texts(blobs: Mapping[str, bytes]) -> dict[str, str]:
    """An object whose values are bytes, for `pack`."""
    return {name: text_of(blob) for name, blob in blobs.items()}
