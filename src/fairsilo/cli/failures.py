"""`--fail-on`: what makes a pipeline stop, though a run was written."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from fairsilo.errors import FairSiloError

if TYPE_CHECKING:
    from fairsilo.run import Run

RUNS = ("missed", "not-converged", "collapsed")
AUDITS = ("missed", "uncertified")


def checked_failures(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """The names of a list with commas."""
    names = tuple(part.strip() for part in text.split(","))
    for name in names:
        if name not in known:
            raise FairSiloError(f"--fail-on {name!r} is unknown: choose from {', '.join(known)}")
    return names


def run_failures(run: Run) -> list[str]:
    """Which of them the run is."""
    from fairsilo.report.sections.facts import Facts
    from fairsilo.report.sections.verdict import Answer, on_training_rows
    from fairsilo.run.endings import ended_well
    from fairsilo.run.store import compared, history

    metrics = run.metrics
    about = {
        "groups": run.prepared.groups, "protected_class": run.prepared.protected_class,
        "compared": compared(run), "schema": run.prepared.schema.model_dump(mode="json"),
        "options": {"target_by": run.options.target_by},
    }  # fmt: skip
    answer = on_training_rows(Facts(about, metrics, history(run)))
    found = {
        "missed": answer is Answer.NO or metrics.get("target_met") is False,
        "not-converged": not ended_well(metrics),
        "collapsed": str(metrics["reason"]).startswith("collapsed")
        or metrics["worth"]["useful"] is False,
    }
    return [name for name, yes in found.items() if yes]


def audit_failures(found: Mapping[str, Any]) -> list[str]:
    """Which of them the audit, which has a limit, is; of audits that are added, all together."""
    target, limits = found["target_deo"], found["limits"]
    gaps = [(pair["loss_gap"]["pooled"]["value"], limit)
            for pair, limit in zip(found["pairs"], limits, strict=True)]  # fmt: skip
    gaps.append(((found.get("sequence") or found["rates"])["value"], target))
    missed = any(gap is not None and limit is not None and abs(gap) > limit for gap, limit in gaps)
    told = {"missed": missed, "uncertified": found["certificate"]["met"] is not True}
    return [name for name, yes in told.items() if yes]


def stop_on(wanted: Sequence[str], found: Sequence[str], what: str) -> None:
    """Exit with 3 if what was found is among what is wanted."""
    failed = [name for name in found if name in wanted]
    if failed:
        print(f"fairsilo: the {what} is {' and '.join(failed)} (--fail-on)", file=sys.stderr)
        raise typer.Exit(3)
