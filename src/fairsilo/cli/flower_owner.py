"""`fairsilo flower check`, `approve`, `confirm` and `left`: what an owner decides, and sees."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairsilo.cli.flags import as_typed
from fairsilo.cli.flower_members import unlocked
from fairsilo.errors import FairSiloError

if TYPE_CHECKING:
    from rich.table import Table

    from fairsilo.network.federation_file import FederationFile
    from fairsilo.network.settings import Settings
    from fairsilo.network.vouch import Standing

Own = Annotated[Path, typer.Option("--settings", help="The silo's settings.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]
QUESTION = 15
"""Characters of a kind of question in a line; the longest of fairsilo's own has as many."""
MODES = {
    "ask": "the owner is asked for every run",
    "listed": "the owner is asked once for every federation file",
    "always": "every run is answered, nobody is asked",
}


def check(
    settings: Annotated[Path, typer.Option(help="The silo's settings.")] = Path("silo.toml"),
) -> None:
    """Say, at the silo, whether its table fits the federation file."""
    from fairsilo.cli.flower import needs_flower

    needs_flower()
    from fairsilo.network.federation_file import read_federation_file, readable
    from fairsilo.network.ops.check import check_table
    from fairsilo.network.vouch import standings

    own = unlocked(settings)
    agreed = read_federation_file(own.federation)
    findings = check_table(own, agreed)
    print(f"fingerprint: {readable(agreed.fingerprint)}")
    print(
        f"{agreed.method}, {agreed.model}, {agreed.estimator}, {agreed.notion}, "
        + (
            f"epsilon {agreed.epsilon:g}; "
            if agreed.target_deo is None
            else f"target {agreed.target_deo:g}; "
        )
        + f"{' and '.join(agreed.groups or agreed.table.groups)} in {agreed.protected_class}; "
        + ("secure aggregation" if agreed.secure_aggregation else "NO secure aggregation")
    )
    if agreed.dp is not None:
        print(f"differential privacy: a run spends ({agreed.dp.epsilon:g}, {agreed.dp.delta:g})")
    show_members(standings(own, agreed))
    for remark in findings.remarks:
        print(f"remark: {as_typed(remark)}")
    for problem in findings.problems:
        print(f"problem: {as_typed(problem)}")
    if findings.problems:
        raise typer.Exit(1)
    print(
        "this witness fits the federation file"
        if own.witness
        else f"{findings.rows:,} rows fit the federation file"
    )


def approve(
    fingerprint: Annotated[
        str | None,
        typer.Argument(help="Of the federation file; or the number of a run; or a model's digest."),
    ] = None,
    refuse: Annotated[bool, typer.Option("--refuse", help="Say no instead of yes.")] = False,
    settings: Own = Path("silo.toml"),
    as_json: Json = False,
) -> None:
    """Show, AT the silo, what runs ask of it and which wait; say yes or no to them."""
    from fairsilo.network import approval

    own, agreed = _read(settings)
    if fingerprint is not None:
        about = approval.decide(own, agreed, fingerprint, not refuse)
        print(f"{'no' if refuse else 'yes'} to {_decided(about)}")
        return
    told = _about(own, agreed)
    if as_json:
        print(json.dumps(told, indent=1))
        return
    for title, words in _in_words(told):
        print(f"{title:<13}{words}")


def confirm(
    names: Annotated[
        list[str] | None, typer.Argument(help="Silos whose words were compared with them.")
    ] = None,
    everybody: Annotated[bool, typer.Option("--all", help="All others.")] = False,
    refuse: Annotated[bool, typer.Option("--refuse", help="Take a confirmation back.")] = False,
    settings: Own = Path("silo.toml"),
) -> None:
    """Confirm, AT the silo, that other silos' keys are theirs, as they told you themselves."""
    from fairsilo.network import vouch

    own, agreed = _read(settings)
    others = [one.name for one in agreed.parties if one.name != own.name]
    if bool(names) == everybody:
        raise FairSiloError(
            f"name the silos to confirm, or give `--all`: the others are {', '.join(others)}"
        )
    show_members(vouch.confirm(own, agreed, others if everybody else names or [], not refuse))
    if not refuse:
        print("take it back with --refuse if a silo reads other words to you than these")


