"""A federation in this process: real silos with files and keys, and faulty message delivery."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.data import Category, Number, Schema, grouped_by, infer_schema, make_table
from fairsilo.network import witness
from fairsilo.network.aggregate import Patience
from fairsilo.network.approval import decide
from fairsilo.network.client import reply_to
from fairsilo.network.engine import Network
from fairsilo.network.federation_file import FILE, FederationFile, read_federation_file
from fairsilo.network.journal import Journal
from fairsilo.network.member import Member
from fairsilo.network.ops.keys import make_key
from fairsilo.network.server import aggregate_for, engine_for
from fairsilo.network.settings import read_settings
from fairsilo.network.train import train_over
from fairsilo.network.transport import Fault, Patient, Traffic, size_of
from fairsilo.network.vouch import confirm_all
from fairsilo.network.wire import Record
from fairsilo.run import Options, Run, execute
from fairsilo.run.again import digest

Change = Callable[[str, int, Record], Record | Fault | None]
"""(silo, number of the exchange, its answer) -> what the server gets; None: the answer itself."""


@dataclass
class Town:
    """A federation file, and a folder per silo with its table, settings and key."""

    folder: Path
    agreed: FederationFile
    table: pd.DataFrame

    def settings(self, name: str) -> Path:
        return self.folder / name / "silo.toml"


def make_town(
    folder: Path,
    silos: int = 4,
    rows: int = 800,
    *,
    table: dict[str, Any] | None = None,
    by: tuple[str, ...] | None = None,
    groupless: int = 0,
    watched: int = 0,
    others: bool | None = None,
    repeated: bool = False,
    **kw: Any,
) -> Town:
    """Silos with synthetic rows; every eighth is a test row, every `groupless`-th has no group;
    `watched` by so many witnesses. With a column of weights these are 1 to 3; `repeated`: every
    row is there so often instead."""
    frame = make_table(rows, silos=silos, bias=1.0, **(table or {}))
    if groupless:
        frame["group"] = frame["group"].where(np.arange(rows) % groupless > 0)
        kw["groups"] = None
    frame["part"] = np.where(np.arange(rows) % 8 == 7, "test", "train")
    schema = infer_schema(frame, label="label", group="group", exclude=["client", "part"])
    times = np.arange(rows) % 3 + 1
    if repeated:
        frame = frame.loc[np.repeat(frame.index, times)].reset_index(drop=True)
    if kw.get("weight") is not None:
        frame[kw["weight"]] = times
    if by is not None:
        frame["region"] = np.where(np.arange(rows) % 3 == 0, "north", "south")
        schema = infer_schema(frame, label="label", group="group", exclude=["client", "part"])
        schema = grouped_by(schema, frame, by)
    if kw.get("dp") is not None:
        schema = bounded(schema)
    if watched if others is None else others:
        schema = knowing_others(schema)
    names = sorted(set(frame["client"]))
    members = []
    for name in names:
        public = make_key(folder / name / "node.key", name)
        members.append(Member(name=name, public_key=public))
    seers = [f"witness{number}" for number in range(watched)]
    kw["witnesses"] = tuple(
        Member(name=name, public_key=make_key(folder / name / "node.key", name)) for name in seers
    )
    values = {"epsilon": 0.02, "protected_class": "1", "groups": schema.groups, **kw}
    agreed = FederationFile(
        table=schema,
        split="part",
        hidden=schema.group_columns or (schema.group,),
        silos=tuple(members),
        **values,
    )
    plain = str(not agreed.secure_aggregation).lower()
    for name in names:
        own = folder / name
        frame[frame["client"] == name].drop(columns="client").to_csv(own / "table.csv", index=False)
        (own / FILE).write_text(agreed.text)
        (own / "silo.toml").write_text(
            f'name = "{name}"\nfederation = "{FILE}"\ndata = "table.csv"\nkey = "node.key"\n'
            f"plain = {plain}\n{budget_lines(agreed)}"
        )
        confirm(own / "silo.toml")
    for name in seers:
        own = folder / name
        (own / FILE).write_text(agreed.text)
        (own / "silo.toml").write_text(
            f'name = "{name}"\nfederation = "{FILE}"\nkey = "node.key"\nwitness = true\n'
        )
        confirm(own / "silo.toml")
    return Town(folder, agreed, frame)


def restart_witnesses() -> None:
    """As if the process of every witness were another one from now on."""
    for case in witness._CASES.values():
        case.replay.end()
    witness._CASES.clear()


def confirm(settings: Path) -> None:
    """The owner's yes to the federation file that lies there now, and to the others' keys."""
    own = read_settings(settings)
    agreed = read_federation_file(own.federation)
    decide(own, agreed, agreed.fingerprint)
    confirm_all(own, agreed)


def knowing_others(schema: Schema) -> Schema:
    """The schema as `flower init` writes it: every category has a column for other values."""
    features = tuple(
        f.model_copy(update={"other": True}) if isinstance(f, Category) else f
        for f in schema.features
    )
    return schema.model_copy(update={"features": features})


def bounded(schema: Schema) -> Schema:
    """The schema with bounds that do not depend on the rows."""
    features = tuple(
        f.model_copy(update={"bounds": (-5.0, 5.0)}) if isinstance(f, Number) else f
        for f in schema.features
    )
    return schema.model_copy(update={"features": features})


def budget_lines(agreed: FederationFile) -> str:
    """The settings of a silo's own budget, equal to that of one run."""
    if agreed.dp is None:
        return ""
    dp = agreed.dp
    return f"dp_budget_epsilon = {dp.epsilon}\ndp_budget_delta = {dp.delta}\n"


