"""Where the command line writes: results to standard output; messages, logs and progress to error.

Neither is ever steered. rich is imported when something is printed with it, since a run asks its
first question before that.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from textassay.evaluation.progress import (
    Progress,
    display_progress,
    effort,
    format_speed,
    line,
    problems,
)
from textassay.table import (
    Cell,
    Displayed,
    Note,
    Table,
    printable,
    stack_tables,
    to_json,
    to_terminal,
)

if TYPE_CHECKING:
    from rich.console import Console, Group

PIPE_WIDTH = 10_000
"""Columns of a line that no terminal shows: nothing is cut or folded there."""


class Messages:
    """How this process writes messages."""

    as_json = False


@contextmanager
def own_messages() -> Iterator[None]:
    """Write messages as text again when the block ends; each command sets its own format."""
    try:
        yield
    # a process may run several commands, as tests do, and each decides for itself
    finally:
        Messages.as_json = False


def results(*, pipe_width: int = PIPE_WIDTH) -> Console:
    """Return the console for results: as wide as the terminal, or without a bound."""
    from rich.console import Console

    console = Console(highlight=False)
    # rich folds at 80 columns in a pipe, which would break lines that a script reads
    return console if console.is_terminal else Console(highlight=False, width=pipe_width)


def messages() -> Console:
    """Return the console for messages."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True, highlight=False)


def _entry(message: str, level: str = "info", **more: Any) -> str:
    """Return a line of a structured log."""
    now = datetime.now(UTC).isoformat()
    return json.dumps({"time": now, "level": level, "message": message, **more})


def say(message: str, *, style: str = "") -> None:
    """Write a message to standard error, as JSON if the command line logs so."""
    if Messages.as_json:
        print(_entry(message), file=sys.stderr, flush=True)  # noqa: T201
        return
    if not sys.stderr.isatty() and "FORCE_COLOR" not in os.environ:
        # Nothing to style. Without rich, the message comes through even if no file can be opened.
        print(printable(message), file=sys.stderr, flush=True)  # noqa: T201
        return
    from rich.text import Text

    # Text, because brackets in a plain string would be read as markup
    messages().print(Text(printable(message), style=style))


def warn(message: str) -> None:
    """Write a warning to standard error."""
    say(f"warning: {message}", style="yellow")


def print_tables(
    found: Iterable[Table | Displayed],
    document: Mapping[str, Any] | None = None,
    *,
    as_json: bool,
    notes: Iterable[Note] = (),
) -> None:
    """Print results as tables, those of several aspects as one, or as their JSON document.

    Without a document it is made of the rows of the tables, by the names of their columns. Notes
    are part of the document; beside tables they are messages, as warnings always are. Those that
    are given here are of all tables.
    """
    parts = ([one] if isinstance(one, Table) else one.tables() for one in found)
    first, *others = stack_tables(table for part in parts for table in part)
    stack = [replace(first, notes=(*dict.fromkeys(notes), *first.notes)), *others]
    if as_json:
        content = {"rows": _rows(stack)} if document is None else document
        print(to_json(content, stack), flush=True)  # noqa: T201
    console = None if as_json else results()
    for at, table in enumerate(stack):
        if console is not None:
            if at:
                console.print()
            console.print(to_terminal(table, console.width))
        for note in table.notes:
            if note.warning:
                say(note.text, style="yellow")
            elif not as_json:
                say(note.text)


def _rows(tables: Iterable[Table]) -> list[dict[str, Any]]:
    """Return the rows of tables as JSON values."""

    def plain(cell: Cell) -> Any:
        if cell is None or isinstance(cell, str | int | float):
            return cell
        return {"value": cell.value, "low": cell.low, "high": cell.high}

    return [
        {column.name: plain(cell) for column, cell in zip(table.columns, row, strict=True)}
        for table in tables
        for row in table.rows
    ]


class _Said(logging.Handler):
    """Writes warnings of one logger as messages."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


@contextmanager
def capture_warnings(*loggers: str) -> Iterator[None]:
    """Write the warnings of these loggers to standard error, unless all logs go there already."""
    handler = _Said(logging.WARNING)
    # with JSON logs the package's logger writes them itself, and they would appear twice
    named = [] if Messages.as_json else [logging.getLogger(name) for name in loggers]
    for logger in named:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in named:
            logger.removeHandler(handler)


class JsonHandler(logging.Handler):
    """Writes records to standard error, one line of JSON each, while messages are JSON."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write time, level, logger, message and, if there is one, the error."""
        if not Messages.as_json:
            return
        more: dict[str, Any] = {"logger": record.name}
        if record.exc_info and (error := record.exc_info[1]) is not None:
            more["error"] = {"type": type(error).__name__, "message": str(error)}
        entry = _entry(record.getMessage(), record.levelname.lower(), **more)
        print(entry, file=sys.stderr, flush=True)  # noqa: T201


def log_as_json() -> None:
    """Write what the package logs, from the level INFO up, as JSON."""
    Messages.as_json = True
    logger = logging.getLogger("textassay")
    # called once per command, and several commands may run in one process
    if not any(isinstance(handler, JsonHandler) for handler in logger.handlers):
        logger.addHandler(JsonHandler())
        logger.setLevel(logging.INFO)


def progress_line(now: Progress) -> str:
    """Return the state of a run with all its counters."""
    return _entry(
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
REDRAW_SECONDS = 0.25
BAR_WIDTH = 24


@asynccontextmanager
async def show_progress(
    progress: Callable[[], Progress], style: Style, *, dry: bool = False
) -> AsyncIterator[None]:
    """Show the progress of the block; drawing costs the same however fast the run is."""
    if style == "none":
        yield
    elif style == "auto" and sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        with Live(console=Console(stderr=True), auto_refresh=False) as display:

            def redraw(now: Progress) -> None:
                display.update(Text(_format_counts(now)) if dry else _draw(now), refresh=True)

            async with display_progress(progress, redraw, seconds=REDRAW_SECONDS):
                yield
    else:
        # in a pipe or a CI log every redraw would be a line of its own, so there are few
        render = progress_line if style == "json" else _format_counts if dry else line

        def print_line(now: Progress) -> None:
            print(render(now), file=sys.stderr, flush=True)  # noqa: T201

        async with display_progress(
            progress, print_line, seconds=PLAIN_SECONDS, delay=PLAIN_SECONDS
        ):
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


def _format_counts(now: Progress) -> str:
    return " | ".join(["dry run", *format_speed(now)])


def _draw(now: Progress) -> Group:
    """Draw a bar with how far the run is, and below it what it costs and what goes wrong."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    bar = Table.grid(padding=(0, 1))
    share = f"{now.done / now.total:4.0%} " if now.total else ""
    bar.add_row(
        ProgressBar(total=now.total, completed=now.done, width=BAR_WIDTH),
        Text(share + " | ".join(format_speed(now)), no_wrap=True, overflow="ellipsis"),
    )
    wrong = problems(now)
    below = Text(" | ".join(effort(now)), style="dim", no_wrap=True, overflow="ellipsis")
    if wrong:
        below.append(" | " + " | ".join(wrong), style="not dim yellow")
    return Group(bar, below)
