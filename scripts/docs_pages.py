"""Gathers the pages of the documentation site: guides, and a reference from help and docstrings.

    python scripts/docs_pages.py build/docs

`make docs` runs it, and builds the site from what it writes.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import typer.main

import textassay
from textassay.cli.app import app

ROOT = Path(__file__).parents[1]


def main(out: Path) -> None:
    """Write all pages; what was there before is replaced."""
    shutil.rmtree(out, ignore_errors=True)
    (out / "reference").mkdir(parents=True)
    for page in sorted((ROOT / "docs").glob("*.md")):
        shutil.copy(page, out / page.name)
    shutil.copytree(ROOT / "docs" / "images", out / "images")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (out / "index.md").write_text(within_site(readme), encoding="utf-8")
    (out / "reference" / "cli.md").write_text(command_line(), encoding="utf-8")
    (out / "reference" / "python.md").write_text(python(), encoding="utf-8")


def within_site(readme: str) -> str:
    """Return the README with links to guides and images made relative, to other files as text."""

    def link(found: re.Match[str]) -> str:
        text, target = found[1], found[2]
        if target.startswith("docs/") and (ROOT / target).suffix == ".md":
            return f"[{text}]({target.removeprefix('docs/')})"
        return found[0] if re.match("https?:|#", target) else text

    relative = re.sub(r'(\bsrc="|\]\()docs/images/', r"\1images/", readme)
    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", link, relative)


def command_line() -> str:
    """Return every command with its help, as users see it."""
    root = typer.main.get_command(app)
    sections = ["# Command line", *_commands(root, "textassay")]
    return "\n\n".join(sections) + "\n"


def _commands(command: Any, path: str) -> list[str]:
    if isinstance(command, click.Group) or hasattr(command, "commands"):
        return [
            part
            for name, one in command.commands.items()
            for part in _commands(one, f"{path} {name}")
        ]
    rows = [
        f"| `{', '.join(one.opts)}` | {_cell(getattr(one, 'help', None) or '')} |"
        for one in command.params
        if not getattr(one, "hidden", False)
    ]
    table = ["| argument or flag | |\n|---|---|\n" + "\n".join(rows)] if rows else []
    return [f"## {path}", (command.help or "").replace("\\[", "["), *table]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("\\[", "[").replace("<", "&lt;")


def python() -> str:
    """Return every public name with its signature and docstring, module by module."""
    parts = ["# Python", *_names(textassay)]
    for name in textassay.__all__:
        module = getattr(textassay, name)
        if isinstance(module, ModuleType):
            parts += [f"## textassay.{name}", _docstring(module), *_names(module)]
    return "\n\n".join(parts) + "\n"


def _names(module: ModuleType) -> list[str]:
    parts = []
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if isinstance(value, ModuleType) or not callable(value):
            continue
        parts += [
            f"### {module.__name__}.{name}",
            f"```text\n{_signature(name, value)}\n```",
            _docstring(value),
        ]
    return parts


def _signature(name: str, value: Any) -> str:
    try:
        return f"{name}{inspect.signature(value)}"
    except (TypeError, ValueError):
        return name


def _docstring(value: Any) -> str:
    return f"```text\n{inspect.getdoc(value) or ''}\n```"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
