"""Does a silo's table fit the federation file? Said at the silo, before it joins."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from fairsilo.data.columns import codes_and_texts, column, positions, readable
from fairsilo.data.dates import days, measured
from fairsilo.data.groups import NO_GROUP
from fairsilo.data.leakage import leaks
from fairsilo.data.schema import Category, Date, Number
from fairsilo.dp import Budget, Ledger
from fairsilo.dp.budget import ROUNDING
from fairsilo.errors import FairSiloError
from fairsilo.fairness.constraint import count_cells
from fairsilo.network import vouch
from fairsilo.network.approval import confirmed
from fairsilo.network.audit_columns import check_columns
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.ledger import privacy_conflict, read
from fairsilo.network.ops.certificates import ending
from fairsilo.network.rows import split_rows, weightless_of
from fairsilo.network.settings import Settings
from fairsilo.network.table import read_rows
from fairsilo.secagg import load_node_key
from fairsilo.secagg.keys import read_public_key


@dataclass
class Findings:
    """What keeps the silo out (problems), and what its operator should know (remarks)."""

    rows: int = 0
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def check_table(settings: Settings, agreed: FederationFile) -> Findings:
    """Look at every column the federation file names, then at sizes and policy."""
    findings = Findings()
    problems = findings.problems
    role = "witness" if settings.witness else "silo"
    named = [one.name for one in (agreed.witnesses if settings.witness else agreed.silos)]
    if settings.name not in named:
        problems.append(
            f"the federation file has no {role} {settings.name!r}; it has {', '.join(named)}"
        )
    if agreed.secure_aggregation and not agreed.witnesses:
        findings.remarks.append(
            "the federation file has no witnesses: nobody checks that the server asks what follows "
            "from the sums"
        )
    if not settings.answers_for(agreed.method):
        problems.append(f"the settings do not allow the federation's method {agreed.method!r}")
    if agreed.questions > settings.maximum_answers:
        problems.append(
            f"a run of the federation file's {agreed.rounds} rounds needs {agreed.questions} "
            f"answers and the settings allow {settings.maximum_answers} (maximum_answers)"
        )
    if not agreed.secure_aggregation and not settings.plain:
        problems.append(
            "the federation has no secure aggregation, and the settings do not allow that "
            "(plain = true would)"
        )
    if agreed.secure_aggregation and (settings.key is None or not settings.key.exists()):
        problems.append("the settings name no private key that exists; make one with keygen")
    if settings.key is not None and settings.key.exists() and settings.key.stat().st_mode & 0o077:
        problems.append(f"others can read the private key {settings.key.name}: chmod 600 it")
    problems += _another_key(settings, agreed)
    findings.remarks += ending(settings.approvals.parent)
    if not confirmed(settings, agreed) and settings.approve == "listed":
        findings.remarks.append(
            "no run of this federation file is answered until its owner said yes: "
            f"fairsilo flower approve {agreed.fingerprint[:16]}"
        )
    _members(settings, agreed, findings)
    if settings.witness:
        return findings
    _ledger(settings, problems)
    _budget(settings, agreed, findings)
    try:
        frame = read_rows(settings, agreed.table, agreed.split, agreed.weight)
    except FairSiloError as error:
        problems.append(str(error))
        return findings
    findings.rows = len(frame)
    _features(frame, agreed, findings)
    if not problems:
        _sizes(frame, settings, agreed, findings)
    return findings


def _another_key(settings: Settings, agreed: FederationFile) -> list[str]:
    """Whether the key in the silo's folder is the one that the federation file has for its name."""
    if settings.key is None or not settings.key.exists():
        return []
    if settings.name not in {one.name for one in agreed.parties}:
        return []
    try:
        own = load_node_key(settings.key).public_key().public_numbers()
    except FairSiloError as error:
        return [str(error)]
    keys = {
        read_public_key(one.name, one.public_key).public_numbers(): one.name
        for one in agreed.parties
    }
    if keys.get(own) == settings.name:
        return []
    if settings.key.with_name(f"{settings.key.name}.new").exists():
        return ["this silo is changing its key: `fairsilo flower rotate-key` goes over to the new"]
    whose = f"that of silo {keys[own]!r}" if own in keys else "no silo's"
    return [
        f"the private key {settings.key.name} is not that of silo {settings.name!r} in the "
        f"federation file (it is {whose}): put this silo's own key there, or correct "
        "the name in its settings"
    ]


def _members(settings: Settings, agreed: FederationFile, findings: Findings) -> None:
    """Whose keys the owner still has to confirm; a changed one is somebody else's, or a mistake."""
    open_ = vouch.unconfirmed(settings, agreed)
    changed = [one.name for one in open_ if one.state == vouch.CHANGED]
    if changed:
        findings.problems.append(
            f"the federation file has another key than the owner confirmed for {changed[0]}: ask "
            "them by telephone, and only then `fairsilo flower confirm` it"
        )
    names = [one.name for one in open_ if one.state == vouch.UNKNOWN]
    if names:
        findings.remarks.append(
            "no run is answered until the keys of the other silos are confirmed: let each read its "
            f"words by telephone, then fairsilo flower confirm {' '.join(names)}"
        )


