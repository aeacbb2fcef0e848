"""Fixtures that several test folders share."""

import gc
import mmap
import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Set before NumPy is imported: parallel workers need no threads within a product.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from fairsilo.data import DATASETS

# Compiled programs are shared by all workers, all processes that tests start, and the next run.
CACHE = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")


def known_to_xla(option: str) -> bool:
    """Whether this XLA has the option; XLA aborts the process if an option is unknown."""
    jaxlib = find_spec("jaxlib")
    assert jaxlib is not None
    assert jaxlib.origin is not None
    for library in Path(jaxlib.origin).parent.glob("*.so"):
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as image:
            if image.find(option.encode()) >= 0:
                return True
    return False


# Tests compile many programs and run them briefly: see `QUICK` in fairsilo/compute.py.
if known_to_xla("xla_cpu_use_fusion_emitters"):
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"--xla_cpu_use_fusion_emitters=false {flags}".strip()

# Traced programs are many small objects that stay alive: collecting garbage often is slow.
gc.set_threshold(100_000, 50, 100)

# On a shared machine a deadline per example fails because of other processes.
settings.register_profile("fairsilo", deadline=None)
settings.load_profile("fairsilo")


@pytest.fixture(scope="session", autouse=True)
def _no_power_cut() -> Iterator[None]:
    """Do not wait for the disk in this process: no test cuts the power, and one writes thousands
    of small files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


MARKS = {"browser": "browser", "fairsilo": "process"}
"""Fixtures that start something, and the mark of the tests that use them, directly or not."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what needs a browser or a process, so that `make test-fast` leaves it out."""
    for fixture, mark in MARKS.items():
        if fixture in getattr(item, "fixturenames", ()):
            item.add_marker(mark)


@pytest.fixture(scope="session")
def raw_data_dir() -> Path:
    """The folder with the published COMPAS and DRUG files, which may not be redistributed."""
    named = os.environ.get("FAIRSILO_DATA")
    beside = Path(__file__).parents[2] / "shared" / "data" / "raw"
    folder = Path(named) if named else beside
    wanted = [f.name for d in DATASETS.values() if not d.shipped for f in d.files]
    absent = [name for name in wanted if not (folder / name).is_file()]
    if absent:
        pytest.skip(
            f"NOT TESTED on real data: {' and '.join(absent)} not found; run `fairsilo data get "
            "compas` and `fairsilo data get drug`, and set FAIRSILO_DATA to that folder"
        )
    return folder


@pytest.fixture
def data_dir_of(request: pytest.FixtureRequest) -> Callable[[str], Path | None]:
    """The folder to load a data set from; None for data sets shipped with the package."""

    def folder(name: str) -> Path | None:
        if DATASETS[name].shipped:
            return None
        raw: Path = request.getfixturevalue("raw_data_dir")
        return raw

    return folder


@pytest.fixture(autouse=True)
def forget_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test adds to the registries is forgotten after it."""
    # Imported after JAX's settings above.
    from fairsilo.fairness import NOTIONS
    from fairsilo.method import METHODS
    from fairsilo.model import MODELS

    registries: tuple[Any, ...] = (DATASETS, METHODS, MODELS, NOTIONS)
    for registry in registries:
        monkeypatch.setattr(registry, "_known", dict(registry._known))
