"""Keys, certificates, federation file, working folder: contents, permissions, mistakes."""

from __future__ import annotations

import json
import ssl
import stat
import subprocess
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from flwr.cli.build import build_fab_from_disk
from flwr.common.config import validate_config
from typer.testing import CliRunner

from fairsilo.cli.flags import as_typed
from fairsilo.cli.flower import app
from fairsilo.data import infer_schema, make_table
from fairsilo.dp import Budget, Release
from fairsilo.errors import FairSiloError
from fairsilo.network.federation_file import FILE, FederationFile, read_federation_file, readable
from fairsilo.network.ledger import spend
from fairsilo.network.member import Member
from fairsilo.network.ops.bundle import digest, own_digest
from fairsilo.network.ops.certificates import make_certificates
from fairsilo.network.ops.draft import member
from fairsilo.network.ops.keys import make_key, silo_names
from fairsilo.network.ops.workspace import Workspace
from fairsilo.network.settings import read_settings
from fairsilo.secagg.keys import read_public_key
from tests.network.silos import bounded

runner = CliRunner()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def consortium(tmp_path: Path) -> tuple[Path, list[str]]:
    """A sample table and three silos with keys, as arguments of `init`."""
    frame = make_table(300, silos=3, bias=1.0)
    frame.drop(columns="client").to_csv(tmp_path / "sample.csv", index=False)
    arguments = ["--sample", str(tmp_path / "sample.csv"), "--label", "label", "--group", "group"]
    arguments += ["--protected-class", "1"]
    for name in ("bank", "clinic", "shop"):
        make_key(tmp_path / "at" / name / "node.key", name)
        arguments += ["--silo", f"{name}={tmp_path / 'at' / name / 'node.key.pub'}"]
    return tmp_path, arguments


def run(*arguments: str) -> Any:
    return runner.invoke(app, list(arguments), catch_exceptions=True)


def test_a_private_key_is_its_owners_alone_and_never_overwritten(tmp_path: Path) -> None:
    line = make_key(tmp_path / "node.key", "bank")
    assert mode(tmp_path / "node.key") == 0o600
    assert line.startswith("ecdsa-sha2-nistp384 ")
    assert line.endswith(" bank")
    read_public_key("bank", line)
    with pytest.raises(FairSiloError, match="exists already"):
        make_key(tmp_path / "node.key", "bank")


@pytest.mark.process
def test_ssh_keygen_reads_the_key(tmp_path: Path) -> None:
    make_key(tmp_path / "node.key", "bank")
    try:
        done = subprocess.run(
            ["ssh-keygen", "-y", "-f", str(tmp_path / "node.key")],
            capture_output=True,
            text=True,
            check=True,
        )
    except FileNotFoundError:
        pytest.skip("ssh-keygen is not installed")
    assert done.stdout.split()[:2] == (tmp_path / "node.key.pub").read_text().split()[:2]


def test_certificates_hold_for_the_host_and_loopback(tmp_path: Path) -> None:
    make_certificates(tmp_path, "hub.example.org")
    for name in ("ca.key", "server.key"):
        assert mode(tmp_path / name) == 0o600
    server = x509.load_pem_x509_certificate((tmp_path / "server.pem").read_bytes())
    authority = x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes())
    server.verify_directly_issued_by(authority)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "hub.example.org" in names.get_values_for_type(x509.DNSName)
    assert "127.0.0.1" in map(str, names.get_values_for_type(x509.IPAddress))
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    assert context.get_ca_certs()
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
        tmp_path / "server.pem", tmp_path / "server.key"
    )


def test_a_node_is_known_by_its_key_alone(consortium: tuple[Path, list[str]]) -> None:
    folder, arguments = consortium
    run("init", "--folder", str(folder / "work"), *arguments)
    agreed = read_federation_file(folder / "work" / FILE)
    name = silo_names(agreed.parties)
    line = (folder / "at" / "clinic" / "node.key.pub").read_text()
    pem = read_public_key("clinic", line).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert name(SimpleNamespace(public_key=pem)) == "clinic"
    make_key(folder / "other", "bank")
    other = read_public_key("bank", (folder / "other.pub").read_text()).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert name(SimpleNamespace(public_key=other)) is None
    assert name(SimpleNamespace(public_key=b"")) is None


