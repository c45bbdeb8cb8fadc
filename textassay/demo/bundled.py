"""The examples that come with the package: texts of four tasks, with ratings that we gave."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "data"

TASKS = ("summarization", "dialogue", "data-to-text", "translation")
"""Tasks that there are examples of."""


def data_file(task: str) -> Path:
    """Return where the examples of one of `TASKS` stand.

    Raises:
        KeyError: There are none of this task.
    """
    if task not in TASKS:
        raise KeyError(task)
    return FOLDER / f"{task}.jsonl"
