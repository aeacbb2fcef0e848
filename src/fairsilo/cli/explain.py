"""`fairsilo explain`."""

from pathlib import Path
from typing import Annotated

import typer

from fairsilo.cli.shared_options import RunDecimal, RunSep, RunThousands
from fairsilo.errors import FairSiloError


def explain(
    model: Annotated[Path, typer.Option(help="Run folder that `fairsilo train` wrote.")],
    data: Annotated[Path, typer.Option(help="CSV or Parquet table with the feature columns.")],
    out: Annotated[Path, typer.Option(help="Where to write the terms (.csv or .parquet).")],
    keep: Annotated[
        str | None, typer.Option(help="Columns to write before the terms: id,name.")
    ] = None,
    sep: RunSep = None,
    decimal: RunDecimal = None,
    thousands: RunThousands = None,
) -> None:
    """Say for each row which terms made its score: what every column adds to the log-odds."""
    from fairsilo.cli.flags import warnings_as_typed
    from fairsilo.cli.out import check_file
    from fairsilo.run.constraints import names_of
    from fairsilo.run.explain import explain_table
    from fairsilo.run.predict import write_table
    from fairsilo.run.store import load

    if out.suffix not in (".csv", ".parquet"):
        raise FairSiloError(f"--out {out} must end in .csv or .parquet")
    check_file(out)
    dialect = load(model).dialect.but(sep, decimal, thousands)
    kept = () if keep is None else names_of("keep", keep)
    with warnings_as_typed():
        found = explain_table(model, data, dialect, kept)
    write_table(found, out)
    print(f"{len(found):,} rows: {out}")
