"""What the person at the keyboard sees: rounds as they go by, and the result as a table."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fairsilo.cli.flags import as_typed
from fairsilo.data.alike import ALIKE
from fairsilo.data.leakage import SAME, too_good
from fairsilo.evaluate.metrics import harmonic_mean
from fairsilo.fairness import NOTIONS
from fairsilo.fairness.words import spelled
from fairsilo.report.sections.group_seen import group_words
from fairsilo.report.text import listing
from fairsilo.run import Run
from fairsilo.run.endings import IDLE, ended_well
from fairsilo.run.measure import Metrics
from fairsilo.solver import Record

UNDEFINED = "–"  # noqa: RUF001
BLIND = "--drop-group leaves it out"
BESIDE = ", now without limits, to compare"

_LOSSES = {
    "demographic-parity": ("loss gap", "difference of mean losses, were all of the class"),
    "accuracy-parity": ("loss gap", "difference of mean losses"),
    "bounded-loss": ("largest", "largest mean loss of a group"),
}
"""What the limit of a notion is set on, where that is not DGEO."""
_RATES = {
    "equalized-odds": "the rates of being predicted right are",
    "demographic-parity": "the shares predicted so are",
    "accuracy-parity": "the shares predicted right are",
}


class Rounds:
    """Live progress on a terminal; elsewhere a line now and then."""

    def __init__(self, title: str, quiet: bool = False) -> None:
        self.title = title
        self.console = Console(stderr=True, quiet=quiet)
        self.live = Live(console=self.console, transient=True, refresh_per_second=8)
        self.started = time.monotonic()
        self.said = self.started

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.live.start()
            self.live.update(Text(f"{self.title}: reading the data"))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.live.stop()

    def beside(self, rounds: int, record: Record) -> None:
        """Show one round of the training without limits, to which the run is compared."""
        self.title = f"{self.title.removesuffix(BESIDE)}{BESIDE}"
        self.watch(rounds, record)

    def watch(self, rounds: int, record: Record) -> None:
        """Show one round."""
        d = np.asarray(record.d)
        gap = f"  largest |D| {np.abs(d).max():.5f}" if d.size else ""
        line = (
            f"{self.title}: round {rounds:,}  loss {float(record.loss):.6f}{gap}  "
            f"residual {float(record.residual):.1e}  {time.monotonic() - self.started:.0f} s"
        )
        if self.console.is_terminal:
            self.live.update(Text(line))
        elif rounds == 1 or time.monotonic() - self.said > 5:
            self.said = time.monotonic()
            self.console.print(line, highlight=False, soft_wrap=True)


def serve_page(path: Path, port: int, dead: Callable[[dict[str, Any]], bool]) -> None:
    """Serve the live page of a progress file until Control-C or SIGTERM."""
    from fairsilo.report.live import Watching

    with Watching(path, port, dead, as_typed) as server:
        print(f"{server.address} shows {path.parent} (Control-C ends the page)", flush=True)
        server.serve_forever()


def number(value: Any, digits: int = 4) -> str:
    """A number for a table, or a dash where it is undefined."""
    return UNDEFINED if value is None else f"{value:.{digits}f}"


def show_run(run: Run, folder: Path, seconds: float | None = None) -> None:
    """The result table and where it lies; `seconds`: of the whole command."""
    console = Console()
    metrics = run.metrics
    show_worth(console, metrics)
    what = show_figures(console, _title(run), metrics)
    train = metrics["train"]
    console.print(
        f"on the training rows: loss {number(train['loss'])}, {what} "
        f"{number(train['dgeo_pooled'])} (pooled), {number(train['dgeo_mean'])} (mean)"
        f"{_limits(metrics)}",
        highlight=False,
        soft_wrap=True,
    )
    show_rates(console, metrics, [run.prepared.spoken(one) for one in run.prepared.constraints])
    if "dp" in metrics:
        console.print(price(metrics["dp"], train["dgeo_noise"]), highlight=False, soft_wrap=True)
    found = metrics["certificate"]
    met = {True: "limit certified", False: "limit not certified", None: "no limit set"}
    bounds = []
    given_away = [note for note in metrics["notes"] if too_good(note)]
    if found["bounds"]["betting"] is not None and found["about"] == "losses":
        bounds.append(f"DGEO below {number(found['bounds']['betting'])}")
    if found["rates"]["bound"] is not None:
        bounds.append(f"rates within {number(found['rates']['bound'])}")
    if bounds:
        console.print(
            f"certificate: with {100 * found['level']:g}% confidence, in the population, "
            f"{', '.join(bounds)}, {met[found['met']]} (certificate.md)",
            highlight=False,
            soft_wrap=True,
        )
    but = "but" if bounds else "warning:"
    for note in given_away:
        console.print(Text(f"{but} {as_typed(note)}", style="bold red"), soft_wrap=True)
    show_ending(console, metrics, [one for one in metrics["notes"] if one not in given_away])
    if "solver_why" in metrics:
        console.print(f"solver {metrics['solver_why']}", highlight=False, soft_wrap=True)
    up = metrics["bytes_up"] / max(metrics["clients"], 1)
    memory = f", {metrics['peak_memory'] / 1e9:.2f} GB" if "peak_memory" in metrics else ""
    console.print(
        f"{_seconds(metrics['seconds'], seconds)}{memory}, {up / 1e3:,.1f} kB sent by each client",
        highlight=False,
    )
    console.print(f"run folder: {folder} (open report.html)", highlight=False, soft_wrap=True)


def show_ending(console: Console, metrics: Metrics, notes: Sequence[str]) -> None:
    """How many rounds there were, how training ended, and what is to be noted."""
    mark = "green" if metrics["converged"] or "stopped_early" in metrics else "yellow"
    before = metrics.get("rounds_before") or 0
    more = f" (and {before:,} before, of models on the way)" if before else ""
    console.print(
        Text(f"{metrics['rounds']:,} rounds{more}, {metrics['reason']}", mark), soft_wrap=True
    )
    for note in notes:
        console.print(Text(f"note: {as_typed(note)}", style="yellow"), soft_wrap=True)


def show_figures(console: Console, title: str, metrics: Metrics) -> str:
    """The model beside the others as a table, and what its columns mean; the losses' name."""
    notion = metrics["notion"]
    what, meaning = _LOSSES.get(notion, ("DGEO", "difference of mean losses"))
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("test rows", no_wrap=True)
    for name in ("accuracy", "balanced", "fairness", "harm. mean", what):
        table.add_column(name, justify="right")
    lines = [(metrics["method"], metrics["test"], "bold")]
    if "unconstrained" in metrics:
        lines.append(("unconstrained", metrics["unconstrained"]["test"], ""))
    lines.append(("constant", metrics["constant"], "dim"))
    for name, values, style in lines:
        table.add_row(name, *map(number, _figures(notion, values)), style=style)
    console.print(table)
    console.print(
        f"fairness = 1 - difference of {_compared(notion)}; "
        f"{what} = {meaning}; constant = always the most frequent class",
        style="dim",
        highlight=False,
    )
    seen = group_words(metrics)
    if seen is not None:
        console.print(f"{seen}; {BLIND}", highlight=False, soft_wrap=True)
    return what


