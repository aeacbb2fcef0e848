"""`fairsilo predict`."""

from pathlib import Path
from typing import Annotated

import typer

from fairsilo.cli.shared_options import RunDecimal, RunSep, RunThousands
from fairsilo.errors import FairSiloError


def predict(
    model: Annotated[Path, typer.Option(help="Run folder that `fairsilo train` wrote.")],
    data: Annotated[Path, typer.Option(help="CSV or Parquet table with the feature columns.")],
    out: Annotated[Path, typer.Option(help="Where to write the predictions (.csv or .parquet).")],
    seed: Annotated[
        int, typer.Option(help="Seed for methods whose predictions are drawn (eo, ceo).")
    ] = 0,
    keep: Annotated[
        str | None, typer.Option(help="Columns to write before the prediction: id,name.")
    ] = None,
    sep: RunSep = None,
    decimal: RunDecimal = None,
    thousands: RunThousands = None,
) -> None:
    """Score a table with a saved model: the predicted class and the probability of each class."""
    import sys

    from fairsilo.cli.out import check_file
    from fairsilo.run.constraints import names_of
    from fairsilo.run.predict import score_table, write_table
    from fairsilo.run.store import load

    if out.suffix not in (".csv", ".parquet"):
        raise FairSiloError(f"--out {out} must end in .csv or .parquet")
    check_file(out)
    dialect = load(model).dialect.but(sep, decimal, thousands)
    kept = () if keep is None else names_of("keep", keep)
    scores, warnings = score_table(model, data, seed, dialect, kept)
    for warning in warnings:
        print(f"fairsilo: warning: {warning}", file=sys.stderr)
    write_table(scores, out)
    print(f"{len(scores):,} predictions: {out}")
