"""The ServerApp: waits for the silos, trains or audits over them, and writes the run folder.

It runs beside the SuperLink, on the coordinator's machine. What happens is told line by line in
progress.jsonl in the run folder, which `fairsilo flower run` follows.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fairsilo.auditor import write
from fairsilo.errors import FairSiloError
from fairsilo.flower.agnostic_session import AgnosticSession
from fairsilo.flower.audit import audit, audit_columns
from fairsilo.flower.charter import Charter, read_charter
from fairsilo.flower.gather import Gather, Plain
from fairsilo.flower.internals import shorten_pulls
from fairsilo.flower.journal import Journal
from fairsilo.flower.keys import silo_names
from fairsilo.flower.launch import PROGRESS
from fairsilo.flower.local_session import LocalSession
from fairsilo.flower.post import GridPost, Post
from fairsilo.flower.private_session import PrivateSession
from fairsilo.flower.result import build_run
from fairsilo.flower.secure import Secure
from fairsilo.flower.session import Session
from fairsilo.run import load, save

JOURNAL = "journal"

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Coordinate one run as its configuration says."""
    config = context.run_config
    out = Path(str(config["out"]))
    out.mkdir(parents=True, exist_ok=True)
    progress = Progress(out / PROGRESS)
    progress.say({"event": "started", "pid": os.getpid()})
    try:
        # Where Flower has changed, its own waits stay.
        with contextlib.suppress(FairSiloError):
            shorten_pulls()
        charter = read_charter(Path(str(config["federation"])))
        post = post_for(charter, grid, bool(config["simulation"]))
        _coordinate(charter, post, str(context.run_id), config, out, progress.say)
    except FairSiloError as error:
        progress.say({"event": "failed", "why": str(error)})
        raise
    except BaseException as error:
        progress.say({"event": "failed", "why": f"an unexpected error, {type(error).__name__}"})
        raise
    progress.say({"event": "finished"})


def _coordinate(
    charter: Charter,
    post: Post,
    run: str,
    config: Any,
    out: Path,
    say: Callable[[dict[str, Any]], None],
) -> None:
    silos = wait_for_silos(charter, post, float(config["wait"]), say)
    gather = gather_for(charter, post, run, float(config["timeout"]))
    if config["audit"] or config["columns"]:
        found = (
            audit(charter, gather, silos, load(Path(str(config["audit"]))))
            if config["audit"]
            else audit_columns(charter, gather, silos, str(config["columns"]))
        )
        write(found, out)
        return
    journal = Journal(out / JOURNAL, charter.fingerprint, bool(config["resume"]))
    session = session_for(charter)
    finished = session(charter, gather, journal, silos, say).train(bool(config["baseline"]))
    save(build_run(charter, finished, gather.secure), out)
    journal.clear()


def session_for(charter: Charter) -> type[Session]:
    """AF and LCO do not ask a solver's questions, and a private run asks for other sums."""
    if charter.dp is not None:
        return PrivateSession
    own: dict[str, type[Session]] = {"af": AgnosticSession, "lco": LocalSession}
    return own.get(charter.method, Session)


def post_for(charter: Charter, grid: Grid, simulated: bool) -> GridPost:
    """Nodes are silos by their keys; those of Flower's simulation, without keys, by their turn."""
    if not simulated:
        return GridPost(grid, silo_names(charter))
    turn = dict(zip(sorted(map(int, grid.get_node_ids())), charter.names, strict=False))
    return GridPost(grid, lambda node: turn.get(int(node.node_id)), simulated=True)


def gather_for(charter: Charter, post: Post, run: str, timeout: float) -> Gather:
    """Behind masks, or in the clear where the federation file says so."""
    if charter.secure_aggregation:
        return Secure(post, charter, run, timeout)
    return Plain(post, timeout)


def wait_for_silos(
    charter: Charter,
    post: Post,
    seconds: float,
    say: Callable[[dict[str, Any]], None],
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[str, ...]:
    """The silos that take part: all of the federation file, or those there when time is up."""
    deadline = time.monotonic() + seconds
    seen = -1
    while True:
        present = post.present()
        if len(present) != seen:
            seen = len(present)
            say({"event": "waiting", "silos": seen, "of": len(charter.silos)})
        if seen == len(charter.silos) or time.monotonic() >= deadline:
            break
        sleep(0.5)
    if len(present) < charter.minimum_silos:
        absent = sorted(set(charter.names) - set(present))
        raise FairSiloError(
            f"{len(present)} of at least {charter.minimum_silos} silos are connected, absent are "
            f"{', '.join(absent)}: start their nodes"
        )
    return tuple(name for name in charter.names if name in present)


class Progress:
    """Lines of JSON, flushed one by one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.unlink(missing_ok=True)

    def say(self, event: dict[str, Any]) -> None:
        """Append a line."""
        with self.path.open("a") as stream:
            stream.write(json.dumps({**event, "time": time.time()}) + "\n")
