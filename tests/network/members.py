"""Members of federations: some whose silos are nowhere, and a working folder with four of them."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from typer.testing import CliRunner

from fairsilo.cli.flower import app
from fairsilo.data import make_table
from fairsilo.errors import FairSiloError
from fairsilo.network.federation_file import FILE
from fairsilo.network.member import Member
from fairsilo.network.ops.keys import make_key
from fairsilo.secagg.keys import public_bytes


def members(*names: str) -> tuple[Member, ...]:
    """Their keys are real, and kept by nobody."""
    keys = (ec.generate_private_key(ec.SECP384R1()).public_key() for _ in names)
    return tuple(
        Member(name=name, public_key=public_bytes(key).decode())
        for name, key in zip(names, keys, strict=True)
    )


def run(*arguments: object, sentence: str = "", stdin: str | None = None) -> str:
    """What a command prints, or that it ends with this sentence."""
    done = CliRunner().invoke(app, list(map(str, arguments)), input=stdin)
    if sentence:
        assert isinstance(done.exception, FairSiloError), done.output
        assert sentence in str(done.exception)
        return ""
    if done.exception:
        raise done.exception
    return done.output


def make_work(tmp_path: Path) -> Path:
    """A working folder with four silos, whose keys lie in the folders at/NAME."""
    make_table(300, silos=3, bias=1.0).drop(columns="client").to_csv(
        tmp_path / "sample.csv", index=False
    )
    arguments = ["--sample", tmp_path / "sample.csv", "--label", "label", "--group", "group"]
    for name in ("bank", "clinic", "shop", "farm"):
        make_key(tmp_path / "at" / name / "node.key", name)
        arguments += ["--silo", f"{name}={tmp_path / 'at' / name / 'node.key.pub'}"]
    run("init", "--folder", tmp_path / "work", *arguments, "--protected-class", "1")
    return tmp_path / "work"


def at(work: Path, name: str) -> Path:
    """The silo's own folder, with all that the coordinator sends."""
    own = work.parent / "at" / name
    for path in (work / "silos" / name).iterdir():
        if path.is_file() and (path.name == FILE or not (own / path.name).exists()):
            (own / path.name).write_bytes(path.read_bytes())
    return own
