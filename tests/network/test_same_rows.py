"""A silo knows its rows again, whatever federation file asks for them: a coordinator who leaves a
column out does not make other rows of them, of which a silo less may be counted."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsilo.arrays import Floats
from fairsilo.data.declared_rows import parts_of
from fairsilo.data.dialect import Dialect
from fairsilo.data.row_hashes import of_file, of_frame
from fairsilo.errors import FairSiloError
from fairsilo.network import rows, silo
from fairsilo.network.federation_file import FILE, FederationFile, Privacy
from fairsilo.network.settings import read_settings
from fairsilo.network.table import read_sql
from tests.network.silos import Town, TownTransport, confirm, make_town, train_with

VICTIM = "silo3"


def agree(town: Town, **changes: Any) -> Town:
    """The same silos with another federation file, to which all owners said yes."""
    agreed = FederationFile(**{**dict(town.agreed), **changes})
    for name in agreed.names:
        (town.folder / name / FILE).write_text(agreed.text)
        confirm(town.settings(name))
    return Town(town.folder, agreed, town.table)


def as_asked(settings: Any, frame: pd.DataFrame, agreed: FederationFile) -> tuple[str, str]:
    """How rows were known before: by the columns, classes and groups that the file names."""
    test = rows.split_rows(frame, agreed)[1].frame
    whole, part = (rows._digest(of_frame(one)) for one in (frame, test))
    return whole, whole if agreed.dp is None else part


def counts(town: Town, journal: Path, run: str, absent: tuple[str, ...] = ()) -> Floats:
    """The last evaluation's sum: rows of test, by cell and predicted class."""
    post = TownTransport(town, run=run, absent=absent)
    _, _, engine = train_with(town, post, journal)
    kind = "counts" if town.agreed.dp is None else "evaluate"
    *_, found = (one.vector for one in engine.entries if one.kind == kind)
    assert found is not None
    if kind == "counts":
        return found[1:5]
    cells: Floats = found[:8].reshape(2, 2, 2).sum(axis=2).ravel()
    return cells


