"""An audit by a notion of fairness: against the rows themselves, and with a target in rates."""

from __future__ import annotations

import pandas as pd
import pytest

import fairsilo
from fairsilo.auditor import AuditOptions, execute
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.intervals import newcombe
from tests.auditor.conftest import Case


def rates(frame: pd.DataFrame, notion: str) -> list[tuple[int, int, int, int]]:
    """Of the groups g0 and g1, hits and rows of every comparison, by hand."""
    label, said = frame["label"].astype(str), frame["decision"].astype(str)
    hits = said == "1" if notion == "demographic-parity" else said == label
    classes = {"equal-opportunity": ["1"], "equalized-odds": ["0", "1"]}.get(notion, [None])
    found = []
    for name in classes:
        within = label.isin(label if name is None else [name])
        sides = [(hits[within & (frame["group"] == g)]) for g in ("g0", "g1")]
        found.append((int(sides[0].sum()), len(sides[0]), int(sides[1].sum()), len(sides[1])))
    return found


@pytest.mark.parametrize(
    "notion", ["equal-opportunity", "equalized-odds", "demographic-parity", "accuracy-parity"]
)
def test_gaps_by_a_notion(case: Case, notion: str) -> None:
    options = AuditOptions(
        data=str(case.folder / "answers.csv"), predictions="decision", label="label",
        group="group", protected_class=("1",), notion=notion, target_deo=0.9,
    )  # fmt: skip
    found = execute(options)
    frame = case.frame
    wanted = rates(frame, notion)
    assert len(found["rates"]["lines"]) == len(wanted)
    for line, (a, m, b, n) in zip(found["rates"]["lines"], wanted, strict=True):
        assert (line["rows_a"], line["rows_b"]) == (m, n)
        assert line["gap"] == pytest.approx(a / m - b / n)
        span = newcombe(a, m, b, n)
        assert span is not None
        assert line["newcombe"] == pytest.approx([span.low, span.high])
    assert found["rates"]["value"] == pytest.approx(
        max(abs(a / m - b / n) for a, m, b, n in wanted)
    )
    # Predicted classes alone are enough for a target in rates.
    assert found["certificate"]["about"] == "rates"
    assert found["certificate"]["met"] is True
    label, said = frame["label"].astype(str), frame["decision"].astype(str)
    again = fairsilo.audit(
        y=label, y_pred=said, sensitive_features=frame["group"], protected_class="1",
        notion=notion, target_deo=0.9,
    )  # fmt: skip
    assert again.found["rates"] == found["rates"]


def test_a_runs_own_notion_and_target_are_the_default(case: Case) -> None:
    found = execute(AuditOptions(data=case.table, model=case.model))
    assert (found["notion"], found["target_deo"]) == ("equal-opportunity", None)
    assert found["certificate"]["about"] == "losses"
    assert found["limit"] is not None
    assert "the rates of \u201cg0 - g1 in 1\u201d are at most" in found["certificate"]["statement"]


def test_limits_of_one_notion_are_not_those_of_another(case: Case) -> None:
    other = AuditOptions(data=case.table, model=case.model, notion="demographic-parity")
    found = execute(other)
    assert (found["limit"], found["target_deo"]) == (None, None)
    assert found["certificate"]["met"] is None
    assert any("not for demographic-parity: give `target_deo`" in one for one in found["notes"])
    with pytest.raises(FairSiloError, match="`fail_on` needs a limit"):
        execute(other, limited=True)


def test_a_table_in_another_dialect(case: Case) -> None:
    path = case.folder / "german.csv"
    case.frame.to_csv(path, index=False, sep=";", decimal=",")
    told = {"label": "label", "group": "group", "probability": ("p1",), "protected_class": ("1",)}
    plain = execute(AuditOptions(data=str(case.folder / "answers.csv"), **told))  # type: ignore[arg-type]
    german = execute(AuditOptions(data=str(path), sep=";", decimal=",", **told))  # type: ignore[arg-type]
    assert german["pairs"] == plain["pairs"]
    run = execute(AuditOptions(data=str(path), model=case.model, sep=";", decimal=","))
    assert run["pairs"] == execute(AuditOptions(data=case.table, model=case.model))["pairs"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"notion": "demografic-parity"}, "perhaps 'demographic-parity'"),
        ({"notion": "bounded-loss"}, "about losses alone"),
        ({"target_deo": 1.5}, "give a difference of rates"),
    ],
)
def test_mistakes(change: dict[str, object], said: str) -> None:
    with pytest.raises(FairSiloError, match=said):
        AuditOptions(data="x.csv", predictions="p", **change)  # type: ignore[arg-type]
