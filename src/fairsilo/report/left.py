"""The page of what left a silo, made from the lines of left.jsonl alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairsilo.report.blocks import Column, bullets, page, section, table
from fairsilo.report.html import Child, Html, el
from fairsilo.report.text import plural, size

Line = Mapping[str, Any]
REMARK = "remark"


def left_page(silo: str, lines: Sequence[Line]) -> str:
    """One self-contained file."""
    remarks = [_sentence(str(line["remark"])) for line in lines if line.get("kind") == REMARK]
    sent = [line for line in lines if line.get("kind") != REMARK]
    runs = list(dict.fromkeys(str(line["run"]) for line in sent))
    total = sum(int(line.get("bytes", 0)) for line in sent)
    refused = sum(bool(line.get("refused")) for line in sent)
    sections = [_runs(runs, sent), *(_run(run, sent) for run in runs)]
    if remarks:
        told = section("What the owner should know", bullets(list(dict.fromkeys(remarks))))
        sections.insert(0, told)
    return page(
        f"What left silo \u201c{silo}\u201d",
        sections,
        lead=(
            f"{plural(len(sent), 'reply', 'replies')} in {plural(len(runs), 'run')}, {size(total)} "
            f"in all; {refused} of them refused. Every line was on the disk before its reply left. "
            "It has how much left and a digest of it, never a value."
        ),
        eyebrow="FairSilo \N{MIDDLE DOT} silo",
    )


def _runs(runs: Sequence[str], lines: Sequence[Line]) -> Html:
    columns = [
        Column("Run"), Column("First"), Column("Last"), Column("Replies", "count"),
        Column("Refused", "count"), Column("Numbers", "count"), Column("Bytes", "count"),
        Column("DP cost", "figure", help="Sum of 1/z\u00b2 over the run\u2019s noisy releases"),
    ]  # fmt: skip
    rows: list[list[Child]] = []
    for run in runs:
        own = [line for line in lines if str(line["run"]) == run]
        rows.append(
            [run, _time(own[0]), _time(own[-1]), len(own),
             sum(bool(line.get("refused")) for line in own), _sum(own, "numbers"),
             _sum(own, "bytes"), _cost(sum(float(line.get("dp_cost", 0.0)) for line in own))]
        )  # fmt: skip
    return section("Runs", table(columns, rows, dense=True), name="runs")


def _run(run: str, lines: Sequence[Line]) -> Html:
    columns = [
        Column("Time"), Column("Question"), Column("Number", "count"), Column("Numbers", "count"),
        Column("Bytes", "count"), Column("DP cost", "figure"), Column("Digest, or why refused"),
    ]  # fmt: skip
    rows: list[list[Child]] = []
    for line in lines:
        if str(line["run"]) != run:
            continue
        last: Child = str(line.get("refused", ""))
        if not last:
            digest = str(line.get("digest", ""))
            last = el("code", digest[:16], title=digest) if digest else "nothing"
        rows.append(
            [_time(line), _question(line), int(line.get("number", 0)), _sum([line], "numbers"),
             _sum([line], "bytes"), _cost(float(line.get("dp_cost", 0.0))), last]
        )  # fmt: skip
    return section(f"Run {run}", table(columns, rows, dense=True))


def _question(line: Line) -> str:
    kind, step = str(line.get("kind", "")), str(line.get("step", ""))
    return f"{kind} (masked)" if step == "masked" else kind


def _sum(lines: Sequence[Line], key: str) -> int:
    return sum(int(line.get(key, 0)) for line in lines)


def _cost(value: float) -> str:
    return f"{value:.3g}" if value else "none"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _time(line: Line) -> str:
    return str(line["time"]).replace("T", " ").replace("+00:00", " UTC")
