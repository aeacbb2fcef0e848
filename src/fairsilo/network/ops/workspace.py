"""The coordinator's working folder: app, federation file, certificates, scripts, README.

federation.json    the agreement; its fingerprint is compared out of band
app/               the Flower app: two lines of code that load fairsilo
certificates/      ca.pem for everybody, server.pem and its key, the authority's key
keys/              the silos' public keys
start-superlink.sh, register-silos.sh
deploy/            systemd unit, Dockerfile and compose file, also for every silo
control.txt        where the running SuperLink is controlled, on loopback
silos/NAME/        what that silo is sent: nothing in it is secret
former/            earlier federation files, and the folders of silos that left
README.md          for the operators
"""

from __future__ import annotations

import shutil
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from fairsilo import __version__
from fairsilo.data.files import write_atomic
from fairsilo.errors import FairSiloError
from fairsilo.method import METHODS
from fairsilo.network.federation_file import FILE, FederationFile, read_federation_file, readable
from fairsilo.network.masked import agreement_of
from fairsilo.network.member import Member, read_parties
from fairsilo.network.ops import texts
from fairsilo.network.ops.bundle import app_files
from fairsilo.network.ops.certificates import CA, CA_KEY, make_certificates, renew
from fairsilo.network.ops.deploy import silo_files, superlink_files
from fairsilo.network.settings import ANSWERS
from fairsilo.progress import locked

ADDRESS = "address.txt"
CONTROL = "control.txt"
CHANGES = "another command changes {folder}{process}: wait until it is done"
SHORT = 16
"""Digits of its fingerprint in the name of an earlier federation file."""


@dataclass(frozen=True)
class Workspace:
    """The folder, opened."""

    folder: Path

    def __post_init__(self) -> None:
        # Flower's commands run inside the folder, where a relative path would point elsewhere.
        object.__setattr__(self, "folder", self.folder.resolve())

    @property
    def agreed(self) -> FederationFile:
        """The federation file."""
        return read_federation_file(self.federation)

    @property
    def federation(self) -> Path:
        """Where the federation file is."""
        return self.folder / FILE

    @property
    def app(self) -> Path:
        """The Flower app."""
        return self.folder / "app"

    @property
    def certificates(self) -> Path:
        """The certificates and their keys."""
        return self.folder / "certificates"

    @property
    def address(self) -> str:
        """host:port at which silos find the SuperLink."""
        try:
            return (self.folder / ADDRESS).read_text().strip()
        except OSError:
            raise FairSiloError(
                f"{self.folder} is not a working folder: make one with `fairsilo flower init`"
            ) from None

    @property
    def control(self) -> str:
        """host:port on loopback at which the running SuperLink is controlled; else empty."""
        try:
            return (self.folder / CONTROL).read_text().strip()
        except OSError:
            return ""

    def say_control(self, address: str) -> None:
        """Write `control` down; a reader sees all of it or nothing."""
        new = self.folder / f"{CONTROL}.new"
        new.write_text(f"{address}\n")
        new.replace(self.folder / CONTROL)

    @property
    def former(self) -> Path:
        """Earlier federation files, and what was sent to silos that left."""
        return self.folder / "former"

    @property
    def earlier(self) -> list[tuple[Member, ...]]:
        """The parties of the federation files before this one; what cannot be read is told."""
        # A silo that left has a folder there, under whatever name it had.
        named = f"federation-{'[0-9a-f]' * SHORT}.json"
        found = []
        for path in sorted(one for one in self.former.glob(named) if one.is_file()):
            try:
                found.append(read_parties(path))
            except FairSiloError as error:
                print(f"fairsilo: {error}", file=sys.stderr, flush=True)
        return found

    def silo(self, name: str) -> Path:
        """What silo `name` is sent."""
        return self.folder / "silos" / name


def make_workspace(folder: Path, agreed: FederationFile, host: str, port: int) -> Workspace:
    """Write the folder; one that has a federation file already is not touched."""
    if (folder / FILE).exists():
        raise FairSiloError(f"{folder} has a federation file already: choose another folder")
    space = Workspace(folder)
    space.app.mkdir(parents=True, exist_ok=True)
    make_certificates(space.certificates, host)
    _write(folder / ADDRESS, "@address@\n", {"address": _address(host, port)})
    fill = _fill(agreed, space.address)
    write_app(space)
    _script(folder / "start-superlink.sh", texts.START_SUPERLINK, fill)
    _script(folder / "register-silos.sh", texts.REGISTER, fill)
    _write_members(space, agreed)
    return space


def changing(space: Workspace) -> AbstractContextManager[None]:
    """Hold the folder while it is changed: two changes at once would lose one of them."""
    # Where it is no working folder the address says so, and no lock is left there.
    assert space.address
    return locked(space.folder, "changes", CHANGES)


def renew_certificates(space: Workspace, host: str | None, ca_key: Path | None) -> bool:
    """A new server certificate, for another host if one is given, in the whole folder.

    Whether the authority's was made anew, too, and every silo needs its ca.pem.
    """
    with changing(space):
        return _renew(space, host, ca_key)


