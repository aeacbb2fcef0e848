"""`fairsilo flower`: keys, working folder, SuperLink, silos and runs over a real network."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairsilo.cli.flower_init import PORTS, init
from fairsilo.cli.flower_members import (
    accept_key,
    add,
    backup,
    keygen,
    remove,
    renew,
    restore,
    rotate_key,
    unlocked,
)
from fairsilo.cli.flower_owner import approve, check, confirm, left
from fairsilo.cli.shared_options import AGREED, StartFrom, options_from, takes
from fairsilo.errors import FairSiloError
from fairsilo.extras import install

if TYPE_CHECKING:
    from fairsilo.network.ops.workspace import Workspace

app = typer.Typer(no_args_is_help=True, help="Train over a real network, on Flower: sums only.")

Folder = Annotated[Path, typer.Option(help="Working folder that `flower init` wrote.")]
Out = Annotated[Path, typer.Option(help="Run folder, as `fairsilo train` writes it.")]
Wait = Annotated[float, typer.Option(help="Seconds to wait for all silos at the start.")]
Secure = Annotated[bool, typer.Option(help="Whether the server sees sums over silos only.")]
Timeout = Annotated[float, typer.Option(help="Seconds a silo has for one answer.")]
NodePort = Annotated[
    int | None,
    typer.Option(
        min=1, max=PORTS, help="Port of the node on this machine alone; default any that is free."
    ),
]
HealthPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=PORTS,
        help="Answer GET /health and /metrics (Prometheus) on this port of loopback.",
    ),
]
WaitLost = Annotated[
    float,
    typer.Option(help="Seconds to wait for a lost silo or SuperLink before the run ends; 0: none."),
]
CLEAR = (
    "warning: without secure aggregation the server sees every silo's own sums: its losses, "
    "gradients and counts, from which it can learn about single rows"
)
FIXED = ("label", "split", "test_fraction", "weight", "maximum_weight")
"""Options that the demo's table decides."""


for command in (keygen, init, add, remove, rotate_key, accept_key, renew, backup, restore):
    app.command()(command)


app.command()(check)


@app.command()
def silo(
    settings: Annotated[Path, typer.Option(help="The silo's settings.")] = Path("silo.toml"),
    port: NodePort = None,
    superlink: Annotated[
        str | None, typer.Option(help="HOST:PORT of the SuperLink; default as the settings say.")
    ] = None,
    health_port: HealthPort = None,
) -> None:
    """Take part, AT the silo: answers with the installed fairsilo, never runs what was sent."""
    needs_flower()
    from fairsilo.network.ops.program import run_silo

    unlocked(settings)
    run_silo(settings, port, superlink, health_port)


@app.command()
def witness(
    settings: Annotated[Path, typer.Option(help="The witness's settings.")] = Path("silo.toml"),
    superlink: Annotated[
        str | None, typer.Option(help="HOST:PORT of the SuperLink; default as the settings say.")
    ] = None,
    port: NodePort = None,
    health_port: HealthPort = None,
) -> None:
    """Watch, without rows, that the server asks what follows from the sums, and sign it."""
    needs_flower()
    from fairsilo.network.ops.program import run_silo

    if not unlocked(settings).witness:
        raise FairSiloError(f"{settings} is a silo's: start it with `fairsilo flower silo`")
    run_silo(settings, port, superlink, health_port)


@app.command()
def superlink(
    folder: Folder = Path(),
    listen: Annotated[
        str | None,
        typer.Option(help="Where to listen for silos if not at the address's host: 0.0.0.0."),
    ] = None,
    control_port: Annotated[
        int, typer.Option(min=0, max=PORTS, help="Port of control, on loopback; 0 for a free one.")
    ] = 0,
    health_port: HealthPort = None,
) -> None:
    """Run the SuperLink: silos come in through a gateway, control stays on this machine."""
    space = _opened(folder)
    from fairsilo.network.ops.superlink import run_superlink

    run_superlink(space, listen, control_port, health_port)


