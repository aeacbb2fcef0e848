"""Which models a silo audits: those it saw trained, or whose digest its owner approved, and few.

An audit tells how many rows of each cell a model puts on which side, exactly. A server that could
have any theta audited, as often as it likes, could cut the rows into slices as thin as it likes.
So the ledger keeps, under keys of its own,

trained   digests of the models whose training this silo evaluated
audited   by table, digests of the models that were audited on it

A model is known by SHA-256 of theta and the encoder's numbers. Pooled groups are not part of it:
an audit pools none, and so shows no finer cells than training did.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fairsilo.network import approval
from fairsilo.network.ledger import locked, raw, write
from fairsilo.network.settings import Settings
from fairsilo.network.wire import Ask, Refusal
from fairsilo.predictor.base import HALF
from fairsilo.question import Evaluate

SHOWN = 16
"""Characters of a digest that are shown."""


def model_digest(ask: Ask) -> str:
    """By what a model is known; nothing where the question has no model."""
    if not isinstance(ask.question, Evaluate) or not ask.question.theta.size:
        return ""
    theta, cut = ask.question.theta, ask.question.cut
    content = theta.astype("<f8").tobytes() + ask.scalings.astype("<f8").tobytes()
    # A model that decides elsewhere is another one.
    content += f"{cut!r}".encode() * (cut != HALF) + ask.question.cuts.astype("<f8").tobytes()
    return hashlib.sha256(content).hexdigest()


def note_trained(settings: Settings, ask: Ask) -> None:
    """The model that a training ended with, or one on the way, may be audited from now on."""
    digest = model_digest(ask)
    if digest and ask.purpose != "audit":
        with _changed(settings) as content:
            content["trained"] = sorted({*content.get("trained", ()), digest})


def admit(settings: Settings, ask: Ask, table: str) -> None:
    """Refuse to audit a model that is unknown, or one too many on this table; note the others."""
    digest = model_digest(ask)
    if not digest or ask.purpose != "audit":
        return
    with _changed(settings) as content:
        known = digest in content.get("trained", ())
        if not known and not approval.asked_model(settings, digest):
            raise Refusal(
                f"this silo has not seen the model {digest[:SHOWN]} trained: its owner can allow "
                f"the audit (`fairsilo flower approve {digest[:SHOWN]}` at the silo)"
            )
        audited = content.get("audited", {})
        models = {*audited.get(table, ()), digest}
        if len(models) > settings.maximum_audits:
            raise Refusal(
                f"this silo audits at most {settings.maximum_audits} different models on the same "
                "table (maximum_audits in its settings)"
            )
        content["audited"] = {**audited, table: sorted(models)}


@contextmanager
def _changed(settings: Settings) -> Iterator[dict[str, Any]]:
    """The ledger's content, written where the block changed it; a refusal leaves it as it was."""
    with locked(settings.ledger):
        content = raw(settings.ledger)
        before = json.dumps(content, sort_keys=True)
        yield content
        if json.dumps(content, sort_keys=True) != before:
            write(settings.ledger, content)
