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

from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
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


def results(*, pipe_width: int = PIPE_WIDTH) -> Console:
    """Return the console for results.

    As wide as the terminal, or without a bound if the output is no terminal.

    Args:
        pipe_width: Columns if the output is no terminal; less for prose, which people read.
    """
    console = Console(highlight=False)
    # rich folds at 80 columns in a pipe, which would break lines that a script reads
    return console if console.is_terminal else Console(highlight=False, width=pipe_width)


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


class UncutTable(Table):
    """A table whose figures are never cut or folded.

    rich cuts a column that does not fit, and half a number is another number. On a terminal that is
    too narrow, each row becomes a paragraph: its words, and below them its figures by their names.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, or its rows as paragraphs."""
        # measured without bounds: within the console's width rich would cut and report that it fits
        natural = self.__rich_measure__(console, options.update(width=PIPE_WIDTH)).maximum
        if natural <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        for row in zip(*(column.cells for column in self.columns), strict=True):
            named = list(zip(self.columns, map(_text, row), strict=True))
            yield Text("  ").join(text for column, text in named if column.justify == "left")
            figures = Text("   ").join(
                Text(f"{column.header} ", style="dim").append_text(text)
                for column, text in named
                if column.justify != "left"
            )
            # a pair of a name and its figure stays on one line
            yield indented(_unbroken(figures, options.max_width - 2))


def _text(cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))


def _unbroken(pairs: Text, width: int) -> Text:
    """Return text with line breaks at the wide spaces between pairs only."""
    lines = [Text()]
    for pair in pairs.split("   "):
        if lines[-1] and len(lines[-1]) + 3 + len(pair) > width:
            lines.append(Text())
        lines[-1].append("   " if lines[-1] else "").append_text(pair)
    return Text("\n").join(lines)


def plain_table(*columns: str, left: int = 1, uncut: bool = False) -> Table:
    """Return an empty table without lines.

    Args:
        *columns: Headings; without a heading in any of them the table has none.
        left: Number of columns, from the first, that hold words; the others hold numbers.
        uncut: Whether rows that do not fit become paragraphs; else cells are folded.
    """
    kind = UncutTable if uncut else Table
    table = kind(box=None, pad_edge=False, show_header=any(columns))
    for at, column in enumerate(columns):
        justify: JustifyMethod = "left" if at < left else "right"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=uncut)
    return table


def indented(inner: RenderableType) -> Padding:
    """Return something moved to the right, and no wider than it is."""
    return Padding(inner, (0, 0, 0, 2), expand=False)