@pytest.mark.process
@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
def test_init_writes_a_working_folder_that_flower_accepts(
    consortium: tuple[Path, list[str]],
) -> None:
    folder, arguments = consortium
    done = run("init", "--folder", str(folder / "work"), *arguments, "--epsilon", "0.1")
    assert done.exit_code == 0, done.output
    space = Workspace(folder / "work")
    agreed = space.agreed
    assert agreed.secure_aggregation
    assert agreed.epsilon == 0.1
    assert agreed.names == ("bank", "clinic", "shop")
    assert all(f.other for f in agreed.table.features if f.kind == "category")
    assert readable(agreed.fingerprint) in done.output
    assert readable(agreed.fingerprint) in (space.folder / "README.md").read_text()
    assert "@" not in (space.folder / "start-superlink.sh").read_text().replace('"$@"', "")
    config = tomllib.loads((space.app / "pyproject.toml").read_text())
    valid, errors, _ = validate_config(config, True, space.app)
    assert valid, errors
    # What `flwr run` sends is what the silos' own fairsilo expects.
    assert digest(build_fab_from_disk(space.app)) == own_digest()
    for name in agreed.names:
        own = space.silo(name)
        assert read_federation_file(own / FILE).fingerprint == agreed.fingerprint
        assert mode(own / "start-silo.sh") & 0o111
        assert read_settings(own / "silo.toml").superlink == space.address
        assert not list(own.glob("*.key"))
    for script in [*space.folder.glob("*.sh"), *space.folder.glob("silos/*/*.sh")]:
        subprocess.run(["sh", "-n", str(script)], check=True)
    private = [p for p in space.folder.rglob("*") if p.is_file() and b"PRIVATE" in p.read_bytes()]
    assert {p.name for p in private} == {"ca.key", "server.key"}
    assert all(mode(p) == 0o600 for p in private)


