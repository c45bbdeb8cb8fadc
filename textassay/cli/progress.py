"""Shows how a run goes on standard error: two live lines in a terminal, or plain ones."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from textassay.cli.console import messages, progress_line
from textassay.cli.exits import io_errors
from textassay.evaluation.progress import Progress, effort, line, problems, speed, watched

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

Style = Literal["auto", "plain", "none", "json"]
STYLES: tuple[Style, ...] = ("auto", "plain", "none")
"""Styles of `--progress`; `--log json` is the other one."""
PLAIN_SECONDS = 10.0
REDRAW_SECONDS = 0.25
BAR_WIDTH = 24


@asynccontextmanager
async def show_progress(
    progress: Callable[[], Progress], style: Style, *, dry: bool = False
) -> AsyncIterator[None]:
    """Show the progress of the block; drawing costs the same however fast the run is."""
    if style == "none":
        yield
        return
    # in a pipe or a CI log every redraw would be a line of its own
    live = style == "auto" and sys.stderr.isatty()
    render = progress_line if style == "json" else _counted if dry else line
    if live:
        drawing = redraw(progress, _counted if dry else None)
    else:
        drawing = _print_lines(progress, render)
    task = asyncio.create_task(drawing)
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


@asynccontextmanager
async def exported(
    progress: Callable[[], Progress], path: Path | None, run: Path | None
) -> AsyncIterator[None]:
    """Keep the figures of a run in a file as Prometheus text, up to those of its end."""
    if path is None:
        yield
        return
    from textassay.runtime.storage.files import write_text
    from textassay.telemetry import prometheus_text

    def write(now: Progress) -> None:
        with io_errors(path):
            write_text(path, prometheus_text(now, run="" if run is None else str(run)))

    # at once, so that a folder that is not there is told before anything is asked
    write(progress())
    async with watched(progress, write, seconds=PLAIN_SECONDS):
        yield


@contextmanager
def show_steps(style: Style) -> Iterator[Callable[[str], None]]:
    """Show what work without calls is doing: one live line, or a line now and then."""
    if style == "none":
        yield lambda _: None
        return
    if style == "auto" and sys.stderr.isatty():
        with messages().status("reading") as status:
            yield lambda step: status.update(step)
        return
    last = time.monotonic()

    def print_line(step: str) -> None:
        nonlocal last
        if time.monotonic() - last >= PLAIN_SECONDS:
            last = time.monotonic()
            print(step, file=sys.stderr, flush=True)  # noqa: T201

    yield print_line


async def _print_lines(progress: Callable[[], Progress], render: Callable[[Progress], str]) -> None:
    while True:
        await asyncio.sleep(PLAIN_SECONDS)
        print(render(progress()), file=sys.stderr, flush=True)  # noqa: T201


def _counted(now: Progress) -> str:
    return " | ".join(["dry run", *speed(now)])


async def redraw(
    progress: Callable[[], Progress], told: Callable[[Progress], str] | None = None
) -> None:
    """Draw the state of a run again and again, until it is canceled."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

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
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

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
