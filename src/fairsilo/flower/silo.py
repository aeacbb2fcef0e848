"""One silo's answer to one question: a flat vector, of which only the sum over silos is used.

encoder    rows, then count, sum and sum of squares of every numeric column
totals     rows, m^{s,c} of every cell, and for each pair of groups whether both cells have rows
round      L, D_k, gradients, triangle of the Hessian at (theta, mu)
evaluate   evidence of the training and of the test rows: tallies, the silo's own gap of each pair
"""

from __future__ import annotations

import hashlib
import logging

import numpy as np
import pandas as pd

from fairsilo.arrays import Floats, Ints
from fairsilo.data.encoder import Encoder, EncoderSums, Scaling
from fairsilo.evaluate.evidence import Evidence
from fairsilo.evaluate.tally import Tally
from fairsilo.fairness.constraint import Totals, count_cells, row_weights
from fairsilo.flower.agnostic_silo import KINDS as AGNOSTIC
from fairsilo.flower.agnostic_silo import POINTS, agnostic_answer, seen_columns
from fairsilo.flower.charter import Charter
from fairsilo.flower.foreign import COLUMNS, column_evidence, has_columns
from fairsilo.flower.ledger import read, same_table
from fairsilo.flower.local_silo import local_answer
from fairsilo.flower.numbers import (
    linear_sums,
    losses_of,
    probabilities_of,
    scores_of,
)
from fairsilo.flower.rows import Part, digest_of, split_rows
from fairsilo.flower.settings import Settings
from fairsilo.flower.table import read_rows
from fairsilo.flower.vectors import TEST_ONLY, length_of, totals_from_vector, totals_to_vector
from fairsilo.flower.wire import Ask, Memory, Refusal, pack, unpack

LIMITED = ("fedfair", "lco")
"""The methods with constraints, from which a silo leaves its small cells out."""


def answer(settings: Settings, charter: Charter, ask: Ask, memory: Memory) -> Floats:
    """The silo's vector, or a `Refusal`; any other error tells of rows and stays in the silo.

    Nothing is added to it afterwards: it leaves as it is or behind masks. What a silo does to its
    message for the sake of privacy, noise included, is done here.
    """
    _permit(settings, charter, ask, memory)
    frame = read_rows(settings, charter.table)
    _unchanged(settings, charter, ask, frame, memory)
    train, test = split_rows(frame, charter)
    if charter.dp is None:
        _large_enough(settings, charter, train)
    else:
        memory["test"] = digest_of(test.frame)
    if ask.purpose == "audit" and ask.order in COLUMNS:
        seen = (test,) if charter.dp is not None else (train, test)
        return np.concatenate(
            [column_evidence(settings, charter, ask.order, part) for part in seen]
        )
    if charter.dp is not None:
        return _private(settings, charter, ask, (train, test), memory)
    return _sums(settings, charter, ask, (train, test), memory)


def _private(
    settings: Settings, charter: Charter, ask: Ask, parts: tuple[Part, Part], memory: Memory
) -> Floats:
    """Of the training rows what differential privacy lets through; of test rows their evidence."""
    from fairsilo.flower.private_silo import private_answer

    if ask.kind not in ("encoder", "totals", "round", "evaluate"):
        raise Refusal("the federation's method has no such question")
    train, test = parts
    encoder = None
    if ask.kind != "encoder":
        encoder = encoder_of(charter, ask.scalings)
        _pin(memory, "scalings", ask.scalings)
    if ask.kind != "evaluate":
        return private_answer(settings, charter, ask, train, encoder)
    assert encoder is not None
    seen = _evidence(settings, charter, ask, test, encoder)
    if ask.purpose == "audit" or ask.order == TEST_ONLY:
        return seen
    return np.concatenate([private_answer(settings, charter, ask, train, encoder), seen])


def _sums(
    settings: Settings, charter: Charter, ask: Ask, parts: tuple[Part, Part], memory: Memory
) -> Floats:
    """The sums over the silo's rows that the question asks for."""
    train, _ = parts
    if ask.kind == "encoder":
        sums = EncoderSums.of(train.frame, charter.table)
        return np.concatenate([[float(sums.rows)], sums.count, sums.total, sums.squares])
    encoder = encoder_of(charter, ask.scalings)
    _pin(memory, "scalings", ask.scalings)
    if ask.kind == "totals":
        cells = count_cells(train.y, train.s, *charter.shape)
        least = settings.minimum_cell if charter.method in LIMITED else 0
        return totals_to_vector(Totals.of_silo(cells, charter.pairs, least))
    if ask.kind == "round":
        return _round(settings, charter, ask, train, encoder)
    if ask.kind == "local":
        return _local(settings, charter, ask, train, encoder, memory)
    if ask.kind in AGNOSTIC:
        return _agnostic(charter, ask, train, encoder)
    return _evaluate(settings, charter, ask, parts, encoder)


