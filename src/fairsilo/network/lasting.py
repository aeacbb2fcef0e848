"""A form that does not change, and may keep what was once computed of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Lasting(BaseModel):
    """Frozen. What a `cached_property` keeps is neither in copies nor in `dict`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __iter__(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]
        """The fields alone."""
        return ((name, getattr(self, name)) for name in type(self).model_fields)

    def __copy__(self) -> Self:
        """A copy, whose fields `model_copy` may change."""
        copied = super().__copy__()
        for name in set(copied.__dict__) - set(type(self).model_fields):
            del copied.__dict__[name]
        return copied
