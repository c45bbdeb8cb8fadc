"""Where the command line writes: results to standard output, messages to standard error.

Neither is ever steered.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 10_000
"""Columns of a line that no terminal shows: nothing is cut or folded there."""


def printable(text: str) -> str:
    """Escape control characters, so that text from models or files cannot control the terminal."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )


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


def results() -> Console:
    """Return the console for results.

    As wide as the terminal, or without a bound if the output is no terminal.
    """
    console = Console(highlight=False)
    # rich folds at 80 columns in a pipe, which would break lines that a script reads
    return console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def messages() -> Console:
    """Return the console for messages."""
    return Console(stderr=True, soft_wrap=True, highlight=False)


def say(message: str, *, style: str = "") -> None:
    """Write a message to standard error, as JSON if the command line logs so."""
    if Messages.as_json:
        entry = {"time": datetime.now(UTC).isoformat(), "level": "info", "message": message}
        print(json.dumps(entry), file=sys.stderr, flush=True)  # noqa: T201
        return
    # Text, because brackets in a plain string would be read as markup
    messages().print(Text(printable(message), style=style))


class _Said(logging.Handler):
    """Writes warnings of one logger as messages."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"warning: {record.getMessage()}", style="yellow")


@contextmanager
def logged_warnings(*loggers: str) -> Iterator[None]:
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


def plain_table(*columns: str, left: int = 1) -> Table:
    """Return an empty table without lines.

    Args:
        *columns: Headings; without a heading in any of them the table has none.
        left: Number of columns, from the first, that hold words; the others hold numbers.
    """
    table = Table(box=None, pad_edge=False, show_header=any(columns))
    for at, column in enumerate(columns):
        table.add_column(column, justify="left" if at < left else "right", overflow="fold")
    return table


def indented(inner: RenderableType) -> Padding:
    """Return something moved to the right, and no wider than it is."""
    return Padding(inner, (0, 0, 0, 2), expand=False)
