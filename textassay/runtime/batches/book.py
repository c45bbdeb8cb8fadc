"""What is known of a run's batches.

An append-only journal, and the requests of each batch that is under way.

RUN/batches.jsonl               prepared, uploaded, submitted, ended, collected: each forced to the
disk before the next step is taken
RUN/batches/TAG.requests.jsonl  key and request, one a line, until the batch is collected
RUN/batches/TAG.input.jsonl     the lines that the provider takes
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from textassay.runtime.errors import DataError, StorageError
from textassay.runtime.model import ChoicesRequest, Request
from textassay.runtime.storage.files import open_regular, sync_folder
from textassay.runtime.storage.journal import Journal, read_rows
from textassay.runtime.storage.json_text import encode
from textassay.runtime.storage.run_files import BATCHES

FOLDER = "batches"
State = Literal["prepared", "uploaded", "submitted", "ended", "collected"]


@dataclass
class BatchEntry:
    """One batch, as the journal has it."""

    tag: str
    model: str
    """Digest of the model's identity."""
    group: str
    requests: int
    since: float
    attempt: int = 1
    """1 for a batch of new requests, 2 for one of requests that a first batch did not run."""
    known: frozenset[str] = frozenset()
    state: State = "prepared"
    uploaded: str | None = None
    id: str | None = None


@dataclass(frozen=True)
class KeyedRequest:
    """A request in a batch, with its cache key."""

    key: str
    request: Request | ChoicesRequest


@dataclass
class BatchBook:
    """The batches of one run; one process writes to it."""

    run: Path
    entries: dict[str, BatchEntry] = field(init=False)

    def __post_init__(self) -> None:
        """Read the journal."""
        # Every state is on the disk before the next step is taken. A power cut that lost
        # "submitted" would have the batch paid for twice.
        self._journal = Journal(self.path, sync_seconds=0)
        try:
            self.entries = read_entries(self.run)
        except BaseException:
            self._journal.close()
            raise

    @property
    def path(self) -> Path:
        """The journal."""
        return self.run / BATCHES

    @property
    def ids(self) -> frozenset[str]:
        """The provider's ids of all batches that have one."""
        return frozenset(e.id for e in self.entries.values() if e.id is not None)

    def open_entries(self, model: str) -> list[BatchEntry]:
        """Return a model's batches that are not collected yet, oldest first."""
        return [e for e in self.entries.values() if e.model == model and e.state != "collected"]

    async def prepare(
        self, entry: BatchEntry, requests: Iterable[KeyedRequest], lines: Iterable[bytes]
    ) -> None:
        """Write a batch down, before anything of it is sent."""
        rows = (
            encode(
                {"key": a.key, "kind": type(a.request).__name__, "request": a.request.model_dump()}
            )
            for a in requests
        )
        # Files before the journal's row: a row promises that they are there.
        await asyncio.to_thread(_write, self._requests(entry.tag), rows)
        await asyncio.to_thread(_write, self.input(entry.tag), lines)
        await self.note(
            entry.tag,
            "prepared",
            model=entry.model,
            group=entry.group,
            requests=entry.requests,
            since=entry.since,
            attempt=entry.attempt,
            known=sorted(entry.known),
        )

    async def note(self, tag: str, state: State, **facts: Any) -> None:
        """Journal a state; return once it is on the disk."""
        row = {"tag": tag, "state": state, "at": round(time.time(), 3), **facts}
        await self._journal.append(encode(row))
        _take(self.entries, row)

    def requests(self, tag: str) -> Iterator[KeyedRequest]:
        """Iterate over the requests of a batch."""
        kinds = {"Request": Request, "ChoicesRequest": ChoicesRequest}
        for row in read_rows(self._requests(tag)):
            yield KeyedRequest(row["key"], kinds[row["kind"]](**row["request"]))

    def input(self, tag: str) -> Path:
        """Return the file that the provider takes."""
        return self.run / FOLDER / f"{tag}.input.jsonl"

    def forget(self, tag: str) -> None:
        """Remove the requests of a batch that is collected."""
        with contextlib.suppress(OSError):  # they are of no more use, and harmless
            self._requests(tag).unlink(missing_ok=True)
            self.input(tag).unlink(missing_ok=True)
            (self.run / FOLDER).rmdir()

    @property
    def is_free(self) -> bool:
        """Whether no batch was submitted, or may have been: all of them were refused."""
        return all(e.id is None and e.state == "collected" for e in self.entries.values())

    async def aclose(self) -> None:
        """Close the journal; one without a batch that was submitted is removed."""
        await self._journal.aclose()
        if self.is_free:
            # nothing locks the folder of a `fit`: another one may have written, too
            self.entries = read_entries(self.run)
        if self.is_free:
            self.path.unlink(missing_ok=True)

    def _requests(self, tag: str) -> Path:
        return self.run / FOLDER / f"{tag}.requests.jsonl"


def read_entries(run: Path) -> dict[str, BatchEntry]:
    """Return the batches of a run by their tags; none if it has no journal of them."""
    entries: dict[str, BatchEntry] = {}
    path = run / BATCHES
    if path.exists():
        for row in read_rows(path):
            try:
                _take(entries, row)
            except (KeyError, TypeError) as error:
                raise DataError(f"{path}: a line is damaged or was edited: {error!r}") from error
    return entries


def _take(entries: dict[str, BatchEntry], row: Mapping[str, Any]) -> None:
    """Change the entries as a row of the journal says."""
    tag, state = row["tag"], row["state"]
    if state == "prepared":
        entries[tag] = BatchEntry(
            tag=tag,
            model=row["model"],
            group=row["group"],
            requests=row["requests"],
            since=row["since"],
            attempt=row["attempt"],
            known=frozenset(row["known"]),
        )
    entry = entries[tag]
    entry.state = state
    # Rows name only what has changed since the one before.
    entry.uploaded = row.get("uploaded", entry.uploaded)
    entry.id = row.get("id", entry.id)
    if (refused := row.get("refused")) is not None:
        entry.known |= {refused}


def _write(path: Path, lines: Iterable[bytes]) -> None:
    """Write a file and force it to the disk."""
    try:
        path.parent.mkdir(exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(open_regular(path, flags), "wb") as file:
            for line in lines:
                file.write(line)
                file.write(b"\n")
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
        sync_folder(path.parent.parent)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error}") from error
