"""Batches of Together AI: files and batches like OpenAI's, with other paths, fields and words.

`POST /files/upload`, `POST /batches` and `GET /batches` (https://docs.together.ai/reference). Its
batches carry no metadata, so one is found again by its uploaded file. Only some models are cheaper
in batches (https://docs.together.ai/docs/inference/batch/overview), so the full price is counted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from textassay.runtime.backends import openai_format
from textassay.runtime.batches.http import id_of
from textassay.runtime.batches.openai import OpenAIBatches
from textassay.runtime.batches.provider import BatchStatus, Prepared
from textassay.runtime.errors import CapabilityError, MalformedResponse
from textassay.runtime.model import Request

_ENDED = frozenset({"COMPLETED", "FAILED", "EXPIRED", "CANCELLED"})


class TogetherBatches(OpenAIBatches):
    """The batch API of Together AI."""

    name = "together"
    discount = 1.0

    def group(self, request: Request) -> str:
        """Return the endpoint; refuse plain prompts, for which there is none."""
        if not request.messages:
            raise CapabilityError("Together's batches do not take plain prompts")
        return super().group(request)

    def encode(self, key: str, request: Request) -> bytes:
        """Return the line of a request."""
        body = {
            "model": self._model,
            **openai_format.prompt_fields(request),
            **openai_format.sampling_fields(request),
        }
        return orjson.dumps({"custom_id": key, "body": body})

    async def submit(self, batch: Prepared, uploaded: Callable[[str], Awaitable[None]]) -> str:
        """Upload the file, unless it is there, and start the batch."""
        file = batch.uploaded
        if file is None:
            fields = {"purpose": "batch-api", "file_name": batch.file.name, "file_type": "jsonl"}
            file = id_of(await self._http.upload("/files/upload", batch.file, fields))
            await uploaded(file)
        body = {
            "input_file_id": file,
            "endpoint": batch.group,
            "completion_window": self._window,
        }
        return id_of(_job(await self._http.ask("POST", "/batches", orjson.dumps(body))))

    async def find(self, batch: Prepared) -> str | None:
        """Look through all batches for our file; without one, nothing was submitted."""
        # asked in any case: the queue takes a look as a sign that the provider answers
        listed = await self._http.ask("GET", "/batches")
        jobs = listed.get("data") if isinstance(listed, Mapping) else listed
        for job in jobs or ():
            file = job.get("input_file_id") if isinstance(job, Mapping) else None
            if file is not None and file == batch.uploaded:
                return id_of(job)
        return None

    async def status(self, batch_id: str) -> BatchStatus:
        """Return how far a batch is."""
        job = _job(await self._http.ask("GET", f"/batches/{batch_id}"))
        word = job.get("status") if isinstance(job, Mapping) else None
        if not isinstance(word, str):
            raise MalformedResponse(f"batch {batch_id} has no status")
        files = tuple(job[name] for name in ("output_file_id", "error_file_id") if job.get(name))
        failure = None
        if word == "FAILED" and not files:
            failure = str(job.get("error") or "the provider does not say why")
        return BatchStatus(ended=word in _ENDED, word=word, failure=failure, places=files)


def _job(answer: Any) -> Any:
    """Return the batch itself, which some answers wrap."""
    return answer.get("job", answer) if isinstance(answer, Mapping) else answer
