"""GET /health and /metrics on loopback: for whom they answer, and what they say of a silo."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from fairsilo.errors import FairSiloError
from fairsilo.network import left
from fairsilo.network.ops.health import Health, Metric, metrics_text, serving
from fairsilo.network.ops.processes import free_ports
from fairsilo.network.ops.program import Child
from fairsilo.network.ops.silo_health import SILENT, SiloHealth, Tally
from fairsilo.network.settings import Settings

SAMPLE = re.compile(
    r'[a-z_]+(\{[a-z_]+="([^"\\\n]|\\["\\n])*"(,[a-z_]+="([^"\\\n]|\\["\\n])*")*\})? [-+0-9.e]+'
)
"""A line of Prometheus' text format with a sample."""


def well_formed(text: str) -> dict[str, str]:
    """The metrics' types, if every sample follows its help and type and every line is valid."""
    kinds: dict[str, str] = {}
    helped = ""
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped = line.split()[2]
            assert helped not in kinds
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name == helped
            assert kind in ("gauge", "counter")
            assert (kind == "counter") == name.endswith("_total")
            kinds[name] = kind
        else:
            assert SAMPLE.fullmatch(line), line
            assert re.split(r"[ {]", line)[0] == helped
    return kinds


def test_only_what_asks_at_loopback_is_answered() -> None:
    port, problems = free_ports(1)[0], ["it is ill"]
    metric = Metric("fairsilo_x", 2.5, 'a "help"\nin two lines', labels={"name": 'a"b\\c\n'})
    with serving(port, lambda: Health(problems, {"silo": "bank"}, [metric])):
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
            ill = client.get("/health")
            assert ill.status_code == 503
            assert ill.json()["problems"] == ["it is ill"]
            problems.clear()
            well = client.get("/health")
            assert well.status_code == 200
            assert well.headers["content-type"] == "application/json"
            assert well.json()["silo"] == "bank"
            assert client.get("/health", headers={"Host": f"localhost:{port}"}).status_code == 200
            metrics = client.get("/metrics")
            assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
            assert 'fairsilo_x{name="a\\"b\\\\c\\n"} 2.5\n' in metrics.text
            assert well_formed(metrics.text)["fairsilo_healthy"] == "gauge"
            assert client.get("/").status_code == 404
            assert client.post("/health").status_code == 501
            # The attack: a page in a browser here, whose own name was made to mean 127.0.0.1.
            for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", ""):
                told = client.get("/health", headers={"Host": host})
                assert told.status_code == 403
                assert "bank" not in told.text
        with (
            pytest.raises(FairSiloError, match=f"`health_port` {port} cannot be used"),
            serving(port, lambda: Health([], {}, [])),
        ):
            pass
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/health")
    with serving(None, lambda: Health([], {}, [])):
        pass


def test_a_silos_health_is_its_processes_its_contact_and_what_left(tmp_path: Path) -> None:
    secret_of_rows = 12345
    settings = Settings(
        name="bank", federation=Path("f"), data=Path("d"), ledger=tmp_path / "ledger.json",
        approvals=tmp_path / "approvals.json",
    )  # fmt: skip
    idle = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    children = [Child(name, idle, dict(os.environ)) for name in ("SuperNode", "worker")]
    contact = tmp_path / "contact"
    look = SiloHealth(settings, children, contact)
    try:
        assert look().problems == ["the SuperLink has not answered yet"]
        contact.touch()
        assert not look().problems
        left.note(settings, "1", kind="counts", numbers=8, bytes=100, refused="")
        left.note(settings, "1", kind="counts", numbers=0, bytes=20, refused="no")
        left.note(settings, "1", kind=left.REMARK, remark=f"not told: {secret_of_rows}")
        now = datetime.now(UTC)
        asked = {"a": now, "b": now, "ended": now - timedelta(hours=1)}
        waiting = {name: {"asked": when.isoformat()} for name, when in asked.items()}
        kept = json.dumps({"decided": {}, "waiting": {**waiting, "of an older version": {}}})
        (tmp_path / "approvals.json").write_text(kept)
        found = look()
        text = metrics_text(found)
        kinds = well_formed(text)
        assert kinds["fairsilo_replies_total"] == "counter"
        for sample in (
            "fairsilo_replies_total 2", "fairsilo_refused_total 1",
            "fairsilo_left_bytes_total 120", "fairsilo_waiting_for_approval 2",
            'fairsilo_process_up{process="worker"} 1',
        ):  # fmt: skip
            assert f"{sample}\n" in text
        told = json.dumps(found.facts)
        assert str(secret_of_rows) not in told + text
        # Read on from where it stood, a line that is being written included.
        with settings.left.open("a") as stream:
            stream.write('{"run": "2", "bytes": 5')
            stream.flush()
            assert look().facts["replies"] == 2
            stream.write("}\n")
        assert look().facts["replies"] == 3
        past = time.time() - 2 * SILENT
        os.utime(contact, (past, past))
        assert re.search(r"has not answered for \d+ s", look().problems[0])
        contact.touch()
        children[1].process.kill()
        children[1].process.wait(60)
        children[1].look()
        found = look()
        assert found.problems == ["the worker ended (signal 9)"]
        assert 'fairsilo_restarts_total{process="worker"} 1' in metrics_text(found)
    finally:
        for child in children:
            child.process.kill()
            child.process.wait(60)
            child.close()


def test_counts_go_on_where_the_list_was_moved_away(tmp_path: Path) -> None:
    tally, path = Tally(tmp_path / "left.jsonl"), tmp_path / "left.jsonl"
    line = '{"run": "1", "bytes": 10}\n'
    path.write_text(3 * line)
    tally.look()
    path.rename(tmp_path / "left-1.jsonl")
    tally.look()
    # As long as the old one was, and longer: told by its number.
    path.write_text(4 * line)
    tally.look()
    assert (tally.replies, tally.bytes) == (7, 70)
    # Emptied in its place: told by its length.
    with path.open("w") as stream:
        stream.write(2 * line)
    tally.look()
    tally.look()
    assert tally.replies == 9


def test_looks_at_the_same_time_count_a_line_once(tmp_path: Path) -> None:
    class Slow(Tally):
        def _count(self, content: bytes) -> None:
            time.sleep(0.05)
            super()._count(content)

    tally = Slow(tmp_path / "left.jsonl")
    tally.path.write_text(50 * '{"run": "1"}\n')
    looks = [threading.Thread(target=tally.look) for _ in range(4)]
    for one in looks:
        one.start()
    for one in looks:
        one.join()
    assert tally.replies == 50
