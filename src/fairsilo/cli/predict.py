"""`fairsilo predict`."""

from pathlib import Path
from typing import Annotated

import typer

from fairsilo.errors import FairSiloError


def predict(
    model: Annotated[Path, typer.Option(help="Run folder that `fairsilo train` wrote.")],
    data: Annotated[Path, typer.Option(help="CSV or Parquet table with the feature columns.")],
    out: Annotated[Path, typer.Option(help="Where to write the predictions (.csv or .parquet).")],
    seed: Annotated[
        int, typer.Option(help="Seed for methods whose predictions are drawn (eo, ceo).")
    ] = 0,
) -> None:
    """Score a table with a saved model: the predicted class and the probability of each class."""
    import sys

    from fairsilo.run.predict import score_table, write_table

    if out.suffix not in (".csv", ".parquet"):
        raise FairSiloError(f"--out {out} must end in .csv or .parquet")
    scores, warnings = score_table(model, data, seed)
    for warning in warnings:
        print(f"fairsilo: warning: {warning}", file=sys.stderr)
    write_table(scores, out)
    print(f"{len(scores):,} predictions: {out}")
