"""The live page: a frame, and parts of it that are sent anew when they have changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairsilo.progress import time_left
from fairsilo.report.blocks import Column, bullets, grid, page, paragraph, section, table
from fairsilo.report.charts import Line, lines
from fairsilo.report.html import Child, Html, el, join
from fairsilo.report.text import count, duration, listing, missing, number, plural, size

State = Mapping[str, Any]
LISTED = 12
"""The rounds in the table; the charts have all."""
LINES = 6
"""The constraints that get a line of their own; of more, the largest gaps at the end do."""
BADGES = {
    "answered": ("good", "answered"),
    "answering": ("good", "computing"),
    "idle": ("good", "idle"),
    "connected": ("good", "connected"),
    "missing": ("unsure", "away"),
    "waits for its owner": ("unsure", "asks its owner"),
    "left out": ("bad", "left out"),
    "not connected": ("unsure", "not connected"),
    "expected": ("plain", "expected"),
}
TOOK_PART = ("answered", "answering", "idle")
WORDS = {"good": "back", "unsure": "delay", "bad": "fault", "plain": "note"}
YET = "not known yet"


def frame() -> str:
    """The page before anything is known."""
    empty = [section(title, el("div", id=name), name=anchor) for title, name, anchor in SECTIONS]
    gone = el(
        "p",
        "The program that feeds this page has ended, or cannot be reached: what is shown is the "
        "last that it said.",
        class_="note",
        role="status",
        id="gone",
        hidden=True,
    )
    return page(
        "A run as it goes",
        empty,
        eyebrow="FairSilo \N{MIDDLE DOT} live",
        header=join(gone, el("div", id="head", aria_live="polite")),
        footer="This page is made on this machine and asks nobody else.",
        live=True,
    )


SECTIONS = (
    ("Silos", "silos", "who"),
    ("Rounds", "rounds", "training"),
    ("Where the time goes", "time", "phases"),
    ("What happened", "happened", "notes"),
)


def parts(state: State, dead: bool, report: bool) -> dict[str, str]:
    """The parts of the page by CSS selector.

    `dead`: the run's process is gone; `report`: its report is there.
    """
    how = _how(state, dead)
    return {
        "h1": join(el("span", class_=f"pulse {_mood(state, how)}"), _headline(state, how)),
        "#head": _head(state, how, report),
        "#silos": _silos(state, how),
        "#rounds": _rounds(state),
        "#time": _phases(state),
        "#happened": _happened(state),
    }


def _how(state: State, dead: bool) -> str:
    if state["end"]:
        return str(state["end"]["how"])
    return "interrupted" if dead else "running" if state["time"] else "not begun"


def _away(state: State) -> list[str]:
    """The silos that are waited for."""
    return [name for name, one in state["silos"].items() if one.get("state") == "missing"]


def _mood(state: State, how: str) -> str:
    if how == "running":
        return "unsure" if _away(state) else "good"
    return "still" if how in ("finished", "not begun") else "bad"


def _headline(state: State, how: str) -> str:
    rounds = len(state["rounds"]) and state["rounds"][-1]["round"]
    if how == "running" and _away(state):
        return f"Waiting for {listing(_away(state))}"
    if how == "running":
        return (
            f"Round {rounds}"
            if state["phase"] == "rounds" and rounds
            else _BEFORE.get(state["phase"], "Training")
        )
    return {
        "finished": "Finished",
        "failed": "The run failed",
        "stopped": "The run was stopped",
        "interrupted": "The run's process has ended",
        "not begun": "No run yet",
    }[how]


_BEFORE = {
    "start": "Starting",
    "connect": "Connecting the silos",
    "set-up": "Setting up",
    "rounds": "Training",
    "evaluation": "Evaluating the model",
    "writing": "Writing the run folder",
}


def _head(state: State, how: str, report: bool) -> Html:
    about, last = state["about"], (state["rounds"] or [{}])[-1]
    now = state["doing"] if how == "running" else (state["end"] or {}).get("why") or ""
    if how == "interrupted":
        now = "use `resume` to go on with it"
    limit = about.get("limit")
    largest = number(last.get("d"), 4, why="there is no limit" if last else YET)
    gap = join(largest, el("span", f" of {limit:g} allowed", class_="of") if limit else None)
    began = state["began"]
    elapsed: Child = missing(YET)
    if began and how == "running":
        elapsed = el("span", "", data_since=f"{began:.2f}")
    elif began:
        elapsed = duration(state["time"] - began)
    left = time_left(dict(state))
    facts: dict[str, Child] = {
        "Round": count(last.get("round"), why=YET),
        "Average loss": number(last.get("loss"), 4, why=YET),
        "Largest gap |D|": gap,
        "Running for" if how == "running" else "Ran for": elapsed,
        "Sent by all silos": size(state["bytes"][0]) if state["bytes"][0] else missing(YET),
    }
    if left is not None:
        facts["About left"] = duration(left)
    entries = [el("div", el("dt", name), el("dd", value)) for name, value in facts.items()]
    return join(
        el("p", _subject(about), class_="lead") if about else None,
        el("p", now, class_="now") if now else None,
        el("dl", *entries, class_="facts"),
        el("a", "Open the report", href="report.html", class_="done")
        if how == "finished" and report
        else None,
    )


def _subject(about: Mapping[str, Any]) -> str:
    silos = "sums only, behind masks" if about.get("secure") else "sums in the clear"
    told = [str(about.get("what", "")), str(about.get("notion", "")).replace("-", " ")]
    if "secure" in about:
        told.append(silos)
    if about.get("dp"):
        told.append(f"differential privacy, epsilon {about['dp']:g}")
    name = about.get("federation")
    return (f"{name}: " if name else "") + ", ".join(one for one in told if one)


def _silos(state: State, how: str) -> Html:
    if not state["silos"]:
        return paragraph(
            "All clients are in this process." if state["rounds"] else "Not yet known."
        )
    about = state["about"]
    return el(
        "ul", *(_silo(n, one, about, how) for n, one in state["silos"].items()), class_="silos"
    )


def _silo(name: str, one: Mapping[str, Any], about: Mapping[str, Any], how: str) -> Html:
    mark, said = BADGES.get(str(one.get("state")), ("plain", str(one.get("state"))))
    if one.get("fits") is False:
        mark, said = "bad", "does not fit"
    elif how != "running" and mark != "bad":
        mark, said = "plain", "took part" if one.get("state") in TOOK_PART else said
    code = one.get("code")
    version = f"fairsilo {one['fairsilo']}" if one.get("fairsilo") else "version not known"
    if code:
        same = code == about.get("code")
        version += ", the coordinator's code" if same else f", other code ({code[:8]})"
    since = one.get("since")
    return el(
        "li",
        el("h3", name, el("span", said, class_=f"badge {mark}")),
        el("p", "a witness, who signs the questions")
        if name in about.get("witnesses", ())
        else None,
        el("p", one["why"]) if one.get("why") else None,
        el("p", *_ago(said, since)) if how == "running" and since else None,
        el("p", version),
        class_=f"silo is-{mark}",
    )


def _ago(said: str, since: float) -> tuple[Child, ...]:
    span = el("span", "", data_since=f"{since:.2f}")
    return ("answered ", span, " ago") if said == "answered" else (f"{said} for ", span)


def _rounds(state: State) -> Html:
    rounds = state["rounds"]
    if not rounds:
        return paragraph("The first round has not ended yet.")
    at = [one["round"] for one in rounds]
    names = list(state["about"].get("constraints") or ())
    limits = set(state["about"].get("limits") or ())
    band = (-limits.copy().pop(), limits.pop()) if len(limits) == 1 else None
    one_chart: dict[str, Any] = {"x_title": "round", "points": len(rounds) <= 60, "height": 190}
    charts: list[Child] = [
        lines("Average loss", [Line("loss", at, [r["loss"] for r in rounds])], **one_chart),
    ]
    gaps = _series(rounds, "gaps", names)
    if gaps:
        what = "D of every constraint; the band is what is allowed."
        charts.append(lines("Gaps between groups", gaps, band=band, caption=what, **one_chart))
    multipliers = _series(rounds, "multipliers", names)
    if multipliers:
        what = "What the limits cost; zero where a limit does not bind."
        charts.append(lines("Multipliers", multipliers, caption=what, **one_chart))
    residual = [Line("residual", at, [r["residual"] for r in rounds])]
    charts.append(lines("Distance from the optimum", residual, log_y=True, **one_chart))
    if "seconds" in rounds[-1]:
        spent = [Line("seconds", at, [r.get("seconds") for r in rounds])]
        charts.append(lines("Seconds of a round", spent, **one_chart))
    if "up" in rounds[-1]:
        sent = [
            Line("sent by silos", at, [r.get("up") for r in rounds]),
            Line("sent to silos", at, [r.get("down") for r in rounds]),
        ]
        charts.append(lines("Bytes of a round", sent, unit="bytes", **one_chart))
    return join(grid(*charts), _table(rounds))


def _series(rounds: list[Mapping[str, Any]], key: str, names: list[str]) -> list[Line]:
    """A line for every constraint; of many, for those that are largest at the end."""
    last = rounds[-1].get(key) or ()
    order = sorted(range(len(last)), key=lambda k: -abs(last[k]))[:LINES]
    at = [one["round"] for one in rounds]
    return [
        Line(
            names[k] if k < len(names) else f"{key} {k + 1}",
            at,
            [one[key][k] if k < len(one.get(key) or ()) else None for one in rounds],
        )
        for k in sorted(order)
    ]


def _table(rounds: list[Mapping[str, Any]]) -> Html:
    columns = [
        Column("round"), Column("loss", "number", 6), Column("largest |D|", "number", 5),
        Column("residual", "number", 2), Column("silos", "count"), Column("seconds", "number", 1),
        Column("sent by silos", "size"), Column("sent to silos", "size"),
    ]  # fmt: skip
    keys = ("round", "loss", "d", "residual", "silos", "seconds", "up", "down")
    shown = list(reversed(rounds[-LISTED:]))
    kept = [k for k, key in enumerate(keys) if any(one.get(key) is not None for one in shown)]
    return table(
        [columns[k] for k in kept],
        [[str(one["round"]), *(one.get(keys[k]) for k in kept[1:])] for one in shown],
        caption=f"The last {plural(len(shown), 'round')}, the latest first",
        sortable=False,
    )


def _phases(state: State) -> Html:
    phases = dict(state["phases"])
    if not phases:
        return paragraph("Nothing has been measured yet.")
    total = sum(phases.values()) or 1.0
    bar = [
        el("span", class_=f"s{k % 8}", style=f"flex: {max(seconds / total, 1e-4):.4f}", title=name)
        for k, (name, seconds) in enumerate(phases.items())
    ]
    keys = [
        el("li", el("i", class_=f"s{k % 8}"), name, " ", el("b", duration(seconds)))
        for k, (name, seconds) in enumerate(phases.items())
    ]
    return join(
        el("div", *bar, class_="bar-of-phases", role="img", aria_label="share of every phase"),
        el("ul", *keys, class_="phases"),
    )


def _happened(state: State) -> Html:
    entries = [
        el(
            "li",
            el("time", "", data_at=f"{note['time'] or 0:.0f}"),
            el("span", el("span", WORDS[note["mark"]], class_=f"badge {note['mark']}")),
            el("span", note["text"]),
        )
        for note in reversed(state["notes"])
    ]
    final = state["final"]
    return join(
        el("ul", *entries, class_="happened") if entries else paragraph("Nothing went wrong."),
        paragraph("The report's notes:") if final else None,
        bullets(final) if final else None,
    )
