"""The server waits for the silos of the federation file, up to a timeout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairsilo.errors import FairSiloError
from fairsilo.network.server import wait_for_silos
from tests.network.silos import TownTransport, make_town


def test_all_are_waited_for(tmp_path: Path) -> None:
    town = make_town(tmp_path, silos=3, rows=90)
    post = TownTransport(town, absent=("silo1",))
    said: list[dict[str, Any]] = []

    def sleep(seconds: float) -> None:
        post.absent = ()

    assert wait_for_silos(town.agreed, post, 60, said.append, sleep) == town.agreed.names
    assert [event["silos"] for event in said] == [2, 3]


def test_when_time_is_up_it_begins_without_the_absent_or_says_who_they_are(tmp_path: Path) -> None:
    town = make_town(tmp_path, silos=4, rows=120)
    present = wait_for_silos(
        town.agreed, TownTransport(town, absent=("silo1",)), 0.0, lambda event: None
    )
    assert present == tuple(name for name in town.agreed.names if name != "silo1")
    too_few = TownTransport(town, absent=town.agreed.names[1:])
    with pytest.raises(FairSiloError, match=r"1 of at least \d silos are connected, absent are"):
        wait_for_silos(town.agreed, too_few, 0.0, lambda event: None)
