"""Writes the reference of the Python names: a signature that can be read, and its docstring.

Docstrings are in Google style; their sections become lists.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any

import textassay

WIDTH = 80
"""Characters of a signature above which each parameter gets a line of its own."""
MAX_DEFAULT = 50
"""Characters of a default that is written out."""
_SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises|References|Example|Examples|Note):")
_BODIES = (ast.ClassDef, ast.FunctionDef)
_ENTRY = re.compile(r"(\*{0,2}[\w.]+)(?: \([^)]*\))?: (.*)")


def python() -> dict[str, str]:
    """Return a page for each public module, by its name: every name, signature and docstring."""
    named = [(f"textassay.{name}", getattr(textassay, name)) for name in textassay.__all__]
    modules = [(name, value) for name, value in named if isinstance(value, ModuleType)]
    return {
        name: "\n\n".join(
            part for part in (f"# {name}", docstring(module), *_names(module)) if part
        )
        + "\n"
        for name, module in (("textassay", textassay), *modules)
    }


def _names(module: ModuleType) -> list[str]:
    parts = []
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if isinstance(value, ModuleType) or not callable(value):
            continue
        parts += [
            f"## {module.__name__}.{name}",
            f"```python\n{signature(name, value)}\n```",
            docstring(value),
            _init_docstring(value),
            _fields(value),
        ]
    return parts


def _init_docstring(value: Any) -> str:
    init = vars(value).get("__init__") if inspect.isclass(value) else None
    return docstring(init) if getattr(init, "__doc__", None) else ""


def _fields(value: Any) -> str:
    """Return the public fields of a class that a string below them documents, as a list."""
    if not inspect.isclass(value):
        return ""
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(value))).body
    fields = [
        f"- `{ast.unparse(target).removeprefix('self.')}`: {_escaped(' '.join(text.split()))}"
        for node in ast.walk(tree)
        for one, below in pairwise(getattr(node, "body", ()) if isinstance(node, _BODIES) else ())
        if isinstance(one, ast.Assign | ast.AnnAssign)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(text := below.value.value, str)
        for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
        if not ast.unparse(target).removeprefix("self.").startswith("_")
    ]
    return "\n".join(["**Fields**\n", *fields]) if fields else ""


def signature(name: str, value: Any) -> str:
    """Return a call as it is written, on several lines if one would be too long."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    given, star = [], False
    for one in found.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not star:
            given.append("*")
        star = star or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        given.append(_parameter(one))
    returned = found.return_annotation
    end = "" if inspect.isclass(value) or returned is found.empty else f" -> {_type(returned)}"
    line = f"{name}({', '.join(given)}){end}"
    if len(line) <= WIDTH or not given:
        return line
    return "\n".join([f"{name}(", *(f"    {one}," for one in given), f"){end}"])


def _parameter(one: inspect.Parameter) -> str:
    text = str(one.replace(annotation=one.empty, default=one.empty))  # stars included
    if one.annotation is not one.empty:
        text += f": {_type(one.annotation)}"
    if one.default is one.empty:
        return text
    default = repr(one.default)
    # objects without a custom repr show an address, which differs between builds
    default = "..." if default.startswith("<") or len(default) > MAX_DEFAULT else default
    return f"{text} = {default}" if ":" in text else f"{text}={default}"


def _type(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    # the docstring gives the limits of a field; the signature shows its type
    while "Annotated[" in text:
        begin = re.search(r"(?:typing\.)?Annotated\[", text)
        if begin is None:
            break
        inner = list(_split(text[begin.end() :]))
        text = text[: begin.start()] + inner[0] + text[begin.end() + len(inner[1]) :]
    text = re.sub(r"ForwardRef\('([^']*)'[^)]*\)", r"\1", text).replace("NoneType", "None")
    text = re.sub(r"(?:typing\.)?Optional\[([\w.]+)\]", r"\1 | None", text)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])", "", text)


def _split(rest: str) -> Iterator[str]:
    """Yield the first argument of an opened bracket, and all up to where the bracket closes."""
    depth, first = 1, ""
    for at, character in enumerate(rest):
        depth += (character in "[(") - (character in "])")
        if not first and (depth == 0 or (depth == 1 and character == ",")):
            first = rest[:at]
        if depth == 0:
            yield first
            yield rest[: at + 1]
            return


def docstring(value: Any) -> str:
    """Return a docstring as Markdown: paragraphs, doctests as code, sections as lists."""
    blocks = re.split(r"\n\s*\n", inspect.getdoc(value) or "")
    return "\n\n".join(part for block in blocks for part in _block(block))


def _block(block: str) -> Iterator[str]:
    lines = block.splitlines()
    if lines and lines[0].startswith(">>>"):
        yield f"```python\n{block}\n```"
    elif lines and (lines[0].startswith("    ") or lines[0].startswith("| ")):
        yield f"```text\n{textwrap.dedent(block)}\n```"
    elif lines and (found := _SECTION.fullmatch(lines[0].strip())):
        yield f"**{found[1]}**"
        yield "\n".join(_entries(lines[1:]))
    else:
        yield _escaped(" ".join(line.strip() for line in lines))


def _entries(lines: list[str]) -> Iterator[str]:
    """Yield the entries of a section as items of a list; deeper lines continue an entry."""
    indent = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    entries: list[str] = []
    for line in lines:
        if len(line) - len(line.lstrip()) > indent and entries:
            entries[-1] += " " + line.strip()
        else:
            entries.append(line.strip())
    for entry in entries:
        found = _ENTRY.fullmatch(entry)
        yield f"- `{found[1]}`: {_escaped(found[2])}" if found else f"- {_escaped(entry)}"


def _escaped(text: str) -> str:
    """Return text whose marks outside of backticks mean themselves in Markdown."""
    parts = re.split(r"(`+[^`]*`+)", text)
    return "".join(
        part if at % 2 else re.sub(r"([*_\[\]<>|])", r"\\\1", part) for at, part in enumerate(parts)
    )
