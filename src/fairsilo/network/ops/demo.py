"""ADULT over real processes on loopback, and beside it the simulation on the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairsilo.data import CLIENT_COLUMN, DATASETS, build_labels, read_table
from fairsilo.errors import FairSiloError
from fairsilo.network.approval import decide
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.member import Member
from fairsilo.network.ops.draft import draft_values
from fairsilo.network.ops.follow import run_and_follow
from fairsilo.network.ops.keys import make_key
from fairsilo.network.ops.launch import await_superlink, start_node, start_superlink
from fairsilo.network.ops.processes import Processes, free_ports, processes
from fairsilo.network.ops.runs import PATIENCE, RunConfig, register
from fairsilo.network.ops.workspace import Workspace, make_workspace
from fairsilo.network.settings import read_settings
from fairsilo.network.vouch import confirm_all
from fairsilo.partition import TEST, draw
from fairsilo.progress import Event
from fairsilo.run import Options, execute
from fairsilo.run import load as load_run
from fairsilo.run.prepare import read

DATA = "adult"
SPLIT = "part"
WITNESS = "witness"


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
    folder: Path,
    silos: int,
    options: Options | None = None,
    *,
    rows: int | None = None,
    witness: bool = False,
    **settings: Any,
) -> Workspace:
    """A working folder with all keys and every silo's share of ADULT (of `rows` rows)."""
    if silos < 2:
        raise FairSiloError(f"`silos` is {silos}: a federation has at least 2")
    options = options or Options(data=DATA)
    known = DATASETS[DATA]
    frame, schema, options = read(options)
    y, _ = build_labels(frame, schema)
    test = known.test_rows if rows is None else max(rows // 8, 1)
    train = known.train_rows if rows is None else rows - test
    sizes = {"train_rows": train, "test_rows": test, "seed": options.seed}
    client = draw(y, kind="iid", clients=silos, **sizes)
    names = [f"silo-{i + 1}" for i in range(silos)]
    members = []
    for name in [*names, *([WITNESS] if witness else [])]:
        public = make_key(folder / "silos" / name / "node.key", name)
        members.append(Member(name=name, public_key=public))
    values = {**draft_values(options, schema), "split": SPLIT, "name": DATA, **settings}
    agreed = FederationFile(
        silos=tuple(members[:silos]), witnesses=tuple(members[silos:]), **values
    )
    port = free_ports(1)[0]
    space = make_workspace(folder, agreed, "127.0.0.1", port)
    tested = np.flatnonzero(client == TEST)
    for i, name in enumerate(names):
        own, held = np.flatnonzero(client == i), tested[i::silos]
        part = frame.iloc[np.concatenate([own, held])].copy()
        part[SPLIT] = ["train"] * len(own) + ["test"] * len(held)
        part.to_csv(space.silo(name) / "table.csv", index=False)
    for one in agreed.parties:
        # Its owner, too, is whoever runs the demo.
        owners = read_settings(space.silo(one.name) / "silo.toml")
        decide(owners, agreed, agreed.fingerprint)
        confirm_all(owners, agreed)
    return space


def start_all(
    space: Workspace,
    group: Processes,
    silos: tuple[str, ...] | None = None,
    watch: Callable[[Event], None] = lambda event: None,
) -> None:
    """SuperLink, registered keys, nodes."""
    names = tuple(one.name for one in space.agreed.parties) if silos is None else silos
    ports = free_ports(len(names))
    start_superlink(space, group)
    await_superlink(space, group)
    watch({"event": "superlink"})
    register(space, PATIENCE)
    watch({"event": "registered"})
    for name, port in zip(names, ports, strict=True):
        start_node(space, name, port, group)


def demo(
    folder: Path,
    out: Path,
    silos: int,
    watch: Callable[[Event], None],
    options: Options | None = None,
    **settings: Any,
) -> Comparison | None:
    """Make the folder, start everything, train, compare; nothing is left running.

    None: every silo keeps its own model, so that there is nothing to compare.
    """
    started = time.monotonic()
    space = make_demo(folder, silos, options, **settings)
    watch({"event": "made", "address": space.address})
    with processes(folder / "logs") as group:
        start_all(space, group, watch=watch)
        watch({"event": "up"})
        config = RunConfig(out=out, wait=PATIENCE)
        run_and_follow(space, config, watch, lambda: group.alive("superlink"))
    if space.agreed.spec.own_models:
        return None
    watch({"event": "comparing"})
    found = compare(space, out)
    return replace(found, seconds=time.monotonic() - started)


def compare(space: Workspace, out: Path, left_out: tuple[str, ...] = ()) -> Comparison:
    """The run folder against the simulation on the same rows, less those of some silos."""
    started = time.monotonic()
    agreed = space.agreed
    names = [name for name in agreed.names if name not in left_out]
    frames = {name: read_table(space.silo(name) / "table.csv") for name in names}
    table = space.folder / "simulated.csv"
    for i, (name, frame) in enumerate(frames.items()):
        named = frame.assign(**{CLIENT_COLUMN: name})
        named.to_csv(table, mode="a" if i else "w", header=not i, index=False)
    declared = space.folder / "schema.json"
    declared.write_text(agreed.table.model_dump_json())
    options = replace(agreed.options(str(table), CLIENT_COLUMN), schema=declared)
    if agreed.dp is not None:
        options = replace(options, client_names=tuple(names))
    simulated = execute(options, baseline=False)
    saved = load_run(out)
    rows = read_table(table)
    nobody = np.zeros(len(rows), np.int64)
    over_network = saved.predictors[0].probabilities(saved.encoder.encode(rows), nobody)
    here = simulated.trained.predictors[0].probabilities(
        simulated.prepared.encoder.encode(rows), nobody
    )
    loss = abs(saved.metrics["train"]["loss"] - simulated.metrics["train"]["loss"])
    return Comparison(
        float(np.abs(over_network - here).max()),
        loss,
        time.monotonic() - started,
        noisy=agreed.dp is not None,
    )
