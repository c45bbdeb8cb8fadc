"""The files of a run folder: their names, the lines of scores.jsonl, and how each is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from textassay.runtime.data.json_values import to_json_value
from textassay.runtime.errors import DataError, RunFolderError
from textassay.runtime.messages import Score, Usage
from textassay.runtime.storage.files import read_regular
from textassay.runtime.storage.journal import parse_row, read_lines
from textassay.runtime.storage.json_text import decode, encode
from textassay.runtime.storage.run_summary import Completed, RunSummary, pair_digest

FORMAT = 1
MANIFEST, SCORES, SUMMARY, ANSWERS = "manifest.json", "scores.jsonl", "summary.json", "answers"
BATCHES = "batches.jsonl"
_TIMING = ("started", "seconds")
"""Fields that scores of earlier versions lack."""
_CALIBRATED = ("calibrated", "low", "high", "outside")
"""Fields that only calibrated scores have."""


def score_row(score: Score) -> bytes:
    """Return a score as one line of `scores.jsonl`, without the line break.

    Raises:
        TypeError: It holds something that is not JSON.
    """
    fields, usage = {**vars(score)}, score.usage
    if isinstance(usage, Usage):
        fields["usage"] = vars(usage)  # a fifth of the time that `_as_json` takes
    if score.outside is score.calibrated is score.low is score.high is None:
        for name in _CALIBRATED:
            del fields[name]
    if score.started is None:
        for name in _TIMING:
            del fields[name]
    return encode(fields, default=_as_json)


def _as_json(value: Any) -> Any:
    return (
        value.model_dump(warnings=False) if isinstance(value, BaseModel) else to_json_value(value)
    )


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """Return the manifest of a run.

    Raises:
        RunFolderError: The folder holds no run, or one of a newer format.
    """
    return _read_json(Path(folder), MANIFEST)


def read_summary(folder: str | Path) -> dict[str, Any]:
    """Return the summary of a run as it was last written.

    Raises:
        RunFolderError: There is none, or it is of a newer format.
    """
    return _read_json(Path(folder), SUMMARY)


def completed(folder: str | Path) -> Completed:
    """Return what a run has completed; some 150 bytes per score.

    Raises:
        DataError: A line of its scores is damaged; names file and line.
    """
    return Completed(tally_of(Path(folder)))


def latest_scores(folder: str | Path) -> Iterator[Score]:
    """Iterate over a run's scores, the last one per example and aspect, in the file's order.

    The file is read twice, and may grow meanwhile: what comes after the first reading is left out.

    Raises:
        DataError: A line is damaged; names file, line and field.
        StorageError: The file cannot be read.
    """
    return (score for score, _, is_last in read_lines_of(folder) if is_last)


def read_lines_of(folder: str | Path) -> Iterator[tuple[Score, bytes, bool]]:
    """Iterate over a run's scores, each with its line and whether no later line replaces it.

    Raises:
        DataError: A line is damaged; names file, line and field.
        StorageError: The file cannot be read.
    """
    path = Path(folder) / SCORES
    last: dict[bytes, int] = {}
    replaced: set[int] = set()
    end = 0
    for number, line in lines_of(path):
        score = parse_score(path, number, line)
        end, key = number, pair_digest(score.id, score.aspect)
        earlier = last.get(key)
        # Numbers of replaced lines rather than offsets of the last: usually there are none of them.
        if earlier is not None:
            replaced.add(earlier)
        last[key] = number
    last.clear()
    for number, line in lines_of(path):
        if number > end:
            return
        yield parse_score(path, number, line), line, number not in replaced


def tally_of(folder: Path) -> RunSummary:
    """Return what the scores of a run amount to.

    Raises:
        DataError: A line is damaged; names file and line.
    """
    tally, path = RunSummary(), folder / SCORES
    for number, line in lines_of(path):
        tally.add(parse_score(path, number, line))
    return tally


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Iterate over a run's lines; a run that was killed before its first score has no file."""
    return read_lines(path) if path.exists() else iter(())


def parse_score(path: Path, number: int, line: bytes) -> Score:
    """Return the score on a line of `scores.jsonl`.

    Raises:
        DataError: The line holds no score; names file, line and field.
    """
    try:
        return Score.model_validate(parse_row(path, number, line))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or "the row"
        raise DataError(f"{path}:{number}: {field}: {first['msg']}") from error


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    try:
        value = decode(read_regular(path))
    except FileNotFoundError as error:
        shards = next(folder.glob(f"shard-*/{MANIFEST}"), None)
        hint = (
            ""
            if shards is None
            else (
                f", but shards of one: `textassay resume {folder}` finishes and merges them, and "
                f"`textassay merge --partial {folder}` takes them as they are"
            )
        )
        raise RunFolderError(f"{folder} contains no run: it has no {name}{hint}") from error
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path} cannot be read: {error}") from error
    number = value.get("format") if isinstance(value, dict) else None
    if number != FORMAT:
        raise RunFolderError(
            f"{path} has format {number!r}, and this version of textassay reads {FORMAT}; "
            "a run is read by the version that made it or a later one"
        )
    return dict(value)
