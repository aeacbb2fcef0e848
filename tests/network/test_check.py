"""`fairsilo flower check`: the silo's key, and whether its owner said yes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairsilo.network.ops.check import check_table
from fairsilo.network.ops.keys import make_key
from fairsilo.network.settings import read_settings
from tests.network.silos import Town, make_town


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return make_town(tmp_path, secure_aggregation=False)


def test_check_notices_another_silos_key(town: Town) -> None:
    key = town.folder / "silo0" / "node.key"
    for other, whose in (("silo1", "it is that of silo 'silo1'"), ("stranger", "it is no silo's")):
        if other == "stranger":
            make_key(town.folder / other / "node.key", other)
        key.write_bytes((town.folder / other / "node.key").read_bytes())
        problems = check_table(read_settings(town.settings("silo0")), town.agreed).problems
        assert len(problems) == 1
        assert "node.key is not that of silo 'silo0' in the federation file" in problems[0]
        assert whose in problems[0]
    key.write_text("no key")
    problems = check_table(read_settings(town.settings("silo0")), town.agreed).problems
    assert "is no private key" in problems[0]


def test_check_reminds_of_the_owners_yes(town: Town) -> None:
    settings = read_settings(town.settings("silo0"))
    assert not check_table(settings, town.agreed).remarks
    settings.approvals.unlink()
    yes, members = check_table(settings, town.agreed).remarks
    assert f"fairsilo flower approve {town.agreed.fingerprint[:16]}" in yes
    assert "fairsilo flower confirm silo1 silo2 silo3" in members


@pytest.mark.parametrize("watched", [0, 1])
def test_check_says_that_nobody_watches_the_server(watched: int, tmp_path: Path) -> None:
    town = make_town(tmp_path, silos=3, rows=300, watched=watched)
    remarks = check_table(read_settings(town.settings("silo0")), town.agreed).remarks
    assert any("nobody checks that the server asks" in one for one in remarks) is (watched == 0)
