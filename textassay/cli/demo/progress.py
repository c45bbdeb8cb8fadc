"""Shows how the demo goes, on standard error.

One live bar in a terminal, a line for each step elsewhere.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from textassay.cli.live_progress import REDRAW_SECONDS
from textassay.cli.progress import Style
from textassay.evaluation.session import Session


class DemoSteps:
    """The steps of the demo, each a session."""

    def __init__(self, count: int, style: Style) -> None:
        """Store how many steps there are, and how they are shown.

        Args:
            count: Number of steps.
            style: `auto` draws a bar if there is a terminal.
        """
        self._count, self._style, self._done = count, style, 0
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    async def __aenter__(self) -> Self:
        if self._style == "auto" and sys.stderr.isatty():
            columns = (
                TextColumn("{task.description}"),
                BarColumn(24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=self._count)
            self._bar.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the bar; what is printed next takes its place."""
        if self._bar is not None:
            self._bar.stop()

    @asynccontextmanager
    async def watch(self, task: str, name: str, session: Session) -> AsyncIterator[None]:
        """Show one step while it runs."""
        redrawing = (
            asyncio.create_task(self._redraw(f"{task}: {name}", session))
            if self._bar is not None
            else None
        )
        try:
            yield
        finally:
            if redrawing is not None:
                redrawing.cancel()
                # waited for, so that no redraw comes after the line that replaces it
                await asyncio.wait([redrawing])
        self._done += 1
        now = session.engine.progress
        # in a log a line per finished step is enough; a redrawn bar would be thousands of lines
        if self._bar is None and self._style != "none":
            text = (
                f"{self._done}/{self._count} {task}: {name}, {now.done} texts in"
                f" {now.seconds:.1f} s"
            )
            print(text, file=sys.stderr, flush=True)  # noqa: T201

    async def _redraw(self, title: str, session: Session) -> None:
        assert self._bar is not None
        assert self._task is not None
        while True:
            now = session.engine.progress
            share = now.done / now.total if now.total else 0.0
            self._bar.update(self._task, description=f"{title:28}", completed=self._done + share)
            await asyncio.sleep(REDRAW_SECONDS)
