"""Gathers the pages of the documentation site: guides, and a reference from help and docstrings.

    python scripts/docs_pages.py build/docs

`make docs` runs it, and builds the site from its output.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import click
import typer.main
from docs_python import python

from textassay.cli.app import app

ROOT = Path(__file__).parents[1]


def main(out: Path) -> None:
    """Write all pages, replacing the folder's content."""
    shutil.rmtree(out, ignore_errors=True)
    (out / "reference").mkdir(parents=True)
    for page in sorted((ROOT / "docs").glob("*.md")):
        shutil.copy(page, out / page.name)
    shutil.copytree(ROOT / "docs" / "images", out / "images")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (out / "index.md").write_text(within_site(readme), encoding="utf-8")
    (out / "reference" / "cli.md").write_text(command_line(), encoding="utf-8")
    for name, text in python().items():
        (out / "reference" / f"{name}.md").write_text(text, encoding="utf-8")
    notebook = (ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8")
    (out / "tutorial.md").write_text(tutorial(notebook), encoding="utf-8")
    shutil.copy(ROOT / "docs" / "site.css", out / "site.css")
    shutil.copy(ROOT / "llms.txt", out / "llms.txt")


def within_site(readme: str) -> str:
    """Return the README with links to guides and images made relative, to other files as text."""

    def link(found: re.Match[str]) -> str:
        text, (target, *place) = found[1], found[2].split("#", 1)
        if target.startswith("docs/") and (ROOT / target).suffix in (".md", ".ipynb"):
            return f"[{text}]({'#'.join((Path(target).with_suffix('.md').name, *place))})"
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


def tutorial(notebook: str) -> str:
    """Return a notebook as a page: its texts, and its cells as blocks of code."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(notebook)["cells"]]
    parts = [text if kind == "markdown" else f"```python\n{text}\n```" for kind, text in cells]
    title, *rest = parts
    note = (
        "This page is the notebook `docs/tutorial.ipynb` of the repository. Open that in "
        "JupyterLab to run it; it needs no key and no network."
    )
    return "\n\n".join([title, note, *rest]) + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
