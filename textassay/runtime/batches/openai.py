"""Batches of OpenAI-compatible servers.

A file of requests, a batch of it, a file of answers and one of errors.

`POST /files`, `POST /batches`, `GET /batches/ID`, `GET /files/ID/content`, as OpenAI and Azure
have them. Both files are read whatever the status: a batch that expired has answers as well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

from textassay.runtime.backends import openai_format, responses_format
from textassay.runtime.batches.http import BatchHttp, id_of
from textassay.runtime.batches.openai_rows import result_of
from textassay.runtime.batches.provider import (
    GIVEN_TEXT,
    HALF_PRICE,
    BatchResult,
    BatchStatus,
    FileUnread,
    Limits,
    Prepared,
)
from textassay.runtime.errors import (
    MalformedResponse,
    ModelNotFound,
    parameter,
    quoted,
)
from textassay.runtime.model import Request, Response

TAG = "textassay_batch"
"""Key of our metadata by which a batch is found again."""

PAGE = 100
CLOCK_SECONDS = 600.0
"""Difference between the provider's clock and ours that is reckoned with."""

_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_TOO_MUCH_ENQUEUED = "token_limit_exceeded"
"""Code with which OpenAI and Azure refuse a batch, once they have looked at its file, until others
have ended."""
_UNREAD = frozenset({"pending", "running", "notrunning"})
"""Statuses of an uploaded file of which Azure makes no batch yet."""


