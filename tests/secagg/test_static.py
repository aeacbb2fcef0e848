"""A static sum is not revealed twice if the difference is one silo's share."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairsilo.secagg import ProtocolError, StaticSumGuard
from fairsilo.secagg.static import exposed

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


def test_two_silos_less_are_admitted() -> None:
    guard = StaticSumGuard()
    guard.admit("counts", [A, B, C, D, E])
    guard.admit("counts", [A, B, C])


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


def test_what_is_admitted_never_exposes() -> None:
    guard, shown = StaticSumGuard(), []
    for size in (3, 4, 5):
        for asked in itertools.combinations([A, B, C, D, E], size):
            try:
                guard.admit("counts", asked)
            except ProtocolError:
                continue
            shown.append(frozenset(asked))
            assert not exposed(shown)
    assert len(shown) >= 2


@pytest.mark.parametrize("noise", [b"", b"[]", b"{}", b'{"version":2,"shown":{}}'])
def test_a_damaged_guard_is_refused(noise: bytes) -> None:
    with pytest.raises(ProtocolError, match="cannot be read"):
        StaticSumGuard.from_bytes(noise)
