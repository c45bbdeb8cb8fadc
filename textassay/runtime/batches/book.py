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
from typing import Any

from textassay.runtime.batches.dialect import BatchRecord, State
from textassay.runtime.errors import DataError, StorageError
from textassay.runtime.model import ChoicesRequest, Request
from textassay.runtime.storage.files import encode, open_regular, sync_folder
from textassay.runtime.storage.journal import Journal, read_rows
from textassay.runtime.storage.run_files import BATCHES

FOLDER = "batches"
KINDS = {"Request": Request, "ChoicesRequest": ChoicesRequest}
_PREPARED = ("model", "group", "requests", "since", "attempt")
"""What the first row of a batch says of it, beside the batches that are others."""


@dataclass
class BatchBook:
    """The batches of one run; one process writes to it."""

    run: Path
    records: dict[str, BatchRecord] = field(init=False)

    def __post_init__(self) -> None:
        """Read the journal."""
        # Every state is on the disk before the next step is taken. A power cut that lost
        # "submitted" would have the batch paid for twice.
        self._journal = Journal(self.path, sync_seconds=0)
        try:
            self.records = read_records(self.run)
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
        return frozenset(e.id for e in self.records.values() if e.id is not None)

    def open_records(self, model: str) -> list[BatchRecord]:
        """Return a model's batches that are not collected yet, oldest first."""
        return [e for e in self.records.values() if e.model == model and e.state != "collected"]

    async def prepare(
        self,
        record: BatchRecord,
        requests: Iterable[tuple[str, Request | ChoicesRequest]],
        lines: Iterable[bytes],
    ) -> None:
        """Write a batch down, before anything of it is sent."""
        rows = (
            encode({"key": key, "kind": type(request).__name__, "request": request.model_dump()})
            for key, request in requests
        )
        # Files before the journal's row: a row promises that they are there.
        await asyncio.to_thread(_write, self._requests(record.tag), rows)
        await asyncio.to_thread(_write, self.input(record.tag), lines)
        facts = {name: getattr(record, name) for name in _PREPARED}
        await self.note(record.tag, "prepared", **facts, known=sorted(record.known))

    async def note(self, tag: str, state: State, **facts: Any) -> None:
        """Journal a state; return once it is on the disk."""
        row = {"tag": tag, "state": state, "at": round(time.time(), 3), **facts}
        await self._journal.append(encode(row))
        _take(self.records, row)

    def requests(self, tag: str) -> Iterator[tuple[str, Request | ChoicesRequest]]:
        """Iterate over the requests of a batch and their cache keys."""
        for row in read_rows(self._requests(tag)):
            yield row["key"], KINDS[row["kind"]](**row["request"])

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
        return all(e.id is None and e.state == "collected" for e in self.records.values())

    async def aclose(self) -> None:
        """Close the journal; one without a batch that was submitted is removed."""
        await self._journal.aclose()
        if self.is_free:
            # nothing locks the folder of a `fit`: another one may have written, too
            self.records = read_records(self.run)
        if self.is_free:
            self.path.unlink(missing_ok=True)

    def _requests(self, tag: str) -> Path:
        return self.run / FOLDER / f"{tag}.requests.jsonl"


def read_records(run: Path) -> dict[str, BatchRecord]:
    """Return the batches of a run by their tags; none if it has no journal of them."""
    records: dict[str, BatchRecord] = {}
    path = run / BATCHES
    if path.exists():
        for row in read_rows(path):
            try:
                _take(records, row)
            except (KeyError, TypeError) as error:
                raise DataError(f"{path}: a line is damaged or was edited: {error!r}") from error
    return records


def _take(records: dict[str, BatchRecord], row: Mapping[str, Any]) -> None:
    """Change the records as a row of the journal says."""
    tag, state = row["tag"], row["state"]
    if state == "prepared":
        facts = {name: row[name] for name in _PREPARED}
        records[tag] = BatchRecord(tag, **facts, known=frozenset(row["known"]))
    record = records[tag]
    record.state = state
    # Rows name only what has changed since the one before.
    record.uploaded = row.get("uploaded", record.uploaded)
    record.id = row.get("id", record.id)
    if (refused := row.get("refused")) is not None:
        record.known |= {refused}


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
