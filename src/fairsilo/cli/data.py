"""`fairsilo data list|get|check`."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="The three data sets of the paper.")

Name = Annotated[str, typer.Argument(help="adult, compas or drug.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Folder of the raw files; default: a cache folder.",
        envvar="FAIRSILO_DATA",
    ),
]


@app.command("list")
def list_() -> None:
    """Show the data sets: rows, groups, protected class, variants, license."""
    from fairsilo.data import DATASETS

    for one in DATASETS.values():
        print(f"{one.name}: {one.title}")
        print(
            f"  rows             {one.rows:,} ({one.train_rows:,} training, {one.test_rows:,} test)"
        )
        print(f"  clients          {one.clients}")
        print(f"  groups           {' / '.join(one.groups)} (column {one.group})")
        print(f"  protected class  {one.protected_class} (column {one.label})")
        print(f"  variants         {', '.join(one.variants)}")
        print(f"  license          {one.license}")
        where = "in the package" if one.shipped else f"fairsilo data get {one.name}"
        print(f"  files            {where}")


@app.command()
def get(
    name: Name,
    data_dir: Folder = None,
    url: Annotated[str | None, typer.Option(help="Another address than the publisher's.")] = None,
) -> None:
    """Download a data set from its publisher and check it, byte for byte."""
    from fairsilo.data import fetch

    print(f"{name}: {fetch(name, data_dir=data_dir, url=url)}")


@app.command()
def check(
    name: Annotated[str | None, typer.Argument(help="adult, compas or drug; default all.")] = None,
    data_dir: Folder = None,
) -> None:
    """Say whether the files are here, are the published ones and have the promised rows."""
    from fairsilo.data import DATASETS
    from fairsilo.data import check as check_one

    results = [check_one(one, data_dir=data_dir) for one in ([name] if name else DATASETS)]
    for result in results:
        if result.ok:
            print(f"{result.name}: ok, {result.rows:,} rows, {result.where}")
        else:
            print(f"{result.name}: {result.problem}")
    if not all(result.ok for result in results):
        raise typer.Exit(1)
