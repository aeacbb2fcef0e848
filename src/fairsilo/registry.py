"""Named things that other packages can add to, through entry points."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from fairsilo.errors import FairSiloError

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Own things by name, then those of the entry point group `group`, loaded when asked for."""

    def __init__(self, noun: str, group: str, own: Mapping[str, T]) -> None:
        self.noun, self.group = noun, group
        self._own = frozenset(own)
        self._known: dict[str, T] = dict(own)

    @cached_property
    def _others(self) -> dict[str, EntryPoint]:
        """Those of other packages; found once, because looking takes milliseconds."""
        return {one.name: one for one in entry_points(group=self.group)}

    def __getitem__(self, name: str) -> T:
        if name not in self._known:
            if name not in self._others:
                raise KeyError(name)
            try:
                self._known[name] = self._others[name].load()
            except Exception as error:
                value = self._others[name].value
                raise FairSiloError(
                    f"the {self.noun} {name!r} of {value} cannot be loaded ({error}): "
                    "install its package anew, or remove it"
                ) from error
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._known, *sorted(set(self._others) - set(self._known))])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def add(self, name: str, thing: T) -> None:
        """Add a thing in this process, or replace one added before; own names stay as they are."""
        if name in self._own and self._known[name] != thing:
            raise FairSiloError(f"there is a {self.noun} {name!r} already: choose another name")
        self._known[name] = thing

    def name_of(self, thing: str | T) -> str:
        """The name itself, or that of an object, which is then known by it."""
        if isinstance(thing, str):
            return thing
        name = getattr(thing, "name", None) or getattr(thing, "__name__", None)
        if not isinstance(name, str):
            raise FairSiloError(f"the {self.noun} {thing!r} has no name: give it one")
        self.add(name, thing)
        return name
