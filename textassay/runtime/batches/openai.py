"""Batches in OpenAI's format: of OpenAI, Azure, Groq, Together AI and the like.

A file of requests, a batch of it, a file of answers and one of errors: `POST /files`,
`POST /batches`, `GET /batches/ID`, `GET /files/ID/content`. Both files are read with any
status: a batch that expired has answers as well. `SERVERS` lists how the servers differ.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from textassay.runtime.backends import http_errors, openai_format, responses_format
from textassay.runtime.batches.dialect import (
    PAGE,
    UNREADABLE,
    BatchHttp,
    BatchRecord,
    BatchResult,
    BatchStatus,
    Dialect,
    FileUnread,
    Limits,
    check_request,
    read_id,
)
from textassay.runtime.calls.call import PLAIN, Posting
from textassay.runtime.errors import MalformedResponse, ModelError, ModelNotFound, PathNotFound
from textassay.runtime.model import Request, Response

TAG = "textassay_batch"
"""Key of our metadata by which a batch is found again."""


@dataclass(frozen=True)
class OpenAIServer:
    """The features of a server of OpenAI's kind."""

    name: str = "OpenAI"
    limits: Limits = field(default=Limits(50_000, 200_000_000))
    discount: float = 0.5
    lacks: frozenset[str] = frozenset({"continuation"})
    takes_prompts: bool = True
    version: str = "/v1"
    """Start of the endpoints' paths in batches."""
    upload_path: str = "/files"
    upload_fields: Mapping[str, str] = field(default_factory=lambda: {"purpose": "batch"})
    names_file: bool = False
    """Whether an upload has a field for the file's name."""
    checks_file: bool = False
    """Whether a batch is refused until the server has read its file."""
    has_metadata: bool = True
    """Whether a batch has metadata; otherwise it is found again by its file."""
    names_endpoint: bool = True
    """Whether each line names the endpoint."""
    first_page: str = f"?limit={PAGE}"
    """Query of the first page of the list of batches."""
    stopped_are_unrun: bool = False
    """Whether requests that fail in a batch that was stopped were not run and are free."""
    responses: bool = False
    """Whether requests and answers are in the format of the Responses API."""
    takes_windows: bool = False
    """Whether a batch may take longer than 24 hours before it expires."""


SERVERS = {
    "azure": OpenAIServer(
        "Azure", limits=Limits(100_000, 200_000_000), version="", checks_file=True
    ),
    # https://console.groq.com/docs/batch; the guide allows 200 MB, the API reference 100. The codes
    # of requests that a stopped batch has not run are not documented.
    "groq": OpenAIServer(
        "Groq",
        limits=Limits(50_000, 100_000_000),
        lacks=frozenset({"continuation", "logprobs", "choices", "n"}),
        takes_prompts=False,
        first_page="",
        stopped_are_unrun=True,
        takes_windows=True,
    ),
    # https://docs.together.ai/reference; only some models are cheaper in batches
    # (https://docs.together.ai/docs/inference/batch/overview), so the full price is counted.
    "together_ai": OpenAIServer(
        "Together",
        limits=Limits(50_000, 100_000_000),
        discount=1.0,
        takes_prompts=False,
        upload_path="/files/upload",
        upload_fields={"purpose": "batch-api", "file_type": "jsonl"},
        names_file=True,
        has_metadata=False,
        names_endpoint=False,
        first_page="",
    ),
    "responses": OpenAIServer(responses=True),
}
"""Servers that differ from OpenAI's."""


class OpenAIDialect(Dialect):
    """The batch API of a server of OpenAI's kind."""

    def __init__(
        self, http: BatchHttp, model: str, server: OpenAIServer, *, window: str = "24h"
    ) -> None:
        super().__init__(http, model)
        self._server, self._window = server, window
        self.limits, self.discount, self.lacks = server.limits, server.discount, server.lacks

    def group(self, request: Request, posting: Posting = PLAIN) -> str:
        server = self._server
        if server.responses:
            responses_format.check(request, posting)
            return server.version + responses_format.PATH
        check_request(request, server.name, self.lacks, takes_prompts=server.takes_prompts)
        return f"{server.version}/{'chat/completions' if request.messages else 'completions'}"

    def encode(self, key: str, request: Request, posting: Posting = PLAIN) -> bytes:
        fields = (
            responses_format.request_fields(request, posting)
            if self._server.responses
            else openai_format.prompt_fields(request, posting)
            | openai_format.sampling_fields(request, posting)
        )
        line: dict[str, Any] = {"custom_id": key, "body": {"model": self._model, **fields}}
        if self._server.names_endpoint:
            line |= {"method": "POST", "url": self.group(request, posting)}
        return orjson.dumps(line)

    def read(self, payload: Any, request: Request) -> Response:
        if self._server.responses:
            return responses_format.read_response(payload, request, None)
        return openai_format.read_response(payload, request, None)

    async def upload(self, file: Path) -> str:
        fields = dict(self._server.upload_fields)
        if self._server.names_file:
            fields["file_name"] = file.name
        try:
            answer = await self._http.upload(self._server.upload_path, file, fields)
        except (ModelNotFound, PathNotFound) as error:
            raise ModelNotFound(
                f"{error}; if this server has no batch API, leave out batch=True"
            ) from error
        return read_id(answer)

    async def submit(self, batch: BatchRecord, file: Path) -> str:
        if self._server.checks_file:
            answer = await self._http.get(f"/files/{batch.uploaded}")
            status = answer.get("status") if isinstance(answer, Mapping) else None
            # Azure makes no batch of a file before it has read it
            if str(status).lower() in ("pending", "running", "notrunning"):
                raise FileUnread(
                    f"the provider has not read the uploaded file {batch.uploaded} ({status})"
                )
        body: dict[str, Any] = {
            "input_file_id": batch.uploaded,
            "endpoint": batch.group,
            "completion_window": self._window,
        }
        if self._server.has_metadata:
            body["metadata"] = {TAG: batch.tag}
        return read_id(_batch_in(await self._http.post("/batches", orjson.dumps(body))))

    async def find(self, batch: BatchRecord, keys: Collection[str]) -> str | None:
        """Look through the list of batches for our tag or our file."""
        query = self._server.first_page
        while True:
            page = await self._http.get(f"/batches{query}")
            listed = _page_batches(page)
            query = _next_page(page, listed, batch.earliest)
            if (batch_id := _find_in(listed, batch)) or not query:
                return batch_id or None

    async def status(self, batch_id: str) -> BatchStatus:
        answer = _batch_in(await self._http.get(f"/batches/{batch_id}"))
        word = answer.get("status") if isinstance(answer, Mapping) else None
        if not isinstance(word, str):
            raise MalformedResponse(f"batch {batch_id} has no status")
        # The error file, with the requests that failed one by one, may come with any status.
        files = tuple(
            answer[name] for name in ("output_file_id", "error_file_id") if answer.get(name)
        )
        has_failed = word.lower() == "failed"
        errors = _errors_in(answer) if has_failed else []
        return BatchStatus(
            ended=word.lower() in ("completed", "failed", "expired", "cancelled"),
            word=word,
            failure=_reasons(answer, errors) if has_failed and (errors or not files) else "",
            # OpenAI and Azure refuse a batch so after reading its file, until others have ended
            is_postponed=any(error.get("code") == "token_limit_exceeded" for error in errors),
            places=files,
        )

    async def results(
        self, batch_id: str, status: BatchStatus, keys: Sequence[str]
    ) -> AsyncIterator[BatchResult]:
        is_unrun = self._server.stopped_are_unrun and status.was_stopped
        for file in status.places:
            async for line in self._http.lines(f"/files/{file}/content"):
                row = result_in(line, self._http.row_error)
                yield replace(row, unrun=True) if is_unrun and row.error else row


