"""Download a data set from its publisher; files are kept only if all match their sha256."""

import http.client
import io
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from fairsilo.data.datasets import find, load
from fairsilo.data.files import write_atomic
from fairsilo.data.source import DataSet, RawFile, data_folder, raw_bytes
from fairsilo.errors import FairSiloError

MAX_BYTES = 32 * 2**20
"""Limit of a download: over twice the size of any published file; more means a wrong address."""


@dataclass(frozen=True)
class CheckResult:
    """The result of `check`; `problem` is one sentence, or None if there is none."""

    name: str
    where: str
    present: bool
    sha256_ok: bool
    rows: int | None
    expected_rows: int
    problem: str | None

    @property
    def ok(self) -> bool:
        """Whether the data set can be used."""
        return self.problem is None


def fetch(
    name: str, *, data_dir: Path | None = None, url: str | None = None, timeout: float = 60.0
) -> Path:
    """Download the files of a data set and return the folder they are in.

    Nothing is written before every file has the published sha256. `url` overrides the publisher's
    address and may give a zip archive or, for a data set of one file, the file itself.
    """
    dataset = find(name)
    address = url or dataset.url
    content = _download(dataset, address, timeout)
    files = _pick(dataset, content, address)
    for file in dataset.files:
        if not file.matches(files[file.name]):
            raise FairSiloError(
                f"{file.name} from {address} is not the published file (sha256 differs), so "
                "nothing was kept; try again or get it from elsewhere with `data_dir`"
            )
    folder = data_folder(data_dir)
    for file in dataset.files:
        write_atomic(folder / file.name, files[file.name])
    return folder


def check(name: str, data_dir: Path | None = None) -> CheckResult:
    """Check that the files exist, match their sha256 and give the expected number of rows."""
    dataset = find(name)
    folder = data_folder(data_dir)
    where = "inside the package" if dataset.shipped else str(folder)
    present = dataset.shipped or all((folder / file.name).is_file() for file in dataset.files)
    sha256_ok, rows, problem = False, None, None
    try:
        for file in dataset.files:
            raw_bytes(dataset, file, data_dir)
        sha256_ok = True
        rows = len(load(name, data_dir=data_dir))
    except FairSiloError as error:
        problem = str(error)
    return CheckResult(name, where, present, sha256_ok, rows, dataset.rows, problem)


def _download(dataset: DataSet, url: str, timeout: float) -> bytes:
    if not url.startswith(("https://", "http://", "file://")):
        raise FairSiloError(f"cannot download from {url!r}; the address must begin with https://")
    try:
        with urllib.request.urlopen(url, timeout=timeout) as response:
            promised = response.headers.get("Content-Length")
            content: bytes = response.read(MAX_BYTES + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise FairSiloError(
            f"{url} answered {error.code} for {dataset.title}; try again later or give the folder "
            "that holds the file with `data_dir`"
        ) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise FairSiloError(
            f"cannot reach {url} for {dataset.title} ({reason}); go online, or give the folder "
            "that holds the file with `data_dir` or FAIRSILO_DATA"
        ) from None
    if len(content) > MAX_BYTES:
        raise FairSiloError(f"{url} sends more than {MAX_BYTES} bytes; check the address")
    if promised is not None and promised.isdigit() and len(content) < int(promised):
        raise FairSiloError(
            f"{url} broke off after {len(content)} of {promised} bytes, so nothing was kept; "
            "try again"
        )
    return content


def _pick(dataset: DataSet, content: bytes, url: str) -> Mapping[str, bytes]:
    if not content.startswith(b"PK") and len(dataset.files) == 1:
        return {dataset.files[0].name: content}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return {file.name: _member(archive, file) for file in dataset.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError):
        names = " and ".join(file.name for file in dataset.files)
        raise FairSiloError(f"{url} is not a zip archive with {names}; check the address") from None


def _member(archive: zipfile.ZipFile, file: RawFile) -> bytes:
    for info in archive.infolist():
        if PurePosixPath(info.filename).name == file.name:
            with archive.open(info) as stream:
                # One byte more than published fails the sha256; reading no further stops zip bombs.
                return stream.read(file.size + 1)
    raise KeyError(file.name)
