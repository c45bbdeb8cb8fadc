"""Shows the progress of a run that was started from Python.

A line that is redrawn, or a callback.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textassay.evaluation.progress import Progress
from textassay.evaluation.progress_text import line

Watch = bool | Callable[[Progress], object] | None
"""`True` for a line, `False` for nothing, a function for every state; `None` for a line if somebody
looks: in a notebook, or if standard error is a terminal."""
SECONDS = 0.25
"""Time between two states."""


@asynccontextmanager
async def watched(progress: Callable[[], Progress], watch: Watch) -> AsyncIterator[None]:
    """Show the progress of what runs in the block; the last state is always shown.

    Raises:
        Exception: What the callback raised; the block is left first.
    """
    show = _display_for(watch)
    if show is None:
        yield
        return

    async def repeat() -> None:
        while True:
            show(progress())
            await asyncio.sleep(SECONDS)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        # `wait` does not raise what the task raised: the block's own error must come first
        await asyncio.wait([task])
        fault = None if task.cancelled() else task.exception()
        if fault is None:
            show(progress())
        if isinstance(show, TerminalLine):
            show.end()
    if fault is not None:
        raise fault


def _display_for(watch: Watch) -> Callable[[Progress], object] | None:
    if callable(watch):
        return watch
    kernel = _in_notebook()
    if watch is None:
        watch = kernel or sys.stderr.isatty()
    if not watch:
        return None
    return NotebookLine() if kernel else TerminalLine()


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    # looked up in sys.modules: importing IPython to find out would cost a second outside of
    # notebooks
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


class TerminalLine:
    """One line on standard error that replaces itself."""

    def __init__(self) -> None:
        self._whole = ""

    def __call__(self, now: Progress) -> None:
        """Draw the state over the last one, cut to the width of the terminal."""
        self._whole = line(now)
        # a line that wraps cannot be drawn over: each redraw would leave another one behind
        print(f"\r\x1b[K{cut(self._whole, _columns())}", end="", file=sys.stderr, flush=True)  # noqa: T201

    def end(self) -> None:
        """Leave the last state in its place, uncut."""
        print(f"\r\x1b[K{self._whole}", file=sys.stderr)  # noqa: T201


def cut(text: str, columns: int | None) -> str:
    """Return a text that fits into so many columns; `None` stands for any number."""
    # the last column stays free: in many terminals a full line wraps already
    if columns is None or len(text) < columns:
        return text
    return text[: max(columns - 2, 0)] + "…"


def _columns() -> int | None:
    try:
        # asked every time: windows change
        return os.get_terminal_size(sys.stderr.fileno()).columns or None
    except (OSError, ValueError):  # not a terminal, but somebody asked for a line
        return None


class NotebookLine:
    """One line of output in the cell that replaces itself."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, now: Progress) -> None:
        """Draw the state over the last one."""
        from IPython.display import display  # there, as this runs in its kernel

        bundle = {"text/plain": line(now)}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
