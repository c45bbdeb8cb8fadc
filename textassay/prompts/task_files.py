"""The task files that come with the package: what is judged in a kind of text, and what its parts are called."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "tasks"

TASKS = ("summarization", "dialogue", "data-to-text", "translation", "general")
"""Names of the tasks that come with the package."""


def task_file(name: str) -> Path:
    """Return where the file of one of `TASKS` stands.

    Raises:
        KeyError: There is no such task.
    """
    if name not in TASKS:
        raise KeyError(name)
    return _FOLDER / f"{name}.toml"
