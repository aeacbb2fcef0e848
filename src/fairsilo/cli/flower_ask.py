"""`fairsilo flower init --interactive`: one question after the other, with defaults."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

from fairsilo.errors import FairSiloError


def ask_all(given: dict[str, Any], own: dict[str, Any]) -> None:
    """Ask for what was not given; `given`: the options of a training, `own`: those of init."""
    from fairsilo.data import DATASETS
    from fairsilo.fairness import NOTIONS

    if own["folder"] is None:
        own["folder"] = Path(_ask("Working folder to make", "work"))
    own["name"] = _ask("Name of the federation", own["name"])
    if own["sample"] is None and own["data"] is None and given["schema"] is None:
        known = ", ".join(DATASETS)
        table = _ask(
            f"Table with all columns and values, CSV or Parquet (or {known})", check=_there
        )
        own["data" if table in DATASETS else "sample"] = table if table in DATASETS else Path(table)
    if own["sample"] is not None:
        _ask_columns(given, own["sample"])
    by_rates = given["notion"] in NOTIONS and NOTIONS[given["notion"]].by_rates
    if given["epsilon"] is None and given["target_deo"] is None and not by_rates:
        given["epsilon"] = _ask("Largest difference of the groups' losses (epsilon)", "0.05")
    if not own["silo"]:
        own["silo"] = _ask_silos()
    own["host"] = _ask("Name or address of the SuperLink, as the silos reach it", own["host"])
    own["port"] = int(_ask("Port of the SuperLink", str(own["port"]), check=_number))
    print(f"\nthe same without questions:\n{_command(given, own)}\n")


def _ask_columns(given: dict[str, Any], sample: Path) -> None:
    from fairsilo.data import read_table
    from fairsilo.data.columns import vocabulary
    from fairsilo.data.dialect import Dialect
    from fairsilo.data.infer import may_be_codes

    dialect = Dialect(given["sep"], given["decimal"], given["thousands"])
    frame = read_table(sample, dialect=dialect)
    names = [str(name) for name in frame.columns]
    print(f"columns: {', '.join(names)}")
    one = _among(names, "a column")
    if given["label"] is None:
        given["label"] = _ask("Column with the class", names[-1], check=one)
    classes = vocabulary(frame[given["label"]])
    if given["protected_class"] is None:
        print(f"classes: {', '.join(classes)}")
        question = "Class in which groups must be treated alike (or all)"
        check = _among([*classes, "all"], "a class")
        given["protected_class"] = _ask(question, classes[-1], check=check)
    if given["group"] is None:
        given["group"] = _ask("Column with the group", check=one)
    found = [name for name, _ in may_be_codes(frame) if name != given["label"]]
    if found and given["category"] is None:
        question = f"Which of {', '.join(found)} are codes and no numbers (commas; empty: none)"
        given["category"] = _ask(question, "") or None
    if given["split"] is None:
        question = "Column with the values train and test (empty: silos draw test rows)"
        given["split"] = _ask(question, "", check=_among([*names, ""], "a column")) or None


def _ask_silos() -> list[str]:
    silos: list[str] = []
    while True:
        told = _ask(f"Silo {len(silos) + 1} as NAME=PUBLIC_KEY_FILE (empty: no more)", "")
        if told:
            silos.append(told)
        elif len(silos) > 1:
            return silos
        else:
            print("  a federation has at least two silos, with secure aggregation three")


def _ask(
    question: str, default: str | None = None, check: Callable[[str], str] | None = None
) -> str:
    """The answer; one that does not fit is asked for again."""
    while True:
        told = str(typer.prompt(question, default=default, show_default=bool(default))).strip()
        wrong = "" if check is None else check(told)
        if not wrong:
            return told
        print(f"  {wrong}")


def _among(known: Sequence[str], what: str) -> Callable[[str], str]:
    return lambda told: "" if told in known else f"{told!r} is not {what} of the table"


def _there(told: str) -> str:
    from fairsilo.data import DATASETS

    return "" if told in DATASETS or Path(told).is_file() else f"there is no file {told}"


def _number(told: str) -> str:
    return "" if told.isdigit() and 0 < int(told) < 65536 else f"{told!r} is no port"


def _command(given: dict[str, Any], own: dict[str, Any]) -> str:
    """What could have been typed instead."""
    from fairsilo.cli.shared_options import typed

    words = ["fairsilo flower init"]
    for name, value in own.items():
        several = value if isinstance(value, list) else [value]
        words += [f"--{name} {shlex.quote(str(one))}" for one in several if one is not None]
    words += typed(given)
    return " \\\n  ".join(words)


def needed(own: dict[str, Any]) -> None:
    """Without questions, these have to be given."""
    for name, what in (("folder", "the working folder to make"), ("silo", "NAME=PUBLIC_KEY_FILE")):
        if not own[name]:
            raise FairSiloError(f"--{name} is missing ({what}): give it, or --interactive")
