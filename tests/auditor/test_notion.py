"""An audit by a notion of fairness: against the rows themselves, and with a target in rates."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import fairsilo
from fairsilo.auditor import AuditOptions, execute
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.intervals import newcombe
from fairsilo.report import audit_page
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


def banks(count: int = 200) -> pd.DataFrame:
    """Every bank: 4 rows a/yes predicted yes, and 6 each of a/no, b/yes and b/no predicted no."""
    cells = (
        ("a", "yes", "yes", 4),
        ("a", "no", "no", 6),
        ("b", "yes", "no", 6),
        ("b", "no", "no", 6),
    )
    one = [cell[:3] for cell in cells for _ in range(cell[3])]
    frame = pd.DataFrame(one * count, columns=["sex", "label", "said"])
    return frame.assign(bank=[k // len(one) for k in range(len(frame))])


def of_banks(notion: str, min_cell: int, target: float | None = 0.1, **more: Any) -> dict[str, Any]:
    frame = banks()
    return fairsilo.audit(
        y=frame["label"], y_pred=frame["said"], sensitive_features=frame["sex"],
        clients=frame["bank"], protected_class="yes", notion=notion, target_deo=target,
        min_cell=min_cell, **more,
    ).found  # fmt: skip


@pytest.mark.parametrize("notion", ["demographic-parity", "accuracy-parity"])
def test_small_cells_left_out_of_a_mixture_of_classes_certify_nothing(notion: str) -> None:
    """All rows of a/yes are left out; without them nobody is predicted yes in either group."""
    whole, cut = of_banks(notion, 0), of_banks(notion, 5)
    true = 0.4 if notion == "demographic-parity" else 0.5
    assert whole["rates"]["value"] == pytest.approx(true)
    assert whole["certificate"]["met"] is False
    assert whole["rates"]["hidden"] == 0
    found = cut["certificate"]
    assert (found["about"], found["met"], found["rates"]["bound"]) == ("rates", None, None)
    assert found["statement"].startswith("There is no certificate of the rates: 200 cells")
    assert cut["rates"]["hidden"] == 200
    assert "Without 200 cells" in audit_page(cut)
    assert "that silos left out" not in audit_page(whole)


@pytest.mark.parametrize("target", [None, 0.1])
def test_within_a_class_and_of_losses_there_are_bounds_without_small_cells(
    target: float | None,
) -> None:
    """Half of the banks have twice as many rows, and leave nothing out."""
    rows = banks()
    rows = pd.concat([rows, rows[rows["bank"] >= 100]])
    scores = (rows["said"] == "yes") * 0.8 + 0.1
    shared: dict[str, Any] = {
        "y": rows["label"], "y_proba": scores, "sensitive_features": rows["sex"],
        "clients": rows["bank"], "protected_class": "yes", "target_deo": target, "min_cell": 5,
    }  # fmt: skip
    within = fairsilo.audit(**shared).found
    assert within["rates"]["hidden"] == 100
    assert within["certificate"]["rates"]["bound"] > 0.9
    mixed = fairsilo.audit(**shared, notion="demographic-parity").found["certificate"]
    assert mixed["about"] == ("losses" if target is None else "rates")
    assert "There is no certificate of the rates" in mixed["statement"]
    assert ("the gap in the whole population is below" in mixed["statement"]) == (target is None)


def test_a_runs_own_notion_and_target_are_the_default(case: Case) -> None:
    found = execute(AuditOptions(data=case.table, model=case.model))
    assert (found["notion"], found["target_deo"]) == ("equal-opportunity", None)
    assert found["certificate"]["about"] == "losses"
    assert found["limit"] is not None
    assert (
        "the rates of \u201cg0 - g1 in label=1\u201d are at most"
        in found["certificate"]["statement"]
    )


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