def encoder_of(charter: Charter, scalings: Floats) -> Encoder:
    """The encoder whose numbers the server sent."""
    if scalings.shape != (3 * len(charter.table.numbers),) or not np.isfinite(scalings).all():
        raise Refusal("the server's encoder does not fit the federation file")
    rows = scalings.reshape(-1, 3)
    if not (rows[:, 1] > 0).all():
        raise Refusal("the server's encoder does not fit the federation file")
    return Encoder(charter.table, tuple(Scaling(float(m), float(s), bool(b)) for m, s, b in rows))


def _permit(settings: Settings, charter: Charter, ask: Ask, memory: Memory) -> None:
    if ask.fingerprint != charter.fingerprint:
        raise Refusal(
            "the server's federation file is not the one this silo agreed to (fingerprints "
            "differ): compare them with the coordinator"
        )
    if ask.purpose not in settings.methods:
        raise Refusal(f"this silo does not answer for {ask.purpose!r}")
    if ask.purpose not in (charter.method, "audit"):
        raise Refusal(f"the federation file does not name the method {ask.purpose!r}")
    if ask.kind == "round" and charter.method in ("af", "lco"):
        raise Refusal(f"the federation's method {charter.method!r} has no such question")
    if ask.purpose == "audit" and ask.kind != "evaluate":
        raise Refusal("an audit asks for tallies only")
    if ask.purpose == "audit" and ask.order in COLUMNS and not has_columns(settings, ask.order):
        raise Refusal(
            "this silo's settings name no column with another model's answers "
            "(audit_predictions, audit_probability)"
        )
    conflict = privacy_conflict(settings, charter)
    if conflict:
        raise Refusal(conflict)
    if not charter.secure_aggregation and not settings.plain:
        raise Refusal(
            "the federation file has no secure aggregation and this silo does not answer in the "
            "clear (plain = true in its settings would allow it)"
        )
    answers = int(memory.get("answers", 0))
    if answers >= settings.maximum_answers:
        raise Refusal(f"this silo gives at most {settings.maximum_answers} answers per run")
    memory["answers"] = answers + 1


def privacy_conflict(settings: Settings, charter: Charter) -> str:
    """Why the federation file's privacy is not the one that this silo wants; nothing if it is."""
    if charter.dp is None and settings.dp_budget_epsilon is not None:
        return (
            "this silo has a privacy budget (dp_budget_epsilon) and answers only where the "
            "federation file has differential privacy"
        )
    if charter.dp is None and read(settings.ledger)[1]:
        return (
            "this silo's rows were used under differential privacy before, which exact sums would "
            "undo: the federation file has no differential privacy"
        )
    if charter.dp is not None and settings.dp_budget_epsilon is None:
        return (
            "the federation file has differential privacy and this silo's settings give no budget "
            "for it (dp_budget_epsilon)"
        )
    return ""


def _large_enough(settings: Settings, charter: Charter, train: Part) -> None:
    if len(train.y) < settings.minimum_rows:
        raise Refusal(
            f"this silo has fewer training rows than it demands of itself ({settings.minimum_rows})"
        )
    cells = count_cells(train.y, train.s, *charter.shape)
    for pair in charter.pairs if charter.method == "af" else ():
        # AF's sums are over groups as such; with a constraint the silo leaves small cells out.
        if any(0 < cells[g, pair.c] < settings.minimum_cell for g in (pair.a, pair.b)):
            raise Refusal(
                f"this silo has fewer than {settings.minimum_cell} training rows of a group in "
                f"class {charter.table.classes[pair.c]!r}"
            )


def _unchanged(
    settings: Settings, charter: Charter, ask: Ask, frame: pd.DataFrame, memory: Memory
) -> None:
    """Refuse to go on with other rows (or another order of rows) than the training began with.

    Under differential privacy that would tell of a single row that came or went. The sums are then
    over other rows, which their noise and the ledger cover; only the silo's own log says so.
    """
    digest = digest_of(frame)
    same = memory.setdefault("table", digest) == digest
    if ask.training:
        known = hashlib.sha256(f"{ask.training} {settings.name}".encode()).hexdigest()[:32]
        same &= same_table(settings.ledger, known, digest)
    if not same and charter.dp is None:
        raise Refusal(
            "the silo's table changed since the run began (a query needs ORDER BY): start again"
        )
    if not same:
        logging.getLogger("flwr").warning("fairsilo: the table changed since the run began")


def _pin(memory: Memory, name: str, values: Floats) -> None:
    """Refuse a value that differs from the one the run began with."""
    content = np.ascontiguousarray(values, "<f8").tobytes()
    if memory.setdefault(name, content) != content:
        raise Refusal("the server changed the encoder within a run")