@pytest.mark.slow
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("private", [False, True])
def test_rows_are_the_same_whatever_columns_are_asked_for(
    private: bool, guarded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two trainings whose files differ by a feature, the second without one silo: the difference
    of their counts is that silo's, exactly; privately of its test rows."""
    if not guarded:
        monkeypatch.setattr(silo, "digests_of", as_asked)
    dp = Privacy(epsilon=8.0) if private else None
    town = make_town(tmp_path / "town", rounds=1, dp=dp, epsilon=0.1)
    for name in town.agreed.names:
        path = town.settings(name)
        path.write_text(path.read_text().replace("epsilon = 8.0", "epsilon = 30.0"))
    everybody = counts(town, tmp_path / "first", "1")
    table = town.agreed.table
    fewer = agree(town, table=table.model_copy(update={"features": table.features[1:]}))
    if guarded:
        with pytest.raises(FairSiloError, match="one silo's share by subtraction"):
            counts(fewer, tmp_path / "second", "2", absent=(VICTIM,))
        return
    stolen = everybody - counts(fewer, tmp_path / "second", "2", absent=(VICTIM,))
    own = town.table[town.table["client"] == VICTIM]
    own = own[parts_of(own, "part") == int(private)]
    true = own.groupby(["group", "label"]).size().to_numpy()
    np.testing.assert_array_equal(stolen, true)


@pytest.mark.slow
@pytest.mark.parametrize("guarded", [False, True])
def test_private_rows_do_not_become_test_rows(
    guarded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second file names another split column: exact figures are then of what noise had hidden."""
    if not guarded:
        monkeypatch.setattr(silo, "privacy_conflict", lambda *given: "")
    town = make_town(tmp_path / "town", rounds=1, dp=Privacy(epsilon=8.0), epsilon=0.1)
    for name in town.agreed.names:
        path = town.settings(name)
        path.write_text(path.read_text().replace("epsilon = 8.0", "epsilon = 30.0"))
        table = pd.read_csv(path.with_name("table.csv"))
        table["fold"] = np.where(np.arange(len(table)) % 2, "train", "test")
        table.to_csv(path.with_name("table.csv"), index=False)
    counts(town, tmp_path / "first", "1")
    turned = agree(town, split="fold")
    if guarded:
        with pytest.raises(FairSiloError, match="with the split column 'part'"):
            counts(turned, tmp_path / "second", "2")
        return
    tested = town.table[town.table.groupby("client").cumcount() % 2 == 0]
    assert (tested["part"] == "train").mean() > 0.8
    true = tested.groupby(["group", "label"]).size().to_numpy()
    np.testing.assert_array_equal(counts(turned, tmp_path / "second", "2"), true)


def known(town: Town, **changes: Any) -> tuple[str, str]:
    """By what the first silo knows its rows, under this federation file."""
    agreed = FederationFile(**{**dict(town.agreed), **changes})
    found = silo._read(read_settings(town.settings("silo0")), agreed, None)
    return found.table, found.guarded


@pytest.mark.parametrize("private", [False, True])
def test_what_the_federation_file_names_changes_no_row(private: bool, tmp_path: Path) -> None:
    town = make_town(tmp_path, dp=Privacy(epsilon=8.0) if private else None)
    path = town.folder / "silo0" / "table.csv"
    if private:
        # Rows that the first file has no group for; without privacy they are refused.
        own = pd.read_csv(path)
        own.loc[own.index % 5 == 0, "group"] = "g2"
        own.to_csv(path, index=False)
    table, before = town.agreed.table, known(town)
    third = table.model_copy(update={"groups": (*table.groups, "g2")})
    more = table.model_copy(update={"classes": (*table.classes, "2")})
    category = next(one for one in table.features if one.name == "c0")
    others = category.model_copy(update={"values": category.values[:1], "other": True})  # type: ignore[union-attr]
    narrow = table.model_copy(update={"features": (*table.features[:1], others)})
    for changed in (more, narrow, third):
        assert known(town, table=changed) == before
    assert known(town, seed=5) == before


@pytest.mark.parametrize("private", [False, True])
def test_other_rows_are_known_as_others_and_private_ones_not(private: bool, tmp_path: Path) -> None:
    town = make_town(tmp_path, dp=Privacy(epsilon=8.0) if private else None)
    path = town.folder / "silo0" / "table.csv"
    text = path.read_text().splitlines()
    whole, guarded = known(town)
    part = text[0].split(",").index("part")

    def with_cell(word: str, cell: str) -> tuple[str, str]:
        at = next(k for k, line in enumerate(text[1:], 1) if line.split(",")[part] == word)
        cells = text[at].split(",")
        cells[0] = cell
        path.write_text("\n".join([*text[:at], ",".join(cells), *text[at + 1 :]]) + "\n")
        return known(town)

    # Neither a number nor a word that makes a column of numbers one of texts.
    for cell in ("7.25", "what"):
        other = with_cell("train", cell)
        assert other[0] != whole
        assert (other[1] == guarded) is private
    assert guarded != with_cell("test", "7.25")[1]
    path.write_text("\n".join([text[0], *text[:0:-1]]) + "\n")
    turned = known(town)
    assert (turned[0] == whole, turned[1] == guarded) == (False, True), "in another order"


def test_files_and_databases_give_each_row_its_number(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"n": [1, 2, 3, 1], "x": [0.5, 2.0, np.nan, 0.5], "c": ["a", "b", None, "a"]}
    )
    frame["d"] = pd.to_datetime(["2020-01-01", "2021-02-03", "2022-01-01", "2020-01-01"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_csv(tmp_path / "t.csv.gz", index=False)
    frame.assign(c=frame["c"].astype("category")).to_parquet(tmp_path / "t.parquet")
    lists: Any = [[1], [2], None, [1]]
    frame.assign(l=lists).to_parquet(tmp_path / "lists.parquet")
    with sqlite3.connect(tmp_path / "t.db") as base:
        frame.to_sql("t", base, index=False)
    url = f"sqlite:///{tmp_path / 't.db'}"
    for found in (
        of_file(tmp_path / "t.csv", Dialect()),
        of_file(tmp_path / "t.csv.gz", Dialect()),
        of_file(tmp_path / "t.parquet", Dialect()),
        of_file(tmp_path / "lists.parquet", Dialect()),
        of_frame(read_sql(url, "SELECT * FROM t")),
    ):
        assert found[0] == found[3]
        assert len({*found.tolist()}) == 3
    # A row's number does not depend on the rows beside it, though its column's type does.
    few, whole = (of_frame(read_sql(url, f"SELECT * FROM t {w}")) for w in ("WHERE n < 3", ""))
    np.testing.assert_array_equal(few, whole[[0, 1, 3]])
