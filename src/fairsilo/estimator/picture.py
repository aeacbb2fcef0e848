"""Pages of a fit, which notebooks show and `save` writes: `clf.plot()`, `clf.report()`."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from fairsilo.data import write_atomic
from fairsilo.errors import FairSiloError
from fairsilo.report.blocks import page
from fairsilo.report.sections.terms import terms


class Page:
    """A page of HTML that loads nothing."""

    def __init__(self, html: str) -> None:
        self.html = html

    def __repr__(self) -> str:
        return f"<a page of {len(self.html) // 1000} kB: a notebook shows it, save(path) writes it>"

    def save(self, path: str | Path) -> None:
        """Write one HTML file, which loads nothing."""
        write_atomic(Path(path), self.html.encode())

    def _repr_html_(self) -> str:
        """For notebooks: in a frame, so that the page's style stays in it."""
        return (
            f'<iframe srcdoc="{escape(self.html)}" width="100%" height="800" '
            'style="border:0"></iframe>'
        )


class Text(str):
    """Markdown, which notebooks show as it is meant."""

    def _repr_markdown_(self) -> str:
        return str(self)


class Picture(Page):
    """A page of its own: the section of the report that shows every term."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        """`description` is as in model.json."""
        section = terms(description)
        if section is None:
            raise FairSiloError(
                "there are no terms to draw: fit with `model` lr or additive, by a `method` that "
                "ends with one model"
            )
        super().__init__(page(f"A model of {description['schema']['label']}", [section]))
