"""Reads the body of an error: its message and codes, however deep gateways have wrapped them.

The patterns distinguish the faults that a message may be about; `http_errors.py` makes errors of
them, and `refusals.py` reads the others.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from textassay.lazy import lazy_pattern

SEARCHED_CHARACTERS = 8192
"""Longest beginning of an error body that is searched: 1 MB is read in 9 ms in place of 490. 70
recorded refusals have at most 198 characters; a quarter or four times as much reads them alike."""

FAULTS = {
    # insufficient_quota (OpenAI, with status 429), billing_hard_limit_reached, 1113 (Zhipu: in
    # arrears)
    "quota code": lazy_pattern(
        r"insufficient_(quota|balance|funds|credits?)|billing_(hard_limit_reached|not_active)"
        r"|(?<!\S)1113(?!\S)",
        re.I,
    ),
    # You exceeded your current quota, please check your plan and billing details.
    # Your credit balance is too low to access the API.   Insufficient Balance
    "quota": lazy_pattern(
        r"(current|monthly|usage) quota|credit balance is too low|insufficient"
        r" (balance|funds|credits?|quota)"
        r"|out of credits|(spending|billing) (hard )?limit|billing details",
        re.I,
    ),
    # This model's maximum context length is 8192 tokens.   prompt is too long: 210000 tokens
    # The input token count (40000) exceeds the maximum number of tokens allowed
    # input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000 (Anthropic)
    # `inputs` tokens + `max_new_tokens` must be <= 4097 (TGI)   maximum prompt length is (xAI)
    # but not: must be less than or equal to `8192`, ... is less than the `context_window` (Groq)
    "context": lazy_pattern(
        r"(?<!less than the `)context[ _-]?(length|window|size|limit)|maximum prompt length"
        r"|tokens\W+\+\s|(prompt|input|request) (is|was) too long|too many (input |prompt )?tokens"
        r"|max(imum)?[ _]model[ _]len|exceed\w{0,8} the (maximum|max|limit)[^.]{0,40}tokens"
        r"|input token count",
        re.I,
    ),
    # content_filter, ResponsibleAIPolicyViolation (Azure)   rejected by our safety system   flagged
    "filter": lazy_pattern(
        r"content[ _]?(filter|polic(y|ies)|management polic)|responsibleaipolicy|safety"
        r" (system|filter)|flagged|moderation",
        re.I,
    ),
    # The model `gpt-9` does not exist   model "x" not found, try pulling it first (Ollama)
    "model": lazy_pattern(
        r"model_not_found|model\b.{0,120}(does not exist|not found|is not available)|unknown model"
        r"|invalid model name|server is pinned to",
        re.I | re.S,
    ),
    # image_url is only supported by certain models (OpenAI)   does not support image input
    # (Mistral)   At most 0 image(s) may be provided, ... is not a multimodal model (vLLM)
    # unknown variant `image_url`, expected `text` (DeepSeek)   image input is not supported - you
    # may need to provide the mmproj (llama-server)   No endpoints found that support image input
    # (OpenRouter)
    "images": lazy_pattern(
        r"image_url is only supported|not a (multi-?modal|vision)|unknown variant .?image_url"
        r"|at most 0 image|\bmmproj\b|missing data required for image input"
        r"|support (for )?(image|vision|multi-?modal)(?!s? (format|type|url|size|larger))"
        r"|image (input|content)s? (is|are) not|(image|vision|multi-?modal)[\w ]{0,20} (is|are) not"
        r" (supported|enabled|available) (by|for|on|with|in) th(is|e) model",
        re.I,
    ),
    # LiteLLM's proxy looks keys up in a database; without one it knows its master key alone
    "key": lazy_pattern(r"no_db_connection|no connected db", re.I),
}
"""Patterns of codes and messages, by the fault that they show; the first finds codes alone."""

STATUSES = {
    "quota": {400, 403, 429},
    "images": {400, 404, 415, 422, 500},
    # gateways pass a provider's refusal on with a status of success
    "parameter": {200, 400, 403, 404, 416, 422},
    # firewalls and filters refuse single texts
    "filter": {400, 403, 422},
    "key": {400},
    "model": {400},
    "context": {400, 413, 422},
}
"""Statuses of the answers that may show a fault; a refused parameter is found by its name."""


def shows(fault: str, status: int, text: str) -> bool:
    """Return whether an answer with this status shows one of `FAULTS`."""
    return status in STATUSES[fault] and bool(FAULTS[fault].search(text))


class ErrorBody(NamedTuple):
    """The content of an error body."""

    message: str
    codes: str = ""
    """Its codes and types, joined by spaces."""
    param: str = ""
    """The name in its field `param`, if it has one."""


def as_text(body: bytes | str) -> str:
    """Return a body as text; bytes that are not UTF-8 become U+FFFD."""
    return body.decode("utf-8", "replace") if isinstance(body, bytes) else body


def read_error(body: bytes | str) -> ErrorBody:
    """Return the content of an error body: the innermost message, and the codes of all layers."""
    content = _of_text(as_text(body), depth=4)
    return ErrorBody(
        content.message[:SEARCHED_CHARACTERS], content.codes[:SEARCHED_CHARACTERS], content.param
    )


def _of_text(text: str, depth: int) -> ErrorBody:
    """Return the content of a text, which may be JSON or quote it, up to `depth` times."""
    try:
        return _of_value(orjson.loads(text), depth)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        text = text[:SEARCHED_CHARACTERS]  # words, which may quote a body
    if depth and (inner := _find_quoted_body(text)):
        return _of_value(inner, depth - 1)
    # litellm.BadRequestError: OpenAIException - ...   (Bedrock:) The model returned the following
    # errors: ...
    wrapping = (
        r"(?i)^\s*((litellm\.)?\w*(Error|Exception)\s*(:|-)\s*"
        r"|An error occurred \(\w+\) when calling the \w+ operation: "
        r"|the model returned the following errors?:\s*)+"
    )
    return ErrorBody(re.sub(wrapping, "", text))


def _find_quoted_body(text: str) -> Mapping[str, Any]:
    """Return the body of an error that a text quotes, as JSON or as Python writes it, or `{}`."""
    decoder = json.JSONDecoder(strict=False)
    for start in [m.start() for m in re.finditer(r"\{\s*['\"]", text)][:3]:
        try:
            if text[start + 1 :].lstrip()[:1] == '"':
                value, _ = decoder.raw_decode(text, start)
            else:
                value = ast.literal_eval(text[start : text.rindex("}") + 1])
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(value, dict) and not value.keys().isdisjoint(("error", "message", "detail")):
            return value
    return {}


def _of_value(payload: Any, depth: int) -> ErrorBody:
    # Google's API wraps an error in a list of one.
    while isinstance(payload, list) and payload:
        payload = payload[0]
    if not isinstance(payload, dict):
        return ErrorBody(str(payload))
    error = payload.get("error", payload)
    if not isinstance(error, dict):
        codes = _values(payload, "error_type", "code")
        return _within(ErrorBody(str(error), " ".join(codes)), depth)
    layers = (error, error.get("innererror"))
    codes = [code for layer in layers for code in _values(layer, "code", "type", "status")]
    message = error.get("message") or error.get("detail") or payload.get("detail")
    if isinstance(message, list) and message and isinstance(message[0], dict):
        # of several validation errors of FastAPI's the first, with the field in front
        detail, codes = message[0], [*codes, *_values(message[0], "type")]
        place, message = detail.get("loc"), str(detail.get("msg") or detail)
        if isinstance(place, list | tuple) and place:
            message = f"{_path(place)}: {message}"
    param = error.get("param")
    if isinstance(param, str) and " " in param.strip():
        message, param = f"{message}: {param}", ""  # gateways put the sentence there
    content = ErrorBody(
        message if isinstance(message, str) else str(message or payload),
        " ".join(codes),
        param if isinstance(param, str) else "",
    )
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if isinstance(raw, str) and raw.strip() and depth:
        return _join(content, _of_text(raw, depth - 1))
    return _within(content, depth)


def _values(layer: Any, *names: str) -> list[str]:
    """Return the values of those fields that an object has."""
    fields = layer if isinstance(layer, dict) else {}
    return [str(fields[name]) for name in names if fields.get(name) is not None]


def _within(content: ErrorBody, depth: int) -> ErrorBody:
    """Return the content of a message that may itself be, or quote, a body."""
    return _join(content, _of_text(content.message, depth - 1)) if depth else content


def _join(outer: ErrorBody, inner: ErrorBody) -> ErrorBody:
    codes = f"{outer.codes} {inner.codes}".strip()
    return ErrorBody(inner.message, codes, inner.param or outer.param)


def _path(place: Sequence[Any]) -> str:
    """Return the place of a field as `messages[0].role`."""
    parts = [str(part) for part in place]
    parts = parts[1:] if len(parts) > 1 and parts[0] == "body" else parts
    return re.sub(r"\.(\d+)\b", r"[\1]", ".".join(parts))