def _compared(notion: str) -> str:
    """What fairness compares."""
    return _RATES.get(notion, "true-positive rates").removesuffix(" are")


def _figures(notion: str, values: Metrics) -> list[float | None]:
    """A line of the table: fairness is that of the notion, and the harmonic mean is of it."""
    right, fair = values.get("accuracy"), values.get("fairness")
    if notion in _RATES:
        gap = values.get("rate_gap")
        fair = None if gap is None else 1 - gap
    both = harmonic_mean(right, fair)
    return [right, values.get("balanced_accuracy"), fair, both, values.get("dgeo_pooled")]


def show_worth(console: Console, metrics: Metrics) -> None:
    """What is to be known before any figure: that the model is of little use."""
    why = metrics.get("worth", {}).get("why")
    if why is not None:
        console.print(
            Text(f"warning: this model is {as_typed(why)}", style="bold red"), soft_wrap=True
        )


def warn_of(metrics: Metrics) -> None:
    """On standard error, where nothing else is printed: what is to be known of the figures."""
    why = metrics.get("worth", {}).get("why")
    said = [] if why is None else [f"this model is {why}"]
    if not ended_well(metrics) or str(metrics["reason"]).startswith("collapsed"):
        said.append(str(metrics["reason"]))
    marks = (SAME, IDLE, ALIKE)
    said += (one for one in metrics["notes"] if too_good(one) or any(m in one for m in marks))
    seen = group_words(metrics)
    if seen is not None:
        said.append(f"{seen}; {BLIND}")
    for sentence in said:
        print(f"fairsilo: warning: {as_typed(sentence)}", file=sys.stderr)


