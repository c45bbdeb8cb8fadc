"""A run's progress on standard error: live, as occasional lines, as JSON, or not at all."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

from textassay.cli.console import messages, to_entry
from textassay.evaluation.progress import (
    Progress,
    display_progress,
    effort,
    format_speed,
    line,
    problems,
)

if TYPE_CHECKING:
    from rich.console import Group


def progress_line(now: Progress) -> str:
    """Return the state of a run as one line of JSON, with all its counters."""
    return to_entry(
        "progress",
        done=now.done,
        total=now.total,
        seconds=round(now.seconds, 3),
        outcomes=now.outcomes,
        usage=now.usage.model_dump(),
        failures=now.failures,
        limiters={name: asdict(state) for name, state in now.limiters.items()},
    )


Style = Literal["auto", "plain", "none", "json"]
STYLES: tuple[Style, ...] = ("auto", "plain", "none")
"""Styles of `--progress`; `--log json` is the other one."""
PLAIN_SECONDS = 10.0
"""Seconds between lines where each redraw would be a line: in a pipe or a file."""


@asynccontextmanager
async def show_progress(
    progress: Callable[[], Progress], style: Style, *, dry: bool = False
) -> AsyncIterator[None]:
    """Show the progress of the block; the cost of drawing does not depend on the run's speed."""
    if style == "none":
        yield
    elif style == "auto" and sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        with Live(console=Console(stderr=True), auto_refresh=False) as display:

            def redraw(now: Progress) -> None:
                display.update(Text(_format_counts(now)) if dry else _draw(now), refresh=True)

            async with display_progress(progress, redraw, seconds=0.25):
                yield
    else:
        # in a pipe or a CI log every redraw is a line, so there are only a few
        plain = _format_counts if dry else line
        render = progress_line if style == "json" else plain

        def print_line(now: Progress) -> None:
            print(render(now), file=sys.stderr, flush=True)  # noqa: T201

        async with display_progress(
            progress, print_line, seconds=PLAIN_SECONDS, delay=PLAIN_SECONDS
        ):
            yield


@contextmanager
def show_steps(style: Style) -> Iterator[Callable[[str], None]]:
    """Show the steps of work without calls: one live line, or occasional lines."""
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


def _format_counts(now: Progress) -> str:
    """Return the line of a dry run, which has no costs and no problems."""
    return " | ".join(["dry run", *format_speed(now)])


def _draw(now: Progress) -> Group:
    """Draw a progress bar, and below it the cost and the problems of the run."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    bar = Table.grid(padding=(0, 1))
    share = f"{now.done / now.total:4.0%} " if now.total else ""
    bar.add_row(
        ProgressBar(total=now.total, completed=now.done, width=24),
        Text(share + " | ".join(format_speed(now)), no_wrap=True, overflow="ellipsis"),
    )
    wrong = problems(now)
    below = Text(" | ".join(effort(now)), style="dim", no_wrap=True, overflow="ellipsis")
    if wrong:
        below.append(" | " + " | ".join(wrong), style="not dim yellow")
    return Group(bar, below)
