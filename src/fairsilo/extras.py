"""The command that adds an optional part, by how fairsilo was installed here."""

import json
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path


def install(extra: str) -> str:
    """A command line, such as pip install 'fairsilo[export]'."""
    parts = Path(sys.prefix).parts
    if "pipx" in parts:
        return f"pipx inject fairsilo 'fairsilo[{extra}]'"
    if "uv" in parts and "tools" in parts:
        return f"uv tool install 'fairsilo[{extra}]'"
    if _from_source():
        return f"pip install -e '.[{extra}]', in the folder of its source"
    return f"pip install 'fairsilo[{extra}]'"


def _from_source() -> bool:
    """Whether it runs from a folder with its source."""
    try:
        told = distribution("fairsilo").read_text("direct_url.json")
    except PackageNotFoundError:
        return False
    return bool(told and json.loads(told).get("dir_info", {}).get("editable"))
