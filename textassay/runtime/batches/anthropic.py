"""Anthropic's message batches: requests in the body, results in one file of lines.

A batch there carries no tag of ours. If a process dies after it has submitted a batch and before it
has noted the id, the batch is known by its results: custom ids are digests of requests.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from textassay.runtime.backends.openai_format import (
    UNUSABLE,
    merge_bodies,
    put_images,
    raise_unusable,
    text_part,
)
from textassay.runtime.backends.thoughts import read_answer, read_parts
from textassay.runtime.backends.usage import read_usage
from textassay.runtime.batches.dialect import (
    PAGE,
    UNREADABLE,
    BatchRecord,
    BatchResult,
    BatchStatus,
    Dialect,
    Limits,
    Undecided,
    check_request,
    read_array,
    read_id,
    without_gaps,
)
from textassay.runtime.calls.call import PLAIN, Posting
from textassay.runtime.errors import ContentRefused, MalformedResponse, RequestRefused
from textassay.runtime.images import Image
from textassay.runtime.model import FinishReason, Request, Response

# https://platform.claude.com/docs/en/api/errors; the others are read like api_error (500)
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
_FINISH: dict[str | None, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "filtered",
}


class AnthropicDialect(Dialect):
    """The batch API of Anthropic."""

    lacks = frozenset({"continuation", "logprobs", "choices", "n", "seed", "functions"})
    limits = Limits(100_000, 250_000_000)

    def group(self, request: Request, posting: Posting = PLAIN) -> str:
        check_request(request, "Anthropic", self.lacks)
        return "messages"

    def encode(self, key: str, request: Request, posting: Posting = PLAIN) -> bytes:
        # This API takes the system prompt beside the messages, and refuses that role among them.
        system = "\n\n".join(m.content for m in request.messages if m.role == "system")
        # the API demands a number; litellm sends this one
        room = 4096 + (request.thinking_tokens or 0)
        messages: list[dict[str, Any]] = [
            {"role": m.role, "content": m.content} for m in request.messages if m.role != "system"
        ]
        if request.images:
            put_images(messages, request.images, text_part, _image_part)
        schema, effort = request.json_schema, request.effort
        output = {
            # models without structured outputs refuse it, with an error of this row
            "format": None if schema is None else {"type": "json_schema", "schema": schema},
            # there is no level below this one
            "effort": {"none": None, "minimal": "low"}.get(effort or "none", effort),
        }
        params = without_gaps({
            "model": self._model,
            "max_tokens": posting.most_tokens(request) or room,
            "messages": messages,
            "system": system or None,
            "temperature": request.temperature,
            "top_p": request.top_p if request.top_p < 1 else None,
            "stop_sequences": list(request.stop) or None,
            "output_config": without_gaps(output) or None,
            "thinking": _thinking(request),
        })  # fmt: skip
        return orjson.dumps({"custom_id": key, "params": merge_bodies(params, request.extra)})

    async def submit(self, batch: BatchRecord, file: Path) -> str:
        body = b'{"requests":' + await read_array(file) + b"}"
        return read_id(await self._http.post("/messages/batches", body))

    async def find(self, batch: BatchRecord, keys: Collection[str]) -> str | None:
        """Look through unknown batches of this size made since, newest first."""
        running = 0
        async for listed in self._created_since(batch.earliest):
            batch_id = read_id(listed)
            # The listing has the size; results, which are a download, are read last.
            if batch_id in batch.known or sum(_counts(listed)) != batch.requests:
                continue
            status = await self.status(batch_id)
            if not status.ended:
                running += 1
            elif await self._has_any(keys, batch_id, status):
                return batch_id
        if running:
            raise Undecided(
                f"{running} running batches at Anthropic have as many requests as one that was "
                "being submitted when its process died: whether it is among them shows when they "
                "have ended"
            )
        return None

    async def _created_since(self, since: float) -> AsyncIterator[Mapping[str, Any]]:
        after = ""
        while True:
            page = await self._http.get(f"/messages/batches?limit={PAGE}{after}")
            entries = page.get("data") or []
            for entry in entries:
                if _created_at(entry) < since:
                    return
                yield entry
            if not entries or not page.get("has_more"):
                return
            after = f"&after_id={read_id(entries[-1])}"

    async def _has_any(self, keys: Collection[str], batch_id: str, status: BatchStatus) -> bool:
        async with aclosing(self.results(batch_id, status, ())) as rows:
            async for row in rows:
                # One line decides: keys are digests of requests, which foreign batches lack.
                if row is not UNREADABLE:
                    return row.key in keys
        return False

    async def status(self, batch_id: str) -> BatchStatus:
        answer = await self._http.get(f"/messages/batches/{batch_id}")
        word = answer.get("processing_status") if isinstance(answer, Mapping) else None
        if not isinstance(word, str):
            raise MalformedResponse(f"batch {batch_id} has no status")
        place = answer.get("results_url")
        return BatchStatus(
            ended=word == "ended",
            word=word,
            # not the address in the answer: the key is sent to the given address alone
            places=(f"/messages/batches/{batch_id}/results",) if place else (),
        )

    async def results(
        self, batch_id: str, status: BatchStatus, keys: Sequence[str]
    ) -> AsyncGenerator[BatchResult]:
        for place in status.places:
            async with aclosing(self._http.lines(place)) as lines:
                async for line in lines:
                    yield self._read_result(line)

    def _read_result(self, line: Any) -> BatchResult:
        key, result = (
            (line.get("custom_id"), line.get("result")) if isinstance(line, Mapping) else ("", None)
        )
        if not isinstance(key, str) or not isinstance(result, Mapping):
            return UNREADABLE
        kind = result.get("type")
        if kind == "succeeded":
            return BatchResult(key, payload=result.get("message"))
        if kind == "errored":
            error = result.get("error")
            # The error is wrapped once more than in single calls.
            error = error.get("error", error) if isinstance(error, Mapping) else error
            name = error.get("type") if isinstance(error, Mapping) else None
            status = _STATUS.get(str(name), 500)
            return BatchResult(key, error=self._http.row_error(status, {"error": error}))
        return BatchResult(
            key,
            error=RequestRefused(f"the batch did not answer this request: {kind}"),
            unrun=kind in ("expired", "canceled"),
        )

    def read(self, payload: Any, request: Request) -> Response:
        usage = read_usage(payload, None)  # the cost is set by the budget, which knows the price
        try:
            reason = payload.get("stop_reason")
            finish = _FINISH.get(reason, "other")
            text, thought = read_parts(payload["content"])
            if not text and reason == "refusal":
                raise ContentRefused("the model declined to answer")
            answer = read_answer(text, thought, finish, request, usage)
            if not answer:
                raise MalformedResponse(f"the answer contains no text (stop_reason {reason!a})")
            return Response(samples=(answer,), usage=usage, model=payload.get("model"))
        except UNUSABLE as error:
            raise_unusable(error, usage)


def _image_part(image: Image) -> dict[str, Any]:
    if image.is_link:
        return {"type": "image", "source": {"type": "url", "url": image.place}}
    source = {"type": "base64", "media_type": image.media_type, "data": image.base64}
    return {"type": "image", "source": source}


def _thinking(request: Request) -> dict[str, Any] | None:
    """Return the settings of the thought; `None` leaves them to the model."""
    if request.effort == "none" or request.thinking_tokens == 0:
        return {"type": "disabled"}
    if request.thinking_tokens is not None:
        return {"type": "enabled", "budget_tokens": request.thinking_tokens}
    return None if request.effort is None else {"type": "adaptive"}


def _counts(entry: Mapping[str, Any]) -> list[int]:
    return [n for n in (entry.get("request_counts") or {}).values() if isinstance(n, int)]


def _created_at(entry: Mapping[str, Any]) -> float:
    """Return the creation time of a batch, in seconds since the epoch."""
    try:
        return datetime.fromisoformat(str(entry.get("created_at"))).timestamp()
    except ValueError as error:
        raise MalformedResponse(f"a batch has no date: {error}") from error