def result_in(line: Any, refused: Callable[[int, Any], ModelError]) -> BatchResult:
    """Return the result in a line, which may be any JSON value."""
    if not isinstance(line, Mapping) or not isinstance(line.get("custom_id"), str):
        return UNREADABLE
    key, answer, error = line["custom_id"], line.get("response"), line.get("error")
    if isinstance(answer, Mapping):
        status = _row_status(answer)
        if status == 200:
            return BatchResult(key, payload=answer.get("body"))
        return BatchResult(key, error=refused(status, error or answer.get("body")))
    fields = error if isinstance(error, Mapping) else {"message": error}
    code = fields.get("code")
    reason = fields.get("message") or code or "it does not say why"
    message = f"the batch did not answer this request: {reason}"
    return BatchResult(
        key,
        error=http_errors.request_refused(message, 400, orjson.dumps({"error": error})),
        # Only these were certainly not run: others may have been billed and are not sent again.
        unrun=code in ("batch_expired", "batch_cancelled"),
    )


def _row_status(answer: Mapping[str, Any]) -> int:
    """Return the status of one answer; without a usable one, its body decides."""
    try:
        return int(answer.get("status_code") or 200)
    except (TypeError, ValueError):
        return 200


def _batch_in(answer: Any) -> Any:
    """Return the batch in an answer; Together wraps it in some."""
    return answer.get("job", answer) if isinstance(answer, Mapping) else answer


def _page_batches(page: Any) -> list[Mapping[str, Any]]:
    """Return the batches on a page of the list; Together's is a bare list."""
    rows = page.get("data") if isinstance(page, Mapping) else page
    return [entry for entry in rows if isinstance(entry, Mapping)] if isinstance(rows, list) else []


def _find_in(listed: Iterable[Mapping[str, Any]], batch: BatchRecord) -> str:
    """Return the id of the listed batch with our tag or our file; empty if there is none.

    Skips known batches, such as one that was refused because too much was enqueued, and was
    submitted again.
    """
    for entry in listed:
        if entry.get("id") in batch.known:
            continue
        tag = (entry.get("metadata") or {}).get(TAG)
        file = entry.get("input_file_id")
        if tag == batch.tag or (file and file == batch.uploaded):
            return read_id(entry)
    return ""


def _next_page(page: Any, listed: Sequence[Mapping[str, Any]], since: float) -> str:
    """Return the query of the next page of batches; empty if ours cannot be on it."""
    if not isinstance(page, Mapping):
        return ""
    # Groq's pages come in no documented order
    paging = page.get("paging")
    if isinstance(paging, Mapping) and (cursor := paging.get("next_cursor")):
        return f"?cursor={quote(str(cursor), safe='')}"
    # OpenAI's come newest first, so a batch older than ours ends the search
    oldest = listed[-1].get("created_at") if listed else None
    if not page.get("has_more") or not isinstance(oldest, int | float) or oldest < since:
        return ""
    return f"?limit={PAGE}&after={read_id(listed[-1])}"


def _errors_in(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the errors of a whole batch."""
    # OpenAI wraps the list in an object, Groq does not
    errors = answer.get("errors")
    listed = errors.get("data") if isinstance(errors, Mapping) else errors
    return [e for e in listed if isinstance(e, Mapping)] if isinstance(listed, list) else []


def _reasons(answer: Mapping[str, Any], errors: Sequence[Mapping[str, Any]]) -> str:
    """Return why a whole batch was refused; Together says it in one text."""
    reasons = "; ".join(str(e.get("message") or e.get("code")) for e in errors[:3])
    return str(reasons or answer.get("error") or "the provider does not say why")
