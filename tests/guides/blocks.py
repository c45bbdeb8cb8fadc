"""Finds the code blocks of a Markdown page."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))


@dataclass(frozen=True)
class Block:
    """A fenced block: its language (`shell` if the page names none), its text and its line."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        """Return where the block is."""
        return f"{self.page}:{self.line} ({self.language})"

    def commands(self) -> list[tuple[list[str], str]]:
        """Return the words and the comment of each command."""
        joined = re.sub(r"\\\n\s*", "", self.text)
        found = []
        for line in joined.splitlines():
            command, _, comment = line.removeprefix("$ ").partition(" #")
            if command.strip():
                found.append((shlex.split(command), comment.strip()))
        return found


def blocks_of(page: Path) -> list[Block]:
    """Return all blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page.name, text.count("\n", 0, found.start()) + 1, found[1] or "shell", found[2])
        for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


def indented(page: Path) -> list[str]:
    """Return the lines that Markdown takes for a block because they are indented."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    return re.findall(r"(?<=\n\n)    \S.*", text)
