"""The ClientApp: one question in, one vector out, what must be remembered in Flower's state."""

from __future__ import annotations

import logging
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fairsilo.errors import FairSiloError
from fairsilo.network import left, vouch
from fairsilo.network.approval import Held, permit
from fairsilo.network.federation_file import read_federation_file
from fairsilo.network.introduction import STEP, introduce
from fairsilo.network.masked import masked_reply
from fairsilo.network.settings import Settings, read_settings
from fairsilo.network.silo import COST, OTHER_FILE, REMARKS, answer, keep_purpose
from fairsilo.network.wire import RECORD, VERSION, Ask, Memory, Record, Refusal, Reply
from fairsilo.network.witness import witnessed

MEMORY = "fairsilo"
"""The record of the state that a silo keeps of a run."""

UNSAID = (
    "its table or settings do not fit the federation file; the node's log and `fairsilo flower "
    "check` tell its operator why"
)

app = ClientApp()


@app.query()
def on_question(message: Message, context: Context) -> Message:
    """Answer, or say in one sentence why not."""
    found = message.content.config_records.get(RECORD)
    record: Record = dict(found or {})
    # A copy, put back whole: a record of Flower's checks every value anew.
    memory: Memory = dict(context.state.config_records.get(MEMORY, {}))
    answered = reply_to(record, settings_of(message, context), memory, str(context.run_id))
    context.state.config_records[MEMORY] = ConfigRecord(dict(memory))
    return Message(RecordDict({RECORD: ConfigRecord(answered)}), reply_to=message)


def settings_of(message: Message, context: Context) -> object:
    """Where the silo's settings are: the node's own configuration says it, never the server.

    Only the nodes of Flower's own simulation, which have a partition and no settings, are told.
    """
    own, folder = context.node_config.get("silo"), context.run_config.get("simulation")
    if own is None and folder and "partition-id" in context.node_config:
        return str(Path(str(folder)) / str(message.metadata.group_id) / "silo.toml")
    return own


def reply_to(record: Record, path: object, memory: Memory, run: str) -> Record:
    """The answer to a record, computed from the silo's own settings, and noted before it leaves."""
    try:
        if not isinstance(path, str):
            raise FairSiloError("the node was started without silo='SETTINGS' in its node config")
        settings = read_settings(Path(path))
    except FairSiloError as error:
        logging.getLogger("flwr").error("fairsilo: %s", error)
        return introduce(path) if record.get("step") == STEP else _refused(record, UNSAID)
    try:
        introduces = record.get("step") == STEP
        reply = introduce(path) if introduces else _reply(settings, record, memory, run)
    except Held as held:
        reply = {**_refused(record, str(held)), "waiting": True}
        if not held.first:
            # The server asks again every few seconds.
            return reply
    cost = float(memory.pop(COST, 0.0))
    try:
        for sentence in memory.pop(REMARKS, ()):
            left.note(settings, run, kind=left.REMARK, remark=str(sentence))
        left.note(settings, run, **left.reply_line(record, reply, cost))
    except Refusal as error:
        logging.getLogger("flwr").error("fairsilo: %s", error)
        # A refusal tells nothing, so it may leave without its line.
        return reply if reply["refused"] else _refused(record, str(error))
    return reply


def _reply(settings: Settings, record: Record, memory: Memory, run: str) -> Record:
    """The answer, or in its form why there is none; `Held` where the owner is to be asked."""
    try:
        agreed = read_federation_file(settings.federation)
        named = record.get("fingerprint", agreed.fingerprint)
        if named != agreed.fingerprint:
            raise Refusal(OTHER_FILE)
        for key in ("purpose", "ask.purpose"):
            if key in record:
                keep_purpose(record[key], agreed, memory)
        vouch.permit(settings, agreed)
        training = record.get("ask.training", record.get("training", ""))
        permit(settings, agreed, run, str(memory.get("purpose", "")), training)
        if settings.witness:
            return witnessed(settings, agreed, record, memory, run)
        if "step" in record:
            return masked_reply(settings, agreed, record, memory, run)
        ask = Ask.from_record(record)
        if agreed.secure_aggregation:
            raise Refusal("the federation file demands secure aggregation")
        return Reply(ask.number, ask.kind, answer(settings, agreed, ask, memory)).to_record()
    except Held:
        raise
    except Refusal as error:
        return _refused(record, str(error))
    except FairSiloError as error:
        # Such a sentence may quote a cell or a path: it is for the silo's operator alone.
        logging.getLogger("flwr").error("fairsilo: %s", error)
    except Exception:
        logging.getLogger("flwr").exception("fairsilo: the question could not be answered")
    return _refused(record, UNSAID)


def _refused(record: Record, why: str) -> Record:
    """A refusal in the form that the question's kind of answer has."""
    if "step" in record:
        return {"version": VERSION, "step": str(record["step"]), "content": b"", "refused": why}
    number, kind = record.get("number", 0), record.get("kind", "")
    return Reply(
        number if isinstance(number, int) else 0, kind if isinstance(kind, str) else "", refused=why
    ).to_record()
