"""A static sum is not revealed twice if the difference is one silo's share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairsilo.secagg import ProtocolError, StaticSumGuard
from tests.secagg.exposed import exposed

A, B, C, D, E, F = "abcdef"


def test_the_same_silos_may_ask_again() -> None:
    guard = StaticSumGuard()
    for _ in range(3):
        guard.admit("counts", [A, B, C, D])
        guard = StaticSumGuard.from_bytes(guard.to_bytes())


@pytest.mark.parametrize("second", [[A, B, C], [A, B, C, D, E]])
def test_one_silo_less_or_more_is_refused(second: list[str]) -> None:
    guard = StaticSumGuard()
    guard.admit("counts", [A, B, C, D])
    guard = StaticSumGuard.from_bytes(guard.to_bytes())
    with pytest.raises(ProtocolError, match="by subtraction"):
        guard.admit("counts", second)
    guard.admit("encoder", second)  # another sum
    guard.admit("counts", [A, B, C, D])  # a refused one is not recorded


def test_two_silos_less_or_more_are_admitted() -> None:
    guard = StaticSumGuard()
    guard.admit("counts", [A, B, C, D, E])
    guard.admit("counts", [A, B, C])
    guard.admit("counts", [A, B, C, D, E])


@pytest.mark.parametrize("second", [[A, B], [A, B, C], [A, B, C, D, E, F, *"ghijkl"]])
def test_half_or_twice_as_many_are_refused(second: list[str]) -> None:
    """All less one half, less the other half but one, is one silo's; nobody sees both halves."""
    guard = StaticSumGuard()
    guard.admit("counts", [A, B, C, D, E, F])
    with pytest.raises(ProtocolError, match="by subtraction"):
        guard.admit("counts", second)


def test_two_in_the_place_of_two_are_refused() -> None:
    """With two more such sums, of which no silo that saw this one need know, one silo is left."""
    guard = StaticSumGuard()
    guard.admit("counts", [A, B, C, D, E])
    with pytest.raises(ProtocolError, match="by subtraction"):
        guard.admit("counts", [A, B, C, F, "g"])


def test_one_silo_in_the_place_of_another_is_refused() -> None:
    """The difference of the sums would be that of two silos' shares."""
    guard = StaticSumGuard()
    guard.admit("counts", [A, B, C, D])
    with pytest.raises(ProtocolError, match="by subtraction"):
        guard.admit("counts", [A, B, C, E])


def test_three_differences_of_two_are_one_of_one() -> None:
    """S - a - b, S - b - c and S - a - c together give a, b and c."""
    everyone = frozenset({A, B, C, D, E, F})
    sets = [everyone, everyone - {A, B}, everyone - {B, C}]
    assert not exposed(sets)
    assert exposed([*sets, everyone - {A, C}]) == {A, B, C}
    assert not exposed([])


def test_what_was_shown_by_agreement_is_noted() -> None:
    guard = StaticSumGuard()
    guard.note("counts", [A, B, C, D])
    guard.note("counts", [A, B, C])
    guard = StaticSumGuard.from_bytes(guard.to_bytes())
    guard.admit("counts", [A, B, C])
    with pytest.raises(ProtocolError, match="by subtraction"):
        guard.admit("counts", [A, B, D])


@given(st.lists(st.frozensets(st.sampled_from("abcde"), min_size=1), min_size=1, max_size=4))
def test_exposed_agrees_with_least_squares(sets: list[frozenset[str]]) -> None:
    names = sorted(frozenset().union(*sets))
    rows = np.array([[float(n in s) for n in names] for s in sets])
    expected = set()
    for name, unit in zip(names, np.eye(len(names)), strict=True):
        weights = np.linalg.lstsq(rows.T, unit, rcond=None)[0]
        if np.allclose(rows.T @ weights, unit):
            expected.add(name)
    assert exposed(sets) == expected


SETS = st.lists(st.frozensets(st.integers(0, 11), min_size=3), min_size=2, max_size=14)


def shown_of(asked: list[frozenset[int]]) -> list[frozenset[str]]:
    """Which of the sums are shown: each silo has a guard, and all of a sum must agree."""
    guards = {str(one): StaticSumGuard() for one in range(12)}
    shown = []
    for names in (frozenset(map(str, one)) for one in asked):
        agreed = []
        for name in sorted(names):
            try:
                guards[name].admit("counts", names)
            except ProtocolError:
                break
            agreed.append(name)
        if len(agreed) == len(names):
            shown.append(names)
    return shown


@given(SETS)
def test_what_is_shown_never_exposes(asked: list[frozenset[int]]) -> None:
    """Whatever is asked of whom, in whichever federations: no sums give one silo's share."""
    assert not exposed(shown_of(asked))


def test_sums_of_which_no_silo_that_opens_the_last_knows_enough() -> None:
    """The rule of sets that was: two differ by one silo or a silo's own sums expose one."""
    all_ = frozenset(range(7))
    sets = [all_ - {1, 2}, all_ - {3, 4}, all_ - {5, 6}, all_]
    assert exposed([frozenset(map(str, one)) for one in sets]) == {"0"}
    assert len(shown_of(sets)) == 2
    parts = [all_, frozenset({1, 2, 3}), frozenset({4, 5, 6})]
    assert exposed([frozenset(map(str, one)) for one in parts]) == {"0"}
    assert shown_of(parts) == [frozenset(map(str, all_))]


@pytest.mark.parametrize("noise", [b"", b"[]", b"{}", b'{"version":2,"shown":{}}'])
def test_a_damaged_guard_is_refused(noise: bytes) -> None:
    with pytest.raises(ProtocolError, match="cannot be read"):
        StaticSumGuard.from_bytes(noise)
