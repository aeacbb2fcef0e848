"""The ServerApp: waits for the silos, trains or audits over them, and writes the run folder.

It runs beside the SuperLink, on the coordinator's machine. What happens is told line by line in
progress.jsonl in the run folder, which `fairsilo flower run` follows.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fairsilo import __version__
from fairsilo.auditor import write
from fairsilo.errors import FairSiloError
from fairsilo.network.aggregate import Aggregate, Patience, Plain
from fairsilo.network.audit import audit, audit_columns
from fairsilo.network.engine import Network
from fairsilo.network.federation_file import FederationFile, read_federation_file
from fairsilo.network.introduction import introductions
from fairsilo.network.journal import Journal
from fairsilo.network.ops.bundle import code_digest
from fairsilo.network.ops.follow import JOURNAL
from fairsilo.network.ops.internals import expect_whole, shorten_pulls
from fairsilo.network.ops.keys import silo_names
from fairsilo.network.ops.whole import carry_grid
from fairsilo.network.private_engine import PrivateNetwork
from fairsilo.network.secure import Secure
from fairsilo.network.train import train_over
from fairsilo.network.transport import GridTransport, Patient, Transport
from fairsilo.progress import (
    AUDIT_PROGRESS,
    PROGRESS,
    Progress,
    Tail,
    full_disk,
    interruptions,
    is_full,
    locked,
)
from fairsilo.run import load, save
from fairsilo.run.again import digest

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Coordinate one run as its configuration says."""
    config = context.run_config
    out = Path(str(config["out"]))
    with locked(out, "server"):
        path = out / (AUDIT_PROGRESS if _audits(config) else PROGRESS)
        past = interruptions(Tail(path).read())
        progress = Progress(path)
        try:
            # Where Flower has changed, its own waits stay.
            with contextlib.suppress(FairSiloError):
                shorten_pulls()
                expect_whole()
                carry_grid(grid)
            agreed = read_federation_file(Path(str(config["federation"])))
            progress.say(
                {
                    **{"event": "started", "pid": os.getpid(), "run": str(context.run_id)},
                    **{"resume": bool(config["resume"]), "silos": agreed.names, "phase": "start"},
                    "about": about(agreed, _audits(config)),
                }
            )
            post = transport_for(agreed, grid, bool(config["simulation"]))
            notes = coordinate(agreed, post, str(context.run_id), config, out, progress.say, past)
            progress.say({"event": "finished", "notes": notes})
        except BaseException as error:
            with contextlib.suppress(FairSiloError):
                progress.say(ending(error, out))
            raise


def ending(error: BaseException, out: Path) -> dict[str, Any]:
    """How a run ended that did not finish; an `interrupted` one may go on by itself."""
    if is_full(error):
        return {"event": "failed", "why": full_disk(out)}
    if isinstance(error, FairSiloError):
        return {"event": "failed", "why": str(error)}
    if isinstance(error, SystemExit | KeyboardInterrupt):
        # Flower ends the process where its run has ended: by a command, or after a long pause.
        return {"event": "interrupted", "why": "the SuperLink ended the run's process"}
    if isinstance(error, httpx.HTTPError):
        return {"event": "interrupted", "why": "the server's process lost the SuperLink"}
    return {"event": "failed", "why": f"an unexpected error, {type(error).__name__}"}


def about(agreed: FederationFile, audits: bool) -> dict[str, Any]:
    """What the run is, for those who look at its progress."""
    limit = agreed.epsilon if agreed.target_deo is None else agreed.target_deo
    return {
        "what": "audit" if audits else agreed.spec.title,
        "federation": agreed.name,
        "fingerprint": agreed.fingerprint,
        "notion": agreed.notion,
        "model": agreed.model,
        "limit": limit if agreed.spec.limited else None,
        "secure": agreed.secure_aggregation,
        "witnesses": [one.name for one in agreed.witnesses],
        "dp": None if agreed.dp is None else agreed.dp.epsilon,
        "fairsilo": __version__,
        "code": code_digest(),
    }


def _audits(config: Any) -> bool:
    return bool(config["audit"] or config["columns"])


