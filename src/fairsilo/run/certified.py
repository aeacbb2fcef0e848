"""The certificate of a run: of what was limited, losses or rates, on rows that it never saw."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairsilo.evaluate.certificate import Names, certify, refuse
from fairsilo.evaluate.evidence import Evidence
from fairsilo.evaluate.rates import certify_rates, joined
from fairsilo.method import METHODS
from fairsilo.run.options import Options
from fairsilo.run.problem import Posed


def certificate_of(
    options: Options,
    posed: Posed,
    test: Sequence[Evidence],
    epsilon: float | Sequence[float] | None,
    by_silo: bool,
    unseen: bool = True,
) -> dict[str, Any]:
    """What is stored in metrics.json; with a target it is about the target.

    `unseen`: whether it is known that the model did not see these rows.
    """
    limit = None if epsilon is None else float(np.min(epsilon))
    if len(test) > 1 or METHODS[options.method].own_models:
        return refuse("this method leaves one model per client, and a certificate is of one", limit)
    if test[0].tally.rows is not None:
        return refuse("its bounds are of rows that count one each, and these have weights", limit)
    schema = posed.schema
    names = Names(schema.groups, schema.classes, schema.group, schema.label)
    said, target = names.spoken, options.target_deo
    rates = certify_rates(
        test[0].tally, posed.constraints, said.groups, said.classes, target, hidden=test[0].hidden
    )
    if len(posed.cell_pairs) < len(posed.constraints):
        found = refuse("of losses it is for equal opportunity between pairs of groups", limit)
    else:
        found = certify(test[0], posed.cell_pairs, names, epsilon, by_silo=by_silo, unseen=unseen)
    return joined({**found, "rows": int(test[0].tally.counts.sum())}, rates, unseen)
