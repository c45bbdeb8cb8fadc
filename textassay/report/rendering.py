"""Shared parts of pages: templates, style sheets and scripts, and formats of texts and numbers."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from textassay.table import to_html

# a judged text can reverse the text after it (U+202E) or hide instructions; readers of a report
# must see the judge's input
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
"""Control characters, halves of surrogate pairs, and marks that reverse the text after them."""


def policy(script: str, style: str, *, connect: bool) -> str:
    """Return the Content-Security-Policy that allows only this script and this style sheet."""
    rules = [
        "default-src 'none'",
        f"script-src 'sha256-{_hash(script)}'",
        f"style-src 'sha256-{_hash(style)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*rules, *(["connect-src 'self'"] if connect else [])])


@cache
def environment() -> Environment:
    """Return the templates' environment, which escapes everything and writes controls out."""
    templates = Environment(
        loader=PackageLoader("textassay.report"), autoescape=True, undefined=StrictUndefined,
        finalize=_format_seen, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    templates.filters["figure"] = figure
    templates.filters["table"] = lambda table: Markup(visible(to_html(table, page=True)))
    return templates


def fill(template: str, *, script: str = "", connect: bool = False, **fields: Any) -> str:
    """Return a page of a template, which may run this script alone."""
    style = asset("page.css")
    allowed = policy(script, style, connect=connect)
    filled = environment().get_template(template)
    return filled.render(style=style, script=script, policy=allowed, **fields)


@cache
def asset(name: str) -> Markup:
    """Return a style sheet or a script of the page, after the part shared with other pages."""
    package = resources.files("textassay")
    shared = package.joinpath("assets", f"material{Path(name).suffix}")
    file_of_page = package.joinpath("report", "assets", name)
    return Markup("".join(file.read_text(encoding="utf-8") for file in (shared, file_of_page)))


def _format_seen(value: Any) -> Any:
    # `type` and not isinstance: Markup is a subclass of str and is escaped already
    return visible(value) if type(value) is str else value  # Markup is ours and safe


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def visible(text: str) -> str:
    """Return text with control characters, direction overrides and lone surrogates written out.

    Line breaks and tabs stay. NUL becomes the picture of NUL, a direction override `[U+202E]`.
    """
    if text.isprintable() and text.isascii():  # most texts, and ten times as fast
        return text
    return _UNSEEN.sub(_write_match, text.replace("\r\n", "\n"))


def figure(value: float | None, digits: int = 3) -> str:
    """Return a number with `digits` decimals and a true minus sign; a dash for `None`."""
    return "–" if value is None else f"{value:z,.{digits}f}".replace("-", "−")


def _write_match(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else f"[U+{code:04X}]"
