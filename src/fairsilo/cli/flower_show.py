"""What the person at the keyboard sees of a network run."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairsilo.cli.flags import as_typed
from fairsilo.cli.show import price, show_ending, show_figures, show_rates, show_worth
from fairsilo.progress import words
from fairsilo.report.sections.settings import watched_by
from fairsilo.report.text import duration

if TYPE_CHECKING:
    from fairsilo.network.ops.demo import Comparison


class Rounds:
    """A line for everything that happens: rounds are few, and each takes seconds."""

    def __init__(self, hint: str = "") -> None:
        self.hint = hint
        """What to do after Control-C."""
        self.console = Console(stderr=True)
        self.started = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KeyboardInterrupt):
            # Typer ends the program without a word.
            told = (str(error) or "interrupted") + self.hint
            self.console.print(f"fairsilo: {told}", highlight=False, soft_wrap=True)
        self.console.file.flush()

    def watch(self, event: dict[str, Any]) -> None:
        """Show an event."""
        text = words(event)
        # Every round has a line of its own when it is done.
        asked = event["event"] == "asking" and event["phase"] == "rounds"
        if text and not asked:
            seconds = time.monotonic() - self.started
            line = f"{seconds:6.1f} s  {as_typed(text)}"
            self.console.print(line, highlight=False, soft_wrap=True)


def show_result(out: Path) -> None:
    """The metrics of a run folder as a table."""
    metrics = json.loads((out / "metrics.json").read_text())
    console = Console()
    show_worth(console, metrics)
    title = (
        f"{metrics['train']['rows']:,} training rows of {metrics['clients']} silos, "
        f"{metrics['test']['rows']:,} test rows"
    )
    show_figures(console, title, metrics)
    show_rates(console, metrics)
    if "dp" in metrics:
        noise = metrics["train"]["dgeo_noise"]
        console.print(price(metrics["dp"], noise), highlight=False, soft_wrap=True)
    show_ending(console, metrics, metrics["notes"])
    hidden = "behind masks" if metrics["network"]["secure_aggregation"] else "in the clear"
    up = metrics["bytes_up"] / max(metrics["clients"], 1) / 1e3
    watched = watched_by(metrics["network"])
    console.print(
        f"{metrics['seconds']:.1f} s, {up:,.1f} kB sent by each silo, {hidden}{watched}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"run folder: {out} (open report.html)", highlight=False, soft_wrap=True)


def show_status(found: dict[str, Any]) -> None:
    """Silos and run, as `status` found them."""
    console = Console()
    link = found["superlink"]
    where = f"up, controlled at {link['control']}" if link["up"] else link["why"] or "not running"
    console.print(f"federation {found['federation']}; SuperLink {where}", highlight=False)
    for told in found["certificates"]:
        console.print(Text(f"warning: {as_typed(told)}", style="yellow"), soft_wrap=True)
    table = Table(title_justify="left")
    for name in ("silo", "connected", "last seen", "fairsilo", "files fit", "now"):
        table.add_column(name)
    for silo in (*found["silos"], *found["witnesses"]):
        fits = {True: "yes", False: f"no: {silo['why']}"}.get(silo["fits"], "not asked yet")
        ago = silo["seconds_ago"]
        table.add_row(
            silo["name"] + (", a witness" if silo in found["witnesses"] else ""),
            {True: "yes", False: "no", None: "-"}[silo["connected"]]
            + ("" if silo["registered"] is not False else ", key not registered"),
            "-" if ago is None else _seen(silo["connected"], ago),
            silo["fairsilo"] or "-",
            Text(fits),
            Text(silo["doing"]),
        )
    console.print(table)
    run = found["run"]
    if run is None:
        console.print("no run was started from this folder yet", highlight=False)
        return
    now = f", {run['doing']}" if run["doing"] else ""
    line = f"run {run['folder']}: {run['how']} ({run['phase']}{now}), {duration(run['seconds'])}"
    if run["round"] is not None:
        line += f"; round {run['round']}, loss {run['loss']:.6f}"
        line += "" if run["largest_gap"] is None else f", largest |D| {run['largest_gap']:.5f}"
    left = run["seconds_left"]
    if left is not None:
        line += f"; about {duration(left)} left"
    elif run["how"] == "running":
        line += "; it ends when training has converged"
    console.print(Text(as_typed(line)), soft_wrap=True)
    for name, seconds in run["seconds_by_phase"].items():
        console.print(f"  {name}: {duration(seconds)}", highlight=False)
    for note in run["notes"]:
        console.print(Text(f"note: {as_typed(note)}", style="yellow"), soft_wrap=True)


def _seen(connected: bool, ago: float) -> str:
    """When the SuperLink heard of a silo last, or since when it takes it for gone."""
    return f"{duration(ago)} ago" if connected else f"gone for {duration(ago)}"


def show_comparison(found: Comparison) -> None:
    """How near the network run is to the simulation."""
    noise = ", each with noise of its own" if found.noisy else ""
    Console().print(
        f"against the simulation on the same rows{noise}: probabilities differ by at most "
        f"{found.probabilities:.1e}, training loss by {found.loss:.1e}; {found.seconds:.0f} s in "
        "all, nothing is left running",
        highlight=False,
        soft_wrap=True,
    )
