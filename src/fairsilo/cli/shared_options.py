"""The options of a training, declared once for every command that takes them."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from fairsilo.cli.config import NAMES, PARAMETERS, write_config
from fairsilo.errors import FairSiloError

if TYPE_CHECKING:
    from fairsilo.run import Options

DATA, WHO, HOW, PRIVACY, OUT = (
    "Data", "Who holds which row", "Training", "What leaves a client", "Output"
)  # fmt: skip
"""Panels of `--help`."""


class Declared(NamedTuple):
    """An option: its type, its default, its help, where the help shows it."""

    kind: Any
    default: Any
    help: str
    panel: str
    envvar: str | None = None

    def parameter(self, name: str) -> inspect.Parameter:
        """As a command's parameter."""
        option = typer.Option(help=self.help, rich_help_panel=self.panel, envvar=self.envvar)
        kind = inspect.Parameter.KEYWORD_ONLY
        typed: Any = Annotated.__class_getitem__((self.kind, option))  # type: ignore[attr-defined]
        return inspect.Parameter(name, kind, default=self.default, annotation=typed)


REQUIRED = inspect.Parameter.empty
Text, Number, Count = str | None, float | None, int | None
OPTIONS: dict[str, Declared] = {
    "data": Declared(
        str, REQUIRED,
        "adult, compas, drug, a CSV or Parquet file, or a folder with a file per client.", DATA,
    ),
    "label": Declared(Text, None, "Column with the class.", DATA),
    "protected_class": Declared(
        Text, None,
        "Class in which groups must be treated alike; several with commas, or all.", DATA,
    ),
    "group": Declared(
        Text, None, "Column with the group; sex,race compares the intersections.", DATA
    ),
    "groups": Declared(
        Text, None,
        "Groups to compare, such as Female,Male; of three or more, see --against. Default: all "
        "that occur. A name with a comma goes in double quotes.", DATA,
    ),
    "against": Declared(
        str, "pairs", "pairs (every two groups) or rest (each group with all the others).", DATA
    ),
    "pool": Declared(
        Count, None,
        "Pool groups with fewer training rows than this in a protected class as (other); 0 never. "
        "Default 0, of intersections 100.", DATA,
    ),
    "drop_group": Declared(bool, False, "Leave the group out of the features.", DATA),
    "category": Declared(
        Text, None, "Columns that are categories though their cells are numbers: COW,MAR.", DATA
    ),
    "number": Declared(Text, None, "Columns that are numbers: AGE,HOURS.", DATA),
    "drop": Declared(Text, None, "Columns that are no features: id,remark.", DATA),
    "features": Declared(
        Text, None, "The only columns that are features: age,job. Default: all others.", DATA
    ),
    "groupless": Declared(
        str, "train",
        "Rows without a group: train (in the objective, compared with nobody) or refuse.", DATA,
    ),
    "sep": Declared(str, ",", "What separates the fields of a CSV file: , ; | or TAB.", DATA),
    "decimal": Declared(str, ".", "Decimal sign of a CSV file: . or ,", DATA),
    "thousands": Declared(
        str, "", "Sign between thousands in a CSV file: , . ' _ or a space.", DATA
    ),
    "variant": Declared(
        str, "default", "Variant of a named data set (see `data list`).", DATA
    ),
    "data_dir": Declared(
        Path | None, None, "Folder with the raw files of compas and drug.", DATA, "FAIRSILO_DATA"
    ),
    "schema": Declared(
        Path | None, None,
        "File that declares the columns (`data schema` drafts it); own data with --dp-epsilon "
        "need it.", DATA,
    ),
    "client": Declared(Text, None, "Column that says who holds a row.", WHO),
    "client_names": Declared(
        Text, None, "With --dp-epsilon: all values of that column, bank-a,bank-b.", WHO
    ),
    "clients": Declared(Count, None, "Deal the rows out to this many clients.", WHO),
    "partition": Declared(str, "iid", "How to deal: iid, skewed or dirichlet.", WHO),
    "alpha": Declared(float, 0.5, "Concentration of dirichlet; small is uneven.", WHO),
    "split": Declared(Text, None, "Column with the values train and test.", WHO),
    "test_fraction": Declared(
        Number, None, "Share of rows drawn for testing; default 0.2.", WHO
    ),
    "seed": Declared(int, 0, "Seed of every draw; same seed, same run.", HOW),
    "method": Declared(
        str, "fedfair", "fedfair, lco, fedavg, st, af, eo, ceo or thresholds.", HOW
    ),
    "after": Declared(
        Text, None,
        "What eo, ceo and thresholds repair: fedavg (the default), fedfair, lco, st or af.", HOW,
    ),
    "model": Declared(
        str, "lr",
        "lr (logistic regression), mlp (network, 8-4) or additive (a curve for each number).", HOW,
    ),
    "hidden": Declared(
        Text, None, "Sizes of the hidden layers of mlp: 32,16. Default 8,4.", HOW
    ),
    "penalty": Declared(
        Text, None,
        "Pull parameters towards zero: none (the default of lr and mlp), a strength such as 1 "
        "(1 / C of scikit-learn), auto (by AIC; the default of additive, but with --dp-epsilon by "
        "the noise; not for mlp) or validation (by rows set aside).", HOW,
    ),
    "pairs": Declared(
        Text, None,
        "Pairs of features that additive crosses: how many (default 10, the strongest), or which: "
        "age:hours,sex:race. With --dp-epsilon none, or named.", HOW,
    ),
    "solver": Declared(
        Text, None,
        "newton, lbfgs or agp (the paper's). Default: newton, lbfgs for large networks.", HOW,
    ),
    "estimator": Declared(
        str, "pooled", "pooled (all rows alike) or mean (the paper's average over clients).", HOW
    ),
    "notion": Declared(
        str, "equal-opportunity",
        "What is made equal: equal-opportunity, equalized-odds, demographic-parity, "
        "accuracy-parity, or bounded-loss (no group's loss above epsilon).", HOW,
    ),
    "epsilon": Declared(
        Text, None,
        "Largest allowed difference of the groups' losses (DGEO), default 0.05; tau of af. Without "
        "it, notions about rates (all but equal-opportunity and bounded-loss) take --target-deo "
        "0.05. For "
        "single pairs: 0.05,Black:White=0.1; with --against rest: 0.05,Black=0.1.", HOW,
    ),
    "target_deo": Declared(
        Number, None,
        "Instead of --epsilon: largest allowed difference of the groups' rates (DEO).", HOW,
    ),
    "target_by": Declared(
        str, "proxy",
        "How to meet --target-deo: proxy (limit the rates themselves) or search (for an epsilon, "
        "with a fifth of the rows set aside).", HOW,
    ),
    "target_confidence": Declared(
        Number, None,
        "Promise --target-deo for the population with this confidence, such as 0.9: models are "
        "tested on a fifth of the rows, set aside. Refused where these are too few.", HOW,
    ),
    "weight": Declared(
        Text, None,
        "Column with the rows' weights, such as a survey's: a row of weight 3 counts as three, in "
        "training and in all figures.", DATA,
    ),
    "maximum_weight": Declared(
        Number, None, "With --dp-epsilon: the largest weight; larger ones count as it.", DATA
    ),
    "class_weight": Declared(
        Text, None,
        "What a row of a class weighs in the objective: yes=3,no=1, or balanced (all classes the "
        "same). Limits and figures do not change.", HOW,
    ),
    "decide_at": Declared(
        Text, None,
        "Of two classes, from which probability on the second is predicted: 0.3, or chosen on "
        "training rows: balanced-accuracy, f1, share=0.2. Default 0.5. With --target-deo a number.",
        HOW,
    ),
    "local_epochs": Declared(
        Count, None,
        "Epochs that each client trains by itself in a round, before models are averaged: fedavg, "
        "and fedfair by agp. Default: one step over all rows.", HOW,
    ),
    "batch": Declared(
        Count, None, "Rows of a step in these epochs; default: all rows of the client.", HOW
    ),
    "rounds": Declared(
        Count, None,
        "Most rounds; default 150 (newton), 300 (lbfgs), 20000 (agp), 600 (af), 200 (with "
        "--local-epochs); with --dp-epsilon 6 (newton; 15 of additive), 1000 (agp).", HOW,
    ),
    "early_stopping": Declared(
        bool, False,
        "Stop where the loss of a fifth of the rows, set aside, is lowest; then train on all.", HOW,
    ),
    "start_from": Declared(
        Path | None, None,
        "Run folder from whose model training starts, such as on new rows.", HOW,
    ),
    "engine": Declared(
        str, "pooled", "pooled (fast) or clientwise (client by client).", HOW
    ),
    "min_cell": Declared(
        int, 0,
        "Clients leave groups of fewer rows (in the protected class) out of constraints.", PRIVACY,
    ),
    "dp_epsilon": Declared(
        Number, None,
        "The most that the training may show of one row; 4 is usual. Default: no limit.", PRIVACY,
    ),
    "dp_delta": Declared(
        float, 1e-5, "The chance of showing more; far below one over the rows.", PRIVACY
    ),
    "dp_split": Declared(
        str, "0.1,0.75,0.15", "Shares of the budget: encoder, objective, constraint.", PRIVACY
    ),
    "dp_clip": Declared(
        float, 1.0,
        "The longest gradient of one row; of an additive model as a multiple of half the longest.",
        PRIVACY,
    ),
    "dp_noise": Declared(
        str, "shared",
        "shared (clients add shares, under secure aggregation) or full (each all of it).", PRIVACY,
    ),
}  # fmt: skip
"""Every option of `fairsilo train` that says what is trained; the names are those of `Options`."""

