"""Silos that fail: they do not answer, answer nonsense, or are killed when they are asked."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.network.network import PATIENT, Net


@contextmanager
def misbehaving(net: Net, ways: dict[str, str]) -> Iterator[None]:
    """Some silos answer otherwise than fairsilo does, as HOOK in `network` lets them.

    silo-2 is killed as soon as it gets the question that it does not answer.
    """
    files = {name: net.space.silo(name) / "how.txt" for name in ways}
    for name, file in files.items():
        file.write_text(ways[name])
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
        for file in files.values():
            file.unlink()
    killer.join(PATIENT)
    assert not net.group.alive("silo-2")


@contextmanager
def worker_killed(net: Net, name: str, kind: str) -> Iterator[list[int]]:
    """The silo's worker is killed within its answer to the first question of a kind."""
    own, killed = net.space.silo(name), list[int]()
    (own / "asked").unlink(missing_ok=True)
    (own / "how.txt").write_text(f"{kind} silent")

    def kill() -> None:
        while not (own / "asked").exists():
            time.sleep(0.1)
        (own / "how.txt").unlink()
        # Nothing is killed by the number 0: that is everybody.
        worker = net.worker(name)
        assert worker
        killed.append(worker)
        os.kill(worker, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    yield killed
    killer.join(PATIENT)
    assert killed