def _renew(space: Workspace, host: str | None, ca_key: Path | None) -> bool:
    agreed, (before, _, port) = space.agreed, space.address.rpartition(":")
    host = host or before.strip("[]")
    anew = renew(space.certificates, host, ca_key or space.certificates / CA_KEY)
    old, address = space.address, _address(host, int(port))
    settings = [space.silo(one.name) / "silo.toml" for one in agreed.parties]
    # Whatever else their owners changed in them stays.
    for path in (*settings, space.folder / "start-superlink.sh"):
        if path.exists() and old in (text := path.read_text()):
            new = text.replace(f'"{old}"', f'"{address}"').replace(f"at {old}\n", f"at {address}\n")
            write_atomic(path, new.encode(), path.stat().st_mode & 0o777)
    write_atomic(space.folder / ADDRESS, f"{address}\n".encode())
    _write_members(space, agreed)
    return anew


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def write_app(space: Workspace) -> None:
    """The app of the fairsilo that is installed here: silos refuse any other."""
    for path, text in app_files().items():
        place = space.app / path
        if not place.exists() or place.read_text() != text:
            write_atomic(place, text.encode())


def next_file(space: Workspace, agreed: FederationFile) -> None:
    """Go over to another federation file; the one before it is kept in former/."""
    before = space.agreed
    if agreed.secure_aggregation:
        agreement_of(agreed, "next")
    _write(space.former / f"federation-{before.fingerprint[:SHORT]}.json", before.text, {})
    names = [{one.name for one in file.parties} for file in (before, agreed)]
    for name in names[0] - names[1]:
        # It may hold more than what was written here: the demo's silos live in theirs.
        if space.silo(name).exists():
            space.silo(name).rename(_unused(space.former / name))
        (space.folder / "keys" / f"{name}.pub").unlink(missing_ok=True)
    _write_members(space, agreed)


def _write_members(space: Workspace, agreed: FederationFile) -> None:
    """All that depends on who takes part; a silo's settings are written once."""
    fill = _fill(agreed, space.address)
    for one in agreed.parties:
        own = space.silo(one.name)
        _write(space.folder / "keys" / f"{one.name}.pub", "@key@\n", {"key": one.public_key})
        _write(own / FILE, agreed.text, {})
        shutil.copy(space.certificates / CA, own / CA)
        role = "silo" if one in agreed.silos else "witness"
        fill_own = {**fill, "silo": one.name, "role": role}
        fill_own["plain"] = str(not agreed.secure_aggregation).lower()
        settings = texts.SILO_SETTINGS if role == "silo" else texts.WITNESS_SETTINGS
        if not (own / "silo.toml").exists():
            _write(own / "silo.toml", settings, fill_own)
        write_start(own, role)
        _write_deploy(own, silo_files(fill_own))
    _write_deploy(space.folder, superlink_files(fill))
    _write(space.folder / "README.md", texts.README, fill)
    # Last: a folder with a federation file is complete.
    write_atomic(space.federation, agreed.text.encode())


def write_start(own: Path, role: str) -> Path:
    """The script that starts a silo's or a witness's program, in its folder."""
    path = own / f"start-{role}.sh"
    _script(path, texts.START_SILO, {"role": role})
    return path


def _fill(agreed: FederationFile, address: str) -> dict[str, str]:
    """What stands for the @places@ of the texts."""
    return {
        "name": agreed.name,
        "version": __version__,
        "address": address,
        "fingerprint": readable(agreed.fingerprint),
        "silos": " ".join(agreed.names),
        "witnesses": _watched(agreed),
        "privacy": texts.SECURE if agreed.secure_aggregation else texts.PLAIN,
        "extras": "flower",
        "methods": ", ".join(f'"{name}"' for name in (*METHODS, "audit")),
        "answers": str(max(ANSWERS, 2 * agreed.questions)),
        "budget": "# dp_budget_epsilon = 4.0\n# dp_budget_delta = 1e-5",
        **_private(agreed),
    }


def _watched(agreed: FederationFile) -> str:
    """What the README says of witnesses."""
    if not agreed.witnesses:
        return texts.NO_WITNESS
    names = ", ".join(one.name for one in agreed.witnesses)
    return f"Witnesses: {names}; {agreed.signers} of them must sign every question of a training."


def _write_deploy(folder: Path, files: dict[str, str]) -> None:
    """Written once: their owners change them."""
    for name, text in files.items():
        if not (folder / "deploy" / name).exists():
            _write(folder / "deploy" / name, text, {})


def _unused(path: Path) -> Path:
    """The path, or where it is taken one like it."""
    again = (path.with_name(f"{path.name}-{k}") for k in range(2, 1000))
    found = next(one for one in (path, *again) if not one.exists())
    found.parent.mkdir(parents=True, exist_ok=True)
    return found


def _private(agreed: FederationFile) -> dict[str, str]:
    """What differential privacy changes in the files: a silo's budget begins as that of one run."""
    if agreed.dp is None:
        return {}
    epsilon, delta = agreed.dp.epsilon, agreed.dp.delta
    words = texts.PRIVATE.replace("@epsilon@", f"{epsilon:g}").replace("@delta@", f"{delta:g}")
    return {
        "privacy": f"{texts.SECURE if agreed.secure_aggregation else texts.PLAIN} {words}",
        "extras": "flower,privacy",
        "budget": f"dp_budget_epsilon = {epsilon}\ndp_budget_delta = {delta}",
    }


def _write(path: Path, template: str, fill: dict[str, str]) -> None:
    text = template
    for key, value in fill.items():
        text = text.replace(f"@{key}@", value)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _script(path: Path, template: str, fill: dict[str, str]) -> None:
    _write(path, template, fill)
    path.chmod(0o755)
