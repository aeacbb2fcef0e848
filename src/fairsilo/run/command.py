"""The command that trains as the options say, for whoever reads a run later."""

import shlex
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from fairsilo.run.options import Options

ELSEWHERE = ("data_dir", "epsilon", "epsilons", "solver", "model", "seed")
"""Said in another way, or not at all: a folder of this machine."""


def command_of(options: Options) -> str:
    """`fairsilo train` with every option that is not at its default, and the seed.

    Files and folders are named without their place, as everywhere in a run folder.
    """
    told = {"data": options.data, **{one.name: _text(options, one) for one in fields(options)}}
    told["data"] = Path(options.data).name if "/" in options.data else options.data
    sizes = options.hidden is not None
    told["model"] = (
        options.model.split("-")[0] if sizes else options.model * (options.model != "lr")
    )
    told["solver"] = options.solver_name
    if options.target_deo is None or options.after is not None:
        single = [f"{name}={limit:g}" for name, limit in options.epsilons]
        told["epsilon"] = _listed([f"{options.epsilon:g}", *single])
    told["seed"] = str(options.seed)
    words = ["fairsilo", "train"]
    for name, value in told.items():
        if value:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return shlex.join(words)


def _text(options: Options, one: Any) -> str | bool | None:
    """An option as it is typed; None where it is at its default, or said elsewhere."""
    value = getattr(options, one.name)
    if one.name in ELSEWHERE or value == one.default:
        return None
    if isinstance(value, Path):
        return value.name
    if one.name == "class_weight" and not isinstance(value, str):
        return _listed(f"{name}={weight:g}" for name, weight in value)
    return _listed(map(str, value)) if isinstance(value, tuple) else value


def _listed(names: Iterable[str]) -> str:
    """With commas; a name that has one in double quotes."""
    return ",".join(f'"{name}"' if "," in name else name for name in names)