LISTS = ("category", "number", "drop", "features", "client_names")
"""Those that are lists of names with commas."""
SIMULATED = (
    *("client", "client_names", "clients", "partition", "alpha", "engine", "min_cell", "dp_noise"),
)
"""Those that only a simulation has: over a network the silos are who they are."""
AGREED = tuple(
    name
    for name in OPTIONS
    if name not in (*SIMULATED, "data", "variant", "data_dir", "schema", "start_from")
)
"""Those that a federation file fixes."""


LOOKED = (
    *("label", "group", "drop_group", "client", "split", "weight", "groupless"),
    *("category", "number", "drop", "features", "sep", "decimal", "thousands"),
)
"""Those that say how a table is read and what its columns are."""
TABLE = tuple(
    name
    for name, one in OPTIONS.items()
    if one.panel in (DATA, WHO) and name not in ("client_names", "maximum_weight")
)
"""Those that say which rows there are, and who holds them."""


def takes(
    names: Iterable[str], **defaults: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command these options; it gets their values as one dictionary, `given`.

    `defaults` are the command's own. All its options can also stand in a file (`--config`).
    """
    names = tuple(names)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [
            one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for one in signature.parameters.values()
            if one.name != "given"
        ]
        shared = [OPTIONS[name].parameter(name) for name in names]
        shared = [one.replace(default=defaults.get(one.name, one.default)) for one in shared]
        parameters = [*PARAMETERS, *shared, *own]

        @wraps(command)
        def call(**values: Any) -> None:
            context, _, written = (values.pop(name) for name in NAMES)
            if written is not None:
                write_config(context, written, values)
                return
            command(given={name: values.pop(name) for name in names}, **values)

        call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        return call

    return decorate


def options_from(given: dict[str, Any], **more: Any) -> Options:
    """The options of a training, their lists and limits read."""
    from fairsilo.run import Options
    from fairsilo.run.constraints import limits_of, names_of

    values = {**given, **more}
    epsilon, groups = values.pop("epsilon", None), values.pop("groups")
    if epsilon is not None:
        if values["target_deo"] is not None and values["after"] is None:
            raise FairSiloError("give --epsilon (of losses) or --target-deo (of rates), not both")
        values["epsilon"], values["epsilons"] = limits_of(epsilon)
    values["groups"] = None if groups is None else names_of("groups", groups)
    for name in LISTS:
        given_names = values.pop(name, None)
        values[name] = () if given_names is None else names_of(name, given_names)
    for name, read in (("hidden", sizes), ("dp_split", shares)):
        if name in values:
            values[name] = read(values[name])
    return Options(**values)


def sizes(text: str | None) -> tuple[int, ...] | None:
    """Whole numbers with commas between them."""
    try:
        return None if text is None else tuple(map(int, text.split(",")))
    except ValueError:
        raise FairSiloError(
            f"--hidden {text!r} are no sizes of layers: give whole numbers, such as 32,16"
        ) from None


def shares(text: str) -> tuple[float, float, float]:
    """Three numbers with commas between them."""
    try:
        encoder, objective, constraint = map(float, text.split(","))
    except ValueError:
        raise FairSiloError(
            f"--dp-split {text!r} is not three numbers (encoder, objective, constraint), such as "
            "0.1,0.75,0.15"
        ) from None
    return encoder, objective, constraint


def typed(given: dict[str, Any], **defaults: Any) -> list[str]:
    """The options that are not at their defaults, the command's own first, as they are typed."""
    words = []
    for name, value in given.items():
        if value not in (None, defaults.get(name, OPTIONS[name].default)):
            flag = f"--{name.replace('_', '-')}"
            words.append(flag if value is True else f"{flag} {shlex.quote(str(value))}")
    return words


def option(name: str) -> Any:
    """One of the options as an annotation, for a command that takes few of them."""
    return OPTIONS[name].parameter(name).annotation


Targets = (
    OPTIONS["target_deo"]
    ._replace(kind=Text, help="Instead of --epsilons: targets in rates (DEO), with commas.")
    .parameter("target_deo")
    .annotation
)
Data, DataDir, Client = option("data"), option("data_dir"), option("client")
StartFrom = option("start_from")


def of_run(name: str) -> Any:
    """One of them for a command about a run, whose own value is the default."""
    told = OPTIONS[name]
    words = f"{told.help} (default: the run's)"
    return told._replace(kind=Text, help=words).parameter(name).annotation


RunSep, RunDecimal, RunThousands = of_run("sep"), of_run("decimal"), of_run("thousands")