def test_the_fingerprint_depends_on_every_field(consortium: tuple[Path, list[str]]) -> None:
    folder, arguments = consortium
    run("init", "--folder", str(folder / "work"), *arguments)
    agreed = read_federation_file(folder / "work" / FILE)
    changes: dict[str, Any] = {
        "epsilon": 0.06,
        "method": "fedavg",
        "after": "lco",
        "notion": "equalized-odds",
        "against": "rest",
        "pool": 3,
        "epsilons": (("g0:g1", 0.1),),
        "target_deo": 0.1,
        "target_by": "search",
        "protected_class": "all",
        "groups": ("g1", "g0"),
        "hidden": (),
        "secure_aggregation": False,
        "recount": True,
        "minimum_silos": 3,
        "silos": agreed.silos[::-1],
        "seed": 1,
    }
    prints = {agreed.model_copy(update={k: v}).fingerprint for k, v in changes.items()}
    assert len(prints | {agreed.fingerprint}) == len(changes) + 1
    assert FederationFile.model_validate_json(agreed.text).fingerprint == agreed.fingerprint


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        (["--method", "fedprox"], "--method 'fedprox' is unknown"),
        (["--after", "lco"], "--after is for methods that repair a trained model"),
        (["--method", "af", "--model", "mlp"], "method af is for the model lr"),
        (["--method", "af", "--notion", "equalized-odds"], "there are 2 pairs"),
        (["--method", "eo", "--after", "af", "--model", "mlp"], "method af is for the model lr"),
        (["--method", "ceo", "--protected-class", "all"], "method ceo compares two groups"),
        (["--method", "lco", "--solver", "lbfgs"], "solved by newton and not by lbfgs"),
        (["--method", "lco", "--epsilon", "0.1,g0:g1=0.2"], "for --method fedfair"),
        (["--epsilon", "0.1,g0:g7=0.2"], "which is not compared"),
        (["--epsilon", "-1"], "--epsilon"),
        (["--protected-class", "7"], "--protected-class '7' is not a class"),
        (["--groups", "g0"], "at least two"),
        (["--silo", "bank"], "NAME=PUBLIC_KEY_FILE"),
        (["--silo", "x=nowhere.pub"], "cannot read the public key"),
        (["--minimum-silos", "9"], "more than there are silos"),
        (["--threshold", "1"], "threshold 1 must be"),
        (["--data", "adult"], "give one of --sample TABLE"),
        (["--split", "label"], "split column"),
    ],
)
def test_mistakes_at_init_are_one_sentence(
    consortium: tuple[Path, list[str]], extra: list[str], told: str
) -> None:
    folder, arguments = consortium
    done = run("init", "--folder", str(folder / "work"), *arguments, *extra)
    assert isinstance(done.exception, FairSiloError)
    assert told in as_typed(str(done.exception))
    assert not (folder / "work").exists()


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (["--method", "st"], {"method": "st", "hidden": ("group",)}),
        (["--method", "eo", "--after", "lco"], {"method": "eo", "after": "lco"}),
        (["--method", "ceo"], {"method": "ceo", "after": None}),
        (["--method", "af"], {"method": "af", "rounds": 600}),
        (["--notion", "demographic-parity"], {"notion": "demographic-parity"}),
        (["--target-deo", "0.1", "--target-by", "search"], {"target_deo": 0.1, "rounds": 150}),
        (["--epsilon", "0.1,g0:g1=0.2"], {"epsilon": 0.1, "epsilons": (("g0:g1", 0.2),)}),
        (["--group", "group,c0", "--pool", "20"], {"pool": 20, "hidden": ("group", "c0")}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_every_training_can_be_agreed_on(
    consortium: tuple[Path, list[str]], extra: list[str], expected: dict[str, Any]
) -> None:
    folder, arguments = consortium
    done = run("init", "--folder", str(folder / "work"), *arguments, *extra)
    assert done.exit_code == 0, done.exception
    own = folder / "work" / "silos" / "bank"
    agreed = read_federation_file(own / FILE)
    assert {key: getattr(agreed, key) for key in expected} == expected
    assert agreed.text == (own / FILE).read_text()
    (own / "node.key").write_bytes((folder / "at" / "bank" / "node.key").read_bytes())
    (own / "node.key").chmod(0o600)
    pd.read_csv(folder / "sample.csv").to_csv(own / "table.csv", index=False)
    done = run("check", "--settings", str(own / "silo.toml"))
    assert done.exit_code == 0, done.output
    assert "300 rows fit" in done.output


def test_a_private_key_given_to_init_is_refused(consortium: tuple[Path, list[str]]) -> None:
    folder, arguments = consortium
    arguments[-1] = f"shop={folder / 'at' / 'shop' / 'node.key'}"
    done = run("init", "--folder", str(folder / "work"), *arguments)
    assert "is a PRIVATE key, which must stay at the silo" in str(done.exception)


def test_two_silos_are_too_few_for_secure_aggregation(consortium: tuple[Path, list[str]]) -> None:
    folder, arguments = consortium
    done = run("init", "--folder", str(folder / "work"), *arguments[:-2])
    assert "add silos or train with --no-secure-aggregation" in as_typed(str(done.exception))
    done = run("init", "--folder", str(folder / "w"), *arguments[:-2], "--no-secure-aggregation")
    assert done.exit_code == 0
    assert "the server sees every silo's own sums" in done.output
    assert "OFF" in (folder / "w" / "README.md").read_text()


def test_a_working_folder_is_not_overwritten(consortium: tuple[Path, list[str]]) -> None:
    folder, arguments = consortium
    run("init", "--folder", str(folder / "work"), *arguments)
    before = (folder / "work" / FILE).read_bytes()
    done = run("init", "--folder", str(folder / "work"), *arguments)
    assert "has a federation file already" in str(done.exception)
    assert (folder / "work" / FILE).read_bytes() == before


@pytest.mark.slow
def test_check_at_the_silo(consortium: tuple[Path, list[str]]) -> None:
    folder, arguments = consortium
    run("init", "--folder", str(folder / "work"), *arguments)
    own = folder / "work" / "silos" / "bank"
    done = run("check", "--settings", str(own / "silo.toml"))
    assert done.exit_code == 1
    assert "there is no file" in done.output
    assert "make one with keygen" in done.output
    (own / "node.key").write_bytes((folder / "at" / "bank" / "node.key").read_bytes())
    pd.read_csv(folder / "sample.csv").to_csv(own / "table.csv", index=False)
    done = run("check", "--settings", str(own / "silo.toml"))
    assert "others can read the private key node.key" in done.output
    (own / "node.key").chmod(0o600)
    done = run("check", "--settings", str(own / "silo.toml"))
    assert done.exit_code == 0, done.output
    assert "300 rows fit" in done.output
    assert readable(read_federation_file(own / FILE).fingerprint) in done.output


def test_keygen_says_what_to_send(tmp_path: Path) -> None:
    done = run("keygen", "--out", str(tmp_path / "node.key"), "--name", "bank")
    assert done.exit_code == 0
    assert "keep it here" in done.output
    assert "PRIVATE" not in done.output
    assert mode(tmp_path / "node.key") == 0o600


@pytest.mark.parametrize("command", [["run"], ["register"], ["audit", "--model", "x"]])
def test_a_folder_that_is_none_is_one_sentence(tmp_path: Path, command: list[str]) -> None:
    done = run(*command, "--folder", str(tmp_path))
    assert isinstance(done.exception, FairSiloError)
    assert "cannot read the federation file" in str(done.exception)


def test_a_damaged_federation_file_is_one_sentence(tmp_path: Path) -> None:
    damaged: list[Any] = [{"format": 2}, {}, []]
    for content in damaged:
        (tmp_path / FILE).write_text(json.dumps(content))
        with pytest.raises(FairSiloError, match="not a valid federation file"):
            read_federation_file(tmp_path / FILE)


def test_a_federation_file_of_another_format_is_one_sentence(tmp_path: Path) -> None:
    for other in (1, 3):
        (tmp_path / FILE).write_text(json.dumps({"format": other}))
        told = f"of format {other} and this version of fairsilo reads format 2: make it anew"
        with pytest.raises(FairSiloError, match=told):
            read_federation_file(tmp_path / FILE)


def test_a_demo_does_not_write_over_files(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    done = run("demo", "--out", str(tmp_path))
    assert "is not empty" in str(done.exception)
    done = run("demo", "--out", str(tmp_path / "new"), "--silos", "1")
    assert "at least 2" in str(done.exception)


def test_twins_are_refused(consortium: tuple[Path, list[str]]) -> None:
    folder, arguments = consortium
    arguments += ["--silo", f"bank2={folder / 'at' / 'bank' / 'node.key.pub'}"]
    done = run("init", "--folder", str(folder / "work"), *arguments)
    assert "two silos have the same public key" in str(done.exception)


def test_keys_of_other_kinds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0n0n")
    with pytest.raises(FairSiloError, match=r"`silo` a: .*a\.pub is not an ECDSA key"):
        member("a", tmp_path / "a.pub")
    agreed = {"name": "a b", "public_key": "x"}
    with pytest.raises(ValueError, match="pattern"):
        Member.model_validate(agreed)


@pytest.mark.slow
def test_differential_privacy_is_agreed_on_and_budgeted(
    consortium: tuple[Path, list[str]],
) -> None:
    folder, arguments = consortium
    sample = folder / "sample.csv"
    frame = pd.read_csv(sample).assign(part="train")
    frame.loc[::8, "part"] = "test"
    frame.to_csv(sample, index=False)
    private = ["--split", "part", "--dp-epsilon", "4"]
    done = run("init", "--folder", str(folder / "work"), *arguments, *private)
    assert "must not be read off the rows of `sample`" in str(done.exception)
    schema = bounded(infer_schema(frame, label="label", group="group", exclude=["part"]))
    (folder / "schema.json").write_text(schema.model_dump_json())
    declared = ["--schema", str(folder / "schema.json"), *arguments[arguments.index("--silo") :]]
    declared += ["--protected-class", "1"]
    done = run("init", "--folder", str(folder / "work"), *declared, *private)
    assert done.exit_code == 0, done.exception
    own = folder / "work" / "silos" / "bank"
    agreed = read_federation_file(own / FILE)
    assert agreed.dp is not None
    assert (agreed.dp.epsilon, agreed.rounds) == (4.0, 6)
    assert "(4, 1e-05)-differentially private" in (folder / "work" / "README.md").read_text()
    (own / "node.key").write_bytes((folder / "at" / "bank" / "node.key").read_bytes())
    (own / "node.key").chmod(0o600)
    frame.to_csv(own / "table.csv", index=False)
    done = run("check", "--settings", str(own / "silo.toml"))
    assert done.exit_code == 0, done.output
    assert "a run spends (4, 1e-05)" in done.output
    assert "epsilon 0 of this silo's 4 is spent in 0 releases" in done.output
    settings = read_settings(own / "silo.toml")
    spend(settings.ledger, Budget(4.0, 1e-5), [Release("counts", 5.0)])
    done = run("check", "--settings", str(own / "silo.toml"))
    assert done.exit_code == 0, "a node that crashed must come back to finish its run"
    assert "another whole run would pass this silo's privacy budget" in done.output
