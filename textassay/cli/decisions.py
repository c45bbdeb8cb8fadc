"""What the commands share that lead from scores to decisions.

Reading, settings, notes and tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from textassay.calibration.columns import Columns, People, join_columns, read_plan
from textassay.calibration.intervals import Estimate
from textassay.calibration.judged import read_judged
from textassay.cli import arguments
from textassay.cli.console import printable, say
from textassay.cli.plain_tables import plain_table
from textassay.runtime.errors import ConfigurationError, UnknownName

CHOSEN, RANDOM = "chosen", "random"


def read_columns(
    scores: Path, data: Path, aspect_map: Sequence[str], labels: str = RANDOM
) -> tuple[list[Columns], People]:
    """Read scores and data, join them, and tell what was left out.

    Raises:
        ConfigurationError: A file, name or field does not fit.
    """
    judged, people = read_judged(scores), People(data)
    # any other word is the file of a label plan; a misspelled one fails as a missing file
    plan = None if labels in (RANDOM, CHOSEN) else read_plan(labels)
    tables = join_columns(judged, people, aspect_map, plan=plan)
    if tables[0].unknown:
        say(f"{tables[0].unknown} scored ids are not in {data} and were left out", style="yellow")
    for table in tables:
        if table.unjudged:
            say(
                f"{table.score}: {table.unjudged} rows of {data} have no score and were left out",
                style="yellow",
            )
    return tables, people


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


def print_json(value: Any) -> None:
    """Print one JSON document."""
    # NaN is not JSON; a missing number has to be null
    typer.echo(json.dumps(value, allow_nan=False))


def print_notes(notes: Iterable[str]) -> None:
    """Print notes on standard error, each once."""
    for note in dict.fromkeys(notes):
        say(note)


def name(text: str | None) -> Text:
    """Return a name for a table."""
    return Text(printable(text or "all"))


def number(value: float | None, digits: int = 3) -> str:
    """Return a number for a table, `-` if undefined."""
    return "-" if value is None else f"{value:.{digits}f}"


def interval(estimate: Estimate) -> str:
    """Return a value with its interval."""
    if estimate.value is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def table(*columns: str, left: int = 1) -> Table:
    """Return an empty table whose figures are neither folded nor cut."""
    return plain_table(*columns, left=left, uncut=True)
