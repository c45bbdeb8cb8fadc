"""What the commands from scores to decisions share: reading, settings, and printing a result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from textassay.calibration.columns import Columns, People, join_columns, read_plan
from textassay.calibration.judged import read_judged
from textassay.cli import arguments
from textassay.cli.console import results, say
from textassay.display import to_json, to_terminal
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.table import Note, Table, stacked

CHOSEN, RANDOM = "chosen", "random"


def read_columns(
    scores: Path, data: Path, aspect_map: Sequence[str], labels: str = RANDOM
) -> tuple[list[Columns], People]:
    """Read scores and data, and join them.

    Raises:
        ConfigurationError: A file, name or field does not fit.
    """
    judged, people = read_judged(scores), People(data)
    # any other word is the file of a label plan; a misspelled one fails as a missing file
    plan = None if labels in (RANDOM, CHOSEN) else read_plan(labels)
    return join_columns(judged, people, aspect_map, plan=plan), people


def allow_change(given: Mapping[str, Any]) -> bool:
    """Read `--set allow_change=true`, the one setting of these commands.

    Raises:
        UnknownName: Another setting is given.
        ConfigurationError: Its value is neither true nor false.
    """
    chosen = arguments.settings(given.get("set") or ())
    for name in chosen:
        if name != "allow_change":
            raise UnknownName("setting", name, ["allow_change"])
    value = chosen.get("allow_change", False)
    if not isinstance(value, bool):
        raise ConfigurationError(f"--set allow_change must be true or false, not {value!r}")
    return value


def check_confidence(confidence: float) -> None:
    """Refuse a confidence that is none.

    Raises:
        ConfigurationError: It is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ConfigurationError(f"--confidence must be between 0 and 1, not {confidence!r}")


def print_result(
    tables: Iterable[Table],
    document: Mapping[str, Any],
    *,
    as_json: bool,
    notes: Iterable[Note] = (),
) -> None:
    """Print a result as tables, or as one JSON document.

    Notes are part of the document; beside tables they are messages, as warnings always are.

    Args:
        tables: Those of several aspects are printed as one.
        document: The result as JSON values.
        as_json: Whether to print the document.
        notes: What to know of all tables.
    """
    first, *others = stacked(tables)
    stack = [replace(first, notes=(*dict.fromkeys(notes), *first.notes)), *others]
    if as_json:
        typer.echo(to_json(document, stack))
    console = results()
    for table in stack:
        if not as_json:
            console.print(to_terminal(table, console.width))
        for note in table.notes:
            if note.warning:
                say(note.text, style="yellow")
            elif not as_json:
                say(note.text)
