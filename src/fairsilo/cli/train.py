"""`fairsilo train`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from fairsilo.cli.given import DATA, OUT, WHO, Client, Data, DataDir, shares
from fairsilo.errors import FairSiloError

HOW, PRIVACY = "Training", "What leaves a client"


def train(
    data: Data,
    label: Annotated[
        str | None, typer.Option(help="Column with the class.", rich_help_panel=DATA)
    ] = None,
    protected_class: Annotated[
        str | None,
        typer.Option(
            help="Class in which groups must be treated alike; several with commas, or all.",
            rich_help_panel=DATA,
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Column with the group; sex,race compares the intersections.",
            rich_help_panel=DATA,
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            help="Groups to compare, such as Female,Male; of three or more, see --against. "
            "Default: all that occur. A name with a comma goes in double quotes.",
            rich_help_panel=DATA,
        ),
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            help="pairs (every two groups) or rest (each group with all the others).",
            rich_help_panel=DATA,
        ),
    ] = "pairs",
    pool: Annotated[
        int | None,
        typer.Option(
            help="Pool groups with fewer training rows than this in a protected class as "
            "(other); 0 never. Default 0, of intersections 100.",
            rich_help_panel=DATA,
        ),
    ] = None,
    drop_group: Annotated[
        bool, typer.Option(help="Leave the group out of the features.", rich_help_panel=DATA)
    ] = False,
    variant: Annotated[
        str,
        typer.Option(help="Variant of a named data set (see `data list`).", rich_help_panel=DATA),
    ] = "default",
    data_dir: DataDir = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            help="File that declares the columns (`data schema` drafts it); own data with "
            "--dp-epsilon need it.",
            rich_help_panel=DATA,
        ),
    ] = None,
    client: Client = None,
    clients: Annotated[
        int | None,
        typer.Option(help="Deal the rows out to this many clients.", rich_help_panel=WHO),
    ] = None,
    partition: Annotated[
        str, typer.Option(help="How to deal: iid, skewed or dirichlet.", rich_help_panel=WHO)
    ] = "iid",
    alpha: Annotated[
        float,
        typer.Option(help="Concentration of dirichlet; small is uneven.", rich_help_panel=WHO),
    ] = 0.5,
    split: Annotated[
        str | None,
        typer.Option(help="Column with the values train and test.", rich_help_panel=WHO),
    ] = None,
    test_fraction: Annotated[
        float | None,
        typer.Option(help="Share of rows drawn for testing; default 0.2.", rich_help_panel=WHO),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of every draw; same seed, same run.", rich_help_panel=HOW)
    ] = 0,
    method: Annotated[
        str, typer.Option(help="fedfair, lco, fedavg, st, af, eo or ceo.", rich_help_panel=HOW)
    ] = "fedfair",
    after: Annotated[
        str | None,
        typer.Option(
            help="What eo and ceo repair: fedavg (the default), fedfair, lco, st or af.",
            rich_help_panel=HOW,
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(help="lr (logistic regression) or mlp (network, 8-4).", rich_help_panel=HOW),
    ] = "lr",
    solver: Annotated[
        str | None,
        typer.Option(
            help="newton, lbfgs or agp (the paper's). Default: newton, lbfgs for large networks.",
            rich_help_panel=HOW,
        ),
    ] = None,
    estimator: Annotated[
        str,
        typer.Option(
            help="pooled (all rows alike) or mean (the paper's average over clients).",
            rich_help_panel=HOW,
        ),
    ] = "pooled",
    notion: Annotated[
        str,
        typer.Option(
            help="What is made equal: equal-opportunity, equalized-odds, demographic-parity, "
            "accuracy-parity, or bounded-loss (no group's loss above epsilon).",
            rich_help_panel=HOW,
        ),
    ] = "equal-opportunity",
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="Largest allowed difference of the groups' losses (DGEO), default 0.05; tau of "
            "af. For single pairs: 0.05,Black:White=0.1; with --against rest: 0.05,Black=0.1.",
            rich_help_panel=HOW,
        ),
    ] = None,
    target_deo: Annotated[
        float | None,
        typer.Option(
            help="Instead of --epsilon: largest allowed difference of the groups' rates (DEO).",
            rich_help_panel=HOW,
        ),
    ] = None,
    target_by: Annotated[
        str,
        typer.Option(
            help="How to meet --target-deo: proxy (limit the rates themselves) or search (for an "
            "epsilon, with a fifth of the rows set aside).",
            rich_help_panel=HOW,
        ),
    ] = "proxy",
    rounds: Annotated[
        int | None,
        typer.Option(
            help="Most rounds; default 150 (newton), 300 (lbfgs), 20000 (agp).",
            rich_help_panel=HOW,
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(help="pooled (fast) or clientwise (client by client).", rich_help_panel=HOW),
    ] = "pooled",
    baseline: Annotated[
        bool,
        typer.Option(help="Also train without the constraint, to compare.", rich_help_panel=HOW),
    ] = True,
    min_cell: Annotated[
        int,
        typer.Option(
            help="Clients leave groups of fewer rows (in the protected class) out of constraints.",
            rich_help_panel=PRIVACY,
        ),
    ] = 0,
    dp_epsilon: Annotated[
        float | None,
        typer.Option(
            help="The most that the training may show of one row; 4 is usual. Default: no limit.",
            rich_help_panel=PRIVACY,
        ),
    ] = None,
    dp_delta: Annotated[
        float,
        typer.Option(
            help="The chance of showing more; far below one over the rows.", rich_help_panel=PRIVACY
        ),
    ] = 1e-5,
    dp_split: Annotated[
        str,
        typer.Option(
            help="Shares of the budget: encoder, objective, constraint.", rich_help_panel=PRIVACY
        ),
    ] = "0.1,0.75,0.15",
    dp_clip: Annotated[
        float,
        typer.Option(help="The longest gradient of one row.", rich_help_panel=PRIVACY),
    ] = 1.0,
    dp_noise: Annotated[
        str,
        typer.Option(
            help="shared (clients add shares, under secure aggregation) or full (each all of it).",
            rich_help_panel=PRIVACY,
        ),
    ] = "shared",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the results; default runs/DATA-METHOD, overwritten.",
            rich_help_panel=OUT,
        ),
    ] = None,
    mlflow: Annotated[
        str | None,
        typer.Option(
            help="Also log to this MLflow store, such as sqlite:///mlflow.db or http://...",
            rich_help_panel=OUT,
        ),
    ] = None,
) -> None:
    """Train a classifier across clients, fair between groups, and write a run folder.

    Own data: fairsilo train --data loans.csv --label income --protected-class ">50K" --group sex
    --groups Female,Male --client bank --split part --epsilon 0.05 --out runs/loans
    """
    from fairsilo.cli.show import Rounds, show_run
    from fairsilo.run import Options, execute, save
    from fairsilo.run.compare import limits_of, names_of
    from fairsilo.run.options import EPSILON
    from fairsilo.run.track import open_store

    if epsilon is not None and target_deo is not None:
        raise FairSiloError("give --epsilon (of losses) or --target-deo (of rates), not both")
    limit, limits = (EPSILON, ()) if epsilon is None else limits_of(epsilon)
    options = Options(
        data=data,
        label=label,
        protected_class=protected_class,
        group=group,
        groups=None if groups is None else names_of("--groups", groups),
        against=against,
        pool=pool,
        drop_group=drop_group,
        client=client,
        clients=clients,
        partition=partition,
        alpha=alpha,
        split=split,
        test_fraction=test_fraction,
        seed=seed,
        method=method,
        after=after,
        model=model,
        solver=solver,
        estimator=estimator,
        notion=notion,
        epsilon=limit,
        epsilons=limits,
        target_deo=target_deo,
        target_by=target_by,
        rounds=rounds,
        engine=engine,
        variant=variant,
        data_dir=data_dir,
        schema=schema,
        min_cell=min_cell,
        dp_epsilon=dp_epsilon,
        dp_delta=dp_delta,
        dp_split=shares(dp_split),
        dp_clip=dp_clip,
        dp_noise=dp_noise,
    )
    folder = out or Path("runs") / f"{Path(data).stem}-{method}"
    check_out(folder)
    tracked = None if mlflow is None else open_store(mlflow)
    with Rounds(f"training {method} on {Path(data).name}") as progress:
        run = execute(options, progress.watch, baseline)
    files = save(run, folder)
    show_run(run, folder)
    if tracked is not None:
        print(f"MLflow: {mlflow}, run {tracked.log(run, files)}")


def check_out(folder: Path) -> None:
    """Refuse, before training, a folder that cannot be made or written; nothing is made yet."""
    try:
        there = next(part for part in (folder, *folder.absolute().parents) if part.exists())
    except OSError as error:
        raise FairSiloError(
            f"--out {folder} cannot be used ({error.strerror}): give another folder"
        ) from None
    if not there.is_dir():
        raise FairSiloError(f"--out {folder}: {there} is a file, so give another folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise FairSiloError(f"--out {folder}: you may not write in {there}, so give another folder")
