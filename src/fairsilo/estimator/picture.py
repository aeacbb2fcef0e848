"""`clf.plot()`: the terms of a model as a page, which notebooks show and `save` writes."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from fairsilo.data import write_atomic
from fairsilo.errors import FairSiloError
from fairsilo.report.blocks import page
from fairsilo.report.sections.terms import terms


class Picture:
    """A page of its own: the section of the report that shows every term."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        """`description` is as in model.json."""
        section = terms(description)
        if section is None:
            raise FairSiloError(
                "there are no terms to draw: fit with `model` lr or additive for two classes, by a "
                "`method` that ends with one model"
            )
        self.html = page(f"A model of {description['schema']['label']}", [section])

    def save(self, path: str | Path) -> None:
        """Write one HTML file, which loads nothing."""
        write_atomic(Path(path), self.html.encode())

    def _repr_html_(self) -> str:
        """For notebooks: in a frame, so that the page's style stays in it."""
        return (
            f'<iframe srcdoc="{escape(self.html)}" width="100%" height="800" '
            'style="border:0"></iframe>'
        )
