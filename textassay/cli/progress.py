"""Shows how a run goes, on standard error.

Two live lines in a terminal, plain lines elsewhere, or nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from textassay.cli.json_log import progress_line
from textassay.evaluation.progress import Progress
from textassay.evaluation.progress_text import effort, line, problems, speed

Style = Literal["auto", "plain", "none", "json"]
STYLES: tuple[Style, ...] = ("auto", "plain", "none")
"""Styles of `--progress`; `--log json` is the other one."""
REDRAW_SECONDS = 0.25
PLAIN_SECONDS = 10.0
BAR_WIDTH = 24


@asynccontextmanager
async def show_progress(
    progress: Callable[[], Progress], style: Style, *, dry: bool = False
) -> AsyncIterator[None]:
    """Show the progress of what runs in the block; drawing costs the same however fast the run is.

    Args:
        progress: Returns the state of the run.
        style: How it is shown.
        dry: Whether calls are only counted: then no calls or costs are shown, as none are made.
    """
    if style == "none":
        yield
        return
    # in a pipe or a CI log every redraw would be a line of its own
    live = style == "auto" and sys.stderr.isatty()
    render = progress_line if style == "json" else _counted if dry else line
    drawn = (lambda now: Text(_counted(now))) if dry else _drawn
    task = asyncio.create_task(_redraw(progress, drawn) if live else _print_lines(progress, render))
    try:
        yield
    finally:
        task.cancel()
        # `wait` rather than `await task`: cancellation of the drawing must not hide the block's
        # own error
        await asyncio.wait([task])
        # the last state is always printed, or a short run would leave no line at all
        if not live:
            print(render(progress()), file=sys.stderr, flush=True)  # noqa: T201


async def _redraw(
    progress: Callable[[], Progress], drawn: Callable[[Progress], RenderableType]
) -> None:
    with Live(console=Console(stderr=True), auto_refresh=False, transient=False) as display:
        try:
            while True:
                display.update(drawn(progress()), refresh=True)
                await asyncio.sleep(REDRAW_SECONDS)
        finally:
            display.update(drawn(progress()), refresh=True)


async def _print_lines(progress: Callable[[], Progress], render: Callable[[Progress], str]) -> None:
    while True:
        await asyncio.sleep(PLAIN_SECONDS)
        print(render(progress()), file=sys.stderr, flush=True)  # noqa: T201


def _drawn(now: Progress) -> Group:
    """Draw a bar with how far the run is, and below it what it costs and what goes wrong."""
    bar = Table.grid(padding=(0, 1))
    share = f"{now.done / now.total:4.0%} " if now.total else ""
    bar.add_row(
        ProgressBar(total=now.total, completed=now.done, width=BAR_WIDTH),
        Text(share + " | ".join(speed(now)), no_wrap=True, overflow="ellipsis"),
    )
    wrong = problems(now)
    below = Text(" | ".join(effort(now)), style="dim", no_wrap=True, overflow="ellipsis")
    if wrong:
        below.append(" | " + " | ".join(wrong), style="not dim yellow")
    return Group(bar, below)


def _counted(now: Progress) -> str:
    return " | ".join(["dry run", *speed(now)])