class OpenAIBatches:
    """The batch API of a server of OpenAI's kind."""

    name = "openai"
    discount = HALF_PRICE
    lacks = GIVEN_TEXT

    def __init__(
        self,
        http: BatchHttp,
        model: str,
        *,
        limits: Limits = Limits(50_000, 200_000_000),  # noqa: B008
        version: str = "/v1",
        window: str = "24h",
        responses: bool = False,
    ) -> None:
        """Store how to ask.

        Args:
            http: The server.
            model: The model's name there.
            limits: What one batch may hold.
            version: Start of the endpoints' paths, as they are written in batches; Azure has none.
            window: Time in which a batch is run before it expires.
            responses: Whether requests are those of the Responses API.
        """
        self._responses = responses
        self._http, self._model = http, model
        self._version, self._window = version, window
        self.limits = limits

    def group(self, request: Request) -> str:
        """Return the endpoint: one to a batch."""
        if self._responses:
            responses_format.check(request)
            return self._version + responses_format.PATH
        return f"{self._version}/{'chat/completions' if request.messages else 'completions'}"

    def encode(self, key: str, request: Request) -> bytes:
        """Return the line of a request."""
        fields = (
            responses_format.request_fields(request)
            if self._responses
            else openai_format.prompt_fields(request) | openai_format.sampling_fields(request)
        )
        body = {"model": self._model, **fields}
        return orjson.dumps(
            {"custom_id": key, "method": "POST", "url": self.group(request), "body": body}
        )

    async def submit(self, batch: Prepared, uploaded: Callable[[str], Awaitable[None]]) -> str:
        """Upload the file, unless it is there, and start the batch."""
        answer: Any = None
        file = batch.uploaded
        if file is None:
            answer = await self._upload(batch)
            file = id_of(answer)
            # Noted before the batch is started: after a crash in between, the file is not uploaded
            # again, and a batch that was started all the same is found by it.
            await uploaded(file)
        await self._check_read(file, answer)
        body = {
            "input_file_id": file,
            "endpoint": batch.group,
            "completion_window": self._window,
            "metadata": {TAG: batch.tag},
        }
        return id_of(await self._http.ask("POST", "/batches", orjson.dumps(body)))

    async def _upload(self, batch: Prepared) -> Any:
        try:
            return await self._http.upload("/files", batch.file, {"purpose": "batch"})
        except ModelNotFound as error:
            raise ModelNotFound(
                f"{quoted(error)}; if this server has no batch API, leave out "
                f"{parameter('batch', 'True', typed='')}"
            ) from error

    async def _check_read(self, file: str, answer: Any) -> None:
        """Check that the server has read an uploaded file; only Azure refuses batches before that.

        Args:
            file: The server's name of it.
            answer: What the server said of it last; `None` if it was uploaded earlier.

        Raises:
            FileUnread: It has not.
        """
        if answer is None and not self._version:
            answer = await self._http.ask("GET", f"/files/{file}")
        status = answer.get("status") if isinstance(answer, Mapping) else None
        if str(status).lower() in _UNREAD:
            raise FileUnread(f"the provider has not read the uploaded file {file} ({status})")

    async def find(self, batch: Prepared) -> str | None:
        """Look through the batches made since, newest first, for our tag or our file."""
        after = ""
        while True:
            page = await self._http.ask("GET", f"/batches?limit={PAGE}{after}")
            listed = listed_in(page)
            if (own := own_of(listed, batch)) is not None:
                return own
            # Newest first, so what is older than our batch ends the search: an account may have
            # thousands.
            oldest = listed[-1].get("created_at") if listed else None
            done = not isinstance(oldest, int | float) or oldest < batch.since - CLOCK_SECONDS
            if done or not page.get("has_more"):
                return None
            after = f"&after={id_of(listed[-1])}"

    async def status(self, batch_id: str) -> BatchStatus:
        """Return how far a batch is."""
        answer = await self._http.ask("GET", f"/batches/{batch_id}")
        word = answer.get("status") if isinstance(answer, Mapping) else None
        if not isinstance(word, str):
            raise MalformedResponse(f"batch {batch_id} has no status")
        # The error file may come with any status: it holds the requests that failed one by one.
        files = tuple(
            answer[name] for name in ("output_file_id", "error_file_id") if answer.get(name)
        )
        errors = _errors_in(answer) if word == "failed" else []
        return BatchStatus(
            ended=word in _ENDED,
            word=word,
            failure=_reasons(errors) if word == "failed" else None,
            is_postponed=any(error.get("code") == _TOO_MUCH_ENQUEUED for error in errors),
            places=files,
        )

    async def results(
        self, batch_id: str, status: BatchStatus, keys: Sequence[str]
    ) -> AsyncIterator[BatchResult]:
        """Yield the lines of both files."""
        for file in status.places:
            async for line in self._http.lines(f"/files/{file}/content"):
                yield result_of(line, self._http.row_error)

    def read(self, payload: Any, request: Request) -> Response:
        """Return the answer that a line holds."""
        if self._responses:
            return responses_format.read_response(payload, request, None)
        return openai_format.read_response(payload, request, None)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()


def listed_in(page: Any) -> list[Mapping[str, Any]]:
    """Return the batches on a page of the provider's list."""
    rows = page.get("data") if isinstance(page, Mapping) else None
    return [entry for entry in rows if isinstance(entry, Mapping)] if rows else []


def own_of(listed: Iterable[Mapping[str, Any]], batch: Prepared) -> str | None:
    """Return the id of the listed batch that has our tag or was made of our file.

    Passes by those that are known: such as one that was refused since too much was enqueued, and
    was submitted again.
    """
    for entry in listed:
        if entry.get("id") in batch.known:
            continue
        tag = (entry.get("metadata") or {}).get(TAG)
        file = entry.get("input_file_id")
        if tag == batch.tag or (file is not None and file == batch.uploaded):
            return id_of(entry)
    return None


def _errors_in(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the errors of a whole batch."""
    # OpenAI wraps the list in an object, Groq does not.
    errors = answer.get("errors")
    listed = errors.get("data") if isinstance(errors, Mapping) else errors
    return [e for e in listed if isinstance(e, Mapping)] if isinstance(listed, list) else []


def _reasons(errors: Sequence[Mapping[str, Any]]) -> str:
    """Return why a whole batch was refused."""
    reasons = "; ".join(str(e.get("message") or e.get("code")) for e in errors[:3])
    return reasons or "the provider does not say why"
