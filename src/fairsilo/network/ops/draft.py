"""From the options of `flower init` to a federation file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fairsilo.data import DATASETS, read_schema, read_table
from fairsilo.data.schema import Category, Schema
from fairsilo.errors import FairSiloError
from fairsilo.model import MODELS
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.member import Member
from fairsilo.run.group_seen import group_features
from fairsilo.run.options import Options
from fairsilo.run.prepare import COLUMNS, read
from fairsilo.run.problem import blank_encoder, rounds_of, solver_name
from fairsilo.secagg.keys import read_public_key

SAME = (
    "groups", "protected_class", "method", "after", "model", "penalty", "pairs", "estimator",
    "notion", "against", "pool", "epsilon", "epsilons", "target_deo", "target_by",
    "target_confidence", "seed", "split", "decide_at", "weight", "maximum_weight", "class_weight",
    "local_epochs", "batch",
)  # fmt: skip
"""The options that a federation file has under the same names."""


def draft_table(options: Options, sample: Path | None) -> tuple[Schema, Options]:
    """The schema, and the options with what a data set fills in.

    Every category gets a column for values that the file does not know: silos may have some.
    """
    named = options.data in DATASETS
    if [named, sample is not None, options.schema is not None].count(True) != 1:
        raise FairSiloError(
            "give one of `sample` TABLE, `schema` FILE and `data` NAME: which columns are there?"
        )
    if sample is not None and options.dp_epsilon is not None:
        raise FairSiloError(
            "with `dp_epsilon` columns, classes and groups must not be read off the rows of "
            "`sample`: declare them in a file and give it as `schema`"
        )
    if options.schema is not None:
        if options.label or options.group or options.drop_group:
            raise FairSiloError(
                "`label`, `group` and `drop_group` are in the file that `schema` names: leave them "
                "out"
            )
        for name in COLUMNS:
            if getattr(options, name):
                raise FairSiloError(f"`{name}` is in the file {options.schema}: leave it out")
        schema = read_schema(options.schema)
    elif named:
        schema, options = read(replace(options, split=None))[1:]
    else:
        table = replace(options, data=str(sample))
        if (
            options.split is not None
            and options.split not in read_table(str(sample), dialect=options.dialect).columns
        ):
            table = replace(table, split=None)
        schema = read(table)[1]
    if options.protected_class is None:
        raise FairSiloError("`protected_class` is missing: name a class of the label")
    features = tuple(
        f.model_copy(update={"other": True}) if isinstance(f, Category) else f
        for f in schema.features
    )
    return schema.model_copy(update={"features": features}), options


def draft_values(options: Options, schema: Schema) -> dict[str, Any]:
    """What the federation file says of the training; the solver and its rounds are filled in."""
    width = len(blank_encoder(options, schema).feature_names)
    solver = solver_name(options, MODELS[options.model](width, len(schema.classes)).size)
    private = None
    if options.dp_epsilon is not None:
        names = ("epsilon", "delta", "split", "clip")
        private = {name: getattr(options, f"dp_{name}") for name in names}
    return {
        **{name: getattr(options, name) for name in SAME},
        "table": schema,
        "hidden": group_features(options, schema),
        "solver": solver,
        "rounds": rounds_of(options, solver),
        "test_fraction": 0.2 if options.test_fraction is None else options.test_fraction,
        "dp": private,
        "early_stopping": options.early_stopping or None,
    }


def draft_federation_file(
    values: dict[str, Any], silos: Sequence[str], witnesses: Sequence[str] = ()
) -> FederationFile:
    """The federation file of these values; silos and witnesses are NAME=PUBLIC_KEY_FILE."""
    members, others = (tuple(_named(text) for text in all_) for all_ in (silos, witnesses))
    try:
        agreed = FederationFile(silos=members, witnesses=others, **values)
    except ValidationError as error:
        first = error.errors()[0]
        where = "--" + "-".join(map(str, first["loc"])).replace("_", "-")
        what = str(first["msg"]).removeprefix("Value error, ")
        raise FairSiloError(f"{where if first['loc'] else 'the options'}: {what}") from None
    if agreed.secure_aggregation:
        from fairsilo.network.masked import agreement_of

        agreement_of(agreed, "draft")
    return agreed


def _named(text: str) -> Member:
    name, sign, path = text.partition("=")
    if not sign:
        raise FairSiloError(f"`silo` {text!r} is not NAME=PUBLIC_KEY_FILE, such as bank=bank.pub")
    return member(name, Path(path))


def member(name: str, path: Path) -> Member:
    """A silo with the public key in this file."""
    try:
        line = path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        raise FairSiloError(f"`silo` {name}: cannot read the public key {path}") from None
    if "PRIVATE" in line:
        raise FairSiloError(
            f"`silo` {name}: {path} is a PRIVATE key, which must stay at the silo: take the .pub "
            "file, and have the silo make a new key"
        )
    try:
        read_public_key(name, line)
    except FairSiloError:
        raise FairSiloError(
            f"`silo` {name}: {path} is not an ECDSA key in OpenSSH's format: take the .pub file of "
            "`fairsilo flower keygen`"
        ) from None
    try:
        return Member(name=name, public_key=line)
    except ValidationError:
        raise FairSiloError(
            f"`silo` {name!r}: a silo's name is of letters, digits, '.', '_' and '-'"
        ) from None
