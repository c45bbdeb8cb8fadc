"""Reads recorded scores.

A run folder, or any JSON Lines file whose rows hold `id`, `aspect` and `value`.

Knows the three fields and the rules of a run folder; nothing of people or correlations.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from textassay.runtime.errors import DataError, RunFolderError

Recorded = dict[str, dict[str, float | None]]
"""Value by aspect and id; `None` where a row is there and unscored."""

_FORMAT = 1


def read_scores(path: str | Path) -> Recorded:
    """Read the scores of a run folder or of a JSON Lines file, which may be gzip (`.gz`).

    A later line for the same id and aspect replaces the earlier. In a run, a torn last line is
    dropped.

    Args:
        path: A run folder, its `scores.jsonl`, or a file whose lines hold `id`, `aspect` and
            `value`.

    Returns:
        Value by aspect and id, in order of appearance; `None` where the last line says unscored.

    Raises:
        RunFolderError: A folder that holds no scores, or a run of a newer format.
        DataError: The file cannot be read, or a line is unusable; names file, line and field.
    """
    scores: Recorded = {}
    for row in read_rows(path):
        scores.setdefault(row.aspect, {})[row.id] = row.value
    return scores


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """One line of recorded scores.

    Attributes:
        aspect: What was judged.
        id: Which example.
        value: The score; `None` if unscored.
        fields: The whole line, such as `outcome`, `scale` and `signature` in a run.
    """

    aspect: str
    id: str
    value: float | None
    fields: dict[str, Any]


def read_rows(path: str | Path) -> Iterator[RecordedRow]:
    """Iterate over the lines of what `read_scores` reads, in the file's order, replaced ones included.

    Raises:
        RunFolderError: As `read_scores`.
        DataError: As `read_scores`.
    """
    path = Path(path)
    file = path / "scores.jsonl" if path.is_dir() else path
    manifest = file.with_name("manifest.json")
    is_run = file.name == "scores.jsonl" and manifest.exists()
    if is_run:
        _refuse_newer(manifest)
    if path.is_dir() and not file.exists():
        raise RunFolderError(
            f"{path} holds no scores.jsonl; give a run folder or a JSON Lines file of scores"
        )
    for number, line, torn in _lines(file):
        try:
            row = json.loads(line, parse_constant=_not_a_number)
        except ValueError as error:
            if torn and is_run:
                break
            raise DataError(f"{file}, line {number}: not a JSON value: {error}") from error
        where = f"{file}, line {number}"
        if not isinstance(row, dict):
            raise DataError(
                f"{where}: must be an object with id, aspect and value, not {type(row).__name__}"
            )
        yield RecordedRow(
            aspect=_name(row, "aspect", where),
            id=_name(row, "id", where),
            value=_value(row, where),
            fields=row,
        )


def _lines(file: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield number, text and whether the line lacks its end, for each line that is not blank."""
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    torn = not line.endswith(b"\n")
                    yield (
                        number,
                        line.decode(
                            "utf-8-sig" if number == 1 else "utf-8", "replace" if torn else "strict"
                        ),
                        torn,
                    )
    except UnicodeDecodeError as error:
        raise DataError(f"{file}, line {number}: not UTF-8: {error}") from error
    except (OSError, EOFError) as error:
        raise DataError(f"cannot read the scores in {file}: {error}") from error


def _name(row: dict[str, Any], field: str, where: str) -> str:
    value = row.get(field)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise DataError(
            f"{where}, field {field!r}: must be a text that is not empty, not {value!r}"
        )
    return value


def _value(row: dict[str, Any], where: str) -> float | None:
    value = row.get("value", row)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        found = "missing" if value is row else repr(value)
        raise DataError(
            f"{where}, field 'value': must be a number, or null where unscored; it is {found}"
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise DataError(f"{where}, field 'value': must be finite; it is {value!r}")
    return number


def _refuse_newer(manifest: Path) -> None:
    try:
        found = json.loads(manifest.read_bytes())
    except (OSError, ValueError) as error:
        raise RunFolderError(f"cannot read {manifest}: {error}") from error
    version = found.get("format") if isinstance(found, dict) else None
    if not isinstance(version, int) or version > _FORMAT:
        raise RunFolderError(
            f"{manifest} has format {version!r}; this version of textassay reads format {_FORMAT}"
        )


def _not_a_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number in JSON")
