"""What the person at the keyboard sees of a network run."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairsilo.cli.show import price

if TYPE_CHECKING:
    from fairsilo.network.ops.demo import Comparison

KEYS = ("accuracy", "balanced_accuracy", "fairness", "harmonic_mean", "dgeo_pooled")


class Rounds:
    """A line for everything that happens: rounds are few, and each takes seconds."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.started = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.console.file.flush()

    def watch(self, event: dict[str, Any]) -> None:
        """Show an event."""
        text = words(event)
        if text:
            seconds = time.monotonic() - self.started
            self.console.print(f"{seconds:6.1f} s  {text}", highlight=False, soft_wrap=True)


def words(event: dict[str, Any]) -> str | None:
    """An event of a run in words; None for what nobody needs to see."""
    kind = event["event"]
    if kind == "round":
        gap = "" if event["d"] is None else f"  largest |D| {event['d']:.5f}"
        return (
            f"round {event['round']}  loss {event['loss']:.6f}{gap}  residual "
            f"{event['residual']:.1e}  {event['silos']} silos  {event['seconds']:.1f} s"
        )
    if kind == "waiting":
        return f"{event['silos']} of {event['of']} silos are connected"
    if kind == "approval":
        waits = [f"silo {name} is waiting for its owner's approval" for name in event["silos"]]
        return "; ".join(waits) or "the owners of all silos have approved"
    if kind == "lost":
        return f"silo {event['silo']} is lost: {event['why']}"
    return {
        "made": "working folder, keys and tables are made",
        "up": "SuperLink and nodes are started",
        "started": "the server's process is up",
        "comparing": "everything is stopped; simulating the same rows",
    }.get(kind)


def show_result(out: Path) -> None:
    """The metrics of a run folder as a table."""
    metrics = json.loads((out / "metrics.json").read_text())
    console = Console()
    console.print(
        _table(
            f"{metrics['train']['rows']:,} training rows of {metrics['clients']} silos, "
            f"{metrics['test']['rows']:,} test rows",
            [(metrics["method"], metrics["test"]), ("constant", metrics["constant"])],
        )
    )
    if "dp" in metrics:
        noise = metrics["train"]["dgeo_noise"]
        console.print(price(metrics["dp"], noise), highlight=False, soft_wrap=True)
    mark = "green" if metrics["converged"] else "yellow"
    console.print(Text(f"{metrics['rounds']:,} rounds, {metrics['reason']}", style=mark))
    for note in metrics["notes"]:
        console.print(Text(f"note: {note}", style="yellow"))
    hidden = "behind masks" if metrics["network"]["secure_aggregation"] else "in the clear"
    up = metrics["bytes_up"] / max(metrics["clients"], 1) / 1e3
    console.print(
        f"{metrics['seconds']:.1f} s, {up:,.1f} kB sent by each silo, {hidden}", highlight=False
    )
    console.print(f"run folder: {out} (open report.html)", highlight=False, soft_wrap=True)


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


def _table(title: str, lines: list[tuple[str, dict[str, Any]]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("test rows", no_wrap=True)
    for name in ("accuracy", "balanced", "fairness", "harm. mean", "DGEO"):
        table.add_column(name, justify="right")
    for name, values in lines:
        numbers = (values.get(key) for key in KEYS)
        table.add_row(name, *("-" if n is None else f"{n:.4f}" for n in numbers))
    return table
