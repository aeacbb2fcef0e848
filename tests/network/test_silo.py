"""A silo's answers and refusals: its own policy, changed tables, malformed questions."""

from __future__ import annotations

import logging
import os
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsilo.arrays import Floats
from fairsilo.data import Schema
from fairsilo.errors import FairSiloError
from fairsilo.fairness.constraint import Totals
from fairsilo.network.client import UNSAID, reply_to
from fairsilo.network.ops.check import check_table
from fairsilo.network.rows import split_rows
from fairsilo.network.settings import ANSWERS, Settings, read_settings
from fairsilo.network.silo import answer
from fairsilo.network.table import read_rows, read_sql
from fairsilo.network.wire import Ask, Record, Refusal, unpack
from fairsilo.question import Columns, Counts, Question, Round
from fairsilo.run.problem import PRIVATE_ROUNDS
from tests.network.silos import Town, make_town


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return make_town(tmp_path, secure_aggregation=False)


def ask_of(town: Town, question: Question | None = None, **values: Any) -> Ask:
    encoder = {"encoded": True, "scalings": scalings_of(town)}
    fixed = {"number": 1, "fingerprint": town.agreed.fingerprint, "purpose": town.agreed.method}
    named = {"training": "one"}
    return Ask(question or Counts(), **{**fixed, **named, **encoder, **values})


def scalings_of(town: Town) -> Floats:
    return np.tile([0.0, 1.0, 0.0], len(town.agreed.table.numbers))


def counted(town: Town, vector: bytes) -> Totals:
    totals: Totals = Counts().read(town.agreed.problem(scalings_of(town)), unpack(vector))
    return totals


def round_at(town: Town, **values: Any) -> Round:
    size = town.agreed.problem(scalings_of(town)).model.size
    whole = {"theta": np.zeros(size), "mu": np.zeros(1), "order": "second"}
    return Round(**{**whole, "totals": np.full(6, 1e4), **values})


def ask(town: Town, question: Ask, memory: dict[str, Any] | None = None) -> Record:
    return reply_to(
        question.to_record(), str(town.settings("silo0")), {} if memory is None else memory, "1"
    )


def set_line(town: Town, line: str) -> None:
    path = town.settings("silo0")
    key = line.split(" ", maxsplit=1)[0]
    kept = [old for old in path.read_text().splitlines() if not old.startswith(f"{key} ")]
    path.write_text("\n".join([*kept, line]) + "\n")


def test_counts_are_the_silos_own_counts(town: Town) -> None:
    totals = counted(town, ask(town, ask_of(town))["vector"])
    rows = town.table.query("client == 'silo0' and part == 'train'")
    assert totals.rows == len(rows)
    cells = rows.groupby(["group", "label"]).size().unstack()
    np.testing.assert_array_equal(totals.cells, cells.to_numpy())
    np.testing.assert_array_equal(totals.taking_part, [1])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("minimum_rows = 100000", "fewer training rows than it demands"),
        ('methods = ["fedavg"]', "does not answer for 'fedfair'"),
        ("maximum_answers = 1", "at most 1 answers per run"),
        ("plain = false", "does not answer in the clear"),
    ],
)
def test_a_silo_refuses_by_its_own_settings(town: Town, line: str, told: str) -> None:
    set_line(town, line)
    memory: dict[str, Any] = {}
    replies = [ask(town, ask_of(town), memory) for _ in range(2)]
    assert told in replies[1]["refused"]
    assert replies[1]["vector"] == b""


def test_too_few_answers_for_a_run_are_told_before_it(town: Town) -> None:
    set_line(town, f"maximum_answers = {town.agreed.questions - 1}")
    problems = check_table(read_settings(town.settings("silo0")), town.agreed).problems
    asked = town.agreed.questions
    needs = f"150 rounds needs {asked} answers and the settings allow {asked - 1}"
    assert needs in " ".join(problems)
    set_line(town, f"maximum_answers = {town.agreed.questions}")
    assert not check_table(read_settings(town.settings("silo0")), town.agreed).problems
    private = {"solver": "agp", "rounds": PRIVATE_ROUNDS["agp"]}
    assert town.agreed.model_copy(update=private).questions <= ANSWERS


