"""`fairsilo rerun`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairsilo.cli.shared_options import DataDir, StartFrom


def rerun(
    model: Annotated[Path, typer.Argument(help="Run folder that `fairsilo train` wrote.")],
    data: Annotated[
        str | None, typer.Option(help="Where its data are now; default: of that name, here.")
    ] = None,
    data_dir: DataDir = None,
    start_from: StartFrom = None,
) -> None:
    """Train a run again, and say whether the model is the same; exit 1 if not."""
    from fairsilo.run.made import rerun as again

    found = again(model, data, data_dir, start_from)
    if found.same_data is False:
        print("the data are not those of the run: their digest differs")
    if found.same_model:
        print(f"the same model as {model}, to the last bit")
        return
    print(f"another model than {model}: parameters differ by up to {found.apart:.2g}")
    raise typer.Exit(1)
