"""The ClientApp: one question in, one vector out, what must be remembered in Flower's state."""

from __future__ import annotations

import logging
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fairsilo.errors import FairSiloError
from fairsilo.flower.charter import read_charter
from fairsilo.flower.settings import read_settings
from fairsilo.flower.silo import Refusal, answer
from fairsilo.flower.wire import RECORD, Ask, Reply

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
    reply = reply_to(message, context)
    return Message(RecordDict({RECORD: ConfigRecord(reply.to_record())}), reply_to=message)


def reply_to(message: Message, context: Context) -> Reply:
    """The answer to a message, computed from the silo's own settings."""
    number, kind = 0, ""
    try:
        record = message.content.config_records.get(RECORD)
        ask = Ask.from_record(dict(record or {}))
        number, kind = ask.number, ask.kind
        path = context.node_config.get("silo")
        if not isinstance(path, str):
            raise FairSiloError("the node was started without silo='SETTINGS' in its --node-config")
        settings = read_settings(Path(path))
        charter = read_charter(settings.federation)
        memory = context.state.config_records.setdefault(MEMORY, ConfigRecord())
        return Reply(number, kind, answer(settings, charter, ask, memory))
    except Refusal as error:
        return Reply(number, kind, refused=str(error))
    except FairSiloError as error:
        # Such a sentence may quote a cell or a path: it is for the silo's operator alone.
        logging.getLogger("flwr").error("fairsilo: %s", error)
    except Exception:
        logging.getLogger("flwr").exception("fairsilo: the question could not be answered")
    return Reply(number, kind, refused=UNSAID)
