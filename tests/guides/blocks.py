"""Finds the code blocks of a Markdown page, fenced and indented."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))


@dataclass(frozen=True)
class Block:
    """One code block: its language (`shell` if the page names none), its text and its line."""

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
            if command.strip() and not command.startswith("#"):
                found.append((shlex.split(command), comment.strip()))
        return found


def blocks_of(page: Path) -> list[Block]:
    """Return all blocks of a page, in order."""
    found: list[Block] = []
    taken: list[str] = []
    first, language = 0, None
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate([*lines, ""], start=1):
        fence = re.fullmatch(r"```(\w*)", line)
        if language is None and fence:
            first, language, taken = number, fence[1] or "shell", []
        elif language not in (None, "indented"):
            if fence:
                found.append(Block(page.name, first, str(language), "\n".join(taken) + "\n"))
                language = None
            else:
                taken.append(line)
        # an indented line behind an empty one is a block as well, unless it belongs to a list
        elif language is None and line.startswith("    ") and not lines[number - 2].strip():
            first, language, taken = number, "indented", [line[4:]]
        elif language == "indented":
            if line.startswith("    "):
                taken.append(line[4:])
            else:
                kind = "shell" if re.match(r"(textassay|python|make|pip) ", taken[0]) else "text"
                found.append(Block(page.name, first, kind, "\n".join(taken) + "\n"))
                language = None
    return found