def _round(settings: Settings, charter: Charter, ask: Ask, train: Part, encoder: Encoder) -> Floats:
    totals = _totals(charter, ask, train)
    constraints = charter.constraints
    x = encoder.transform(train.frame)
    w = np.full(len(train.y), 1 / totals.rows)
    least = settings.minimum_cell
    v = row_weights(constraints, charter.estimator, train.y, train.s, totals, least)
    if ask.mu.shape != (len(constraints),) or not np.isfinite(ask.theta).all():
        raise Refusal("the server's query does not fit the federation file")
    classes = charter.shape[1]
    if charter.model == "lr":
        if not _linear_fits(charter, x, ask):
            raise Refusal("the server's parameters do not fit the federation file")
        return linear_sums(ask.order, x, train.y, w, v, ask.theta, ask.mu, classes)
    from fairsilo.flower.network import network_sums

    return network_sums(charter.model, ask.order, x, train.y, w, v, ask.theta, ask.mu, classes)


def _local(
    settings: Settings,
    charter: Charter,
    ask: Ask,
    train: Part,
    encoder: Encoder,
    memory: Memory,
) -> Floats:
    """LCO's augmented Lagrangian; a new number of dual steps tells the silo to take its own."""
    if charter.method != "lco":
        raise Refusal("the federation file does not name the method 'lco'")
    totals = _totals(charter, ask, train)
    x = encoder.transform(train.frame)
    finite = np.isfinite(ask.mu).all() and np.isfinite(ask.theta).all()
    if ask.mu.shape != (2,) or not finite or ask.mu[0] <= 0 or not _linear_fits(charter, x, ask):
        raise Refusal("the server's query does not fit the federation file")
    rho, turn = float(ask.mu[0]), int(ask.mu[1])
    w = np.full(len(train.y), 1 / totals.rows)
    v = row_weights(charter.pairs, "local", train.y, train.s, totals, settings.minimum_cell)
    multipliers = np.zeros((2, len(charter.pairs)))
    fixed = (x, train.y, w, v, ask.theta, charter.epsilon)
    if "multipliers" in memory:
        multipliers = unpack(memory["multipliers"]).reshape(multipliers.shape)
        if turn > int(memory["turn"]):
            _, multipliers = local_answer(
                *fixed, float(memory["rho"]), multipliers, charter.shape[1]
            )
    memory.update(multipliers=pack(multipliers), turn=turn, rho=rho)
    return local_answer(*fixed, rho, multipliers, charter.shape[1])[0]


def _totals(charter: Charter, ask: Ask, train: Part) -> Totals:
    """The counts over all silos that the server sent, as far as this silo can check them."""
    if ask.totals.shape != (length_of("totals", "", charter, 0),):
        raise Refusal("the server's totals do not fit the federation file")
    totals = totals_from_vector(ask.totals, charter)
    if totals.rows < len(train.y):
        raise Refusal("the server's totals count fewer rows than this silo has alone")
    return totals


def _linear_fits(charter: Charter, x: Floats, ask: Ask) -> bool:
    """Whether theta has the size of this table's logistic regression."""
    outputs = 1 if charter.shape[1] == 2 else charter.shape[1]
    return ask.theta.shape == ((1 + x.shape[1]) * outputs,)


def _agnostic(charter: Charter, ask: Ask, train: Part, encoder: Encoder) -> Floats:
    if charter.method != "af":
        raise Refusal("the federation file does not name the method 'af'")
    x = encoder.transform(train.frame)
    columns = seen_columns(charter, encoder)
    fits = ask.kind == "columns" or (
        _linear_fits(charter, x, ask)
        and ask.points.shape == (POINTS * len(columns),)
        and ask.mu.shape == ((POINTS + 2,) if ask.kind == "theta" else (0,))
        and all(np.isfinite(values).all() for values in (ask.theta, ask.points, ask.mu))
    )
    if not fits:
        raise Refusal("the server's query does not fit the federation file")
    return agnostic_answer(
        charter, ask.kind, x, train.y, train.s, columns, ask.theta, ask.mu, ask.points
    )


def _evaluate(
    settings: Settings, charter: Charter, ask: Ask, parts: tuple[Part, Part], encoder: Encoder
) -> Floats:
    """Evidence of the training and of the test rows."""
    return np.concatenate([_evidence(settings, charter, ask, part, encoder) for part in parts])


def _evidence(
    settings: Settings, charter: Charter, ask: Ask, part: Part, encoder: Encoder
) -> Floats:
    """Tallies, and the silo's own gap of each pair; an audit gets none of small cells."""
    groups, classes = charter.shape
    least = settings.minimum_cell if ask.purpose == "audit" else 0
    x = encoder.transform(part.frame)
    losses, predicted = _losses_and_labels(charter, ask.theta, x, part.y)
    tally = Tally.of(part.y, part.s, predicted, losses, groups=groups, classes=classes)
    return Evidence.of_silo(tally, charter.pairs, least).to_vector()


def _losses_and_labels(charter: Charter, theta: Floats, x: Floats, y: Ints) -> tuple[Floats, Ints]:
    classes = charter.shape[1]
    if charter.model == "lr":
        scores = scores_of(theta, x, classes)
        return losses_of(scores, y), np.argmax(probabilities_of(scores), axis=1).astype(np.int64)
    from fairsilo.flower.network import network_predictions

    return network_predictions(charter.model, theta, x, y, classes)
