"""The folder of a run: how it was made, its scores as they come, and what they amount to.

    manifest.json    everything needed to repeat the run; written once
    scores.jsonl     one score a line, append-only, readable at any time
    summary.json     counts, means and cost
    answers/         answers of models, where the run has no cache elsewhere
    .lock            held by the process that writes to the run; freed when the process dies

Knows scores and files. The contents of a manifest beyond its format are up to its writer.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import filelock
from pydantic import BaseModel, ValidationError

from textassay.runtime.errors import DataError, RunFolderError, StorageError, parameter
from textassay.runtime.messages import Score, ScoreError, Usage
from textassay.runtime.resource import AsyncResource
from textassay.runtime.storage.cache_folder import is_cache_folder, was_begun
from textassay.runtime.storage.files import (
    is_unfinished,
    read_regular,
    refuse_irregular,
    write_json,
    write_text,
)
from textassay.runtime.storage.journal import Journal, parse_row, read_lines
from textassay.runtime.storage.json_text import decode, encode
from textassay.runtime.storage.run_summary import Completed, RunSummary, pair_digest
from textassay.runtime.storage.threads import in_thread

__all__ = [
    "ANSWERS",
    "FORMAT",
    "MANIFEST",
    "SCORES",
    "SUMMARY",
    "Completed",
    "RunFolder",
    "RunSummary",
    "completed",
    "latest_scores",
    "lock_run",
    "parse_score",
    "read_lines_of",
    "read_manifest",
    "read_summary",
    "score_row",
]

FORMAT = 1
MANIFEST, SCORES, SUMMARY, ANSWERS = "manifest.json", "scores.jsonl", "summary.json", "answers"
_LOCK = ".lock"
_TIMING = frozenset({"started", "seconds"})
_CALIBRATED = frozenset({"calibrated", "low", "high", "outside"})
"""Fields that only calibrated scores have."""
_HIDDEN = {
    (True, True): _TIMING | _CALIBRATED,
    (True, False): _TIMING,
    (False, True): _CALIBRATED,
}
"""Fields to leave out of a row, by whether it lacks its timing and a calibration."""
_BARE = frozenset({Score, ScoreError, Usage})
"""Messages whose `__dict__` holds nothing but their fields (no cached properties)."""


class RunFolder(AsyncResource):
    """A run that this process alone writes to, from `create` or `resume` to `close`."""

    def __init__(self, path: Path, lock: filelock.BaseFileLock, *, made: bool = False) -> None:
        """Store a locked folder and whether it was just made; use `create` or `resume`."""
        self.path, self._made, self._resumed = path, made, False
        self.manifest: dict[str, Any] = {}
        self.tally = RunSummary()
        self._started = datetime.now(UTC).isoformat(timespec="seconds")
        self._began, self._earlier_seconds = time.monotonic(), 0.0
        self._discarded = False
        self._lock = lock
        self._journal: Journal | None = None

    @staticmethod
    def check_new(path: str | Path) -> None:
        """Refuse, without making anything, a place where `create` could not make a folder.

        Raises:
            RunFolderError: It holds a run or something else, or cannot be written to.
        """
        path = Path(path)
        _refuse_foreign(path)
        nearest = next(place for place in (path, *path.absolute().parents) if place.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            raise RunFolderError(
                f"the run folder {path} cannot be created: {nearest} is not writable"
            )

    @classmethod
    def create(cls, path: str | Path) -> RunFolder:
        """Make and lock a folder for a new run; it is one once `write_manifest` was called.

        Args:
            path: A new or an empty folder, or that of a run without a single score, whose answers
                are kept.

        Raises:
            RunFolderError: It holds a run or something else, is in use, or cannot be written to.
        """
        path = Path(path)
        _refuse_foreign(path)
        made = not path.exists()
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFolderError(f"the run folder {path} cannot be created: {error}") from error
        run = cls(path, lock_run(path), made=made)
        run.tally = RunSummary(
            remember=False
        )  # the ids of a data set differ, so no pair comes twice
        try:
            _refuse_foreign(path)
            return run
        except BaseException:
            run._lock.release()
            raise

    @classmethod
    def resume(cls, path: str | Path) -> RunFolder:
        """Open and lock the folder of a run that was begun, and read what it has completed.

        Raises:
            RunFolderError: It holds no run, is in use, cannot be written to, or has a newer format.
            DataError: A line of its scores is damaged.
        """
        path = Path(path)
        manifest = read_manifest(path)
        # Before the lock, which writes a file: a linked `.lock` would be created elsewhere.
        _refuse_links(path)
        run = cls(path, lock_run(path))
        try:
            run.manifest, run._resumed = manifest, True
            # Opened before it is read, which cuts off a torn last line: what is counted is what
            # stays.
            run._open_journal()
            run.tally = _tally_of(path)
            run._started, run._earlier_seconds = _timing_of(path, run._started)
            return run
        except BaseException:
            run.close()
            raise

    @property
    def answers(self) -> Path:
        """Where the run keeps answers of models, unless it has a cache elsewhere."""
        return self.path / ANSWERS

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write how the run is made; scores can be appended from then on.

        Args:
            manifest: JSON values; `format` is added. Never a key.

        Raises:
            RunFolderError: The folder cannot be written to.
        """
        complete = {"format": FORMAT, **manifest}
        try:
            write_json(self.path / MANIFEST, complete)
        except OSError as error:
            raise _not_writable(self.path, error) from error
        except TypeError as error:
            raise RunFolderError(
                f"the manifest of {self.path} would contain something that is not JSON: {error}"
            ) from error
        self.manifest = complete
        self._open_journal()

    async def append(self, scores: Iterable[Score]) -> None:
        """Append scores next to each other; return once a killed process could not lose them.

        A canceled `append` still waits for that: `CancelledError` means that the scores are
        written.

        Raises:
            StorageError: The disk is full; none of the scores is in the file.
        """
        if self._journal is None:
            raise RuntimeError("write_manifest comes before append, and append before close")
        scores = tuple(scores)
        try:
            await self._journal.append(*map(score_row, scores))
        except asyncio.CancelledError:
            self._count(scores)
            raise
        self._count(scores)

    def completed(self) -> Completed:
        """Return what needs no asking.

        Every pair of example and aspect whose last score is not an `error`.
        """
        return Completed(self.tally)

    def check_pairs(self, pairs: Callable[[], Iterable[tuple[str, str]]]) -> None:
        """Refuse scores of examples or aspects that are not the run's.

        They would count in its means.

        Args:
            pairs: Returns every pair of example and aspect of the run; called twice where a score
                is foreign.

        Raises:
            DataError: There is such a score; names file, line, example and aspect.
        """
        # Equal numbers mean that no pair is foreign; only otherwise is the file read again to name
        # it.
        if sum(pair in self.tally for pair in pairs()) == len(self.tally):
            return
        known, path = {pair_digest(*pair) for pair in pairs()}, self.path / SCORES
        for number, line in _lines(path):
            score = parse_score(path, number, line)
            if pair_digest(score.id, score.aspect) not in known:
                raise DataError(
                    f"{path}:{number}: {score.id!r} on {score.aspect!r} is not an example and "
                    "aspect of this run: the file was edited; remove the line"
                )

    def summary(self) -> dict[str, Any]:
        """Return what the run amounts to so far, as `write_summary` writes it.

        Beside what `RunSummary` counts that is when the first session began (`started`, UTC) and
        the `seconds` of all sessions whose summary was written.
        """
        seconds = self._earlier_seconds + time.monotonic() - self._began
        timing = {"started": self._started, "seconds": round(seconds, 3)}
        return {"format": FORMAT, **self.tally.summary(), **timing}

    def write_summary(self) -> None:
        """Write `summary.json` for the scores so far.

        Raises:
            StorageError: The disk is full or the folder gone; an earlier summary stays.
        """
        try:
            write_json(self.path / SUMMARY, self.summary())
        except OSError as error:
            raise StorageError(f"{self.path / SUMMARY} cannot be written: {error}") from error

    def keep(self, name: str, text: str) -> None:
        """Write another file for people to read; keep an existing one, which they may have edited.

        Args:
            name: The file's name, such as `plan.toml`.
            text: Its content.

        Raises:
            StorageError: The disk is full or the folder gone.
        """
        path = self.path / name
        try:
            if not path.exists():
                write_text(path, text)
        except (OSError, UnicodeEncodeError) as error:
            raise StorageError(f"{path} cannot be written: {error}") from error

    def discard(self) -> bool:
        """Have `close` remove the run, so that it can be started over.

        Refused where it holds any score.

        Returns:
            Whether it will be removed.
        """
        self._discarded = not self._resumed and not _has_scores(self.path)
        return self._discarded

    def close(self) -> None:
        """Force the scores to the disk and free the folder; safe to call twice.

        A folder that never got a manifest, or that was discarded, is left as it was found.

        Raises:
            StorageError: The disk refused scores that had been accepted.
        """
        try:
            if self._journal is not None:
                self._journal.close()
        finally:
            self._journal = None
            if self._lock.is_locked:
                if self._discarded or not self.manifest:
                    self._remove()
                self._lock.release()

    def _remove(self) -> None:
        """Leave the folder as it was found; nothing was answered, so there is nothing to lose."""
        with suppress(OSError):  # not empty, or not removable while open: then it stays
            for name in (MANIFEST, SCORES, SUMMARY) if self._discarded else ():
                (self.path / name).unlink(missing_ok=True)
            # Removed while it is still held, so that nobody can lock a file that is about to go.
            (self.path / _LOCK).unlink(missing_ok=True)
            if self._made:
                shutil.rmtree(self.answers, ignore_errors=True)
                self.path.rmdir()

    async def aclose(self) -> None:
        """Do what `close` does, off the event loop."""
        await in_thread(self.close)

    def _open_journal(self) -> None:
        try:
            self._journal = Journal(self.path / SCORES)
        except StorageError as error:
            raise _not_writable(self.path, error) from error

    def _count(self, scores: Iterable[Score]) -> None:
        for score in scores:
            self.tally.add(score)


