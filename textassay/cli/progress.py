"""Shows how a run goes, on standard error: two live lines in a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from textassay.evaluation.progress import Progress

Style = Literal["auto", "plain", "none"]
STYLES: tuple[Style, ...] = ("auto", "plain", "none")
REDRAW_SECONDS = 0.25
PLAIN_SECONDS = 10.0
BAR_WIDTH = 24


@asynccontextmanager
async def shown(
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
    live = style == "auto" and sys.stderr.isatty()
    told = _counted if dry else line
    drawn = (lambda now: Text(_counted(now))) if dry else _drawn
    task = asyncio.create_task(_redraw(progress, drawn) if live else _print_lines(progress, told))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not live:
            print(told(progress()), file=sys.stderr, flush=True)  # noqa: T201


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


async def _print_lines(progress: Callable[[], Progress], told: Callable[[Progress], str]) -> None:
    while True:
        await asyncio.sleep(PLAIN_SECONDS)
        print(told(progress()), file=sys.stderr, flush=True)  # noqa: T201


def _drawn(now: Progress) -> Group:
    """Draw a bar with how far the run is, and below it what it costs and what goes wrong."""
    bar = Table.grid(padding=(0, 1))
    share = f"{now.done / now.total:4.0%} " if now.total else ""
    bar.add_row(
        ProgressBar(total=now.total, completed=now.done, width=BAR_WIDTH),
        Text(share + " | ".join(_pace(now)), no_wrap=True, overflow="ellipsis"),
    )
    trouble = _trouble(now)
    below = Text(" | ".join(_effort(now)), style="dim", no_wrap=True, overflow="ellipsis")
    if trouble:
        below.append(" | " + " | ".join(trouble), style="not dim yellow")
    return Group(bar, below)


def _counted(now: Progress) -> str:
    return " | ".join(["dry run", *_pace(now)])


def line(now: Progress) -> str:
    """Return the whole state in one line."""
    return " | ".join([*_pace(now), *_effort(now), *_trouble(now)])


def _pace(now: Progress) -> list[str]:
    parts = [
        f"{now.done}/{now.total}" if now.total is not None else f"{now.done} done",
        f"{now.rate:.1f}/s",
    ]
    if now.done == now.total:
        parts.append(f"took {clock(now.seconds)}")
    elif now.seconds_left is not None:
        parts.append(f"{clock(now.seconds_left)} left")
    return parts


def _effort(now: Progress) -> list[str]:
    usage = now.usage
    parts = [
        f"{usage.calls} calls" + (f" + {usage.cached_calls} cached" if usage.cached_calls else "")
    ]
    if usage.cost:
        parts.append(f"${usage.cost:.4f}")
    for name, state in now.limiters.items():
        waits = f", paused {math.ceil(state.paused_for)} s" if state.paused_for > 0 else ""
        parts.append(
            f"{name if len(now.limiters) > 1 else 'in flight'} {state.in_flight}/{state.limit}{waits}"
        )
    return parts


def _trouble(now: Progress) -> list[str]:
    unscored = {kind: count for kind, count in now.outcomes.items() if kind != "scored" and count}
    return [
        *(f"{count} {kind}" for kind, count in sorted(unscored.items())),
        *(f"{kind} x{count}" for kind, count in sorted(now.failures.items())),
    ]


def clock(seconds: float) -> str:
    """Return a duration as `1:02:03` or `2:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