def test_small_cells_take_no_part_and_only_their_number_shows(town: Town) -> None:
    set_line(town, "minimum_cell = 5000")
    totals = counted(town, ask(town, ask_of(town))["vector"])
    assert totals.rows == len(town.table.query("client == 'silo0' and part == 'train'"))
    assert not totals.cells.any()
    np.testing.assert_array_equal(totals.taking_part, [0])
    findings = check_table(read_settings(town.settings("silo0")), town.agreed)
    assert not findings.problems
    assert "left out of the constraint" in " ".join(findings.remarks)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"fingerprint": "0" * 64}, "fingerprints differ"),
        ({"purpose": "audit"}, "tallies only"),
        ({"purpose": "fedavg"}, "does not name the method"),
        ({"scalings": np.zeros(3)}, "encoder does not fit"),
        ({"scalings": np.tile([0.0, -1.0, 0.0], 4)}, "encoder does not fit"),
        ({"scalings": np.full(12, np.nan)}, "encoder does not fit"),
        ({"cells": np.zeros(3)}, "counts do not fit"),
        ({"cells": np.full(4, np.inf)}, "counts do not fit"),
    ],
)
def test_a_silo_refuses_what_does_not_fit_the_federation_file(
    town: Town, values: dict[str, Any], told: str
) -> None:
    reply = ask(town, ask_of(town, **values))
    assert told in reply["refused"]
    assert reply["vector"] == b""


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"totals": np.zeros(0)}, "totals of the question 'round' does not fit"),
        ({"totals": np.zeros(6)}, "totals count no rows"),
        ({"mu": np.zeros(0)}, "mu of the question 'round' does not fit"),
        ({"theta": np.zeros(2)}, "theta of the question 'round' does not fit"),
        ({"theta": np.full(10, np.nan)}, "theta of the question 'round' does not fit"),
        ({"order": "third"}, "order 'third' of a round is unknown"),
        ({"rest": True}, "sets no rows aside"),
    ],
)
def test_a_silo_refuses_rounds_that_do_not_fit(
    town: Town, values: dict[str, Any], told: str
) -> None:
    assert town.agreed.problem(scalings_of(town)).model.size == 10
    assert not ask(town, ask_of(town, round_at(town)))["refused"]
    reply = ask(town, ask_of(town, round_at(town, **values)))
    assert told in reply["refused"]
    assert reply["vector"] == b""


@pytest.mark.parametrize(
    "record",
    [{}, {"version": 9}, {"version": 2, "kind": "counts"}, {"version": 2, "step": "dance"}],
)
def test_strange_records_are_refused(town: Town, record: Record) -> None:
    assert reply_to(record, str(town.settings("silo0")), {}, "1")["refused"]


def test_the_encoder_cannot_change_within_a_run(town: Town) -> None:
    memory: dict[str, Any] = {}
    assert not ask(town, ask_of(town), memory)["refused"]
    other = np.tile([1.0, 2.0, 0.0], len(town.agreed.table.numbers))
    assert "changed the encoder" in ask(town, ask_of(town, scalings=other), memory)["refused"]


