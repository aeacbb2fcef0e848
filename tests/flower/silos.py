"""A federation in this process: real silos with files and keys, and faulty message delivery."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairsilo.data import Number, Schema, infer_schema, make_table
from fairsilo.flower.charter import FILE, Charter, Member
from fairsilo.flower.client import reply_to
from fairsilo.flower.journal import Journal
from fairsilo.flower.keys import make_key
from fairsilo.flower.options import options_of
from fairsilo.flower.post import Fault, Traffic, size_of
from fairsilo.flower.server import gather_for, session_for
from fairsilo.flower.wire import Record
from fairsilo.method.base import Plain
from fairsilo.model import MODELS
from fairsilo.run import Run, execute

Change = Callable[[str, int, Record], Record | Fault | None]
"""(silo, number of the exchange, its answer) -> what the server gets; None: the answer itself."""


@dataclass
class Town:
    """A charter, and a folder per silo with its table, settings and key."""

    folder: Path
    charter: Charter
    table: pd.DataFrame

    def settings(self, name: str) -> Path:
        return self.folder / name / "silo.toml"


def make_town(
    folder: Path, silos: int = 4, rows: int = 800, *, table: dict[str, Any] | None = None, **kw: Any
) -> Town:
    """Silos with synthetic rows; every eighth row is a test row."""
    frame = make_table(rows, silos=silos, bias=1.0, **(table or {}))
    frame["part"] = np.where(np.arange(rows) % 8 == 7, "test", "train")
    schema = infer_schema(frame, label="label", group="group", exclude=["client", "part"])
    if kw.get("dp") is not None:
        schema = bounded(schema)
    names = sorted(set(frame["client"]))
    members = []
    for name in names:
        public = make_key(folder / name / "node.key", name)
        members.append(Member(name=name, public_key=public))
    values = {"epsilon": 0.02, **kw}
    charter = Charter(
        table=schema,
        groups=schema.groups,
        protected_class="1",
        split="part",
        silos=tuple(members),
        **values,
    )
    plain = str(not charter.secure_aggregation).lower()
    for name in names:
        own = folder / name
        frame[frame["client"] == name].drop(columns="client").to_csv(own / "table.csv", index=False)
        (own / FILE).write_text(charter.to_json())
        (own / "silo.toml").write_text(
            f'name = "{name}"\nfederation = "{FILE}"\ndata = "table.csv"\nkey = "node.key"\n'
            f"plain = {plain}\n{budget_lines(charter)}"
        )
    return Town(folder, charter, frame)


def bounded(schema: Schema) -> Schema:
    """The schema with bounds that do not depend on the rows."""
    features = tuple(
        f.model_copy(update={"bounds": (-5.0, 5.0)}) if isinstance(f, Number) else f
        for f in schema.features
    )
    return schema.model_copy(update={"features": features})


def budget_lines(charter: Charter) -> str:
    """The settings of a silo's own budget, equal to that of one run."""
    if charter.dp is None:
        return ""
    dp = charter.dp
    return f"dp_budget_epsilon = {dp.epsilon}\ndp_budget_delta = {dp.delta}\n"


@dataclass
class TownPost:
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
        return tuple(name for name in self.town.charter.names if name not in self.absent)

    def exchange(self, letters: Mapping[str, Record], timeout: float) -> dict[str, Record | Fault]:
        self.traffic.exchanges += 1
        answers: dict[str, Record | Fault] = {}
        for name, record in letters.items():
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
    town: Town, post: TownPost, journal: Path, resume: bool = False, baseline: bool = False
) -> tuple[Any, list[dict[str, Any]]]:
    """Run a session over the town; its result and its events."""
    events: list[dict[str, Any]] = []
    gather = gather_for(town.charter, post, post.run, 1.0)
    keep = Journal(journal, town.charter.fingerprint, resume)
    session = session_for(town.charter)(town.charter, gather, keep, post.present(), events.append)
    return session.train(baseline), events


def simulate(town: Town, folder: Path, without: tuple[str, ...] = ()) -> Run:
    """`fairsilo train` on the same rows, without those of some silos."""
    charter = town.charter
    path = folder / "simulated.csv"
    town.table[~town.table["client"].isin(without)].to_csv(path, index=False)
    options = options_of(charter, str(path), "client")
    if charter.dp is not None:
        declared = folder / "schema.json"
        declared.write_text(charter.table.model_dump_json())
        options = replace(options, schema=declared)
    return execute(options, baseline=False)


def largest_gap(town: Town, finished: Any, run: Run) -> float:
    """The largest difference of a predicted probability, over all rows of the town."""
    charter, nobody = town.charter, np.zeros(len(town.table), np.int64)
    model = MODELS[charter.model](len(finished.encoder.feature_names), charter.shape[1])
    over = Plain(model, finished.outcome.theta).probabilities(
        finished.encoder.transform(town.table), nobody
    )
    here = run.trained.predictors[0].probabilities(
        run.prepared.encoder.transform(town.table), nobody
    )
    return float(np.abs(over - here).max())
