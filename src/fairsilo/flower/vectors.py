"""What the numbers of a silo's vector stand for, and back."""

from __future__ import annotations

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.evaluate.evidence import Evidence
from fairsilo.fairness.constraint import Totals, compared_cells
from fairsilo.flower.charter import Charter
from fairsilo.flower.local_silo import local_length
from fairsilo.flower.numbers import vector_length

TEST_ONLY = "test"
"""The order of an evaluation that leaves the training rows out, so that it costs no privacy."""


def length_of(kind: str, order: str, charter: Charter, parameters: int) -> int:
    """How many numbers a silo answers a question with; `audit` evaluates somebody's model."""
    groups, classes = charter.shape
    evidence = Evidence.length(groups, classes, len(charter.pairs))
    if charter.dp is not None:
        cells = len(compared_cells(charter.constraints)) + 1
        triangle = parameters * (parameters + 1) // 2
        return {
            "encoder": 1 + 3 * len(charter.table.numbers),
            "totals": groups * classes,
            "round": cells * (parameters + 1) + (triangle if order == "second" else 0),
            "evaluate": evidence + (0 if order == TEST_ONLY else 2 * groups * classes),
            "audit": evidence,
        }[kind]
    return {
        "encoder": 1 + 3 * len(charter.table.numbers),
        "totals": 1 + groups * classes + len(charter.pairs),
        "round": vector_length(order, parameters, len(charter.constraints)),
        "local": local_length(parameters),
        "evaluate": 2 * evidence,
        "audit": 2 * evidence,
    }[kind]


def totals_to_vector(totals: Totals) -> Floats:
    """Totals as one vector."""
    parts = (np.array([totals.rows]), totals.cells.ravel(), totals.taking_part)
    return np.concatenate(parts).astype(np.float64)


def totals_from_vector(vector: Floats, charter: Charter) -> Totals:
    """What `totals_to_vector` wrote, as whole numbers."""
    counts = np.rint(vector).astype(np.int64)
    cells = counts[1 : 1 + np.prod(charter.shape)].reshape(charter.shape)
    return Totals(int(counts[0]), cells, counts[1 + cells.size :])


def evidence_from_vector(vector: Floats, charter: Charter) -> tuple[Evidence, Evidence]:
    """What a silo (or several together) said of a model on its training and on its test rows."""
    train, test = (
        Evidence.from_vector(half, *charter.shape, len(charter.pairs))
        for half in np.split(vector, 2)
    )
    return train, test


def audited_from_vector(vector: Floats, charter: Charter) -> tuple[Evidence | None, Evidence]:
    """The same of an audit, which under differential privacy sees nothing of the training rows."""
    if charter.dp is None:
        return evidence_from_vector(vector, charter)
    return None, Evidence.from_vector(vector, *charter.shape, len(charter.pairs))
