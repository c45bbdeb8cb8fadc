"""Reads the bodies of errors: what a server says, in whichever shape, and what the words mean.

Knows the shapes of OpenAI, Azure, Anthropic, Gemini, xAI, Mistral, FastAPI and vLLM, and how
OpenRouter, Bedrock, LiteLLM's proxy and other gateways wrap them.
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
"""Longest beginning of what a server said that is searched for what it means."""

MAX_DEPTH = 4
"""How often a body inside a body is opened."""

# insufficient_quota (OpenAI, with status 429), billing_hard_limit_reached, 1113 (Zhipu: in arrears)
QUOTA_CODE = lazy_pattern(
    r"insufficient_(quota|balance|funds|credits?)|billing_(hard_limit_reached|not_active)|^1113$",
    re.I,
)
# You exceeded your current quota, please check your plan and billing details.
# Your credit balance is too low to access the API.   Insufficient Balance
QUOTA_TEXT = lazy_pattern(
    r"(current|monthly|usage) quota|credit balance is too low|insufficient"
    r" (balance|funds|credits?|quota)"
    r"|out of credits|(spending|billing) (hard )?limit|billing details",
    re.I,
)
# This model's maximum context length is 8192 tokens.   prompt is too long: 210000 tokens
# The input token count (40000) exceeds the maximum number of tokens allowed
CONTEXT = lazy_pattern(
    r"context[ _-]?(length|window|size)|(prompt|input|request) (is|was) too long|too many (input"
    r" |prompt )?tokens"
    r"|max(imum)?[ _]model[ _]len|exceed\w{0,8} the (maximum|max|limit)[^.]{0,40}tokens|input token"
    r" count",
    re.I,
)
# content_filter, ResponsibleAIPolicyViolation (Azure)   rejected by our safety system   flagged
FILTER = lazy_pattern(
    r"content[ _]?(filter|polic(y|ies)|management polic)|responsibleaipolicy|safety"
    r" (system|filter)|flagged|moderation",
    re.I,
)
# The model `gpt-9` does not exist   model "x" not found, try pulling it first (Ollama)
NO_MODEL = lazy_pattern(
    r"model_not_found|model\b.{0,120}(does not exist|not found|is not available)|unknown model"
    r"|invalid model name|server is pinned to",
    re.I | re.S,
)
# LiteLLM's proxy looks keys up in a database; without one it knows its master key alone
NO_KEY = lazy_pattern(r"no_db_connection|no connected db", re.I)

# litellm.BadRequestError: OpenAIException - ...   (Bedrock:) The model returned the following
# errors: ...
_WRAPPING_WORDS = lazy_pattern(
    r"^\s*((litellm\.)?\w*(Error|Exception)\s*(:|-)\s*"
    r"|An error occurred \(\w+\) when calling the \w+ operation: "
    r"|the model returned the following errors?:\s*)+",
    re.I,
)
# vLLM quotes a validation error as Python writes it: [{'type': 'extra_forbidden', 'loc': ('body',
# 'zzz'), 'msg': 'Extra inputs are not permitted', 'input': 1}]
_QUOTED_DETAIL = lazy_pattern(
    r"'loc': [\[(]([^\])]{0,200})[\])].{0,20}?'msg': (['\"])(.*?)\2", re.S
)


class ErrorBody(NamedTuple):
    """What an error body says."""

    message: str
    codes: str = ""
    """Its codes and types, joined by spaces."""
    param: str | None = None
    """The name in its field for the parameter."""


def read_error(body: bytes | str) -> ErrorBody:
    """Return what an error body says: the innermost message, and the codes of all layers.

    Args:
        body: The body of an answer, or the message of an exception.
    """
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    found = _of_text(text, MAX_DEPTH)
    return ErrorBody(
        found.message[:SEARCHED_CHARACTERS], found.codes[:SEARCHED_CHARACTERS], found.param
    )


def _of_text(text: str, depth: int) -> ErrorBody:
    """Return what a text says, which may be JSON or hold it."""
    try:
        return _of_value(orjson.loads(text), depth)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        text = text[:SEARCHED_CHARACTERS]  # words, which may quote a body
    if depth and (inner := _quoted_body(text)) is not None:
        return _of_value(inner, depth - 1)
    words = _WRAPPING_WORDS.sub("", text)
    detail = _QUOTED_DETAIL.search(words)
    if detail is None:
        return ErrorBody(words)
    place = re.findall(r"\w+", detail[1])
    return ErrorBody(f"{_path(place)}: {detail[3]}")


def _quoted_body(text: str) -> Mapping[str, Any] | None:
    """Return the body of an error that a text quotes, as JSON or as Python writes it."""
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
    return None


def _of_value(payload: Any, depth: int) -> ErrorBody:
    # Google's API wraps an error in a list of one.
    while isinstance(payload, list) and payload:
        payload = payload[0]
    if not isinstance(payload, dict):
        return ErrorBody(str(payload))
    error = payload.get("error", payload)
    if not isinstance(error, dict):
        codes = [str(payload[k]) for k in ("error_type", "code") if payload.get(k) is not None]
        return _within(ErrorBody(str(error), " ".join(codes)), depth)
    inner = error.get("innererror")
    layers = [error, inner if isinstance(inner, dict) else {}]
    codes = [
        str(layer[k])
        for layer in layers
        for k in ("code", "type", "status")
        if layer.get(k) is not None
    ]
    message = error.get("message") or error.get("detail") or payload.get("detail")
    if isinstance(message, list) and message and isinstance(message[0], dict):
        message = _of_validation(message[0], codes)
    param = error.get("param")
    if isinstance(param, str) and " " in param.strip():
        message, param = f"{message}: {param}", None  # gateways put the sentence there
    found = ErrorBody(
        message if isinstance(message, str) else str(message or payload),
        " ".join(codes),
        param if isinstance(param, str) and param else None,
    )
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if isinstance(raw, str) and raw.strip() and depth:
        return _joined(found, _of_text(raw, depth - 1))
    return _within(found, depth)


def _within(found: ErrorBody, depth: int) -> ErrorBody:
    """Return what the message says that may itself be, or quote, a body."""
    return _joined(found, _of_text(found.message, depth - 1)) if depth else found


def _joined(outer: ErrorBody, inner: ErrorBody) -> ErrorBody:
    codes = " ".join(part for part in (outer.codes, inner.codes) if part)
    return ErrorBody(inner.message, codes, inner.param or outer.param)


def _of_validation(detail: Mapping[str, Any], codes: list[str]) -> str:
    """Return the message of one validation error of FastAPI's, with the field in front."""
    codes += [str(detail["type"])] if detail.get("type") else []
    place, said = detail.get("loc"), str(detail.get("msg") or detail)
    return f"{_path(place)}: {said}" if isinstance(place, list | tuple) and place else said


def _path(place: Sequence[Any]) -> str:
    """Return the place of a field as `messages[0].role`."""
    parts = [str(part) for part in place]
    parts = parts[1:] if len(parts) > 1 and parts[0] == "body" else parts
    return re.sub(r"\.(\d+)\b", r"[\1]", ".".join(parts))
