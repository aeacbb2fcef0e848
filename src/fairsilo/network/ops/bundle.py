"""The Flower app of a federation, as files and as the bundle (FAB) that Flower makes of them.

It is the same for all federations of one version of fairsilo, and Flower builds it reproducibly:
so a silo tells by a digest whether the app that came is the one of its own fairsilo.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import fairsilo
from fairsilo import __version__
from fairsilo.network.ops import texts


def app_files() -> dict[str, str]:
    """The app's files by their path in its folder."""
    return {
        "pyproject.toml": texts.PYPROJECT.replace("@version@", __version__),
        "fairsilo_app/__init__.py": texts.APP_INIT,
        "fairsilo_app/client_app.py": texts.CLIENT_APP,
        "fairsilo_app/server_app.py": texts.SERVER_APP,
    }


def digest(bundle: bytes) -> str:
    """By what bundles are compared: computed here, never taken from the server."""
    return hashlib.sha256(bundle).hexdigest()


def own_digest() -> str:
    """That of the app of the installed fairsilo, as the installed Flower bundles it."""
    from flwr.cli.build import build_fab_from_files

    files = {path: text.encode() for path, text in app_files().items()}
    return digest(build_fab_from_files(files)[0])


@functools.cache
def code_digest() -> str:
    """Of all Python files of the installed fairsilo: that code answers, whatever was sent."""
    home = Path(fairsilo.__file__).parent
    total = hashlib.sha256()
    for path in sorted(home.rglob("*.py")):
        total.update(str(path.relative_to(home)).encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def refusal(came: str, own: str) -> str:
    """Why a bundle with the digest `came` is refused; nothing if it is the silo's own app."""
    if came == own:
        return ""
    return (
        f"this silo answers only the app of its own fairsilo {__version__} ({own[:12]}), and the "
        f"one that came is another ({came[:12]}), of which nothing was run: use the same version "
        "of fairsilo and Flower everywhere, and an app folder as `fairsilo flower init` writes it"
    )
