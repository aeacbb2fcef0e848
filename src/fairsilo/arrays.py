"""The array types that all parts share, and dataclasses that are made of several arrays."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Array = Any
"""An array of NumPy or of JAX, or what JAX traces in its place."""
T = TypeVar("T")


class Summed:
    """The base of dataclasses that are added field by field: the sums of several silos."""

    def __add__(self, other: Self) -> Self:
        names = [one.name for one in fields(self)]  # type: ignore[arg-type]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


_traced: list[type] = []
_listeners: list[Callable[[Any], Any]] = []


def traced(kind: type[T]) -> type[T]:
    """Declare a dataclass whose fields JAX may trace. JAX hears of it when it is loaded."""
    _traced.append(kind)
    for listener in _listeners:
        listener(kind)
    return kind


def tell_of_traced(listener: Callable[[Any], Any]) -> None:
    """Call the function with every traced class, those to come included."""
    _listeners.append(listener)
    for kind in _traced:
        listener(kind)


def leafwise(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """The function of every array in tuples and dataclasses of the same shape; None stays None."""
    if tree is None:
        return None
    if isinstance(tree, tuple):
        return tuple(leafwise(function, *each) for each in zip(tree, *others, strict=True))
    if not is_dataclass(tree):
        return function(tree, *others)
    names, every = [one.name for one in fields(tree)], (tree, *others)
    kind: Any = type(tree)
    return kind(*(leafwise(function, *(getattr(one, name) for one in every)) for name in names))


def leaves(tree: Any) -> Iterator[Array]:
    """Every array in tuples and dataclasses."""
    if isinstance(tree, tuple):
        for one in tree:
            yield from leaves(one)
    elif is_dataclass(tree):
        for field in fields(tree):
            yield from leaves(getattr(tree, field.name))
    elif tree is not None:
        yield tree
