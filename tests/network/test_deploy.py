"""systemd units, Dockerfile and compose file of a working folder: syntax, and what they call."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from fairsilo import __version__
from fairsilo.cli.flower import app
from fairsilo.network.ops.workspace import Workspace, make_workspace
from tests.network.silos import make_town

INSTRUCTIONS = {"FROM", "COPY", "RUN", "ENV", "USER", "WORKDIR", "ENTRYPOINT"}


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    folder = tmp_path_factory.mktemp("deploy")
    agreed = make_town(folder / "town", rows=200).agreed
    return make_workspace(folder / "work", agreed, "hub.example.org", 8443)


@pytest.fixture(params=["superlink", "silo"])
def deploy(request: pytest.FixtureRequest, space: Workspace) -> Path:
    own = space.folder if request.param == "superlink" else space.silo("silo1")
    return own / "deploy"


def called(words: list[str]) -> None:
    """The command exists, and has the options that it is given."""
    name, *arguments = words
    command: Any = get_command(app).commands[name]  # type: ignore[attr-defined]
    known = {flag for one in command.params for flag in one.opts}
    flags = {word for word in arguments if word.startswith("--")}
    assert flags <= known


def unit_of(deploy: Path) -> Path:
    (unit,) = deploy.glob("*.service")
    return unit


def test_nothing_is_left_to_fill_in(deploy: Path) -> None:
    files = sorted(path.name for path in deploy.iterdir())
    assert len(files) == 3
    for path in deploy.iterdir():
        assert not re.search(r"@\w+@", path.read_text()), path


def test_the_unit(deploy: Path) -> None:
    unit = configparser.RawConfigParser(strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(unit_of(deploy).read_text())
    assert set(unit) == {"DEFAULT", "Unit", "Service", "Install"}
    service = unit["Service"]
    assert service["User"] == "fairsilo"
    assert service["Restart"] == "always"
    for key in ("ExecStart", "ExecStartPre"):
        if key in service:
            program, flower, *words = shlex.split(service[key])
            assert (Path(program).name, flower) == ("fairsilo", "flower")
            called(words)


@pytest.mark.process
def test_systemd_takes_the_unit(deploy: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    text = unit_of(deploy).read_text()
    text = re.sub(r"/opt/fairsilo/bin/fairsilo flower", sys.executable, text)
    copy = tmp_path / unit_of(deploy).name
    copy.write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", "--generators=no", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    # What it says of other units on this machine is not ours.
    ours = [line for line in done.stderr.splitlines() if copy.name in line]
    assert ours == [], done.stderr
    copy.write_text(text.replace("[Service]\n", "[Service]\nRestart=perhaps\n"))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert copy.name in done.stderr


def test_the_compose_file(deploy: Path) -> None:
    (service,) = yaml.safe_load((deploy / "compose.yaml").read_text())["services"].values()
    assert service["init"] is True
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert not service["user"].startswith(("0", "root"))
    assert all(isinstance(word, str) for word in service["command"])
    flower, *words = service["command"]
    assert flower == "flower"
    called(words)
    port = words[words.index("--health-port") + 1]
    asked = service["healthcheck"]["test"]
    assert asked[:3] == ["CMD", "python", "-c"]
    assert f"127.0.0.1:{port}/health" in asked[3]
    compile(asked[3], "health", "exec")
    assert f"--health-port {port}" in unit_of(deploy).read_text()
    assert port == ("18480" if "superlink" in words else "18481")
    if "superlink" in words:
        assert service["ports"] == ["8443:8443"]
    else:
        assert "ports" not in service


def test_the_dockerfile(deploy: Path) -> None:
    joined = (deploy / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    steps = [line.split(maxsplit=1) for line in lines]
    assert {name for name, _ in steps} == INSTRUCTIONS
    assert steps[0][0] == "FROM"
    found = dict(steps)
    assert f"=={__version__}'" in found["RUN"]
    # The Dockerfile itself, because COPY wants a file also where there is no wheel.
    *sources, place = found["COPY"].split()
    assert sources == ["Dockerfile", "*.whl"]
    assert f"--find-links {place.rstrip('/')} " in found["RUN"]
    assert found["USER"] == "10001:10001"
    assert json.loads(found["ENTRYPOINT"]) == ["fairsilo"]
    for command in found["RUN"].split("&&"):
        assert shlex.split(command)[0] in ("pip", "useradd")


def test_what_the_docs_call_in_containers_exists(space: Workspace) -> None:
    page = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
    files = (space.folder, space.silo("silo1"))
    texts = [page, *((one / "deploy" / "compose.yaml").read_text() for one in files)]
    services = {name for text in texts[1:] for name in yaml.safe_load(text)["services"]}
    found = {line for text in texts for line in re.findall(r"docker compose (?:run|exec) .*", text)}
    assert len(found) >= 6
    for line in found:
        words = [word for word in line.split()[3:] if word != "--rm"]
        service, *words = words
        assert service in services
        # `run` has the image's entry point, `exec` has not.
        assert (words[0] == "fairsilo") == (" exec " in line)
        flower, *words = words[words[0] == "fairsilo" :]
        assert flower == "flower"
        called(words)


def test_what_an_owner_changed_stays(space: Workspace, tmp_path: Path) -> None:
    from fairsilo.network.ops.keys import make_key
    from fairsilo.network.ops.members import add

    path = space.silo("silo1") / "deploy" / "compose.yaml"
    path.write_text("services: {}\n")
    make_key(tmp_path / "k", "mill")
    add(space, "mill", tmp_path / "k.pub")
    assert path.read_text() == "services: {}\n"
    assert (space.silo("mill") / "deploy" / "Dockerfile").exists()
