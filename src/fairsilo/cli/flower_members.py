"""`fairsilo flower`: silos that join, leave and change keys; certificates; a silo's backup."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fairsilo.network.federation_file import FederationFile
    from fairsilo.network.ops.workspace import Workspace
    from fairsilo.network.settings import Settings

Folder = Annotated[Path, typer.Option(help="Working folder that `flower init` wrote.")]
Own = Annotated[Path, typer.Option("--settings", help="The silo's settings.")]
NEXT = """\
what is next:
  - send every silo its federation.json (folder silos/NAME); each puts it into its folder, compares
    the fingerprint with the others by telephone, and says yes to it with `fairsilo flower approve`
  - at the SuperLink that runs: ./register-silos.sh"""
NEXT_START = """\
what is next:
  - end the SuperLink and start it again: it reads the certificate then, and silos come back"""
NEW_AUTHORITY = """\
  - the authority's certificate is new, too, with the same key: send every silo its ca.pem (folder
    silos/NAME) before the old one ends"""
NEW_ADDRESS = """\
  - every silo writes superlink = "{address}" into its silo.toml and starts its program again"""
ALONE = """\
  - behind masks, silos refuse to count the rows again that they counted with or without {who}: the
    difference would be that one's. The next run needs new rows in every silo that stays, or a
    second silo that comes or goes likewise, or `recount`, by which all agree to show it"""


def keygen(
    out: Annotated[Path, typer.Option(help="Where the private key goes.")] = Path("node.key"),
    name: Annotated[str, typer.Option(help="The silo's name, a comment in the key.")] = "silo",
    passphrase: Annotated[
        bool,
        typer.Option(help="Lock the key with a passphrase: FAIRSILO_KEY_PASSPHRASE, or typed."),
    ] = False,
    passphrase_file: Annotated[
        Path | None, typer.Option(help="Lock the key with the passphrase in this file.")
    ] = None,
) -> None:
    """Make a silo's key, AT the silo: the private half never leaves it."""
    from fairsilo.cli.flower import needs_flower

    needs_flower()
    from fairsilo.network.ops.keys import make_key, read_passphrase
    from fairsilo.secagg.keys import PASSPHRASE

    word = ""
    if passphrase_file is not None:
        word = read_passphrase(passphrase_file)
    elif passphrase:
        word = os.environ.get(PASSPHRASE) or typer.prompt(
            "Passphrase", hide_input=True, confirmation_prompt=True, err=True
        )
    make_key(out, name, word)
    print(f"private key: {out} (keep it here{', and its passphrase elsewhere' if word else ''})")
    print(f"public key:  {out}.pub (send it to the coordinator)")


def unlocked(settings: Path) -> Settings:
    """A silo's settings; where its key has a passphrase, it is looked up or asked for once."""
    from fairsilo.network.ops.keys import unlock
    from fairsilo.network.settings import read_settings

    own = read_settings(settings)
    unlock(own.key, own.passphrase_file, _ask if sys.stdin.isatty() else None)
    return own


def _ask(what: str) -> str:
    return str(typer.prompt(what, hide_input=True, err=True))


def add(
    name: Annotated[str, typer.Argument(help="The silo or witness that joins.")],
    key: Annotated[Path, typer.Option(help="Its public key, as `flower keygen` wrote it.")],
    witness: Annotated[
        bool, typer.Option("--witness", help="It is a witness, who has no rows and signs.")
    ] = False,
    folder: Folder = Path(),
) -> None:
    """Let a silo or a witness join: writes the next federation file and the folder for it."""
    from fairsilo.network.ops import members

    space = _space(folder)
    before = space.agreed
    _told(before, members.add(space, name, key, witness))
    role = "witness" if witness else "silo"
    print(
        f"  - {role} {name}: send it the folder {space.silo(name)}, and see README.md there above"
    )


def remove(
    name: Annotated[str, typer.Argument(help="The silo or witness that leaves.")],
    folder: Folder = Path(),
) -> None:
    """Let a silo or a witness leave: the next federation file; its folder goes to former/."""
    from fairsilo.network.ops import members
    from fairsilo.network.ops.control import unregister_former
    from fairsilo.network.ops.runs import controlled

    space = _space(folder)
    before = space.agreed
    _told(before, members.remove(space, name))
    print(f"  - {name} is asked nothing any more. What models owe it: docs/leaving.md")
    if controlled(space):
        unregister_former(space)
        print(f"  - the SuperLink refuses {name}'s key from now on")
    else:
        print(f"  - no SuperLink runs here: it refuses {name}'s key from its next start on")