app.command()(approve)
app.command()(confirm)
app.command()(left)


@app.command()
def register(folder: Folder = Path()) -> None:
    """Tell the running SuperLink the silos' public keys; all other nodes are refused."""
    needs_flower()
    from fairsilo.network.ops.runs import register as register_all
    from fairsilo.network.ops.workspace import Workspace

    space = Workspace(folder)
    register_all(space)
    print(f"registered: {', '.join(one.name for one in space.agreed.parties)}")


@app.command()
def run(
    folder: Folder = Path(),
    out: Out = Path("runs/network"),
    resume: Annotated[bool, typer.Option(help="Go on with the run in --out.")] = False,
    baseline: Annotated[
        bool,
        typer.Option(help="Train without the limit, too, to compare; some rounds more."),
    ] = False,
    start_from: StartFrom = None,
    simulation: Annotated[
        bool,
        typer.Option(help="Let Flower's simulation (Ray) play the silos in FOLDER/silos."),
    ] = False,
    wait: Wait = 60.0,
    wait_lost: WaitLost = 600.0,
    timeout: Timeout = 120.0,
    overwrite: Annotated[
        bool, typer.Option(help="Replace a finished or interrupted run in --out.")
    ] = False,
) -> None:
    """Train over the silos that are connected and write a run folder.

    Control-C and SIGTERM end the run at the SuperLink, too; --resume goes on with it.
    """
    space = _opened(folder)
    from fairsilo.cli.flower_show import show_result

    settings: dict[str, Any] = {"out": out, "resume": resume, "baseline": baseline}
    settings |= {"wait": wait, "wait_lost": wait_lost, "timeout": timeout}
    settings |= {"overwrite": overwrite, "start_from": start_from}
    if simulation:
        from fairsilo.network.ops.launch import start_simulation
        from fairsilo.network.ops.processes import free_ports, processes

        port = free_ports(1)[0]
        with processes(space.folder / "logs") as group:
            start_simulation(space, port, group)
            _carry_out(space, **settings, simulation=port)
    else:
        _carry_out(space, **settings)
    show_result(out)