def _ledger(settings: Settings, problems: list[str]) -> None:
    """Without a ledger that can be written the silo answers nothing."""
    if not os.access(settings.ledger.parent, os.W_OK):
        problems.append(f"the ledger {settings.ledger.name} cannot be written where it lies")


def _budget(settings: Settings, agreed: FederationFile, findings: Findings) -> None:
    """Whether another run fits into the silo's privacy budget; the sum is dp-accounting's."""
    epsilon, delta = settings.dp_budget_epsilon, settings.dp_budget_delta
    try:
        released = read(settings.ledger).releases
    except FairSiloError as error:
        findings.problems.append(f"{error} ({settings.ledger.name})")
        return
    conflict = privacy_conflict(settings, agreed)
    if conflict:
        findings.problems.append(conflict)
    if agreed.dp is None or epsilon is None or findings.problems:
        return
    own = Ledger(Budget(epsilon, delta), released)
    findings.remarks.append(
        f"epsilon {own.epsilon:.4g} of this silo's {epsilon:g} is spent in {len(own.releases)} "
        f"releases, delta {delta:g}, as {settings.ledger} counts"
    )
    if not settings.ledger.is_file():
        findings.remarks.append(
            "there is no ledger yet: if these rows were ever used under differential privacy, name "
            "the file that counted it (ledger in the settings)"
        )
    if own.cost + Budget(agreed.dp.epsilon, agreed.dp.delta).total > own.budget.total * (
        1 + ROUNDING
    ):
        findings.remarks.append(
            "another whole run would pass this silo's privacy budget and be refused on the way: "
            "raise dp_budget_epsilon, or agree on a smaller `dp_epsilon`"
        )


def _features(frame: pd.DataFrame, agreed: FederationFile, findings: Findings) -> None:
    for feature in agreed.table.features:
        try:
            series = column(frame, feature.name)
            empty = int(series.isna().sum())
            if isinstance(feature, Number) and agreed.dp is not None:
                read = readable(series)
                if isinstance(feature, Date):
                    read = days(series, feature.format)
                empty = int(np.isnan(read).sum())
            elif isinstance(feature, Number):
                measured(frame, feature)
        except FairSiloError as error:
            findings.problems.append(str(error))
            continue
        if isinstance(feature, Category):
            _category(series, feature, findings)
        if empty:
            how = "is empty, or no number," if agreed.dp is not None else "is empty"
            findings.remarks.append(f"column {feature.name!r} {how} in {empty} rows")


def _category(series: pd.Series, feature: Category, findings: Findings) -> None:
    place = positions(series, feature.values)
    unknown = int((place == -2).sum())
    if unknown:
        _, texts = codes_and_texts(series[place == -2])
        shown = ", ".join(map(repr, sorted(set(texts))[:5]))
        counted = "count as 'other'" if feature.other else "are encoded as none of the known"
        findings.remarks.append(
            f"column {feature.name!r} has {unknown} values that the federation file does not know "
            f"({shown}); they {counted}"
        )


def _sizes(
    frame: pd.DataFrame, settings: Settings, agreed: FederationFile, findings: Findings
) -> None:
    try:
        train, test = split_rows(frame, agreed)
    except FairSiloError as error:
        findings.problems.append(str(error))
        return
    groups = agreed.table.group_columns or (agreed.table.group,)
    if agreed.dp is None:
        findings.remarks += leaks(train.frame, agreed.table, train.y, groups)
    findings.remarks += weightless_of(len(frame), train, test, agreed)
    left_out = len(frame) - len(train.y) - len(test.y)
    if left_out and agreed.dp is not None:
        findings.remarks.append(
            f"{left_out} rows are of no class or group that the federation file knows, or are "
            "neither for training nor for testing: they count as none"
        )
    if len(train.y) < settings.minimum_rows and agreed.dp is None:
        findings.problems.append(
            f"there are {len(train.y)} training rows and the settings demand "
            f"{settings.minimum_rows}"
        )
    cells = count_cells(train.y, train.s, len(agreed.table.groups), len(agreed.table.classes))
    compared = agreed.groups or agreed.table.groups
    known = [group for group in compared if group in agreed.table.groups and group != NO_GROUP]
    for group, c in itertools.product(known, agreed.protected):
        name = agreed.table.classes[c]
        rows = int(cells[agreed.table.groups.index(group), c])
        if 0 < rows < settings.minimum_cell and agreed.dp is None:
            few = f"group {group!r} has {rows} training rows of class {name!r} and the settings "
            if agreed.trains.limits == "tau":
                findings.problems.append(f"{few}demand {settings.minimum_cell} or none")
            elif agreed.trains.shared:
                findings.remarks.append(
                    f"{few}want {settings.minimum_cell}: they are left out of the constraint"
                )
        elif rows == 0:
            findings.remarks.append(
                f"group {group!r} has no training row of class {name!r}: the silo "
                + (
                    "takes no part in its constraints"
                    if agreed.estimator == "mean"
                    else "adds nothing to that cell"
                )
            )
    wrong = check_columns(settings, agreed, test)
    if wrong:
        findings.problems.append(wrong)
    if not len(test.y):
        findings.remarks.append("there are no test rows: the silo adds nothing to the evaluation")
