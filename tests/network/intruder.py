"""What a stranger has: an app of their own, `flwr run`, and a look at who listens where."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from fairsilo.network.ops.certificates import CA
from fairsilo.network.ops.processes import command, environment
from fairsilo.network.ops.runs import CONNECTION, home
from fairsilo.network.ops.workspace import Workspace

PROJECT = """
[project]
name = "foreign"
version = "1.0.0"
license = "Apache-2.0"
[tool.flwr.app]
publisher = "stranger"
[tool.flwr.app.components]
serverapp = "foreign.apps:server"
clientapp = "foreign.apps:client"
"""
APPS = """
from pathlib import Path
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
server = ServerApp()
client = ClientApp()
@server.main()
def main(grid, context):
    Path({left!r}).write_text("here")
"""


def run_foreign(space: Workspace, folder: Path, address: str) -> dict[str, Any]:
    """`flwr run` of an app whose server part leaves a file `executed`; what it said."""
    package = folder / "app" / "foreign"
    package.mkdir(parents=True)
    (folder / "app" / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").touch()
    (package / "apps.py").write_text(APPS.format(left=str(folder / "executed")))
    own = folder / "home"
    own.mkdir()
    (own / "config.toml").write_text(
        f'[superlink]\ndefault = "there"\n[superlink.there]\naddress = "{address}"\n'
        f'root-certificates = "{space.certificates / CA}"\n'
    )
    done = subprocess.run(
        [command("flwr"), "run", str(folder / "app"), "there", "--format", "json"],
        env=environment(own),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    told: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return told


def register_key(space: Workspace, key: Path) -> None:
    """`flwr supernode register` of one more key, by the coordinator."""
    subprocess.run(
        [command("flwr"), "supernode", "register", str(key), CONNECTION],
        env=environment(home(space)),
        check=True,
        timeout=120,
    )


def listening(pid: int) -> set[str]:
    """host:port of every socket on which a process listens; none of one that has just ended."""
    inodes = set()
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                inodes.add(str(entry.readlink()))
    try:
        tables = [Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6")]
    except FileNotFoundError:
        return set()
    found = set()
    for line in tables[0].splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
            host, _, port = fields[1].partition(":")
            parts = [str(part) for part in reversed(bytes.fromhex(host))]
            found.add(f"{'.'.join(parts)}:{int(port, 16)}")
    for line in tables[1].splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
            found.add(fields[1])
    return found