def score_row(score: Score) -> bytes:
    """Return a score as one line of `scores.jsonl`, without the line break.

    Raises:
        TypeError: Its value or evidence holds something that is not JSON.
    """
    return encode(score, default=_fields)


def _fields(value: Any) -> Any:
    """Return the fields of a message, for `encode`, which calls this for nested messages, too."""
    if type(value) is Score and (value.started is None or value.outside is None):
        hidden = _HIDDEN[value.started is None, value.outside is None]
        fields = vars(value).copy()
        for name in hidden:
            fields.pop(name, None)
        return fields
    if type(value) in _BARE:
        return vars(value)  # a dump takes five times as long
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")


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
    return Completed(_tally_of(Path(folder)))


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
    for number, line in _lines(path):
        score = parse_score(path, number, line)
        end, key = number, pair_digest(score.id, score.aspect)
        earlier = last.get(key)
        # Numbers of replaced lines rather than offsets of the last: usually there are none of them.
        if earlier is not None:
            replaced.add(earlier)
        last[key] = number
    last.clear()
    for number, line in _lines(path):
        if number > end:
            return
        yield parse_score(path, number, line), line, number not in replaced


def _tally_of(folder: Path) -> RunSummary:
    tally, path = RunSummary(), folder / SCORES
    for number, line in _lines(path):
        tally.add(parse_score(path, number, line))
    return tally


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
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
        raise RunFolderError(f"{folder} contains no run: it has no {name}") from error
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path} cannot be read: {error}") from error
    number = value.get("format") if isinstance(value, dict) else None
    if number != FORMAT:
        raise RunFolderError(
            f"{path} has format {number!r}, and this version of textassay reads {FORMAT}; "
            "a run is read by the version that made it or a later one"
        )
    return dict(value)


