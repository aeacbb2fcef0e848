"""Safe markup: only `Html` is inserted as it is, everything else is escaped."""

import html
import json
import re
from collections.abc import Mapping
from typing import Any


class Html(str):
    """A string that is already markup."""

    __slots__ = ()


Child = str | int | float | None
"""What an element may contain: markup, text to escape, or nothing."""
Attribute = str | int | float | bool | None

_VOID = frozenset({"meta", "link", "br", "hr", "wbr"})
_NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def escape(value: Child) -> Html:
    """Text as markup; characters that HTML does not allow become a visible mark."""
    if isinstance(value, Html):
        return value
    return Html(html.escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", str(value)), quote=True))


def join(*children: Child) -> Html:
    """Concatenate the children; None is skipped."""
    return Html("".join(escape(child) for child in children if child is not None))


def el(tag: str, *children: Child, **attributes: Attribute) -> Html:
    """An element. `class_` is class, `aria_label` is aria-label; None and False are omitted."""
    opening = tag
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        opening += f" {key}" if value is True else f' {key}="{_attribute(value)}"'
    if tag in _VOID:
        return Html(f"<{opening}>")
    return Html(f"<{opening}>{join(*children)}</{tag}>")


def coded(text: str) -> Html:
    """A sentence in which what stands between `backticks` is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return join(*(el("code", one) if k % 2 else one for k, one in enumerate(parts)))


def _attribute(value: Attribute) -> str:
    # Markup has no meaning inside an attribute, so even `Html` is escaped there.
    return escape(str.__str__(str(value)) if isinstance(value, Html) else value)


def data_block(value: Mapping[str, Any]) -> Html:
    """JSON for a script to read, escaped so that it cannot end the element or start another."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json">{text}</script>')
