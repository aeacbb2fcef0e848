"""`fairsilo flower init`: the working folder of a federation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fairsilo.cli.flags import warnings_as_typed
from fairsilo.cli.flower_ask import ask_all, needed
from fairsilo.cli.shared_options import AGREED, options_from, takes

Secure = Annotated[bool, typer.Option(help="Whether the server sees sums over silos only.")]

PORTS = 65535
"""The largest port."""


@takes((*AGREED, "schema"))
def init(
    given: dict[str, Any],
    folder: Annotated[
        Path | None, typer.Option(help="The working folder to make.", show_default=False)
    ] = None,
    silo: Annotated[
        list[str] | None, typer.Option(help="NAME=PUBLIC_KEY_FILE, once for every silo.")
    ] = None,
    sample: Annotated[
        Path | None,
        typer.Option(help="A table (CSV or Parquet, may be made up) with all columns and values."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Instead of --sample: a data set, adult, compas or drug.")
    ] = None,
    witness: Annotated[
        list[str] | None,
        typer.Option(help="NAME=PUBLIC_KEY_FILE of a witness, who has no rows; repeat it."),
    ] = None,
    quorum: Annotated[
        int | None, typer.Option(help="Witnesses that must sign a question; default all.")
    ] = None,
    minimum_silos: Annotated[int, typer.Option(help="With fewer, training stops.")] = 2,
    secure_aggregation: Secure = True,
    threshold: Annotated[
        int | None, typer.Option(help="Silos that must be left to open a sum.")
    ] = None,
    recount: Annotated[
        bool, typer.Option(help="Go on after the loss of one silo, showing the server its counts.")
    ] = False,
    host: Annotated[str, typer.Option(help="Name or address of the SuperLink.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=PORTS, help="Port of the SuperLink.")] = 8000,
    name: Annotated[str, typer.Option(help="Name of the federation.")] = "federation",
    interactive: Annotated[
        bool, typer.Option("--interactive", help="Ask for what is not given, one by one.")
    ] = False,
) -> None:
    """Write a working folder: federation file, certificates, Flower app, scripts, README."""
    from fairsilo.cli.flower import needs_flower

    needs_flower()
    own: dict[str, Any] = {"folder": folder, "name": name, "sample": sample, "data": data}
    own |= {"silo": silo or [], "witness": witness or [], "host": host, "port": port}
    if interactive:
        ask_all(given, own)
    needed(own)
    _init(given, own, {
        "minimum_silos": minimum_silos,
        "secure_aggregation": secure_aggregation,
        "threshold": threshold,
        "quorum": quorum,
        "recount": recount,
    })  # fmt: skip


def _init(given: dict[str, Any], own: dict[str, Any], more: dict[str, Any]) -> None:
    """Write the folder, and say what to look at."""
    from fairsilo.cli.flower import warn_unless
    from fairsilo.data import DATASETS
    from fairsilo.network.federation_file import readable
    from fairsilo.network.ops.draft import draft_federation_file, draft_table, draft_values
    from fairsilo.network.ops.workspace import make_workspace
    from fairsilo.run.choices import choose

    if own["data"] is not None:
        choose("data", own["data"], DATASETS)
    asked = options_from(given, data=own["data"] or "")
    with warnings_as_typed():
        table, options = draft_table(asked, own["sample"])
    values = {**draft_values(options, table), "split": asked.split, "name": own["name"], **more}
    agreed = draft_federation_file(values, own["silo"], own["witness"])
    warn_unless(agreed.secure_aggregation)
    make_workspace(own["folder"], agreed, own["host"], own["port"])
    print(f"working folder: {own['folder']} (read its README.md)")
    print(f"fingerprint:    {readable(agreed.fingerprint)}")
