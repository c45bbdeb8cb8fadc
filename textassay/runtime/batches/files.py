"""Batches as files in a folder, answered by vLLM's `run-batch` or any program of its kind.

TAG.input.jsonl    requests in the format of OpenAI's batch files, written here
TAG.output.jsonl   answers, one a line with its `custom_id`

The output must appear complete, by renaming it once it is written: `vllm run-batch` writes line by
line, and nothing in its file tells a finished run from one that died.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from textassay.runtime.backends import http_errors
from textassay.runtime.batches.dialect import (
    UNREADABLE,
    BatchRecord,
    BatchResult,
    BatchStatus,
    ResultsGone,
)
from textassay.runtime.batches.openai import SERVERS, OpenAIFormat, result_in
from textassay.runtime.errors import ConfigurationError, ConnectionFailed, ModelError, parameter

INPUT, OUTPUT = ".input.jsonl", ".output.jsonl"
LINES_AT_ONCE = 500


class FilesDialect(OpenAIFormat):
    """A folder that requests are written to and answers are read from."""

    def __init__(self, folder: Path, model: str) -> None:
        if not folder.is_dir():
            raise ConfigurationError(
                f"{parameter('batch_files')}: there is no folder {str(folder)!r}; make it first"
            )
        super().__init__(model, SERVERS["run-batch"])
        self._folder = folder

    async def upload(self, file: Path) -> None:
        """Do nothing: the file and the batch are one."""

    async def submit(self, batch: BatchRecord, file: Path) -> str:
        """Put the requests into the folder; their name there is that of the batch."""

        def copy() -> None:
            target = self._folder / f"{batch.tag}{INPUT}"
            part = target.with_suffix(".part")
            with file.open("rb") as source, part.open("wb") as copied:
                shutil.copyfileobj(source, copied)
                copied.flush()
                os.fsync(copied.fileno())
            # what answers must never see half of the requests
            part.replace(target)

        await self._on_disk(copy)
        return batch.tag

    async def find(self, batch: BatchRecord, keys: Collection[str]) -> str | None:
        """Return the name of the batch if its requests are there."""
        there = await self._on_disk((self._folder / f"{batch.tag}{INPUT}").exists)
        return batch.tag if there else None

    async def status(self, batch_id: str) -> BatchStatus:
        """Return whether the answers are there."""
        there = await self._on_disk(self._output(batch_id).exists)
        return BatchStatus(ended=there, word="completed" if there else "in_progress")

    async def results(
        self, batch_id: str, status: BatchStatus, keys: Sequence[str]
    ) -> AsyncIterator[BatchResult]:
        """Yield the lines of the answers."""
        path = self._output(batch_id)

        def some(lines: Iterator[bytes]) -> list[bytes]:
            return list(islice(lines, LINES_AT_ONCE))

        try:
            with await asyncio.to_thread(path.open, "rb") as file:
                number = 0
                while lines := await asyncio.to_thread(some, file):
                    for line in lines:
                        number += 1
                        if line.strip():
                            yield _result(line, f"{path}:{number}")
        except FileNotFoundError as error:
            raise ResultsGone(f"{path} was removed") from error
        except OSError as error:
            raise ConnectionFailed(f"{path} cannot be read: {error}") from error

    async def aclose(self) -> None:
        """Do nothing: no file is held open."""

    def _output(self, batch_id: str) -> Path:
        return self._folder / f"{batch_id}{OUTPUT}"

    async def _on_disk(self, work: Callable[[], Any]) -> Any:
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            # a shared disk may come back, as a server may
            raise ConnectionFailed(f"{self._folder} cannot be used: {error}") from error


def _result(line: bytes, where: str) -> BatchResult:
    def refused(status: int, body: Any) -> ModelError:
        return http_errors.from_status(status, {}, orjson.dumps(body), where=where)

    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return UNREADABLE
    return result_in(row, refused, where=where)
