"""`fairsilo explain`."""

from pathlib import Path
from typing import Annotated

import typer

from fairsilo.errors import FairSiloError


def explain(
    model: Annotated[Path, typer.Option(help="Run folder that `fairsilo train` wrote.")],
    data: Annotated[Path, typer.Option(help="CSV or Parquet table with the feature columns.")],
    out: Annotated[Path, typer.Option(help="Where to write the terms (.csv or .parquet).")],
) -> None:
    """Say for each row which terms made its score: what every column adds to the log-odds."""
    from fairsilo.cli.out import check_file
    from fairsilo.run.explain import explain_table
    from fairsilo.run.predict import write_table

    if out.suffix not in (".csv", ".parquet"):
        raise FairSiloError(f"--out {out} must end in .csv or .parquet")
    check_file(out)
    found = explain_table(model, data)
    write_table(found, out)
    print(f"{len(found):,} rows: {out}")
