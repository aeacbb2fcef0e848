"""A published data set: its description, where its files are, and their sha256 check."""

import hashlib
import lzma
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import pandas as pd

from fairsilo.errors import FairSiloError


@dataclass(frozen=True)
class RawFile:
    """One published file: name, size and sha256."""

    name: str
    size: int
    sha256: str

    def matches(self, content: bytes) -> bool:
        """Say whether this is the published file, byte for byte."""
        return hashlib.sha256(content).hexdigest() == self.sha256


@dataclass(frozen=True)
class DataSet:
    """A data set of the paper: rows, label, groups, split sizes, license, and how to read it."""

    name: str
    title: str
    label: str
    classes: tuple[str, ...]
    protected_class: str
    group: str
    groups: tuple[str, str]
    rows: int
    clients: int
    train_rows: int
    test_rows: int
    license: str
    source: str
    url: str
    files: tuple[RawFile, ...]
    read: Callable[[Mapping[str, bytes], str], pd.DataFrame]
    """Turn the contents of the raw files into the clean table of a variant."""
    group_features: tuple[str, ...]
    """The features that reveal the group; `drop_group` leaves them out."""
    vocabularies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Public bounds of the numeric columns: round numbers from their meaning, not from the rows."""
    variants: tuple[str, ...] = ("default",)
    shipped: bool = False
    """Whether the files are inside this package, xz-compressed."""


def data_folder(data_dir: Path | None = None) -> Path:
    """Return the folder of downloaded files: the given one, else FAIRSILO_DATA, else the cache."""
    if data_dir is not None:
        return Path(data_dir)
    if named := os.environ.get("FAIRSILO_DATA"):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "fairsilo"


def raw_bytes(dataset: DataSet, file: RawFile, data_dir: Path | None = None) -> bytes:
    """Return the content of one raw file, checked against its sha256."""
    if dataset.shipped:
        packed = resources.files(f"fairsilo.data.{dataset.name}") / f"{file.name}.xz"
        try:
            content = lzma.decompress(packed.read_bytes())
        except (OSError, lzma.LZMAError) as error:
            raise FairSiloError(f"{file.name} in fairsilo is damaged; install it again") from error
        remedy = "install fairsilo again"
    else:
        path = data_folder(data_dir) / file.name
        remedy = f"run `fairsilo data get {dataset.name}` to replace it"
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise FairSiloError(
                f"{dataset.title} is not at {path}; run `fairsilo data get {dataset.name}`, or "
                "give the folder that holds it with `data_dir` or FAIRSILO_DATA"
            ) from None
        except OSError as error:
            raise FairSiloError(f"cannot read {path} ({error.strerror}); {remedy}") from error
    if not file.matches(content):
        raise FairSiloError(f"{file.name} is not the published file (sha256 differs); {remedy}")
    return content