def show_members(found: Sequence[Standing]) -> None:
    """A line for each member: its name, its key in words, how it stands."""
    width = max((len(one.name) for one in found), default=0)
    for one in found:
        print(f"{one.role} {one.name:<{width}}  {one.words}  {one.state}")


def left(
    run: Annotated[str | None, typer.Option(help="Only what left in this run.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page of it here.")] = None,
    settings: Own = Path("silo.toml"),
    as_json: Json = False,
) -> None:
    """Show, AT the silo, everything that left it: when, to which question, how much."""
    from fairsilo.network import left as log
    from fairsilo.network.settings import read_settings

    own = read_settings(settings)
    lines = log.read(own.left, run)
    if html is not None:
        from fairsilo.data.files import write_atomic
        from fairsilo.report.left import left_page

        write_atomic(html, left_page(own.name, lines).encode(), 0o600)
        print(f"page: {html}")
    elif as_json:
        print(json.dumps(lines, indent=1))
    else:
        _show(own, lines)


def _read(settings: Path) -> tuple[Settings, FederationFile]:
    from fairsilo.network.federation_file import read_federation_file
    from fairsilo.network.settings import read_settings

    own = read_settings(settings)
    return own, read_federation_file(own.federation)


def _decided(about: Sequence[str]) -> str:
    """What a yes or no is about, the widest first: a federation file, a model, single runs."""
    from fairsilo.network.approval import MODEL

    files = [key for key in about if " " not in key]
    models = [key for key in about if key.startswith(MODEL)]
    runs = [key.split()[1] for key in about if " " in key and key not in models]
    told = [f"all runs of federation file {key[:16]}, until it changes" for key in files]
    told += [f"audits of {key}" for key in models]
    told += [f"run {run}" for run in runs]
    return "; ".join(told)


def _about(own: Settings, agreed: FederationFile) -> dict[str, Any]:
    """What an owner should know before saying yes."""
    from fairsilo import __version__
    from fairsilo.network import approval, vouch
    from fairsilo.network.ops.bundle import code_digest
    from fairsilo.network.silo import kinds_of

    limit = {"epsilon": agreed.epsilon, "target": agreed.target_deo}
    return {
        "federation": agreed.name,
        "silos": agreed.names,
        "witnesses": [one.name for one in agreed.witnesses],
        "signatures": agreed.signers,
        "superlink": own.superlink,
        "fingerprint": agreed.fingerprint,
        "method": agreed.method,
        "after": agreed.after,
        "model": agreed.model,
        "notion": agreed.notion,
        **(limit if agreed.spec.limited else {}),
        "groups": agreed.groups or agreed.table.groups,
        "protected_class": agreed.protected_class,
        "secure_aggregation": agreed.secure_aggregation,
        "dp": None if agreed.dp is None else [agreed.dp.epsilon, agreed.dp.delta],
        "dp_budget": own.dp_budget_epsilon,
        "questions": min(agreed.questions, own.maximum_answers),
        "kinds": kinds_of(agreed),
        "version": __version__,
        "code": code_digest(),
        "approve": own.approve,
        "confirmed": approval.confirmed(own, agreed),
        "members": [one._asdict() for one in vouch.standings(own, agreed)],
        "unconfirmed": [one.name for one in vouch.unconfirmed(own, agreed)],
        "models": [one for one, yes in approval.read(own)["models"].items() if yes is None],
        "waiting": approval.waiting(own),
    }


def _watched(told: dict[str, Any]) -> str:
    """Who signs the server's questions."""
    if not told["witnesses"]:
        return "none: nobody checks which questions the server asks"
    names = ", ".join(told["witnesses"])
    return f"{names}; {told['signatures']} must sign every question of a training"