def accept_key(
    file: Annotated[Path, typer.Argument(help="What `flower rotate-key` wrote at the silo.")],
    folder: Folder = Path(),
) -> None:
    """Take a silo's or a witness's new key, AT the coordinator: writes the next federation file."""
    from fairsilo.network.ops import members

    space = _space(folder)
    before = space.agreed
    name, after = members.accept(space, file)
    _told(before, after)
    print(f"  - {name}: `fairsilo flower rotate-key` again, with the new federation.json in place")


def renew(
    host: Annotated[
        str | None, typer.Option(help="The SuperLink's new name or address; default as it is.")
    ] = None,
    ca_key: Annotated[
        Path | None,
        typer.Option(help="The authority's key; default certificates/ca.key in the folder."),
    ] = None,
    folder: Folder = Path(),
) -> None:
    """Sign a new server certificate, before the old one ends or for another host."""
    space = _space(folder)
    from fairsilo.network.ops.certificates import SERVER, last_day
    from fairsilo.network.ops.workspace import renew_certificates

    before = space.address
    anew = renew_certificates(space, host, ca_key)
    until = last_day(space.certificates / SERVER)
    print(f"the server's certificate for {space.address} is valid until {until}")
    print(NEXT_START)
    if anew:
        print(NEW_AUTHORITY)
    if space.address != before:
        print(NEW_ADDRESS.format(address=space.address))


def rotate_key(settings: Own = Path("silo.toml")) -> None:
    """Change a silo's or a witness's key, AT its place: run it, send the file, run it again."""
    from fairsilo.cli.flower import needs_flower

    needs_flower()
    from fairsilo.network.ops.members import rotate

    own = unlocked(settings)
    found = rotate(own, settings.resolve().parent)
    if found.done:
        print(f"the new key is now {own.key}: start the silo again, and remove the old one later")
        return
    print(f"new key: {own.key}.new (keep it here; until the change is done {own.key} stays in use)")
    print(f"send {found.file} to the coordinator, for `fairsilo flower accept-key`")
    print("then put the new federation.json here and run this command again")


def _space(folder: Path) -> Workspace:
    from fairsilo.cli.flower import needs_flower

    needs_flower()
    from fairsilo.network.ops.workspace import Workspace

    return Workspace(folder)


def _told(before: FederationFile, after: FederationFile) -> None:
    from fairsilo.network.federation_file import readable
    from fairsilo.network.ops.members import loners

    print(f"silos:       {', '.join(after.names)}")
    if after.witnesses:
        print(f"witnesses:   {', '.join(one.name for one in after.witnesses)}")
    print(f"fingerprint: {readable(after.fingerprint)}")
    print(NEXT)
    alone = loners(before, after)
    if alone and after.secure_aggregation and not after.recount:
        print(ALONE.format(who=" and ".join(alone)))


def backup(
    file: Annotated[Path, typer.Argument(help="The file to write, readable by its owner alone.")],
    settings: Own = Path("silo.toml"),
) -> None:
    """Save a silo's settings, key, ledger and own records in one file; its rows are not in it."""
    from fairsilo.network.ops.backup import save

    names = save(settings, file)
    print(f"{file}: {', '.join(names)}")
    print("it holds the private key: keep it as the key; the table is not in it")


def restore(
    file: Annotated[Path, typer.Argument(help="What `flower backup` wrote.")],
    folder: Annotated[Path, typer.Option(help="The silo's folder.")] = Path(),
) -> None:
    """Put a silo's backup back; a ledger that has counted more than the backup's stays."""
    from fairsilo.network.ops.backup import restore as put_back

    found = put_back(file, folder)
    for name, what in found.files.items():
        print(f"{name}: {what}")
    if found.ledger_since is not None:
        print(
            f"the ledger is as it was on {found.ledger_since}: what was released later is not "
            "counted in it. If there were runs since, lower dp_budget_epsilon by what they cost"
        )