def _refuse_foreign(path: Path) -> None:
    """Refuse a folder for a new run unless it is absent, empty, or left by a run without scores."""
    if (path / MANIFEST).exists() and not _is_empty_run(path):
        raise RunFolderError(
            f"{path} already contains a run; resume it with `textassay resume {path}` (in Python: "
            "resume=True), or choose another folder"
        )
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{path} is a file; name a folder for the run")
    for entry in path.iterdir() if path.exists() else ():
        if not _is_leftover(entry):
            raise RunFolderError(
                f"{path} contains other files ({entry.name}) and no run; choose a new or empty "
                "folder"
            )


def _is_leftover(entry: Path) -> bool:
    """Return whether a folder's entry is left over from a run that ended before its first score."""
    if entry.is_symlink():
        return False
    if entry.name == ANSWERS:
        return is_cache_folder(entry) or was_begun(entry)
    files = (MANIFEST, SUMMARY, SCORES, _LOCK) if (entry.parent / MANIFEST).exists() else (_LOCK,)
    return entry.name in files or is_unfinished(entry.name, MANIFEST)


def _has_scores(path: Path) -> bool:
    """Return whether a run holds any line, a torn one included."""
    try:
        return (path / SCORES).stat().st_size > 0
    except FileNotFoundError:
        return False


def _is_empty_run(path: Path) -> bool:
    """Return whether a folder holds a run of ours that ended before its first score."""
    try:
        return "models" in read_manifest(path) and not _has_scores(path)
    except RunFolderError:  # somebody else's manifest.json, or one of a later version
        return False


def _timing_of(path: Path, now: str) -> tuple[str, float]:
    """Return when a run began and how long its sessions took, from its last summary."""
    try:
        summary = read_summary(path)
    except RunFolderError:  # killed before its first summary; it is rewritten in any case
        return now, 0.0
    started, seconds = summary.get("started", now), summary.get("seconds", 0.0)
    known = isinstance(started, str) and isinstance(seconds, int | float)
    return (started, float(seconds)) if known else (now, 0.0)


def _refuse_links(path: Path) -> None:
    """Refuse to write to a run folder with linked files, which an untrusted one may hold."""
    for name in (SCORES, SUMMARY, MANIFEST, _LOCK):
        try:
            refuse_irregular(path / name)
        except OSError as error:
            raise RunFolderError(
                f"{path / name} {error.strerror}; textassay writes only to files of the run folder"
            ) from error
    if (path / ANSWERS).is_symlink():
        raise RunFolderError(
            f"{path / ANSWERS} is a link; name the folder that it leads to with "
            f"{parameter('cache')}"
        )


def lock_run(path: Path) -> filelock.BaseFileLock:
    """Return the lock of a run's folder, held for this process.

    Raises:
        RunFolderError: It is in use, or cannot be written to.
    """
    lock = filelock.FileLock(path / _LOCK, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout as error:
        raise RunFolderError(
            f"the run folder {path} is in use by another process; wait until that has ended, or"
            " name another folder"
        ) from error
    except OSError as error:
        raise _not_writable(path, error) from error
    return lock


def _not_writable(path: Path, error: Exception) -> RunFolderError:
    return RunFolderError(f"the run folder {path} cannot be written to: {error}")
