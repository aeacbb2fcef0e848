"""A silo's worker: one process that answers what its SuperNode received, with fairsilo's own code.

The app that came is compared with the one of the installed fairsilo by a digest. It is never
unpacked, written or run; one that differs is refused, in the log and to the server.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fairsilo.errors import FairSiloError
from fairsilo.network.ops.bundle import digest, own_digest, refusal
from fairsilo.network.ops.internals import expect_names
from fairsilo.network.ops.pace import pause
from fairsilo.network.ops.parent import HOPELESS, end_with_parent
from fairsilo.network.ops.wake import Wake, own_end

if TYPE_CHECKING:
    from fairsilo.network.ops.runtime import Runtime, Work

LOOK = 0.5
"""At most so many seconds pass until an idle worker asks its node again."""
LOOK_UNWOKEN = 60.0
"""The same where the node wakes it, once a message has come whole: who looks earlier has to wait
for its parts."""
LOST = "a worker ended within an answer: the server is told, and may ask again"
NO_QUESTION = "this silo answers the questions of fairsilo and nothing else"


def main() -> None:
    """Answer until the program that started this process ends it, or is gone."""
    parser = argparse.ArgumentParser(description="Answers for one silo.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--secret-file", type=Path, required=True)
    options = parser.parse_args()
    end_with_parent()
    try:
        expect_names()
        own = own_digest()
    except FairSiloError as error:
        print(f"fairsilo: {error}", file=sys.stderr, flush=True)
        sys.exit(HOPELESS)
    # All that an answer needs is imported once, now.
    from fairsilo.network import masked, silo  # noqa: F401
    from fairsilo.network.ops.runtime import Runtime

    # httpx tells of every request.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    secret: Path = options.secret_file
    runtime = Runtime(options.port, secret.read_bytes(), secret.with_name("claimed"))
    if runtime.give_up():
        logging.getLogger("flwr").error("fairsilo: %s", LOST)
    serve(runtime, own, own_end())


def serve(runtime: Runtime, own: str, node: Wake | None = None) -> None:
    """Claim and answer, one after the other; `node` wakes this process, and is told of answers."""
    import httpx

    log = logging.getLogger("flwr")
    worked, told = time.monotonic(), ""
    while True:
        try:
            kind = runtime.claim()
            if kind:
                try:
                    with runtime.alive():
                        work_on(runtime, kind, own)
                finally:
                    if node is not None:
                        node.tell()
                worked, told = time.monotonic(), ""
        except httpx.HTTPStatusError as error:
            why = f"the SuperNode refused its worker ({error.response.status_code})"
            if why != told:
                log.error("fairsilo: %s", why)
            told, kind = why, ""
        except httpx.TransportError:
            # The node is not up yet, or again; the program that started both tells of it.
            kind = ""
        except FairSiloError as error:
            log.error("fairsilo: %s", error)
        if node is not None and node.heard and not runtime.ahead:
            node.wait(LOOK_UNWOKEN)
        elif not kind:
            wait = pause(time.monotonic() - worked, LOOK)
            if node is None:
                time.sleep(wait)
            else:
                node.wait(wait)


def work_on(runtime: Runtime, kind: str, own: str) -> None:
    """Answer one task, or refuse it."""
    from flwr.common.constant import ErrorCode
    from flwr.supercore.constant import TaskType

    from fairsilo.network.ops.runtime import Overtaken

    log = logging.getLogger("flwr")
    work = runtime.fetch(kind)
    why = refusal(digest(work.app), own)
    try:
        # Fetched in any case: the node waits until it is.
        message = runtime.content(work)
        if why or kind != TaskType.CLIENT_APP:
            why = why or NO_QUESTION
            log.error("fairsilo: refused: %s", why)
            _note(work, why)
            runtime.refuse(work, ErrorCode.INVALID_FAB, why)
            return
        from fairsilo.network.client import app

        reply = app(message, work.context)
    except Overtaken:
        log.warning("fairsilo: a question never came whole: its run must have ended meanwhile")
    except Exception:
        # What went wrong may tell of rows: it stays here.
        log.exception("fairsilo: refused: %s", NO_QUESTION)
        runtime.refuse(work, ErrorCode.CLIENT_APP_RAISED_EXCEPTION, NO_QUESTION)
    else:
        runtime.answer(work, reply)


def _note(work: Work, why: str) -> None:
    """A line of what left for a run with another app; its refusal tells nothing of the silo."""
    from fairsilo.network import left
    from fairsilo.network.settings import read_settings

    with contextlib.suppress(FairSiloError):
        settings = read_settings(Path(str(work.context.node_config["silo"])))
        size = len(why)
        left.note(settings, str(work.context.run_id), kind="app", bytes=size, refused=why)


if __name__ == "__main__":
    main()
