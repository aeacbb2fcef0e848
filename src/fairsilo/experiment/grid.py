"""The paper's experiments: twelve cells, seven methods, grids of settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd

from fairsilo.errors import FairSiloError
from fairsilo.method import METHODS as KNOWN
from fairsilo.question.base import Work
from fairsilo.run.options import Options
from fairsilo.run.problem import LOCAL_ROUNDS, WITH_PENALTIES
from fairsilo.solver import Agp, Lbfgs, Newton, Solver

SEEDS = (0, 1, 2, 3, 4)
"""Five random data sets each, as in the paper; the first is the one of Figure 1. Those that are
cross-validated."""
FOLDS = 5
"""Of a cross-validation; the first is the validation rows."""
LOCAL = Work(epochs=5, batch=32)
"""What clients do in a round of FedAvg as McMahan et al. (2017) have it; the paper does not say."""
METHODS = ("fedavg", "eo", "eo-conditional", "ceo", "st", "af", "lco", "fedfair")


def local_title(work: Work) -> str:
    """FedAvg with local epochs, as one more method of a comparison."""
    batch = "" if work.batch is None else f", B={work.batch}"
    return f"FedAvg (E={work.epochs}{batch})"


def aimed_title(method: str, target: float) -> str:
    """A method that trains or decides to a target in rates, likewise."""
    return f"{KNOWN[method].title} to {target:g}"


AIMED = ("fedfair", "thresholds")
"""The methods that a comparison has once more where there is a target in rates."""
TITLES = {
    "fedavg": "FedAvg",
    "fedavg-local": local_title(LOCAL),
    "eo": "EO",
    "eo-conditional": "EO conditional",
    "ceo": "CEO",
    "st": "ST",
    "af": "AF",
    "lco": "LCO",
    "fedfair": "FedFair",
    "constant": "Constant",
}
"""The names in the paper's tables, in its order, and ours beside them."""


def title_of(method: str) -> str:
    """As tables name a method; one that is not the paper's goes by its title."""
    return TITLES.get(method, method)


@dataclass(frozen=True)
class Study:
    """What is known of an own table that is studied as the paper's are, once it is read."""

    digest: str
    """Of its files: results of other rows are computed again."""
    classes: int
    test_share: float | None
    """Test rows per training row; None where every seed has the same, so that seeds test nothing
    of the rows."""
    left_out: tuple[str, ...] = ()
    """Methods that cannot take it."""


@dataclass(frozen=True)
class Cell:
    """One data set, one model, one kind of partition."""

    data: str
    model: str
    """lr or nn, the paper's names; or additive, which it does not have."""
    setting: str
    """iid or non-iid; own where it is not the paper's."""
    own: Options | None = None
    """The data of a comparison that is not the paper's: an own table, or other clients."""
    study: Study | None = None

    @property
    def dataset(self) -> str:
        """As tables name it: without the folder of an own table."""
        return Path(self.data).name

    @property
    def name(self) -> str:
        """adult-lr-iid, as `only` takes it."""
        if self.own is not None:
            return f"{Path(self.data).stem}-{self.model}"
        return f"{self.data}-{self.model}-{self.setting}"

    @property
    def title(self) -> str:
        """As in the paper's captions: ADULT (IID), LR."""
        if self.setting == OWN_DATA:
            return f"{self.dataset}, {self.model.upper()}"
        setting = "IID" if self.setting == "iid" else "non-IID"
        return f"{self.data.upper()} ({setting}), {self.model.upper()}"

    def rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of a table of results that are about this cell."""
        own = {"setting": self.setting, "dataset": self.dataset, "model": self.model}
        return table[(table[list(own)] == pd.Series(own)).all(axis=1)]

    def options(self, seed: int, data_dir: Path | None = None) -> Options:
        """What is trained, with limits on losses; `mean` is the paper's estimator."""
        model = "mlp" if self.model == "nn" else self.model
        if self.own is not None:
            return replace(
                self.own, model=model, seed=seed,
                target_deo=None, target_by="proxy", target_confidence=None,
            )  # fmt: skip
        return Options(
            data=self.data,
            data_dir=data_dir,
            partition="iid" if self.setting == "iid" else "skewed",
            model=model,
            seed=seed,
            estimator="mean",
        )

    def aimed(self, seed: int, method: str, target: float | None = None) -> Options:
        """The same by a method with a target in rates: this one, or the cell's own."""
        plain = self.options(seed)
        told = self.own or plain
        aim = told.target_deo if target is None else target
        asked: dict[str, Any] = {"method": method, "target_deo": aim}
        if not KNOWN[method].decides:
            asked |= {name: getattr(told, name) for name in ("target_by", "target_confidence")}
        return replace(plain, **asked)

    @property
    def methods(self) -> tuple[str, ...]:
        """FedAvg also with local epochs; AF is defined for logistic regression only."""
        every = ("fedavg", "fedavg-local", *METHODS[1:])
        left_out = () if self.study is None else self.study.left_out
        able = tuple(m for m in every if m not in left_out)
        return able if self.model == "lr" else tuple(m for m in able if m != "af")