def coordinate(
    agreed: FederationFile,
    post: Transport,
    run: str,
    config: Any,
    out: Path,
    say: Callable[[dict[str, Any]], None],
    past: Sequence[str] = (),
) -> list[str]:
    """Wait, ask who is there, train or audit, write; the run's notes."""
    silos = wait_for_silos(agreed, post, float(config["wait"]), say)
    timeout = float(config["timeout"])
    say({"event": "introducing", "phase": "connect"})
    present = set(post.present())
    witnesses = tuple(one.name for one in agreed.witnesses if one.name in present)
    introductions(agreed, post, (*silos, *witnesses), timeout, say)
    if config["introduce"]:
        return []
    patience = Patience(float(config["wait_lost"]), say)
    gather = aggregate_for(agreed, Patient(post, say), run, timeout, patience)
    if _audits(config):
        say({"event": "asking", "kind": "evaluate", "number": 1, "phase": "evaluation"})
        found = (
            audit(agreed, gather, silos, load(Path(str(config["audit"]))))
            if config["audit"]
            else audit_columns(agreed, gather, silos, str(config["columns"]))
        )
        write(found, out)
        return []
    start = Path(str(config["start_from"])) if config["start_from"] else None
    resume = bool(config["resume"])
    journal = Journal(out / JOURNAL, agreed.fingerprint, resume, past, digest(start))
    engine = engine_for(agreed)(agreed, gather, journal, silos, say)
    trained = train_over(agreed, engine, bool(config["baseline"]), start)
    say({"event": "writing", "phase": "writing"})
    save(trained, out)
    journal.clear()
    return list(trained.metrics["notes"])


def engine_for(agreed: FederationFile) -> type[Network]:
    """A private run asks for other sums."""
    return Network if agreed.dp is None else PrivateNetwork


def transport_for(agreed: FederationFile, grid: Grid, simulated: bool) -> GridTransport:
    """Nodes are silos by their keys; those of Flower's simulation, without keys, by their turn."""
    if not simulated:
        return GridTransport(grid, silo_names(agreed.parties))
    turn = dict(zip(sorted(map(int, grid.get_node_ids())), agreed.names, strict=False))
    return GridTransport(grid, lambda node: turn.get(int(node.node_id)), simulated=True)


def aggregate_for(
    agreed: FederationFile,
    post: Transport,
    run: str,
    timeout: float,
    patience: Patience | None = None,
) -> Aggregate:
    """Behind masks, or in the clear where the federation file says so."""
    if agreed.secure_aggregation:
        return Secure(post, agreed, run, timeout, patience)
    # Under differential privacy an answer that is asked for again is paid for again.
    return Plain(post, timeout, patience if agreed.dp is None else None)


def wait_for_silos(
    agreed: FederationFile,
    post: Transport,
    seconds: float,
    say: Callable[[dict[str, Any]], None],
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[str, ...]:
    """The silos that take part: all of the federation file, or those there when time is up."""
    deadline = time.monotonic() + seconds
    seen = -1
    while True:
        there = post.present()
        present = tuple(name for name in there if name in agreed.names)
        if len(there) != seen:
            seen = len(there)
            of = {"of": len(agreed.silos), "names": there, "phase": "connect"}
            say({"event": "waiting", "silos": len(present), **of})
        if seen == len(agreed.silos) + len(agreed.witnesses) or time.monotonic() >= deadline:
            break
        sleep(0.5)
    away = sorted({one.name for one in agreed.witnesses} - set(there))
    if len(agreed.witnesses) - len(away) < agreed.signers:
        raise FairSiloError(
            f"{agreed.signers} of the federation file's witnesses must sign every question, absent "
            f"are {', '.join(away)}: start their nodes"
        )
    if len(present) < agreed.minimum_silos:
        absent = sorted(set(agreed.names) - set(present))
        raise FairSiloError(
            f"{len(present)} of at least {agreed.minimum_silos} silos are connected, absent are "
            f"{', '.join(absent)}: start their nodes"
        )
    return tuple(name for name in agreed.names if name in present)
