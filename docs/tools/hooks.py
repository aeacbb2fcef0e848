"""What MkDocs does not do by itself: equations, the command line's pages, pages to come.

- Equations are turned into MathML while building, so that a page needs no script from elsewhere.
- `<!-- command line -->` becomes the reference of every command, from the program itself.
- A page of the navigation that does not exist yet is left out, so that a strict build passes.
- A link to a file of the repository outside of docs/ becomes the name of that file.
- The tables and figures of the paper, which `fairsilo reproduce` writes, are pages, too.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import typer
from latex2mathml.converter import convert
from mkdocs.structure.files import File

RESULTS = Path(__file__).parents[2] / "experiments" / "results"
GENERATED = {
    "paper/tables.md": RESULTS / "README.md",
    **{
        f"paper/figures/{name}": RESULTS / "figures" / name
        for name in (f"figure{k}-{path}.png" for k in (1, 2) for path in ("fast", "agp"))
    },
}
"""What is written by programs elsewhere in the repository, by its place in the site."""
COMMANDS = "<!-- command line -->"
EQUATION = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)
OUTSIDE = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<path>\.\./[^)#\s]+)\)")


def on_config(config: Any) -> Any:
    """Keep the pages that exist."""
    config.nav = _existing(config.nav, Path(config.docs_dir))
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Add what other programs wrote."""
    for place, source in GENERATED.items():
        files.append(File.generated(config, place, abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Fill in the commands, and name files outside of docs/ instead of linking to them."""
    docs = Path(config.docs_dir).resolve()
    here = Path(page.file.abs_src_path).parent

    def name(link: re.Match[str]) -> str:
        target = (here / link["path"]).resolve()
        if target.is_relative_to(docs):
            return link[0]
        return f"{link['text']} (`{target.relative_to(docs.parent)}`)"

    text = OUTSIDE.sub(name, markdown)
    return text.replace(COMMANDS, "\n".join(commands())) if COMMANDS in text else text


def on_page_content(content: str, **_: Any) -> str:
    """TeX to MathML."""

    def mathml(found: re.Match[str]) -> str:
        display = "block" if found["tag"] == "div" else "inline"
        return str(convert(html.unescape(found["tex"]).strip(), display=display))

    return EQUATION.sub(mathml, content)


def commands() -> Iterator[str]:
    """The help of every command as Markdown, in the order of `fairsilo --help`."""
    from fairsilo.cli import app

    root = typer.main.get_command(app)
    yield from _command(root, click.Context(root, info_name="fairsilo"), 2)


def _command(command: Any, context: click.Context, level: int) -> Iterator[str]:
    if hasattr(command, "commands"):
        if context.parent is not None:
            yield f"{'#' * level} {context.command_path}\n\n{_prose(command.help)}\n"
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            inner = click.Context(child, info_name=name, parent=context)
            yield from _command(child, inner, level + (context.parent is not None))
        return
    yield f"{'#' * level} {context.command_path}\n\n{_prose(command.help)}\n"
    panels: dict[str, list[Any]] = {}
    for one in command.params:
        if one.name != "help":
            panels.setdefault(getattr(one, "rich_help_panel", None) or "Options", []).append(one)
    for title, options in panels.items():
        yield f"| {title} | | default |\n| --- | --- | --- |"
        yield from (_option(one) for one in options)
        yield ""


def _option(one: Any) -> str:
    names = ", ".join([*one.opts, *one.secondary_opts]) if one.opts else one.name
    if one.param_type_name == "argument":
        names = str(one.name).upper()
    value = "required" if one.required else _default(one.default)
    return f"| `{names}` | {_cell(getattr(one, 'help', '') or '')} | {value} |"


def _default(value: object) -> str:
    if callable(value) or value is None or type(value).__name__ == "Sentinel":
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"`{_cell(str(value))}`"


def _prose(text: str | None) -> str:
    """A docstring whose examples start with the program's name, as blocks of code."""
    paragraphs = (text or "").strip().split("\n\n")
    return "\n\n".join(_example(" ".join(one.split())) for one in paragraphs)


def _example(paragraph: str) -> str:
    lead, found, command = paragraph.partition(": fairsilo ")
    if not found:
        return html.escape(paragraph, quote=False)
    # An option and its value stay on one line.
    tied = re.sub(r"(--\S+) (?=[^-])", "\\1\0", f"fairsilo {command}")
    lines = textwrap.wrap(tied, 76, break_long_words=False, break_on_hyphens=False)
    whole = " \\\n    ".join(lines).replace("\0", " ")
    return f"{html.escape(lead, quote=False)}:\n\n```sh\n{whole}\n```"


def _cell(text: str) -> str:
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|")


def _existing(nav: list[Any], docs: Path) -> list[Any]:
    kept = []
    for entry in nav:
        ((title, target),) = entry.items()
        if isinstance(target, list):
            inner = _existing(target, docs)
            kept += [{title: inner}] if inner else []
        elif target in GENERATED or (docs / target).is_file():
            kept.append(entry)
    return kept
