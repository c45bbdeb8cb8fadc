"""Lines of result files in OpenAI's batch format, which servers and `vllm run-batch` write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from textassay.runtime.backends import http_errors
from textassay.runtime.batches.provider import UNREADABLE, BatchResult
from textassay.runtime.errors import ModelError

_UNRUN = frozenset({"batch_expired", "batch_cancelled"})


def result_of(
    line: Any, refused: Callable[[int, Any], ModelError], *, where: str = "the batch"
) -> BatchResult:
    """Return what a line says, which may be anything that JSON can hold.

    Args:
        line: The parsed line.
        refused: Returns the error that an HTTP status and a body stand for.
        where: What the line is from, for messages.
    """
    if not isinstance(line, Mapping) or not isinstance(line.get("custom_id"), str):
        return UNREADABLE
    key, answer, error = line["custom_id"], line.get("response"), line.get("error")
    # newer versions of vLLM wrap the same error once more
    details = error.get("error", error) if isinstance(error, Mapping) else error
    if isinstance(answer, Mapping):
        status = _status_of(answer)
        if status == 200:
            return BatchResult(key, payload=answer.get("body"))
        return BatchResult(key, error=refused(status, error or answer.get("body")))
    fields = details if isinstance(details, Mapping) else {"message": details}
    code = fields.get("code")
    reason = fields.get("message") or code or "it does not say why"
    message = f"{where} did not answer this request: {reason}"
    return BatchResult(
        key,
        error=http_errors.request_refused(message, 400, orjson.dumps({"error": details})),
        # Only these were certainly not run: anything else may have been billed and is not asked
        # twice.
        unrun=isinstance(code, str) and code in _UNRUN,
    )


def _status_of(answer: Mapping[str, Any]) -> int:
    """Return the status of one answer; without a usable one, its body decides."""
    try:
        return int(answer.get("status_code") or 200)
    except (TypeError, ValueError):
        return 200
