"""Your own notion of fairness, in one file: predictive equality.

    python examples/own_notion.py

Groups must fare alike in every class but the protected one: in lending, people who should be
refused are refused at equal rates. A notion is a choice of constraints; everything else (methods,
solvers, engines, the network) works with it. To use it by name, also on the command line, declare
it in your package as an entry point:

    [project.entry-points."fairsilo.notions"]
    predictive-equality = "own_notion:PREDICTIVE_EQUALITY"
"""

from __future__ import annotations

from collections.abc import Sequence

from fairsilo import FedFairClassifier
from fairsilo.data import make_table
from fairsilo.fairness import Comparison, Constraint, Gap, Notion


def others(
    compared: Sequence[Comparison], protected: Sequence[int], classes: int
) -> tuple[Constraint, ...]:
    """Mean losses of two groups, over rows of the classes that are not protected."""
    rest = tuple(c for c in range(classes) if c not in protected)
    return tuple(Gap(a, b, rest) for a, b in compared)


PREDICTIVE_EQUALITY = Notion(
    name="predictive-equality",
    words="in all classes but the protected one, groups fare alike",
    constraints=others,
)


def main() -> None:
    """Train with it and without a limit."""
    table = make_table(1200, silos=3, bias=1.5, seed=1)
    x, y = table.drop(columns=["label", "client"]), table["label"]
    for epsilon in (10.0, 0.05):
        fitted = FedFairClassifier(epsilon=epsilon, notion=PREDICTIVE_EQUALITY).fit(
            x, y, sensitive_features=table["group"], clients=table["client"]
        )
        gap = fitted.constraints_["D"].iloc[0]
        print(f"epsilon {epsilon:g}: gap {gap:.3f}, accuracy {fitted.score(x, y):.3f}")


if __name__ == "__main__":
    main()
