"""Draws how a run goes in a terminal; imported only if there is one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from textassay.evaluation.progress import Progress
from textassay.evaluation.progress_text import effort, problems, speed

REDRAW_SECONDS = 0.25
BAR_WIDTH = 24


async def redraw(
    progress: Callable[[], Progress], told: Callable[[Progress], str] | None = None
) -> None:
    """Draw the state of a run again and again, until it is canceled.

    Args:
        progress: Returns the state of the run.
        told: Returns a line that is shown in place of the bar.
    """

    def drawn() -> RenderableType:
        return _drawn(progress()) if told is None else Text(told(progress()))

    with Live(console=Console(stderr=True), auto_refresh=False, transient=False) as display:
        try:
            while True:
                display.update(drawn(), refresh=True)
                await asyncio.sleep(REDRAW_SECONDS)
        finally:
            display.update(drawn(), refresh=True)


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
