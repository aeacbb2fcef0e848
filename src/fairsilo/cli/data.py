"""`fairsilo data list|get|check|look|schema`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairsilo.cli.flags import as_typed
from fairsilo.cli.shared_options import LOOKED, REQUIRED, takes

if TYPE_CHECKING:
    from fairsilo.data.look import Look

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
@takes(LOOKED)
def look(
    given: dict[str, Any],
    data: Annotated[
        str, typer.Argument(help="A CSV or Parquet file, or a folder with a file per client.")
    ],
    out: Annotated[Path | None, typer.Option(help="Also write a page, such as look.html.")] = None,
) -> None:
    """Show every column as it is understood, and what is wrong or suspicious; exit 1 if wrong."""
    from fairsilo.cli.look import show_look
    from fairsilo.data import write_atomic
    from fairsilo.report.look import look_page

    found = _look(data, given)
    show_look(found, Path(data).name)
    if out is not None:
        write_atomic(out, as_typed(look_page(Path(data).name, found)).encode())
        print(f"page: {out}")
    if found.problems:
        raise typer.Exit(1)


@app.command()
@takes(LOOKED, label=REQUIRED, group=REQUIRED)
def schema(
    given: dict[str, Any],
    file: Annotated[
        str | None,
        typer.Argument(help="A CSV or Parquet file, or a folder with a file per client."),
    ] = None,
    data: Annotated[str | None, typer.Option(hidden=True)] = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("schema.json"),
) -> None:
    """Draft a --schema file for your own table, also of one that `train` refuses.

    It is yours to correct, and the bounds of its numbers are yours to fill in.
    """
    import json

    from fairsilo.data import write_atomic
    from fairsilo.errors import FairSiloError

    if out.exists():
        raise FairSiloError(f"--out {out} exists already: give another file")
    table = file or data
    if table is None or (file and data):
        raise FairSiloError("name one table, such as fairsilo data schema loans.csv")
    look = _look(table, given)
    for sentence in (*look.problems, *look.suspicious):
        print(f"fairsilo: warning: {as_typed(sentence)}", file=sys.stderr)
    found = look.schema
    if found is None:
        raise FairSiloError(f"there is no schema of {table}: correct what is said above")
    write_atomic(out, (json.dumps(found.model_dump(mode="json"), indent=1) + "\n").encode())
    open_ = found.numbers
    print(f"{out}: {len(found.features)} features of {table}")
    if open_:
        print(f"numbers without bounds: {', '.join(open_)}")
    print(
        "For differential privacy write what is publicly known into the file, and nothing that was "
        'seen in the rows: "bounds": [lowest, highest] for every number, and the values of '
        "categories, classes and groups, which are now those of this table."
    )


def _look(data: str, given: dict[str, Any]) -> Look:
    """Read a table and look at it."""
    from fairsilo.data import CLIENT_COLUMN, read_table
    from fairsilo.data.columns import as_declared
    from fairsilo.data.look import look_at
    from fairsilo.run import Options
    from fairsilo.run.constraints import names_of, one_or_more
    from fairsilo.run.prepare import left_out

    lists = {name: given[name] for name in ("category", "number", "drop", "features")}
    named = {name: names_of(name, text) if text else () for name, text in lists.items()}
    options = Options(**{**given, **named, "data": data})
    group, client = options.group, options.client
    table = read_table(data, dialect=options.dialect)
    frame = as_declared(table, options.category, options.number)
    if Path(data).is_dir() and client is None:
        client = CLIENT_COLUMN
    return look_at(
        frame,
        label=given["label"],
        group=() if group is None else one_or_more("group", group, tuple(frame.columns)),
        client=client,
        weight=options.weight,
        exclude=left_out(tuple(frame.columns), options),
        told=(*options.category, *options.number),
        drop_group=options.drop_group,
        groupless=options.groupless == "train",
    )
