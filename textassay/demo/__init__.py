"""The demo: bundled examples, methods that one local model runs over them, and the results."""

from __future__ import annotations

from pathlib import Path

__all__ = ["BUNDLED_TASKS", "data_file"]

FOLDER = Path(__file__).parent / "data"
BUNDLED_TASKS = ("summarization", "dialogue", "data-to-text", "translation")
"""Tasks with bundled examples: texts with our ratings."""


def data_file(task: str) -> Path:
    """Return the file with the examples of one of `BUNDLED_TASKS`.

    Raises:
        KeyError: No examples of this task are bundled.
    """
    if task not in BUNDLED_TASKS:
        raise KeyError(task)
    return FOLDER / f"{task}.jsonl"
