"""The folder of a run: its manifest, its scores and their summary.

    manifest.json    everything needed to repeat the run; written once
    scores.jsonl     one score a line, append-only, readable at any time
    summary.json     counts, means and cost
    rows.jsonl       the judged rows, if the data came from memory
    answers/         answers of models, if the run has no cache elsewhere
    .lock            held by the process that writes to the run; freed when the process dies

The writer of a manifest decides its contents beyond the format.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import filelock

from textassay.runtime.base import Usage
from textassay.runtime.concurrency import AsyncResource, in_thread
from textassay.runtime.errors import DataError, RunFolderError, StorageError
from textassay.runtime.labels import without_order
from textassay.runtime.messages import Score
from textassay.runtime.storage.files import is_unfinished, storage_errors, write_json, write_text
from textassay.runtime.storage.journal import Journal
from textassay.runtime.storage.run_files import (
    ANSWERS,
    BATCHES,
    FORMAT,
    MANIFEST,
    ROWS,
    SCORES,
    SUMMARY,
    RunSummary,
    ScoreLine,
    lines_of,
    pair_digest,
    parse_score,
    read_manifest,
    read_summary,
    score_row,
    summarize_journal,
)

LOCK = ".lock"
_FILES = (MANIFEST, SCORES, SUMMARY, ROWS, ANSWERS, LOCK)


class RunFolder(AsyncResource):
    """A run to which only this process writes, from `create` or `resume` to `close`."""

    def __init__(self, path: Path, lock: filelock.BaseFileLock) -> None:
        self.path = path
        self.manifest: dict[str, Any] = {}
        self.tally = RunSummary()
        self._started = datetime.now(UTC).isoformat(timespec="seconds")
        self._began, self._earlier_seconds = time.monotonic(), 0.0
        self._lock = lock
        self._journal: Journal | None = None
        self._was_empty = False

    @classmethod
    def create(cls, path: str | Path) -> RunFolder:
        """Make and lock a folder for a new run, which begins with `write_manifest`.

        If it has a run without a score, the answers are kept and everything else is overwritten.

        Raises:
            RunFolderError: The folder cannot be made, is in use, or has other content.
        """
        path = Path(path)
        check_new(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFolderError(f"the run folder {path} cannot be created: {error}") from error
        run = cls(path, lock_run(path))
        # the ids of a data set differ, so no pair comes twice
        run.tally = RunSummary(remember=False)
        try:
            check_new(path)  # again: another process may have begun a run before the lock
            run._was_empty = all(entry.name == LOCK for entry in path.iterdir())
            for name in (MANIFEST, SCORES, SUMMARY, ROWS):
                (path / name).unlink(missing_ok=True)
            return run
        except BaseException:
            run._lock.release()
            raise

    @classmethod
    def resume(cls, path: str | Path) -> RunFolder:
        """Open and lock the folder of an existing run, and read its completed scores.

        Raises:
            RunFolderError: The folder is not a run, or is in use.
        """
        path = Path(path)
        read_manifest(path)
        # before the lock, which writes a file: a linked `.lock` would be created elsewhere
        check_no_links(path)
        run = cls(path, lock_run(path))
        try:
            # checked again, as another process may have begun a new run before the lock
            run.manifest = read_manifest(path)
            # Opened before it is read, which cuts off a torn last line, so that only kept lines
            # count.
            run._open_journal()
            run.tally = summarize_journal(path)
            if merged := run.manifest.get("merged"):
                # lines that were replaced in shards are not in the merged file, but count as cost
                run.tally.pay(Usage(**merged.get("replaced", {})))
            run._started, run._earlier_seconds = _timing_of(path, run._started)
            return run
        except BaseException:
            run.close()
            raise

    @property
    def answers(self) -> Path:
        """The run's folder of answers, unless it has a cache elsewhere."""
        return self.path / ANSWERS

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest; then scores can be appended."""
        self._write_manifest({"format": FORMAT, **manifest})
        self._open_journal()

    def add_to_manifest(self, entries: Mapping[str, Any]) -> None:
        """Add facts that only the run has shown; raises like `write_manifest`."""
        if any(self.manifest.get(name) != value for name, value in entries.items()):
            self._write_manifest({**self.manifest, **entries})

    def _write_manifest(self, complete: dict[str, Any]) -> None:
        try:
            write_json(self.path / MANIFEST, complete)
        except OSError as error:
            raise not_writable(self.path, error) from error
        except TypeError as error:
            raise RunFolderError(
                f"the manifest of {self.path} would contain something that is not JSON: {error}"
            ) from error
        self.manifest = complete

    def append(self, scores: Iterable[Score]) -> None:
        """Append consecutive scores, which a killed process cannot lose."""
        scores = tuple(scores)
        self._append([score_row(score) for score in scores])
        for score in scores:
            self.tally.add(score)

    def append_lines(self, scores: Sequence[ScoreLine]) -> None:
        """Append lines of scores from another process."""
        self._append([score.line for score in scores])
        for score in scores:
            self.tally.add_line(score.fields)

    def _append(self, rows: Iterable[bytes]) -> None:
        if self._journal is None:
            raise RuntimeError("write_manifest comes before append, and append before close")
        self._journal.append(*rows)

    def check_pairs(self, pairs: Callable[[], Iterable[tuple[str, str]]]) -> None:
        """Refuse scores of examples or aspects that are not in the run."""
        # If the numbers are equal, all pairs are the run's; otherwise the file is read again to
        # find the foreign one.
        if sum(pair in self.tally for pair in pairs()) == len(self.tally):
            return
        expected, path = {pair_digest(*pair) for pair in pairs()}, self.path / SCORES
        for number, line in lines_of(path):
            score = parse_score(path, number, line)
            if pair_digest(score.id, score.aspect) not in expected:
                raise DataError(
                    f"{path}:{number}: {score.id!r} on {score.aspect!r} is not an example and "
                    "aspect of this run: the file was edited; remove the line"
                )

    def summary(self) -> dict[str, Any]:
        """Return the summary so far, as `write_summary` writes it.

        In addition to `RunSummary` it has the start of the first session (`started`, UTC) and the
        `seconds` of all sessions whose summary was written.
        """
        seconds = self._earlier_seconds + time.monotonic() - self._began
        timing = {"started": self._started, "seconds": round(seconds, 3)}
        return {"format": FORMAT, **self.tally.summary(without_order(self.manifest)), **timing}

    def write_summary(self) -> None:
        """Write `summary.json` for the scores so far."""
        with storage_errors(f"{self.path / SUMMARY} cannot be written"):
            write_json(self.path / SUMMARY, self.summary())

    def write_extra_file(self, name: str, text: str) -> None:
        """Write another file for people to read, unless it exists: they may have edited it."""
        path = self.path / name
        try:
            if not path.exists():
                write_text(path, text)
        except (OSError, UnicodeEncodeError) as error:
            raise StorageError(f"{path} cannot be written: {error}") from error

    def close(self) -> None:
        """Force the scores to the disk and unlock the folder; safe to call twice."""
        try:
            if self._journal is not None:
                self._journal.close()
        finally:
            self._journal = None
            if self._was_empty and not self.manifest:  # without a run, the folder is removed
                shutil.rmtree(self.path, ignore_errors=True)
            self._lock.release()

    async def aclose(self) -> None:
        """Close like `close`, off the event loop."""
        await in_thread(self.close)

    def _open_journal(self) -> None:
        try:
            self._journal = Journal(self.path / SCORES)
        except StorageError as error:
            raise not_writable(self.path, error) from error


def _timing_of(path: Path, now: str) -> tuple[str, float]:
    """Return the start of a run and the duration of its sessions, from its last summary."""
    try:
        summary = read_summary(path)
    except RunFolderError:  # killed before its first summary, which will be rewritten anyway
        return now, 0.0
    started, seconds = summary.get("started", now), summary.get("seconds", 0.0)
    is_recorded = isinstance(started, str) and isinstance(seconds, int | float)
    return (started, float(seconds)) if is_recorded else (now, 0.0)


def check_new(path: str | Path) -> None:
    """Refuse a folder for a new run unless it is missing, empty, or a run without a score.

    Raises:
        RunFolderError: It has other content, or cannot be written to.
    """
    path = Path(path)
    if path.is_dir():
        check_no_links(path)
        if has_begun(path):
            raise RunFolderError(
                f"{path} already contains a run; resume it with `textassay resume {path}` (in "
                "Python: `resume=True`), or choose another folder"
            )
        if (path / MANIFEST).exists():
            read_manifest(path)  # it may belong to another program
        for entry in path.iterdir():
            if entry.name not in _FILES and not is_unfinished(entry.name):
                raise RunFolderError(
                    f"{path} contains other files ({entry.name}) and no run; choose a new or empty "
                    "folder"
                )
    elif path.exists():
        raise RunFolderError(f"{path} is a file; name a folder for the run")
    nearest = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise RunFolderError(f"the run folder {path} cannot be created: {nearest} is not writable")


def has_begun(path: Path) -> bool:
    """Return whether a folder has a score, even a torn one, or a batch."""
    scores = path / SCORES
    return (scores.exists() and scores.stat().st_size > 0) or (path / BATCHES).exists()


def check_no_links(path: Path) -> None:
    """Refuse a run folder with links, which an untrusted folder may contain."""
    for name in _FILES:
        if (path / name).is_symlink():
            raise RunFolderError(
                f"{path / name} is a link; textassay writes only to files of the run folder"
                " (cache= names another folder of answers)"
            )


def lock_run(path: Path) -> filelock.BaseFileLock:
    """Lock a run's folder for this process, and return the lock."""
    lock = filelock.FileLock(path / LOCK, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout as error:
        raise RunFolderError(
            f"the run folder {path} is in use by another process, or by another evaluation in this"
            " one; wait until that has ended, or name another folder"
        ) from error
    except OSError as error:
        raise not_writable(path, error) from error
    return lock


def not_writable(path: Path, error: Exception) -> RunFolderError:
    """Return the error about a folder that cannot be written to."""
    return RunFolderError(f"the run folder {path} cannot be written to: {error}")
