"""`--config FILE` and `--write-config FILE`: the options of a command in a TOML file.

The keys are the names of the flags, such as protected-class. The file's values become click's
default map, which counts less than what is typed or stands in an environment variable.
"""

from __future__ import annotations

import difflib
import inspect
import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from fairsilo.errors import FairSiloError

CONTEXT, CONFIG, WRITE = NAMES = "context", "config", "write_config"
READERS = ("look", "schema")
"""Commands that read a table alone take a training's file, too, and of it what is theirs."""


def _read(ctx: typer.Context, path: Path | None) -> Path | None:
    """Make the file's values the defaults of the command."""
    if path is None:
        return None
    try:
        told = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise FairSiloError(f"--config {path} does not exist") from None
    except (OSError, ValueError) as error:
        raise FairSiloError(f"--config {path} cannot be read as TOML: {error}") from None
    from fairsilo.cli.shared_options import OPTIONS

    names = _flags(ctx)
    values = {}
    for key, value in told.items():
        name = names.get(key.replace("_", "-"))
        if name is None and key.replace("-", "_") in OPTIONS:
            if ctx.info_name in READERS:
                continue
            raise FairSiloError(
                f"--config {path}: {key!r} is an option of `train`, not of "
                f"`{ctx.info_name}`: leave it out"
            )
        if name is None:
            near = difflib.get_close_matches(key, names, n=1)
            hint = f", perhaps {near[0]!r}" if near else ": see --help"
            raise FairSiloError(f"--config {path}: there is no option {key!r}{hint}")
        if isinstance(value, dict):
            raise FairSiloError(f"--config {path}: {key!r} is a table, and options have a value")
        if isinstance(value, bool) and not _is_flag(ctx, name):
            raise FairSiloError(f"--config {path}: {key!r} takes a value, not true or false")
        if value != []:
            values[name] = _typed(ctx, name, value)
    ctx.default_map = {**(ctx.default_map or {}), **values}
    return path


def _write(ctx: typer.Context, path: Path | None) -> Path | None:
    """A file can be written without the options that a training needs."""
    if path is not None:
        needed = {one.name: "" for one in ctx.command.params if one.required and one.name}
        ctx.default_map = {**needed, **(ctx.default_map or {})}
    return path


def _flags(ctx: typer.Context) -> dict[str, str]:
    """What a file may name, and the parameter of each."""
    return {
        one.opts[0].lstrip("-"): str(one.name)
        for one in ctx.command.params
        if one.name not in (CONFIG, WRITE, "help", "interactive")
    }


def _is_flag(ctx: typer.Context, name: str) -> bool:
    return any(one.name == name and getattr(one, "is_flag", False) for one in ctx.command.params)


def _typed(ctx: typer.Context, name: str, value: Any) -> Any:
    """As it would be typed: a list of names has commas, unless the option is repeated."""
    (option,) = (one for one in ctx.command.params if one.name == name)
    if isinstance(value, list):
        each = [str(one) for one in value]
        return each if getattr(option, "multiple", False) else ",".join(map(_quoted, each))
    return value if isinstance(value, bool) else str(value)


def _quoted(name: str) -> str:
    return f'"{name}"' if "," in name else name


PARAMETERS = [
    # Typer fills in its context; the class is click's in older versions and its own in newer ones.
    inspect.Parameter(CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
    inspect.Parameter(
        CONFIG,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[
            Path | None,
            typer.Option(
                help="TOML file with options, by the names of their flags; what is typed wins.",
                callback=_read,
                is_eager=True,
                rich_help_panel="Options from a file",
            ),
        ],
    ),
    inspect.Parameter(
        WRITE,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[
            Path | None,
            typer.Option(
                help="Write such a file, with what is given and all other options explained; end.",
                callback=_write,
                is_eager=True,
                rich_help_panel="Options from a file",
            ),
        ],
    ),
]
"""For every command with the options of a training."""


def write_config(ctx: typer.Context, path: Path, values: dict[str, Any]) -> None:
    """Every option with its help: those that are given with their value, others as comments."""
    from fairsilo.cli.out import check_file
    from fairsilo.data import write_atomic

    check_file(path)
    if path.exists():
        raise FairSiloError(f"--write-config {path} exists already: give another file")
    names = _flags(ctx)
    lines = [f"# Options of `{ctx.command_path}`; use them with --config {path.name}."]
    for one in ctx.command.params:
        flag = one.opts[0].lstrip("-")
        if flag not in names:
            continue
        value = values[names[flag]]
        given = value not in (None, "", [], one.default)
        line = f"{flag} = {_toml(value)}" if given else f"# {flag} = {_toml(one.default)}".rstrip()
        lines += ["", f"# {getattr(one, 'help', '')}", line]
    write_atomic(path, ("\n".join(lines) + "\n").encode())
    print(f"options: {path}")


def _toml(value: Any) -> str:
    """A value of TOML, whose strings are escaped as in JSON; nothing for an option without one."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return json.dumps([str(one) for one in value], ensure_ascii=False)
    return json.dumps(str(value), ensure_ascii=False) if isinstance(value, str | Path) else ""
