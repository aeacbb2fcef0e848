"""The command line: thin, and slow imports happen only in the command that needs them."""

import os
import sys
import warnings
from functools import cache
from inspect import unwrap
from typing import Annotated, Any, get_type_hints

import typer
from typer.main import get_command

from fairsilo import __version__
from fairsilo.cli.audit import audit
from fairsilo.cli.data import app as data_app
from fairsilo.cli.diff import diff
from fairsilo.cli.experiment import compare, sweep
from fairsilo.cli.explain import explain
from fairsilo.cli.export import export
from fairsilo.cli.flags import as_typed
from fairsilo.cli.flower import app as flower_app
from fairsilo.cli.predict import predict
from fairsilo.cli.reproduce import reproduce
from fairsilo.cli.rerun import rerun
from fairsilo.cli.train import train
from fairsilo.errors import FairSiloError

app = typer.Typer(
    name="fairsilo",
    help="Train one classifier across several organisations, without moving rows, and fair "
    "between groups of people.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(train)
app.command()(predict)
app.command()(rerun)
app.command()(diff)
app.command()(explain)
app.command()(audit)
app.command()(export)
app.command()(compare)
app.command()(sweep)
app.command()(reproduce)
app.add_typer(data_app, name="data")
app.add_typer(flower_app, name="flower")


def _print_version(wanted: bool) -> None:
    """Print the name with the version, and end."""
    if wanted:
        print(f"fairsilo {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command; the help of the program is above."""


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"fairsilo: warning: {as_typed(str(message))}", file=sys.stderr)


@cache
def program() -> Any:
    """Every command with its options, as they are parsed; slow to make, so made once."""
    made = get_command(app)
    _explain_arguments(made)
    return made


def _explain_arguments(command: Any) -> None:
    """Give arguments the help that typer 0.20 loses where click, from 8.5 on, has its own."""
    for one in getattr(command, "commands", {}).values():
        _explain_arguments(one)
    for one in command.params:
        if one.param_type_name == "argument" and not one.help:
            told = get_type_hints(unwrap(command.callback), include_extras=True)
            one.help = told[one.name].__metadata__[0].help


def main() -> None:
    """Run a command; a user's mistake ends with one sentence and exit code 2."""
    warnings.showwarning = _show_warning
    try:
        program()()
    except FairSiloError as error:
        print(f"fairsilo: {as_typed(str(error))}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("fairsilo: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader (head, less) has gone; Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
