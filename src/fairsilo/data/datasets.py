"""The three data sets of the paper, by name."""

from pathlib import Path

import pandas as pd

from fairsilo.data import adult, compas, drug
from fairsilo.data.columns import is_number, vocabulary
from fairsilo.data.schema import Category, Number, Schema
from fairsilo.data.source import DataSet, raw_bytes
from fairsilo.errors import FairSiloError
from fairsilo.registry import Registry

__all__ = ["DATASETS", "DataSet", "find", "load", "raw_files", "schema_of"]

DATASETS: Registry[DataSet] = Registry(
    "data set", "fairsilo.datasets", {d.name: d for d in (adult.ADULT, compas.COMPAS, drug.DRUG)}
)
"""Every data set that has a name at the command line."""


def find(name: str) -> DataSet:
    """Return the data set of that name; the error for an unknown name lists all names."""
    if name not in DATASETS:
        raise FairSiloError(f"there is no data set {name!r}; choose one of {', '.join(DATASETS)}")
    return DATASETS[name]


def load(name: str, *, data_dir: Path | None = None, variant: str = "default") -> pd.DataFrame:
    """Return the clean table: features, label and group, with the documented filter applied."""
    dataset = find(name)
    if variant not in dataset.variants:
        known = ", ".join(dataset.variants)
        raise FairSiloError(f"{name} has no variant {variant!r}; choose one of {known}")
    frame = dataset.read(raw_files(name, data_dir), variant).reset_index(drop=True)
    if len(frame) != dataset.rows:
        raise FairSiloError(f"{name} has {len(frame)} rows instead of {dataset.rows}; report this")
    return frame


def raw_files(name: str, data_dir: Path | None = None) -> dict[str, bytes]:
    """The published files of a data set, by their names; an error says where they should be."""
    dataset = find(name)
    return {file.name: raw_bytes(dataset, file, data_dir) for file in dataset.files}


def schema_of(name: str, frame: pd.DataFrame, *, drop_group: bool = False) -> Schema:
    """Return the schema of a table from `load`, in any variant, or of some of its rows.

    Vocabularies are the declared ones, so that silos with few rows agree with all others. Only
    the seven scores of DRUG's `onehot` variant take their vocabularies from the table.
    """
    dataset = find(name)
    left_out = {dataset.label}
    if dataset.group not in dataset.group_features:
        left_out.add(dataset.group)
    if drop_group:
        left_out.update(dataset.group_features)
    features: list[Number | Category] = []
    for column in frame.columns:
        if column in left_out:
            continue
        if is_number(frame[column]):
            features.append(Number(name=column, bounds=dataset.bounds.get(column)))
        else:
            values = dataset.vocabularies.get(column) or vocabulary(frame[column])
            features.append(Category(name=column, values=values))
    return Schema(
        features=tuple(features),
        label=dataset.label,
        classes=dataset.classes,
        group=dataset.group,
        groups=dataset.groups,
    )