OWN_DATA = "own"
"""The setting of a cell that is not the paper's."""
OWN = ("af", "fedavg-local", "constant")
"""Methods without a choice of solver, whose results are the same on both paths."""


def home_of(path: str, method: str) -> str:
    """The path under which a method's part is stored; methods in OWN are stored once."""
    return "fast" if method in OWN else path


CELLS = tuple(
    Cell(data, model, setting)
    for data in ("drug", "compas", "adult")
    for setting in ("iid", "non-iid")
    for model in ("lr", "nn")
)
"""Row by row as in the paper's figures."""

FIGURE_2 = {
    ("drug", "lr"): (1e-4, 1e-3, 0.01, 0.07, 0.13, 0.19),
    ("drug", "nn"): (1e-4, 1e-3, 0.005, 0.01, 0.02, 0.07, 0.13, 0.19, 0.22, 0.25),
    **{
        (data, model): (1e-4, 1e-3, 0.01, 0.1, 0.2, 0.4)
        for data in ("compas", "adult")
        for model in ("lr", "nn")
    },
}
"""The epsilons of the paper's Figure 2, by data set and model."""
WIDER = {
    "fedfair": (0.05, 0.02, 0.07, 0.005),
    "lco": (1.0, 0.2, 0.1, 0.4, 0.3, 0.05, 0.6, 0.5, 0.8, 0.02, 0.01),
    "st": (1.0, 0.01, 0.1, 1e-4, 0.4, 0.05, 0.2, 0.5, 0.02, 0.3, 1e-3),
    "af": (0.05, 0.5, 1.0, 2.5, 0.1, 0.01, 0.2, 0.005, 0.02, 0.001),
}
"""What each method tries beside the values that the paper names, the most useful first."""


def count_of(cell: Cell) -> int:
    """How many settings every method that has one tries in a cell: the same number for all.

    At least as many as the paper names for FedFair. Networks have fewer, because they take most of
    the time.
    """
    return max(len(_named(cell, "fedfair")), 8 if cell.model == "lr" else 6)


def settings(cell: Cell, method: str) -> tuple[float, ...]:
    """The grid of a method: the paper's values and a wider range; (0,) if it has no setting."""
    if method not in WIDER:
        return (0.0,)
    every = dict.fromkeys((*_named(cell, method), *WIDER[method]))
    return tuple(sorted(list(every)[: count_of(cell)]))


def _named(cell: Cell, method: str) -> set[float]:
    """The values that the paper has for the method in this cell."""
    paper = cell.rows(paper_tables())
    chosen = paper.loc[paper["method"] == TITLES[method], "opt"].dropna().astype(float)
    known = FIGURE_2.get((cell.data, cell.model), FIGURE_2["adult", "lr"])
    return {*chosen, *(known if method == "fedfair" else ())}


def paper_tables() -> pd.DataFrame:
    """The paper's 78 results."""
    source = resources.files("fairsilo.experiment") / "paper_tables.csv"
    with source.open() as stream:
        return pd.read_csv(stream)


def solver_of(path: str, cell: Cell, method: str = "fedfair") -> tuple[Solver, int]:
    """The solver of a path and the most rounds it gets.

    `fast`: Newton for logistic regression; L-BFGS for networks, where a round of Newton costs
    more than it saves; a client that trains alone (ST) has few rows and needs fewer rounds.
    `agp`: the paper's solver and schedule. AF has its own, and local epochs are steps of AGP.
    """
    if method == "fedavg-local":
        return Agp(), LOCAL_ROUNDS
    if method in OWN:
        return Lbfgs(), 300
    if path == "agp":
        return Agp(), 40_000
    if cell.model == "additive":
        return Newton(ridge=WITH_PENALTIES), 40
    if cell.model == "lr":
        return Newton(), 20 if method == "st" else 40
    return (Lbfgs(memory=10), 100) if method == "st" else (Lbfgs(), 200)


def find(name: str) -> Cell:
    """The cell of that name."""
    for cell in CELLS:
        if cell.name == name:
            return cell
    raise FairSiloError(
        f"`only` {name!r} is not a part of the paper: choose from "
        f"{', '.join(cell.name for cell in CELLS)}"
    )
