"""From the options of `flower init` to a charter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fairsilo.data import DATASETS, infer_schema, load, read_schema, read_table, schema_of
from fairsilo.data.schema import Category, Schema
from fairsilo.errors import FairSiloError
from fairsilo.flower.agnostic_session import AF_ROUNDS
from fairsilo.flower.charter import Charter, Member
from fairsilo.flower.keys import read_public_key
from fairsilo.run.private import ROUNDS as PRIVATE_ROUNDS
from fairsilo.run.train import ROUNDS


def rounds_of(method: str, solver: str, private: bool = False) -> int:
    """The most rounds unless --rounds says otherwise: those of the simulation."""
    if private:
        return PRIVATE_ROUNDS.get(solver, 1)
    return AF_ROUNDS if method == "af" else ROUNDS.get(solver, 1)


def draft_table(
    sample: Path | None,
    data: str | None,
    declared: Path | None,
    label: str | None,
    group: str | None,
    groups: tuple[str, ...] | None,
    protected_class: str | None,
    split: str | None,
    drop_group: bool,
) -> tuple[Schema, tuple[str, ...], str]:
    """The schema, the groups to compare and the protected class.

    Every category gets a column for values that the file does not know: silos may have some.
    """
    if sum(given is not None for given in (sample, data, declared)) != 1:
        raise FairSiloError(
            "give one of --sample TABLE, --schema FILE and --data NAME: which columns are there?"
        )
    if data is not None:
        if data not in DATASETS:
            raise FairSiloError(f"--data {data!r} is unknown: choose one of {', '.join(DATASETS)}")
        known = DATASETS[data]
        schema = schema_of(data, load(data), drop_group=drop_group)
        groups = groups or known.groups
        protected_class = protected_class or known.protected_class
    elif declared is not None:
        if label or group or drop_group:
            raise FairSiloError(
                "--label, --group and --drop-group are in the file that --schema names: leave them "
                "out"
            )
        schema = read_schema(declared)
    else:
        assert sample is not None
        for name, value in (("label", label), ("group", group)):
            if value is None:
                raise FairSiloError(f"--{name} is missing: name the column of the sample")
        assert label is not None
        assert group is not None
        frame = read_table(sample)
        exclude = [split] if split is not None and split in frame.columns else []
        schema = infer_schema(
            frame, label=label, group=group, exclude=exclude, drop_group=drop_group
        )
    if protected_class is None:
        raise FairSiloError("--protected-class is missing: name a class of the label")
    features = tuple(
        f.model_copy(update={"other": True}) if isinstance(f, Category) else f
        for f in schema.features
    )
    schema = schema.model_copy(update={"features": features})
    return schema, groups or schema.groups, protected_class


def draft_charter(values: dict[str, Any], silos: Sequence[str]) -> Charter:
    """The charter of these values and of silos written NAME=PUBLIC_KEY_FILE."""
    members = tuple(_member(text) for text in silos)
    try:
        charter = Charter(silos=members, **values)
    except ValidationError as error:
        first = error.errors()[0]
        where = "--" + "-".join(map(str, first["loc"])).replace("_", "-")
        what = str(first["msg"]).removeprefix("Value error, ")
        raise FairSiloError(f"{where if first['loc'] else 'the options'}: {what}") from None
    if charter.secure_aggregation:
        from fairsilo.flower.masked import agreement_of

        agreement_of(charter, "draft")
    return charter


def _member(text: str) -> Member:
    name, sign, path = text.partition("=")
    if not sign:
        raise FairSiloError(f"--silo {text!r} is not NAME=PUBLIC_KEY_FILE, such as bank=bank.pub")
    try:
        line = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError):
        raise FairSiloError(f"--silo {name}: cannot read the public key {path}") from None
    if "PRIVATE" in line:
        raise FairSiloError(
            f"--silo {name}: {path} is a PRIVATE key, which must stay at the silo: take the .pub "
            "file, and have the silo make a new key"
        )
    read_public_key(line)
    try:
        return Member(name=name, public_key=line)
    except ValidationError:
        raise FairSiloError(
            f"--silo {name!r}: a silo's name is of letters, digits, '.', '_' and '-'"
        ) from None
