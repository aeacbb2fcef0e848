"""`fairsilo audit`."""

from pathlib import Path
from typing import Annotated

import typer

from fairsilo.cli.shared_options import (
    DATA,
    OUT,
    WHO,
    Client,
    Data,
    DataDir,
    RunDecimal,
    RunSep,
    RunThousands,
)

WHAT, HOW = "Model", "Statistics"


def audit(
    data: Data,
    model: Annotated[
        Path | None,
        typer.Option(help="A run folder, or an .onnx file.", rich_help_panel=WHAT),
    ] = None,
    predictions: Annotated[
        str | None,
        typer.Option(help="Instead: column with the predicted class.", rich_help_panel=WHAT),
    ] = None,
    probability: Annotated[
        list[str] | None,
        typer.Option(
            help="Instead or besides: column with the probability of the protected class, or "
            "CLASS=COLUMN once for every class.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Columns of an ONNX model with one input, in order; default: all numbers.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Column with the class; default the run's.", rich_help_panel=DATA),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="Column with the group; default the run's.", rich_help_panel=DATA),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            help="Groups to compare, every pair; default the run's, else all.", rich_help_panel=DATA
        ),
    ] = None,
    protected_class: Annotated[
        str | None,
        typer.Option(
            help="Classes in which to compare, with commas, or all; default the run's, else all.",
            rich_help_panel=DATA,
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Column with the values train and test.", rich_help_panel=DATA),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            help="test, train or all; default test where it is known, else all.",
            rich_help_panel=DATA,
        ),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(help="Variant of a named data set (see `data list`).", rich_help_panel=DATA),
    ] = None,
    data_dir: DataDir = None,
    sep: RunSep = None,
    decimal: RunDecimal = None,
    thousands: RunThousands = None,
    client: Client = None,
    clients: Annotated[
        int | None,
        typer.Option(
            help="Deal the rows out to so many silos; default the run's, else one.",
            rich_help_panel=WHO,
        ),
    ] = None,
    min_cell: Annotated[
        int,
        typer.Option(
            help="A silo leaves out a group and class of which it has fewer rows.",
            rich_help_panel=WHO,
        ),
    ] = 0,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Limit on DGEO that the certificate speaks of; default the run's.",
            rich_help_panel=HOW,
        ),
    ] = None,
    notion: Annotated[
        str | None,
        typer.Option(
            help="Whose rates are compared: equal-opportunity, equalized-odds, demographic-parity "
            "or accuracy-parity; default the run's, else equal-opportunity.",
            rich_help_panel=HOW,
        ),
    ] = None,
    target_deo: Annotated[
        float | None,
        typer.Option(
            help="Limit on the difference of these rates that the certificate speaks of; default "
            "the run's.",
            rich_help_panel=HOW,
        ),
    ] = None,
    level: Annotated[
        float, typer.Option(help="Confidence of every interval.", rich_help_panel=HOW)
    ] = 0.95,
    draws: Annotated[
        int, typer.Option(help="How often the bootstrap redraws.", rich_help_panel=HOW)
    ] = 2000,
    seed: Annotated[
        int, typer.Option(help="Seed of the bootstrap and of dealt rows.", rich_help_panel=HOW)
    ] = 0,
    out: Annotated[
        Path,
        typer.Option(help="Folder for audit.json and audit.html.", rich_help_panel=OUT),
    ] = Path("audit"),
    append: Annotated[
        bool,
        typer.Option(
            "--append",
            help="Add these rows to those of the audit in --out: the certificate is then about the "
            "rates of all rows so far, and holds however often you look. Give new rows only.",
            rich_help_panel=OUT,
        ),
    ] = False,
    fail_on: Annotated[
        str | None,
        typer.Option(
            help="Exit with 3, once all is written, if the audit is one of these: missed (a gap "
            "is above its limit), uncertified (the certificate does not have it below).",
            rich_help_panel=OUT,
        ),
    ] = None,
) -> None:
    """Measure DGEO and DEO of any model across silos, from sums only, with intervals.

    A run: fairsilo audit --model runs/adult --data adult. A column of predictions: fairsilo audit
    --data loans.csv --predictions decision --label income --group sex --client bank
    """
    from fairsilo.auditor import AuditOptions, execute, write
    from fairsilo.auditor.ongoing import appended, earlier
    from fairsilo.cli.audit_show import show_audit
    from fairsilo.cli.failures import AUDITS, audit_failures, checked_failures, stop_on
    from fairsilo.cli.out import check_out
    from fairsilo.errors import FairSiloError
    from fairsilo.run.constraints import names_of

    options = AuditOptions(
        data=data,
        model=model,
        predictions=predictions,
        probability=tuple(probability or ()),
        features=None if features is None else names_of("features", features),
        label=label,
        group=group,
        groups=None if groups is None else names_of("groups", groups),
        protected_class=None
        if protected_class is None
        else names_of("protected_class", protected_class),
        client=client,
        clients=clients,
        split=split,
        rows=rows,
        epsilon=epsilon,
        notion=notion,
        target_deo=target_deo,
        min_cell=min_cell,
        level=level,
        draws=draws,
        seed=seed,
        variant=variant,
        data_dir=data_dir,
        sep=sep,
        decimal=decimal,
        thousands=thousands,
    )
    check_out(out)
    wanted = () if fail_on is None else checked_failures(fail_on, AUDITS)
    before = earlier(out) if append else None
    found = execute(options, limited=bool(wanted))
    if append:
        if "uncertified" in wanted and found["target_deo"] is None:
            raise FairSiloError(
                "`fail_on` uncertified with `append` is about rates: give `target_deo`, or leave "
                "out `append`"
            )
        found = appended(found, before)
    write(found, out)
    show_audit(found, out)
    stop_on(wanted, audit_failures(found) if wanted else [], "audit")
