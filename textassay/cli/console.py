"""Where the command line writes: results to standard output; messages, logs and progress to error.

rich is imported on first use, since a run sends its first request before it prints.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textassay.runtime.errors import ConfigurationError
from textassay.table import Displayed, Note, Table, printable, stack_tables, to_json, to_terminal

if TYPE_CHECKING:
    from rich.console import Console


class Messages:
    """How this process writes messages."""

    as_json = False
    notes: frozenset[str] = frozenset()
    """Notes on files, which a command may read several times."""


@contextmanager
def own_messages() -> Iterator[None]:
    """Reset messages when the block ends; each command sets its own format."""
    try:
        yield
    # a process may run several commands, as tests do, each with its own format
    finally:
        Messages.as_json, Messages.notes = False, frozenset()


def results(*, pipe_width: int = 10_000) -> Console:
    """Return the console for results: as wide as the terminal, or unlimited in a pipe."""
    from rich.console import Console

    console = Console(highlight=False)
    # rich folds at 80 columns in a pipe, which would break lines that a script reads
    return console if console.is_terminal else Console(highlight=False, width=pipe_width)


def messages() -> Console:
    """Return the console for messages."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True, highlight=False)


def to_entry(message: str, level: str = "info", **more: Any) -> str:
    """Return a line of a structured log."""
    now = datetime.now(UTC).isoformat()
    return json.dumps({"time": now, "level": level, "message": message, **more})


def say(message: str, *, style: str = "") -> None:
    """Write a message to standard error, as JSON if the command line logs so."""
    if Messages.as_json:
        print(to_entry(message), file=sys.stderr, flush=True)  # noqa: T201
        return
    if not sys.stderr.isatty() and "FORCE_COLOR" not in os.environ:
        # without rich, the message is printed even if no further file can be opened
        print(printable(message), file=sys.stderr, flush=True)  # noqa: T201
        return
    from rich.text import Text

    # Text, because brackets in a plain string would be read as markup
    messages().print(Text(printable(message), style=style))


def say_once(note: str) -> None:
    """Write a note to standard error, unless this command has written it before."""
    if note not in Messages.notes:
        Messages.notes |= {note}
        say(note)


def warn(message: str) -> None:
    """Write a warning to standard error."""
    say(f"warning: {message}", style="yellow")


def print_tables(
    displays: Iterable[Table | Displayed],
    document: Mapping[str, Any],
    *,
    as_json: bool,
    notes: Iterable[Note] = (),
) -> None:
    """Print results as tables, or as one JSON document.

    Notes are part of the document; beside tables they are messages, like warnings. The given notes
    apply to all tables.
    """
    parts = ([display] if isinstance(display, Table) else display.tables() for display in displays)
    first, *others = stack_tables(table for part in parts for table in part)
    stack = [replace(first, notes=(*dict.fromkeys(notes), *first.notes)), *others]
    if as_json:
        print(to_json(document, stack), flush=True)  # noqa: T201
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


def check_lines(out: Path) -> None:
    """Refuse a name of another format than JSON Lines, in which the file would be read later."""
    if out.suffix.lower() not in (".jsonl", ".ndjson"):
        name = out.with_suffix(".jsonl").name
        raise ConfigurationError(f"{out}: is written as JSON Lines; call it such as {name}")


def write_rows(out: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a file of JSON Lines.

    Raises:
        ConfigurationError: Its name is that of another format.
        StorageError: It cannot be written.
    """
    from textassay.runtime.storage.files import encode, storage_errors, write_bytes

    check_lines(out)
    with storage_errors(f"{out} cannot be written"):
        write_bytes(out, b"".join(encode(row) + b"\n" for row in rows))


class _Said(logging.Handler):
    """Writes warnings of one logger as messages."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


@contextmanager
def capture_warnings(*loggers: str) -> Iterator[None]:
    """Write the warnings of these loggers to standard error, unless all logs go there already."""
    handler = _Said(logging.WARNING)
    # with JSON logs the package's logger writes them, and they would appear twice
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
        entry = to_entry(record.getMessage(), record.levelname.lower(), **more)
        print(entry, file=sys.stderr, flush=True)  # noqa: T201


def log_as_json() -> None:
    """Write the package's logs as JSON, from level INFO up."""
    Messages.as_json = True
    logger = logging.getLogger("textassay")
    # called once per command, and several commands may run in one process
    if not any(isinstance(handler, JsonHandler) for handler in logger.handlers):
        logger.addHandler(JsonHandler())
        logger.setLevel(logging.INFO)
