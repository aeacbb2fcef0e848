"""Options that several commands take, with one wording each."""

from pathlib import Path
from typing import Annotated

import typer

from fairsilo.errors import FairSiloError

DATA, WHO, OUT = "Data", "Who holds which row", "Output"
"""Panels of `--help`."""

Data = Annotated[
    str,
    typer.Option(
        help="adult, compas, drug, a CSV or Parquet file, or a folder with a file per client.",
        rich_help_panel=DATA,
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Folder with the raw files of compas and drug.",
        envvar="FAIRSILO_DATA",
        rich_help_panel=DATA,
    ),
]
Client = Annotated[
    str | None, typer.Option(help="Column that says who holds a row.", rich_help_panel=WHO)
]


def shares(text: str) -> tuple[float, float, float]:
    """Three numbers with commas between them."""
    try:
        encoder, objective, constraint = map(float, text.split(","))
    except ValueError:
        raise FairSiloError(
            f"--dp-split {text!r} is not three numbers (encoder, objective, constraint), such as "
            "0.1,0.75,0.15"
        ) from None
    return encoder, objective, constraint