@dataclass
class TownTransport:
    """Delivers records to silos in this process; each call restores the silo's state."""

    town: Town
    change: Change = lambda name, exchange, record: None
    absent: tuple[str, ...] = ()
    run: str = "1"
    traffic: Traffic = field(default_factory=Traffic)
    memories: dict[str, dict[str, Any]] = field(default_factory=dict)
    seen: list[tuple[str, Record]] = field(default_factory=list)
    """All that the server received."""
    last: dict[str, Record] = field(default_factory=dict)
    """What each silo was sent last."""

    def present(self) -> tuple[str, ...]:
        agreed = self.town.agreed
        everyone = (*agreed.names, *(one.name for one in agreed.witnesses))
        return tuple(name for name in everyone if name not in self.absent)

    def exchange(self, letters: Mapping[str, Record], timeout: float) -> dict[str, Record | Fault]:
        self.traffic.exchanges += 1
        answers: dict[str, Record | Fault] = {}
        for name, record in letters.items():
            if name in self.absent:
                answers[name] = Fault("is not connected", gone=True)
                continue
            self.traffic.down += size_of(record)
            self.last[name] = dict(record)
            memory = self.memories.setdefault(name, {})
            found: Record | Fault = reply_to(
                dict(record), str(self.town.settings(name)), memory, self.run
            )
            assert isinstance(found, dict)
            found = self.change(name, self.traffic.exchanges, found) or found
            answers[name] = found
            if isinstance(found, dict):
                self.traffic.up += size_of(found)
                self.seen.append((name, found))
        return answers


def train(
    town: Town,
    post: TownTransport,
    journal: Path,
    resume: bool = False,
    baseline: bool = False,
    patience: Patience | None = None,
    start: Path | None = None,
) -> tuple[Run, list[dict[str, Any]]]:
    """A run over the town, and what it said."""
    run, events, _ = train_with(town, post, journal, resume, baseline, patience, start=start)
    return run, events


def train_with(
    town: Town,
    post: TownTransport,
    journal: Path,
    resume: bool = False,
    baseline: bool = False,
    patience: Patience | None = None,
    sleep: Callable[[float], None] = time.sleep,
    start: Path | None = None,
) -> tuple[Run, list[dict[str, Any]], Network]:
    """The same, with the engine that asked; `sleep`: while owners are waited for."""
    events: list[dict[str, Any]] = []
    if patience is not None:
        patience.say = events.append
    asking = Patient(post, events.append, sleep=sleep)
    gather = aggregate_for(town.agreed, asking, post.run, 1.0, patience)
    keep = Journal(journal, town.agreed.fingerprint, resume, start=digest(start))
    there = tuple(name for name in post.present() if name in town.agreed.names)
    engine = engine_for(town.agreed)(town.agreed, gather, keep, there, events.append)
    return train_over(town.agreed, engine, baseline, start), events, engine


def options_here(town: Town, folder: Path, without: tuple[str, ...] = ()) -> Options:
    """The options of `fairsilo train` on the same rows, less those of some silos."""
    agreed = town.agreed
    path = folder / "simulated.csv"
    town.table[~town.table["client"].isin(without)].to_csv(path, index=False)
    declared = folder / "schema.json"
    declared.write_text(agreed.table.model_dump_json())
    options = replace(agreed.options(str(path), "client"), schema=declared)
    if agreed.dp is not None:
        left = tuple(name for name in agreed.names if name not in without)
        options = replace(options, client_names=left)
    if agreed.trains.shared and agreed.dp is None:
        options = replace(options, min_cell=5)  # the default of a silo's settings
    return options


def simulate(town: Town, folder: Path, without: tuple[str, ...] = (), **changes: Any) -> Run:
    """`fairsilo train` on the same rows, less those of some silos."""
    return execute(replace(options_here(town, folder, without), **changes), baseline=False)


def largest_gap(town: Town, run: Run, other: Run) -> float:
    """The largest difference of a predicted probability, over all rows of the town."""
    nobody = np.zeros(len(town.table), np.int64)
    one, two = (
        each.trained.predictors[0].probabilities(
            each.prepared.encoder.transform(town.table), nobody
        )
        for each in (run, other)
    )
    return float(np.abs(one - two).max())
