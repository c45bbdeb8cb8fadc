"""Names the commands to run after a check; each can be run as it is printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from textassay.checking.roles import Roles
from textassay.checking.table_reader import RawTable, is_plain
from textassay.checking.verdicts import Use, VerdictRow


@dataclass(frozen=True, slots=True)
class Reading:
    """How other commands read the data of a check."""

    data: tuple[str, ...] = ()
    """Arguments of `textassay check`; empty if the data are in memory."""
    arguments: tuple[str, ...] = ()
    """Arguments of other commands; empty if they cannot read the data."""
    has_systems: bool = False
    options: tuple[str, ...] = ()
    """Flags of this check."""


def commands_for(row: VerdictRow, reading: Reading) -> tuple[str, ...]:
    """Return the next command of each use, the most urgent first, and the page."""
    return tuple(dict.fromkeys(_commands(row, reading)))


def _commands(row: VerdictRow, reading: Reading) -> Iterator[str]:
    if reading.arguments:
        for use, verdict in row.uses.items():
            if (command := _command_for(use, verdict.answer, row, reading)) is not None:
                yield _command_line(command[0], *reading.arguments, *command[1:])
    if reading.data:
        yield _command_line("check", *reading.data, *reading.options, "--html", "check.html")


def _command_for(
    use: Use, answer: str, row: VerdictRow, reading: Reading
) -> tuple[str, ...] | None:
    by = ("--by", "system") if reading.has_systems else ()
    match use, answer:
        case ("compare", "yes" | "corrected") | ("means", "corrected"):
            return ("estimate", *by)
        case ("gate", "corrected"):
            return ("agreement", "--threshold", "auto")
        case ("texts", "corrected" | "no") if row.pair.raters.shape[1] > 2:
            return ("alt-test",)
        case (_, "no" | "unknown"):
            return ("agreement",)
    return None


def _command_line(*words: str) -> str:
    return " ".join(["textassay", *map(shlex.quote, words)])


def reading_of(
    path: Path, table: RawTable, roles: Roles, pair: tuple[str, list[str]], options: tuple[str, ...]
) -> Reading:
    """Return how other commands read a table, with the roles of columns that the check found."""
    words = _options(path, table, roles, *pair)
    if words is None:
        return Reading((str(path),), options=options)
    return Reading((str(path),), (str(path), *words), roles.system is not None, options)


def _options(
    path: Path, table: RawTable, roles: Roles, judge: str, people: list[str]
) -> list[str] | None:
    """Return the flags with which other commands read the table; `None` if they cannot."""
    # the other commands read numbers, yes and no, and distinguish texts by an id or by their words
    used = [judge, *people]
    is_read = not table.is_own and path.suffix.lower() not in (".txt", ".md")
    if not is_read or not all(is_plain(table.columns[name]) for name in used):
        return None
    if judge.startswith("metrics.") and all(
        name.startswith(("human.", "annotators.")) for name in people
    ):
        ours, theirs = judge.partition(".")[2], people[0].split(".")[1]
        if people[0].startswith("human."):
            theirs = people[0].partition(".")[2]
        return ["--aspect-map", f"{ours}={theirs}"] if ours != theirs else []
    if any("." in name or re.search(r"\w\[\d+\]", name) for name in used):
        return None
    # the columns do not name an aspect
    theirs = "annotators.quality" if len(people) > 1 else "human.quality"
    fields = {judge: "metrics.quality", **dict.fromkeys(people, theirs)}
    if not _unique(table, "id"):
        # it takes longer to import than a check takes
        from textassay.runtime.data.material import meaning_of

        names = [name for name in table.columns if name not in used and _unique(table, name)]
        outputs = [name for name in names if meaning_of(name)[0] == "output"]
        if not outputs:
            return None
        fields[min(outputs, key=lambda name: meaning_of(name)[1])] = "output"
    grouping = (roles.group, "group"), (roles.system, "system")
    fields |= {name: ours for name, ours in grouping if name and name != ours}
    return [word for theirs, ours in fields.items() for word in ("--field", f"{theirs}={ours}")]


def _unique(table: RawTable, name: str) -> bool:
    cells = [str(cell) for cell in table.columns.get(name, ()) if cell is not None]
    return len(cells) == table.length == len(set(cells))