def _in_words(told: dict[str, Any]) -> list[tuple[str, str]]:
    from fairsilo.network.federation_file import readable

    repaired = f" after {told['after']}" if told["after"] else ""
    trains = f"{told['method']}{repaired}, {told['model']}, {told['notion']}"
    if told.get("target") is not None:
        trains += f", target {told['target']:g}"
    elif "epsilon" in told:
        trains += f", epsilon {told['epsilon']:g}"
    compared = f"{' and '.join(told['groups'])} in {told['protected_class']}"
    masks = (
        "secure aggregation: the server sees sums over silos only"
        if told["secure_aggregation"]
        else "NO secure aggregation: the server sees this silo's own sums"
    )
    price = "no differential privacy: answers are exact"
    if told["dp"] is not None:
        epsilon, delta = told["dp"]
        budget = told["dp_budget"]
        price = f"a run spends ({epsilon:g}, {delta:g}), and this silo " + (
            "has no budget for it" if budget is None else f"has epsilon {budget:g} for all runs"
        )
    found = [
        ("who asks", f"federation {told['federation']} at {told['superlink'] or 'no address'}"),
        ("silos", ", ".join(told["silos"])),
        ("witnesses", _watched(told)),
        ("fingerprint", readable(told["fingerprint"])),
        ("trains", f"{trains}; {compared}"),
        ("masks", masks),
        ("privacy", price),
        (
            "questions",
            f"at most {told['questions']:,} in a run: {', '.join(told['kinds'])}; or an audit of a "
            "model",
        ),
        (
            "code",
            f"fairsilo {told['version']} as installed here, {told['code'][:16]}; nothing that is "
            "sent is run",
        ),
        ("approve", f"{told['approve']}: {MODES[told['approve']]}"),
    ]
    said = {True: "yes", False: "no: its runs are refused", None: "nothing yet"}
    if told["approve"] == "listed":
        found.append(("owner said", said[told["confirmed"]]))
    if told["unconfirmed"]:
        who = " ".join(told["unconfirmed"])
        found.append(("to confirm", f"compare words by telephone; fairsilo flower confirm {who}"))
    for one in told["waiting"]:
        purpose = one["for"] or "training or an audit"
        found.append(("waiting", f"run {one['run']} since {one['since']}, for {purpose}"))
    for one in told["models"]:
        found.append(("audit", f"of model {one[:16]}, which was not trained here, was refused"))
        found.append(("to allow it", f"fairsilo flower approve {one[:16]}"))
    names = [told["fingerprint"][:16]]
    if told["approve"] == "ask":
        names = [one["run"] for one in told["waiting"]]
    if told["waiting"] or (told["approve"] == "listed" and told["confirmed"] is None):
        for name in names:
            yes = f"fairsilo flower approve {name}"
            found += [("to say yes", yes), ("to say no", f"{yes} --refuse")]
    return found


def _show(own: Settings, lines: list[dict[str, Any]]) -> None:
    """A table for every run and day, whose numbers and refusals are whole on a narrow screen."""
    from itertools import groupby

    from rich.console import Console
    from rich.text import Text

    from fairsilo.network.left import REMARK

    console = Console()
    console.print(Text(f"left silo {own.name}", style="bold"))
    replies = (line for line in lines if line.get("kind") != REMARK)
    for (run, day), own_lines in groupby(replies, lambda line: (line["run"], line["time"][:10])):
        console.print()
        console.print(Text(f"run {run}, {day}"), soft_wrap=True)
        console.print(_table(own_lines))
    console.print()
    for line in lines:
        if line.get("kind") == REMARK:
            console.print(Text(f"remark: {line['remark']}", style="yellow"), soft_wrap=True)
    total = sum(int(line.get("bytes", 0)) for line in lines)
    console.print(f"{total:,} bytes in all; {own.left}", highlight=False, soft_wrap=True)


def _table(lines: Iterable[dict[str, Any]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("UTC", no_wrap=True)
    table.add_column("question", overflow="fold", max_width=QUESTION)
    for name in ("number", "numbers", "bytes", "DP cost"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("digest or refusal", overflow="fold")
    for line in lines:
        kind, step = str(line.get("kind", "")), str(line.get("step", ""))
        what = kind if step in ("", "masked", kind) else step
        cost = line.get("dp_cost", 0.0)
        last = line.get("refused") or str(line.get("digest", ""))[:16]
        numbers = (f"{line.get(key, 0):,}" for key in ("number", "numbers", "bytes"))
        cells = (line["time"][11:19], what, *numbers, f"{cost:.3g}" if cost else "-", last)
        table.add_row(*(Text(str(cell)) for cell in cells))
    return table