def _seconds(training: float, whole: float | None) -> str:
    """How long it took."""
    if whole is None:
        return f"{training:.1f} s"
    return f"{whole:.1f} s, of which training {training:.1f} s"


def _limits(metrics: Metrics) -> str:
    """The limit on losses; of several the range, for the table below has them all."""
    if metrics["epsilon"] is None:
        return ""
    own = [one["epsilon"] for one in metrics["constraints"]]
    least = min(own, default=metrics["epsilon"])
    largest = f"{metrics['epsilon']:g}"
    return f", epsilon {largest if f'{least:g}' == largest else f'{least:g} to {largest}'}"


def show_rates(console: Console, metrics: Metrics, names: Sequence[str] = ()) -> None:
    """What a target in rates, another notion than the usual one and single pairs came to."""
    if metrics["target_deo"] is not None:
        missed = ", target missed" if metrics.get("target_met") is False else ""
        console.print(
            f"rates on the training rows: {number(metrics['train']['rate_gap'])} apart, target "
            f"{metrics['target_deo']:g}{missed}",
            highlight=False,
        )
    if metrics["notion"] in _RATES:
        gap = number(metrics["test"]["rate_gap"])
        console.print(
            f"{metrics['notion']}: on the test rows {_RATES[metrics['notion']]} {gap} apart",
            highlight=False,
        )
    if len(metrics["constraints"]) > 1:
        console.print(_constraints(metrics, names))


MOST = 20
"""So many constraints have a line each."""


def _constraints(metrics: Metrics, names: Sequence[str] = ()) -> Table:
    """Every constraint: what was limited, on training and test rows, and the other of the two.

    `names` as a reader understands them; without, as metrics.json has them.
    """
    target, notion = metrics["target_deo"], metrics["notion"]
    loss = "loss" if notion in _LOSSES else "DGEO"
    shown = [(loss, "train"), (loss, "test"), ("rates", "test")]
    if target is not None:
        shown = [("rates", "train"), ("rates", "test"), (loss, "test")]
    elif notion == "bounded-loss":
        shown.pop()
    table = Table(title="single constraints", title_justify="left")
    table.add_column("compared")
    for name in ("limit", *(f"{what} {rows}" for what, rows in shown)):
        table.add_column(name, justify="right")
    limited = "loss" if target is None else "rate"
    found = metrics["constraints"]
    if names:
        found = [{**one, "name": name} for one, name in zip(found, names, strict=True)]
    if len(found) > MOST:
        found = sorted(found, key=lambda one: -abs(one["test"][limited] or 0.0))[:MOST]
        table.title = f"the {MOST} of {len(metrics['constraints'])} constraints that are worst on "
        table.title += "test rows (metrics.json has all; --against rest has fewer)"
    for one in found:
        limit = one["epsilon"] if target is None else target
        told = (one[rows]["rate" if what == "rates" else "loss"] for what, rows in shown)
        table.add_row(one["name"], *map(number, (limit, *told)))
    return table


def price(dp: dict[str, Any], noise: float) -> str:
    """What differential privacy cost, and how far it blurs what is said of the training rows."""
    return (
        f"differential privacy of a training row: epsilon {dp['epsilon_spent']:.4g} of "
        f"{dp['epsilon']:g} spent in {dp['releases']} releases, delta {dp['delta']:g} (of a person "
        f"with 5 rows: {dp['epsilon_of_rows']['5']:.3g}); figures on "
        f"training rows carry noise (DGEO: standard deviation {noise:.3f})"
    )


def _title(run: Run) -> str:
    prepared = run.prepared
    return (
        f"{Path(run.options.data).name}: {run.metrics['train']['rows']:,} training rows of "
        f"{len(run.client_names)} clients, {run.metrics['test']['rows']:,} test rows; "
        f"{listing([spelled(prepared.schema.group, one) for one in prepared.groups])}{_where(run)}"
    )


def _where(run: Run) -> str:
    """On which rows, or in which answer, the groups are compared."""
    protected = spelled(run.prepared.schema.label, run.prepared.protected_class)
    notion = NOTIONS[run.options.notion]
    if notion.within_classes:
        every = ", ".join(run.prepared.schema.classes)
        return f" in {every if notion.every_class else protected}"
    return f", predicted {protected}" if notion.claims else f", {notion.name}"
