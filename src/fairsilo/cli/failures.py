"""`--fail-on`: what makes a pipeline stop, though a run was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairsilo.errors import FairSiloError

if TYPE_CHECKING:
    from fairsilo.run import Run

KNOWN = ("missed", "not-converged", "collapsed")


def checked_failures(text: str) -> tuple[str, ...]:
    """The names of a list with commas."""
    names = tuple(part.strip() for part in text.split(","))
    for name in names:
        if name not in KNOWN:
            raise FairSiloError(f"--fail-on {name!r} is unknown: choose from {', '.join(KNOWN)}")
    return names


def failures(run: Run) -> list[str]:
    """Which of them the run is."""
    from fairsilo.report.sections.facts import Facts
    from fairsilo.report.sections.verdict import Answer, on_training_rows
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
        "not-converged": not metrics["converged"] and "dp" not in metrics,
        "collapsed": str(metrics["reason"]).startswith("collapsed")
        or metrics["worth"]["useful"] is False,
    }
    return [name for name, yes in found.items() if yes]
