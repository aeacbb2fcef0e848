"""`fairsilo export`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fairsilo.errors import FairSiloError

SUFFIXES = {"onnx": (".onnx",), "card": (".md", ".json"), "mlflow": ()}
"""How the file's name ends; an MLflow model is a folder."""


def export(
    model: Annotated[Path, typer.Option(help="Run folder that `fairsilo train` wrote.")],
    to: Annotated[
        str,
        typer.Option(
            help="onnx (raw columns in, class and probabilities out), card, or mlflow (a folder "
            "for mlflow.pyfunc)."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The file: .onnx for onnx, .md or .json for card; a folder for mlflow."),
    ] = None,
    use: Annotated[
        str | None, typer.Option(help="What the model is meant for, in your words, for the card.")
    ] = None,
) -> None:
    """Write a saved model for other programs, or its model card.

    As a scikit-learn object: fairsilo.load("RUN") in Python, straight from the run folder.
    """
    if to == "sklearn":
        raise FairSiloError(
            "--to sklearn needs no file: in Python, fairsilo.load reads the run folder itself "
            f"(fairsilo.load({str(model)!r})) and returns a fitted classifier"
        )
    from fairsilo.cli.out import check_file, check_out
    from fairsilo.data import write_atomic
    from fairsilo.run import load
    from fairsilo.run.choices import choose

    choose("to", to, SUFFIXES)
    if out is None:
        what = f"a file that ends in {SUFFIXES[to][0]}" if SUFFIXES[to] else "a new folder"
        raise FairSiloError(f"--out is missing: name {what}")
    if SUFFIXES[to] and out.suffix not in SUFFIXES[to]:
        raise FairSiloError(f"--out {out} must end in {' or '.join(SUFFIXES[to])}")
    if use is not None and to != "card":
        raise FairSiloError("--use is for --to card: leave it out")
    if to == "mlflow":
        from fairsilo.run.pyfunc import save_pyfunc

        check_out(out)
        if out.exists():
            raise FairSiloError(f"--out {out} exists already: give a new folder")
        save_pyfunc(model, out)
        print(f"{to}: {out}")
        return
    check_file(out)
    saved = load(model)
    if to == "onnx":
        from fairsilo.export.onnx import to_onnx

        content = to_onnx(saved)
    else:
        from fairsilo.report import card, card_markdown

        made = card(saved.description, saved.metrics, use)
        whole = json.dumps(made, indent=2, allow_nan=False) + "\n"
        content = (whole if out.suffix == ".json" else card_markdown(made)).encode()
    write_atomic(out, content)
    print(f"{to}: {out} ({len(content):,} bytes)")
