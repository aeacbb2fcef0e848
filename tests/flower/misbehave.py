"""Silos that fail: they do not answer, answer nonsense, or are killed when they are asked."""

from __future__ import annotations

import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.flower.network import Net

MISBEHAVE = """
    import fairsilo.flower.client as client
    honest = client.reply_to

    def reply_to(record, path, memory, run):
        import time
        from pathlib import Path
        import numpy as np
        reply = honest(record, path, memory, run)
        kind, how = (Path(path).parent / "how.txt").read_text().split()
        if record.get("kind", record.get("ask.kind")) != kind:
            return reply
        if how == "nan":
            vector = np.frombuffer(reply["vector"], "<f8")
            reply["vector"] = (vector * np.nan).tobytes()
        if how == "oversized":
            reply["vector"] = np.ones(2_500_000).tobytes()
        if how == "round":
            reply["number"] += 1
        if how == "silent":
            Path(path).with_name("asked").touch()
            while not Path(path).with_name("answer").exists():
                time.sleep(0.2)
        return reply

    client.reply_to = reply_to
"""


@contextmanager
def misbehaving(net: Net, ways: dict[str, str]) -> Iterator[None]:
    """Make some silos misbehave, through the app that the server sends to all nodes.

    silo-2 is killed as soon as it gets the question that it does not answer.
    """
    package = net.space.app / "fairsilo_app" / "client_app.py"
    kept = package.read_text()
    package.write_text(textwrap.dedent(MISBEHAVE) + kept)
    for name in net.space.charter.names:
        (net.space.silo(name) / "how.txt").write_text(ways.get(name, "nothing honest"))
    net.start_all()
    asked = net.space.silo("silo-2") / "asked"
    asked.unlink(missing_ok=True)

    def kill() -> None:
        while not asked.exists():
            time.sleep(0.2)
        net.group.kill("silo-2")

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    try:
        yield
    finally:
        package.write_text(kept)
    killer.join(timeout=1)
    assert not net.group.alive("silo-2")
