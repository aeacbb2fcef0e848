"""ADULT over real processes on loopback, and beside it the simulation on the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairsilo.data import CLIENT_COLUMN, load, read_table, schema_of
from fairsilo.data.datasets import DATASETS
from fairsilo.data.sample import build_labels
from fairsilo.errors import FairSiloError
from fairsilo.flower.charter import Charter, Member
from fairsilo.flower.keys import make_key
from fairsilo.flower.launch import (
    PATIENCE,
    Event,
    RunConfig,
    await_superlink,
    register,
    run_and_follow,
    start_node,
    start_superlink,
)
from fairsilo.flower.options import options_of
from fairsilo.flower.processes import Processes, free_ports, processes
from fairsilo.flower.workspace import Workspace, make_workspace
from fairsilo.partition import TEST, draw
from fairsilo.run import execute
from fairsilo.run import load as load_run
from fairsilo.run.private import ROUNDS

SPLIT = "part"


@dataclass(frozen=True)
class Comparison:
    """How far the network run is from the simulation on the same rows."""

    probabilities: float
    """Largest difference of a predicted probability, over all rows."""
    loss: float
    """Difference of the training losses."""
    seconds: float
    """Of the whole demo."""
    noisy: bool = False
    """Whether both had noise of their own."""


def make_demo(
    folder: Path, silos: int, *, rows: int | None = None, seed: int = 0, **settings: Any
) -> Workspace:
    """A working folder with all keys and every silo's share of ADULT (of `rows` rows)."""
    if silos < 2:
        raise FairSiloError(f"--silos is {silos}: a federation has at least 2")
    known = DATASETS["adult"]
    frame = load("adult")
    schema = schema_of("adult", frame)
    y, _ = build_labels(frame, schema)
    test = known.test_rows if rows is None else max(rows // 8, 1)
    train = known.train_rows if rows is None else rows - test
    client = draw(y, kind="iid", clients=silos, train_rows=train, test_rows=test, seed=seed)
    names = [f"silo-{i + 1}" for i in range(silos)]
    members = []
    for name in names:
        public = make_key(folder / "silos" / name / "node.key", name)
        members.append(Member(name=name, public_key=public))
    if settings.get("dp") is not None:
        settings["rounds"] = ROUNDS["newton"]
    charter = Charter(
        name="adult",
        table=schema,
        groups=known.groups,
        protected_class=known.protected_class,
        split=SPLIT,
        seed=seed,
        silos=tuple(members),
        **settings,
    )
    port = free_ports(1)[0]
    space = make_workspace(folder, charter, "127.0.0.1", port)
    tested = np.flatnonzero(client == TEST)
    for i, name in enumerate(names):
        own, held = np.flatnonzero(client == i), tested[i::silos]
        part = frame.iloc[np.concatenate([own, held])].copy()
        part[SPLIT] = ["train"] * len(own) + ["test"] * len(held)
        part.to_csv(space.silo(name) / "table.csv", index=False)
    return space


def start_all(space: Workspace, group: Processes, silos: tuple[str, ...] | None = None) -> None:
    """SuperLink, registered keys, nodes."""
    names = space.charter.names if silos is None else silos
    ports = free_ports(len(names))
    start_superlink(space, group)
    await_superlink(space, group)
    register(space, PATIENCE)
    for name, port in zip(names, ports, strict=True):
        start_node(space, name, port, group)


def demo(
    folder: Path, out: Path, silos: int, watch: Callable[[Event], None], **settings: Any
) -> Comparison:
    """Make the folder, start everything, train, compare; nothing is left running."""
    started = time.monotonic()
    space = make_demo(folder, silos, **settings)
    watch({"event": "made", "address": space.address})
    with processes(folder / "logs") as group:
        start_all(space, group)
        watch({"event": "up"})
        run_and_follow(space, RunConfig(out=out), watch, lambda: group.alive("superlink"))
    watch({"event": "comparing"})
    found = compare(space, out)
    return replace(found, seconds=time.monotonic() - started)


def compare(space: Workspace, out: Path, left_out: tuple[str, ...] = ()) -> Comparison:
    """The run folder against the simulation on the same rows, less those of some silos."""
    started = time.monotonic()
    charter = space.charter
    names = [name for name in charter.names if name not in left_out]
    frames = {name: read_table(space.silo(name) / "table.csv") for name in names}
    table = space.folder / "simulated.csv"
    for i, (name, frame) in enumerate(frames.items()):
        named = frame.assign(**{CLIENT_COLUMN: name})
        named.to_csv(table, mode="a" if i else "w", header=not i, index=False)
    options = options_of(charter, str(table), CLIENT_COLUMN)
    if charter.dp is not None:
        declared = space.folder / "schema.json"
        declared.write_text(charter.table.model_dump_json())
        options = replace(options, schema=declared)
    simulated = execute(options, baseline=False)
    saved = load_run(out)
    rows = read_table(table)
    nobody = np.zeros(len(rows), np.int64)
    over_network = saved.predictors[0].probabilities(saved.encoder.transform(rows), nobody)
    here = simulated.trained.predictors[0].probabilities(
        simulated.prepared.encoder.transform(rows), nobody
    )
    loss = abs(saved.metrics["train"]["loss"] - simulated.metrics["train"]["loss"])
    return Comparison(
        float(np.abs(over_network - here).max()),
        loss,
        time.monotonic() - started,
        noisy=charter.dp is not None,
    )
