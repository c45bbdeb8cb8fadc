"""Gemini's batches: requests and answers inline, at most 20 MB.

Each answer should have our key in its metadata; without it, an answer belongs to the request at the
same position.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from textassay.runtime.backends.openai_format import (
    UNUSABLE,
    merge_bodies,
    put_images,
    raise_unusable,
)
from textassay.runtime.backends.thoughts import read_answer, read_parts
from textassay.runtime.backends.usage import read_usage
from textassay.runtime.base import Effort, Usage
from textassay.runtime.batches.dialect import (
    PAGE,
    BatchRecord,
    BatchResult,
    BatchStatus,
    Dialect,
    Limits,
    check_request,
    read_array,
    read_id,
    without_gaps,
)
from textassay.runtime.calls.call import PLAIN, Posting
from textassay.runtime.errors import ContentRefused, MalformedResponse
from textassay.runtime.images import Image
from textassay.runtime.model import FinishReason, Request, Response, Sample

_CODES = {3: 400, 5: 404, 7: 403, 8: 429, 9: 400, 11: 400, 14: 503, 16: 401}
"""HTTP statuses of the gRPC codes in errors of single requests, as in google/rpc/code.proto; the
others are read like INTERNAL (500)."""
_FINISH: dict[str | None, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "filtered",
    "PROHIBITED_CONTENT": "filtered",
    "RECITATION": "filtered",
    "BLOCKLIST": "filtered",
    "SPII": "filtered",
}
_BUDGETS: dict[Effort, int] = {
    "none": 0,
    "minimal": 512,
    "low": 1024,
    "medium": 8192,
    "high": 24576,
    "xhigh": 24576,
    "max": 24576,
}
"""Tokens by effort, as Gemini's endpoint for OpenAI's format translates them; its maximum above."""
_LEVELS: dict[Effort, str] = {"none": "minimal", "xhigh": "high", "max": "high"}
"""The nearest levels for efforts that Gemini does not have."""


class GeminiDialect(Dialect):
    """The batch API of Gemini."""

    lacks = frozenset({"continuation", "logprobs", "choices", "functions"})
    limits = Limits(50_000, 19_000_000)

    def group(self, request: Request, posting: Posting = PLAIN) -> str:
        check_request(request, "Gemini", self.lacks)
        return "generateContent"

    def encode(self, key: str, request: Request, posting: Posting = PLAIN) -> bytes:
        system = "\n\n".join(m.content for m in request.messages if m.role == "system")
        schema = request.json_schema
        config = {
            "temperature": request.temperature,
            # at most 8 by the documentation of Vertex AI; missing samples are requested again
            "candidateCount": min(request.n, 8) if request.n > 1 else None,
            "topP": request.top_p if request.top_p < 1 else None,
            "maxOutputTokens": posting.most_tokens(request),
            "seed": None if request.seed is None else request.seed + request.draw,
            "stopSequences": list(request.stop) or None,
            "responseMimeType": None if schema is None else "application/json",
            "responseJsonSchema": schema,
            "thinkingConfig": self._thinking(request),
        }
        body: dict[str, Any] = {
            "contents": [
                {
                    "role": "model" if m.role == "assistant" else "user",
                    "parts": [{"text": m.content}],
                }
                for m in request.messages
                if m.role != "system"
            ],
            "generationConfig": without_gaps(config),
        }
        if request.images:
            put_images(body["contents"], request.images, _text_part, _image_part, "parts")
        if system:
            body["systemInstruction"] = {"parts": [{"text": system}]}
        return orjson.dumps(
            {"request": merge_bodies(body, request.extra), "metadata": {"key": key}}
        )

    def _thinking(self, request: Request) -> dict[str, Any] | None:
        """Return the settings of the thought; `None` leaves them to the model."""
        if request.thinking_tokens is not None:
            return {"thinkingBudget": request.thinking_tokens}
        if request.effort is None:
            return None
        if re.search(r"gemini-[12][.-]", self._model):  # takes no levels
            return {"thinkingBudget": _BUDGETS[request.effort]}
        return {"thinkingLevel": _LEVELS.get(request.effort, request.effort)}

    async def submit(self, batch: BatchRecord, file: Path) -> str:
        requests = await read_array(file)
        body = b'{"batch":{"displayName":%b,"inputConfig":{"requests":{"requests":%b}}}}'
        body %= (orjson.dumps(batch.tag), requests)
        path = f"/models/{self._model}:batchGenerateContent"
        return read_id(await self._http.post(path, body), "name")

    async def find(self, batch: BatchRecord, keys: Collection[str]) -> str | None:
        """Look through all batches for our display name."""
        token = ""
        while True:
            page = await self._http.get(f"/batches?pageSize={PAGE}{token}")
            for entry in page.get("operations") or []:
                if (entry.get("metadata") or {}).get("displayName") == batch.tag:
                    return read_id(entry, "name")
            if not page.get("nextPageToken"):
                return None
            token = f"&pageToken={page['nextPageToken']}"

    async def status(self, batch_id: str) -> BatchStatus:
        """Return the state of a batch; an ended one comes with its answers."""
        answer = await self._http.get(f"/{batch_id}")
        if not isinstance(answer, Mapping):
            raise MalformedResponse(f"{batch_id} has no status")
        word = str((answer.get("metadata") or {}).get("state", ""))
        failure = ""
        if word.endswith("FAILED"):
            failure = str(
                (answer.get("error") or {}).get("message") or "the provider does not say why"
            )
        has_ended = word.endswith(("SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"))
        ended = bool(answer.get("done")) or has_ended
        return BatchStatus(ended=ended, word=word, failure=failure, answer=answer)

    async def results(
        self, batch_id: str, status: BatchStatus, keys: Sequence[str]
    ) -> AsyncIterator[BatchResult]:
        """Yield the answers that came with the status."""
        response = status.answer or {}
        for source in (
            response.get("response") or {},
            (response.get("metadata") or {}).get("output") or {},
        ):
            inlined = source.get("inlinedResponses") or {}
            for key, entry in _with_keys(inlined.get("inlinedResponses") or [], keys):
                error = entry.get("error")
                if error:
                    code = error.get("code") if isinstance(error, Mapping) else None
                    status_code = _CODES.get(code if isinstance(code, int) else 0, 500)
                    yield BatchResult(
                        key, error=self._http.row_error(status_code, {"error": error})
                    )
                else:
                    yield BatchResult(key, payload=entry.get("response"))
            # Only one of the two places: the same rows again would count as repeated.
            if inlined:
                return

    def read(self, payload: Any, request: Request) -> Response:
        usage = read_usage(payload, None)  # the cost is set by the budget, which knows the price
        try:
            answers = [_answer_in(c, request, usage) for c in payload.get("candidates") or []]
            samples = tuple(filter(None, answers))
            if not samples:
                why = (payload.get("promptFeedback") or {}).get("blockReason")
                raise ContentRefused(f"the provider's filter left no text ({why or 'no reason'})")
            return Response(
                samples=samples[: request.n], usage=usage, model=payload.get("modelVersion")
            )
        except UNUSABLE as error:
            raise_unusable(error, usage)


def _text_part(text: str) -> dict[str, Any]:
    return {"text": text}


def _image_part(image: Image) -> dict[str, Any]:
    if image.is_link:
        return {"fileData": {"fileUri": image.place}}
    return {"inlineData": {"mimeType": image.media_type, "data": image.base64}}


def _with_keys(
    entries: Sequence[Any], keys: Sequence[str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each entry with the key of its request.

    The API promises the order of the requests, and sometimes leaves the metadata out. The order is
    relied on only if no entry is missing: a shifted answer would be a wrong score.
    """
    by_place: Sequence[str | None] = keys if len(entries) == len(keys) else [None] * len(entries)
    for entry, expected in zip(entries, by_place, strict=True):
        if not isinstance(entry, Mapping):
            continue
        key = (entry.get("metadata") or {}).get("key") or expected
        if isinstance(key, str):
            yield key, entry


def _answer_in(candidate: Mapping[str, Any], request: Request, usage: Usage) -> Sample | None:
    """Return the answer of a candidate, `None` if it has no text."""
    text, thought = read_parts((candidate.get("content") or {}).get("parts"))
    finish = _FINISH.get(candidate.get("finishReason"), "other")
    return read_answer(text or None, thought, finish, request, usage)
