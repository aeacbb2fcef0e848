"""`fairsilo data list|get|check|schema`."""

from pathlib import Path
from typing import Annotated

import typer

from fairsilo.cli.flags import as_typed
from fairsilo.cli.shared_options import Categories, Client, Numbers

app = typer.Typer(
    no_args_is_help=True, help="The three data sets of the paper; the columns of your own."
)

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
            print(f"{result.name}: {as_typed(str(result.problem))}")
    if not all(result.ok for result in results):
        raise typer.Exit(1)


@app.command()
def schema(
    data: Annotated[
        str, typer.Option(help="A CSV or Parquet file, or a folder with a file per client.")
    ],
    label: Annotated[str, typer.Option(help="Column with the class.")],
    group: Annotated[str, typer.Option(help="Column with the group.")],
    client: Client = None,
    split: Annotated[str | None, typer.Option(help="Column with train and test.")] = None,
    drop_group: Annotated[bool, typer.Option(help="Leave the group out of the features.")] = False,
    category: Categories = None,
    number: Numbers = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("schema.json"),
) -> None:
    """Draft a --schema file for your own table; the bounds of its numbers are yours to fill in."""
    import json

    from fairsilo.data import CLIENT_COLUMN, infer_schema, read_table, write_atomic
    from fairsilo.data.columns import as_declared
    from fairsilo.errors import FairSiloError
    from fairsilo.run.constraints import names_of

    if out.exists():
        raise FairSiloError(f"--out {out} exists already: give another file")
    named = [[] if one is None else names_of("category", one) for one in (category, number)]
    frame = as_declared(read_table(data), *named)
    exclude = {name for name in (client, split) if name is not None}
    if Path(data).is_dir():
        exclude.add(CLIENT_COLUMN)
    found = infer_schema(frame, label=label, group=group, exclude=exclude, drop_group=drop_group)
    write_atomic(out, (json.dumps(found.model_dump(mode="json"), indent=1) + "\n").encode())
    open_ = found.numbers
    print(f"{out}: {len(found.features)} features of {data}")
    if open_:
        print(f"numbers without bounds: {', '.join(open_)}")
    print(
        "For differential privacy write what is publicly known into the file, and nothing that was "
        'seen in the rows: "bounds": [lowest, highest] for every number, and the values of '
        "categories, classes and groups, which are now those of this table."
    )
