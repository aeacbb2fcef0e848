"""A silo's answer under differential privacy: noted in its ledger, then noise, then it leaves.

encoder    rows, and of every numeric column missing cells, sum and sum of squares within bounds
totals     rows of every (group, class) cell
round      gradients and losses of the constrained cells and of all others; curvature where asked
evaluate   losses and right answers of the training rows, then the test rows' evidence, exact

The messages are those of the simulation (`engine.messages`). How much noise, how much of a row and
how many releases is the federation file's, whose fingerprint the silos compared; how much in all
is the silo's own settings'. Nothing of it is the server's. No answer depends on an exact count of
training rows, so neither minimum cells nor minimum rows are looked at: noise hides small cells.
"""

from __future__ import annotations

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.data.bounded import encoder_message
from fairsilo.data.encoder import Encoder
from fairsilo.dp import Budget, BudgetSpent, Message, share
from fairsilo.fairness.constraint import compared_cells
from fairsilo.flower.charter import Charter
from fairsilo.flower.ledger import spend
from fairsilo.flower.rows import Part
from fairsilo.flower.settings import Settings
from fairsilo.flower.wire import Ask, Refusal


def private_answer(
    settings: Settings, charter: Charter, ask: Ask, train: Part, encoder: Encoder | None
) -> Floats:
    """The sums of the training rows that the question asks for, paid for, with noise."""
    messages = _messages(charter, ask, train, encoder)
    assert settings.dp_budget_epsilon is not None
    budget = Budget(settings.dp_budget_epsilon, settings.dp_budget_delta)
    try:
        spend(settings.ledger, budget, [message.release for message in messages])
    except BudgetSpent:
        raise Refusal(
            f"this answer would pass the silo's own privacy budget for all runs together, "
            f"({budget.epsilon:g}, {budget.delta:g}): its operator can raise dp_budget_epsilon"
        ) from None
    return np.concatenate([share(message, charter.smallest_sum) for message in messages])


def _messages(charter: Charter, ask: Ask, train: Part, encoder: Encoder | None) -> list[Message]:
    plan, shape = charter.plan, charter.shape
    if ask.kind == "encoder":
        return [encoder_message(train.frame, charter.table, plan)]
    if ask.kind == "totals":
        # Here, like all of JAX: half of a silo's processes never come this far.
        from fairsilo.engine.messages import count_message

        return [count_message(train.y, train.s, *shape, plan)]
    assert encoder is not None
    return _of_a_model(charter, ask, train, encoder.transform(train.frame))


def _of_a_model(charter: Charter, ask: Ask, train: Part, x: Floats) -> list[Message]:
    """What is asked about a point theta, by the code of the simulation."""
    from fairsilo.engine import messages as made
    from fairsilo.engine.clientwise import padded
    from fairsilo.engine.sums import Rows
    from fairsilo.model import MODELS

    assert charter.dp is not None
    plan, clip, shape = charter.plan, charter.dp.bounds, charter.shape
    model = MODELS[charter.model](x.shape[1], shape[1])
    curvature = ask.order == "second"
    if (
        ask.theta.shape != (model.size,)
        or not np.isfinite(ask.theta).all()
        or (curvature and charter.solver != "newton")
    ):
        raise Refusal("the server's query does not fit the federation file")

    def rows(inside: Floats) -> Rows:
        whole = Rows(x, train.y, np.ones(len(train.y)), inside)  # type: ignore[arg-type]
        return padded(whole, 0, len(train.y))

    if ask.kind == "round":
        cells = compared_cells(charter.constraints)
        inside = made.members_and_others(train.y, train.s, cells)
        return made.round_messages(model, rows(inside), ask.theta, plan, clip, curvature)
    inside = made.members(train.y, train.s, made.every(*shape))
    return [made.outcome_message(model, rows(inside), ask.theta, plan, clip)]