@app.command()
def audit(
    model: Annotated[
        Path | None, typer.Option(help="Run folder with the model to measure.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Instead of --model any model, whose answers are in the silos' tables in columns "
            "that their settings name: classes or probabilities."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for audit.json and .html; default the run's.")
    ] = None,
    folder: Folder = Path(),
    wait: Wait = 60.0,
    wait_lost: WaitLost = 600.0,
    timeout: Timeout = 120.0,
) -> None:
    """Measure a model on the silos' rows, with sums only; leaves audit.json and audit.html."""
    space = _opened(folder)
    from fairsilo.cli.audit_show import show_audit
    from fairsilo.network.audit_columns import COLUMNS
    from fairsilo.run.choices import choose

    if (model is None) == (columns is None):
        raise FairSiloError("give --model, a run folder, or --columns, one of the two")
    if model is not None and not (model / "model.json").exists():
        raise FairSiloError(f"--model {model} is not a run folder: give one that has a model.json")
    if columns is not None:
        choose("columns", columns, COLUMNS)
    where = out or model
    if where is None:
        raise FairSiloError("--out is missing: name the folder for the audit")
    settings = {"wait": wait, "wait_lost": wait_lost, "timeout": timeout}
    _carry_out(space, out=where, audit=model, columns=columns or "", **settings)
    show_audit(json.loads((where / "audit.json").read_text()), where)


@app.command()
def status(
    folder: Folder = Path(),
    run: Annotated[
        Path | None, typer.Option(help="A run folder; default that of the last run.")
    ] = None,
    ask: Annotated[
        bool,
        typer.Option(help="Ask the silos now for version and files, which takes some seconds."),
    ] = False,
    wait: Annotated[float, typer.Option(help="With --ask: seconds to wait for silos.")] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say who is connected, what every silo does, and where the run stands."""
    needs_flower()
    from fairsilo.cli.flower_show import Rounds, show_status
    from fairsilo.network.ops.status import ask_silos
    from fairsilo.network.ops.status import status as found_in
    from fairsilo.network.ops.workspace import Workspace

    space = Workspace(folder)
    if ask:
        with Rounds() as show:
            found = ask_silos(space, lambda event: None if as_json else show.watch(event), wait)
    else:
        found = found_in(space, run)
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        show_status(found)


@app.command()
def watch(
    folder: Folder = Path(),
    run: Annotated[
        Path | None, typer.Option(help="A run folder; default that of the last run.")
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=PORTS, help="Port of the page, on loopback; 0: a free one.")
    ] = 0,
) -> None:
    """Show a run as it goes, or as it went, on a page for this machine's browser; Control-C ends.

    The page is made from the run's folder alone: the run does not notice it.
    """
    needs_flower()
    from fairsilo.cli.show import serve_page
    from fairsilo.network.ops.status import await_run, died, last_run
    from fairsilo.network.ops.workspace import Workspace
    from fairsilo.progress import PROGRESS

    space = Workspace(folder)
    path = last_run(space) if run is None else run / PROGRESS
    if path is None:
        name = space.agreed.name
        print(f"no run of {name} was started from {folder} yet: its page comes with it", flush=True)
        path = await_run(space)
    serve_page(path, port, partial(died, path.parent))


@app.command()
@takes(name for name in AGREED if name not in FIXED)
def demo(
    given: dict[str, Any],
    out: Annotated[Path, typer.Option(help="A new folder for everything the demo writes.")],
    silos: Annotated[int, typer.Option(help="How many silos share ADULT.")] = 4,
    rows: Annotated[int | None, typer.Option(help="Fewer rows of ADULT; default all.")] = None,
    secure_aggregation: Secure = True,
    witness: Annotated[
        bool, typer.Option("--witness", help="Add a witness, who signs every question.")
    ] = False,
) -> None:
    """ADULT over real processes on this machine, compared with the simulation, all cleaned up."""
    needs_flower()
    from fairsilo.cli.flower_show import Rounds, show_comparison, show_result
    from fairsilo.network.ops.demo import DATA
    from fairsilo.network.ops.demo import demo as run_demo

    if out.exists() and any(out.iterdir()):
        raise FairSiloError(f"--out {out} is not empty: give a new folder")
    options = options_from(given, data=DATA)
    warn_unless(secure_aggregation)
    with Rounds() as show:
        comparison = run_demo(
            out, out / "run", silos, show.watch, options,
            rows=rows, secure_aggregation=secure_aggregation, witness=witness,
        )  # fmt: skip
    show_result(out / "run")
    if comparison is None:
        print("every silo keeps its own model, in its folder models/: there is none to compare")
    else:
        show_comparison(comparison)


def _opened(folder: Path) -> Workspace:
    """A working folder whose federation file can be read; warns where sums travel in the clear."""
    needs_flower()
    from fairsilo.network.ops.workspace import Workspace, write_app

    space = Workspace(folder)
    warn_unless(space.agreed.secure_aggregation)
    write_app(space)
    return space


def _carry_out(space: Workspace, **settings: Any) -> None:
    """A run from its start to its end, told line by line."""
    from fairsilo.cli.flower_show import Rounds
    from fairsilo.network.ops.follow import run_and_follow
    from fairsilo.network.ops.runs import RunConfig

    with Rounds("; --resume goes on with it" if "resume" in settings else "") as show:
        run_and_follow(space, RunConfig(**settings), show.watch)


def warn_unless(secure: bool) -> None:
    """Say what the server sees without secure aggregation."""
    if not secure:
        print(f"fairsilo: {CLEAR}", file=sys.stderr)


def needs_flower() -> None:
    """Say in one sentence what to install where Flower is not."""
    from importlib.util import find_spec

    if find_spec("flwr") is None or find_spec("cryptography") is None:
        raise FairSiloError(f"Flower is not installed: {install('flower')}")