def test_a_table_that_changed_during_the_run_is_refused(town: Town) -> None:
    memory: dict[str, Any] = {}
    assert not ask(town, ask_of(town), memory)["refused"]
    path = town.folder / "silo0" / "table.csv"
    frame = pd.read_csv(path)
    frame.iloc[::-1].to_csv(path, index=False)
    assert "table changed since the run began" in ask(town, ask_of(town), memory)["refused"]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the silos whose tables were parsed."""
    names: list[str] = []

    def counting(settings: Settings, schema: Schema, *beside: str | None) -> pd.DataFrame:
        names.append(settings.name)
        return read_rows(settings, schema, *beside)

    monkeypatch.setattr("fairsilo.network.silo.read_rows", counting)
    return names


def test_a_table_is_parsed_once_for_as_long_as_the_file_stays(
    town: Town, parsed: list[str]
) -> None:
    memory: dict[str, Any] = {}
    first = ask(town, ask_of(town), memory)
    for question in (ask_of(town), ask_of(town, round_at(town))):
        assert not ask(town, question, memory)["refused"]
    assert parsed == ["silo0"]
    # The next run, which has no memory of this one, begins with the rows as they are kept.
    assert ask(town, ask_of(town), {})["vector"] == first["vector"]
    assert parsed == ["silo0"]
    columns = ask_of(town, Columns(), encoded=False, scalings=np.zeros(0))
    assert not ask(town, columns, {})["refused"]
    assert parsed == ["silo0"]
    # Another silo's rows are its own.
    other = reply_to(ask_of(town).to_record(), str(town.settings("silo1")), {}, "1")
    assert other["vector"] != first["vector"]
    assert parsed == ["silo0", "silo1"]


def test_rows_that_are_kept_are_those_of_the_file_and_of_todays_settings(
    town: Town, parsed: list[str]
) -> None:
    path = town.folder / "silo0" / "table.csv"
    before = unpack(ask(town, ask_of(town))["vector"])
    frame = pd.read_csv(path)
    stays = path.stat()
    # One cell, the same length, the same time of change: only the content tells.
    frame["part"] = frame["part"].mask(frame.index == 0, "test ")
    frame.to_csv(path, index=False)
    os.utime(path, ns=(stays.st_atime_ns, stays.st_mtime_ns))
    assert path.stat().st_size == stays.st_size
    counts = ask_of(town, training="two")
    assert unpack(ask(town, counts)["vector"])[0] == before[0] - 1
    assert parsed == ["silo0"] * 2
    # Settings are read anew for every question: small cells, and whose weights follow from them.
    round_ = ask_of(town, round_at(town), training="two")
    whole = ask(town, round_)["vector"]
    set_line(town, "minimum_cell = 5000")
    assert not counted(town, ask(town, counts)["vector"]).cells.any()
    assert ask(town, round_)["vector"] != whole
    assert parsed == ["silo0"] * 2


def test_a_database_is_asked_anew_for_every_question(
    town: Town, tmp_path: Path, parsed: list[str]
) -> None:
    to_sqlite(town, tmp_path / "bank.db")
    settings = sql_settings(town, f"sqlite:///{tmp_path / 'bank.db'}")
    for _ in range(2):
        answer(settings, town.agreed, ask_of(town), {})
    assert parsed == ["silo0"] * 2


@pytest.mark.parametrize("column", ["label", "x0"])
def test_what_is_wrong_with_the_rows_stays_in_the_silo(
    town: Town, caplog: pytest.LogCaptureFixture, column: str
) -> None:
    path = town.folder / "silo0" / "table.csv"
    frame = pd.read_csv(path).astype({column: str})
    frame.loc[3, column] = "a secret"
    frame.to_csv(path, index=False)
    logging.getLogger("flwr").propagate = True
    with caplog.at_level(logging.ERROR, logger="flwr"):
        reply = ask(town, ask_of(town))
    assert reply["refused"] == UNSAID
    assert "a secret" in caplog.text
    assert "settings.toml" not in reply["refused"]


def test_without_settings_a_node_says_nothing_but_that(town: Town) -> None:
    assert reply_to(ask_of(town).to_record(), None, {}, "1")["refused"] == UNSAID


def test_test_rows_are_drawn_where_no_column_says_them(town: Town) -> None:
    agreed = town.agreed.model_copy(update={"split": None, "test_fraction": 0.25})
    frame = read_rows(read_settings(town.settings("silo0")), town.agreed.table)
    train, test = split_rows(frame, agreed)
    assert len(test.y) == round(len(frame) * 0.25)
    again, _ = split_rows(frame, agreed)
    pd.testing.assert_frame_equal(train.frame, again.frame)


def to_sqlite(town: Town, path: Path) -> None:
    frame = pd.read_csv(town.folder / "silo0" / "table.csv")
    with sqlite3.connect(path) as connection:
        frame.to_sql("loans", connection, index_label="id")
    connection.close()


def sql_settings(town: Town, url: str) -> Settings:
    columns = ", ".join([*town.agreed.table.columns, "label", "part"])
    query = f"select {columns.replace('group', chr(34) + 'group' + chr(34))} from loans order by id"
    own = {"name": "silo0", "federation": Path("unused"), "ledger": town.folder / "sql-ledger.json"}
    return Settings(**own, url=url, query=query, plain=True)  # type: ignore[arg-type]


def test_a_database_answers_like_the_file_it_was_made_from(town: Town, tmp_path: Path) -> None:
    to_sqlite(town, tmp_path / "bank.db")
    settings = sql_settings(town, f"sqlite:///{tmp_path / 'bank.db'}")
    from_file = answer(read_settings(town.settings("silo0")), town.agreed, ask_of(town), {})
    np.testing.assert_array_equal(answer(settings, town.agreed, ask_of(town), {}), from_file)
    question = ask_of(town, Columns(), encoded=False, scalings=np.zeros(0))
    from_file = answer(read_settings(town.settings("silo0")), town.agreed, question, {})
    np.testing.assert_allclose(answer(settings, town.agreed, question, {}), from_file, rtol=1e-14)


@pytest.mark.parametrize(
    ("url", "query", "told"),
    [
        ("nonsense", "select 1", "address cannot be used"),
        ("nosuch://u:hunter2@h/d", "select 1", "address cannot be used"),
        ("sqlite://", "select * from nothing", "did not answer the query"),
        ("sqlite://", "select 1 as a, 2 as a", "two columns named 'a'"),
        ("sqlite://", "select 1 as a where 0", "gives no rows"),
    ],
)
def test_a_database_that_fails_is_one_sentence_without_the_password(
    url: str, query: str, told: str
) -> None:
    with pytest.raises(FairSiloError, match=told) as caught:
        read_sql(url, query)
    assert "hunter2" not in str(caught.value)


def test_check_says_what_fits_and_what_does_not(town: Town) -> None:
    settings = read_settings(town.settings("silo0"))
    findings = check_table(settings, town.agreed)
    assert not findings.problems
    assert findings.rows == 200
    path = town.folder / "silo0" / "table.csv"
    frame = pd.read_csv(path)
    frame.loc[:4, "c0"] = "zebra"
    frame.loc[:2, "x1"] = np.nan
    frame.to_csv(path, index=False)
    findings = check_table(settings, town.agreed)
    assert not findings.problems
    assert any("'zebra'" in r and "5 values" in r for r in findings.remarks)
    assert any("'x1' is empty in 3 rows" in r for r in findings.remarks)
    frame["x0"] = frame["x0"].astype(object)
    frame.loc[5, "x0"] = "many"
    frame.drop(columns="x2").to_csv(path, index=False)
    problems = " ".join(check_table(settings, town.agreed).problems)
    assert "no column 'x2'" in problems
    assert "'x0' must hold numbers" in problems


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('name = "nobody"', "no silo 'nobody'"),
        ("minimum_rows = 5000", "the settings demand 5000"),
        ('methods = ["audit"]', "do not allow the federation's method"),
        ("plain = false", "no secure aggregation"),
        ('data = "nowhere.csv"', "there is no file"),
    ],
)
def test_check_knows_the_policy(town: Town, line: str, told: str) -> None:
    set_line(town, line)
    findings = check_table(read_settings(town.settings("silo0")), town.agreed)
    assert told in " ".join(findings.problems)


def test_a_cell_without_rows_is_allowed_and_remarked(town: Town) -> None:
    path = town.folder / "silo0" / "table.csv"
    frame = pd.read_csv(path)
    frame[(frame["group"] != "g1") | (frame["label"] != 1)].to_csv(path, index=False)
    findings = check_table(read_settings(town.settings("silo0")), town.agreed)
    assert not findings.problems
    assert any("adds nothing to that cell" in r for r in findings.remarks)
    assert not ask(town, ask_of(town))["refused"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name = ", "not valid TOML"),
        ('name = "a"\nfederation = "f"', "either data"),
        ('name = "a"\nfederation = "f"\ndata = "d"\nurl = "u"', "either data"),
        ('name = "a"\nfederation = "f"\nurl = "u"', "go together"),
        ('name = "a"\nfederation = "f"\ndata = "d"\nminimum_cel = 3', "minimum_cel"),
    ],
)
def test_mistakes_in_the_settings_are_one_sentence(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "silo.toml").write_text(text)
    with pytest.raises(FairSiloError, match=told):
        read_settings(tmp_path / "silo.toml")


def test_refusals_are_a_kind_of_error() -> None:
    assert issubclass(Refusal, FairSiloError)
