"""The wire format of OpenAI-compatible servers: bodies of requests, and what their answers mean.

Pure functions from our messages to JSON values and back. Knows nothing of networks, statuses or
keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import orjson
from pydantic import ValidationError

from textassay.runtime.backends import http_errors
from textassay.runtime.errors import (
    CapabilityError,
    ContentRefused,
    MalformedResponse,
    parameter,
)
from textassay.runtime.messages import Usage
from textassay.runtime.model import (
    FinishReason,
    Json,
    Prompted,
    Request,
    Response,
    Sample,
    TokenLogprob,
)

MAX_TOKENS = 10_000_000
"""Counts of tokens above this are no counts: more than any request can have."""

# any escape in a JSON text, so that an escaped backslash before a "u" is not taken for one; whole
# pairs of surrogates come first, and what is left of "\\ud..." is half of one
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.S,
)

ROUNDED_ZERO = 1e-6
"""Log-probabilities up to this are 0 but for rounding."""

SAMPLES_INSTEAD = (
    f"use a model that sends them, or samples if the method takes them: {parameter('n', '20')}"
)
"""Advice for errors about missing log-probabilities."""
NO_LOGPROBS = f"the model returned no log-probabilities; {SAMPLES_INSTEAD}"

_FINISH: dict[str | None, FinishReason] = {
    "stop": "stop",
    "eos_token": "stop",
    "length": "length",
    "content_filter": "filtered",
}


def whole_characters(raw: bytes) -> bytes:
    """Return a JSON text with every escaped half of a surrogate pair replaced by U+FFFD.

    Models write them now and then. They are legal in JSON but stand for no character, and parsers
    differ on them.
    """
    if b"\\ud" not in raw and b"\\uD" not in raw:
        return raw
    return _ESCAPE.sub(lambda m: rb"\ufffd" if m["half"] else m[0], raw)


def parse_json(raw: bytes, *, where: str, secret: http_errors.Secret = None) -> Any:
    """Return the JSON value of an answer.

    Args:
        raw: The answer's body.
        where: What was asked, as the message should name it.
        secret: What must not appear in the message.

    Raises:
        MalformedResponse: It is not JSON.
    """
    try:
        return orjson.loads(whole_characters(raw))
    except orjson.JSONDecodeError as error:
        quoted = http_errors.quote(raw, secret, limit=120)
        raise MalformedResponse(
            f"{where} answered no valid JSON: {quoted or '(nothing)'}"
        ) from error


def sampling_fields(request: Request) -> Json:
    """Return the fields of a body, or the arguments of a call, that say how to sample.

    Defaults are left out.
    """
    body: Json = {}
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.n > 1:
        body["n"] = request.n
    if request.top_p < 1:
        body["top_p"] = request.top_p
    if request.max_tokens is not None:
        body[request.cap_field] = request.max_tokens
    if request.seed is not None:
        # The same seed would give each further draw the text of the first.
        body["seed"] = request.seed + request.draw
    if request.stop:
        body["stop"] = list(request.stop)
    if request.logprobs is not None:
        if request.messages:
            body["logprobs"], body["top_logprobs"] = True, request.logprobs
        else:
            body["logprobs"] = request.logprobs
    if request.json_schema is not None:
        schema = {"name": "answer", "schema": request.json_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body | request.extra


def prompt_fields(request: Prompted) -> Json:
    """Return the field that holds the chat or the prompt."""
    if request.prompt is not None:
        return {"prompt": request.prompt}
    return {"messages": [{"role": m.role, "content": m.content} for m in request.messages]}


def _is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    # parsers make dictionaries, and an abstract class takes ten times as long to ask
    return type(value) is dict or isinstance(value, Mapping)


def read_usage(payload: Mapping[str, Any], price: tuple[float, float] | None) -> Usage:
    """Return what an answer cost.

    If the server reports no token counts, or impossible ones, they are 0 and the cost is unknown.

    Args:
        payload: The answer.
        price: US dollars per million prompt and completion tokens, if known.
    """
    counts = payload.get("usage") if _is_object(payload) else None
    if not _is_object(counts):
        return Usage(calls=1, cost=None)
    prompt, completion = (
        _count(counts.get("prompt_tokens")),
        _count(counts.get("completion_tokens")),
    )
    if prompt is None or completion is None:
        return Usage(calls=1, cost=None)
    cost = None if price is None else (prompt * price[0] + completion * price[1]) / 1e6
    return Usage(calls=1, prompt_tokens=prompt, completion_tokens=completion, cost=cost)


def _count(value: Any) -> int | None:
    """Return a token count, 0 if it is missing, or `None` if the value cannot be one."""
    if type(value) is int and 0 <= value <= MAX_TOKENS:  # nearly always
        return value
    if value is None:
        return 0
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= MAX_TOKENS
    ):
        return None
    return int(value)


def read_response(payload: Any, request: Request, price: tuple[float, float] | None) -> Response:
    """Return the samples of an answer to a chat or completion request, with what they cost.

    Raises:
        MalformedResponse: There are no choices, or none of them has a text. Carries the usage, as
            `ContentRefused` does.
        ContentRefused: The provider's filter left no text.
        CapabilityError: Log-probabilities were asked for and there are none.
    """
    usage = read_usage(payload, price)
    try:
        return _read_response(payload, request, usage)
    except (MalformedResponse, ContentRefused) as error:
        error.usage = usage
        raise


def _read_response(payload: Any, request: Request, usage: Usage) -> Response:
    choices = payload.get("choices") if _is_object(payload) else None
    if not choices or not isinstance(choices, list | Sequence):
        raise MalformedResponse("the answer has no choices")
    try:
        read = [_sample(choice, request) for choice in choices[: request.n]]
        samples = tuple([sample for sample in read if sample is not None])
        if not samples:
            raise _without_text(choices)
        return Response(samples=samples, usage=usage, model=payload.get("model"))
    except (ValidationError, TypeError, AttributeError, KeyError, ValueError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise MalformedResponse(f"the answer is not in the format of the API: {reason}") from error


def _sample(choice: Mapping[str, Any], request: Request) -> Sample | None:
    """Return one sample, or `None` if it has no text."""
    reason = choice.get("finish_reason")
    text = choice["message"].get("content") if request.messages else choice.get("text")
    if text is None and reason == "length":
        text = ""  # all of the allowance went into hidden reasoning: an answer, if an empty one
    if text is None or (not text and reason == "content_filter"):
        return None
    logprobs = (
        None
        if request.logprobs is None
        else read_logprobs(choice.get("logprobs"), bool(request.messages), text)
    )
    finish = _FINISH.get(reason, "other")
    return Sample(text=text, finish_reason=finish, logprobs=logprobs)


def _without_text(choices: Sequence[Mapping[str, Any]]) -> MalformedResponse | ContentRefused:
    messages = [c.get("message") or {} for c in choices]
    refusals = [
        m.get("refusal") or (m.get("provider_specific_fields") or {}).get("refusal")
        for m in messages
    ]
    if any(refusals):
        refusal = " ".join(str(next(r for r in refusals if r)).split())[:200]
        return ContentRefused(f"the model declined to answer: {refusal!a}")
    if any(c.get("finish_reason") == "content_filter" for c in choices):
        return ContentRefused("the provider's content filter left no text")
    return MalformedResponse(
        f"the answer contains no text (finish_reason {choices[0].get('finish_reason')!a})"
    )


def read_logprobs(given: Any, chat: bool, text: str = "?") -> tuple[TokenLogprob, ...]:
    """Return the tokens of one choice with their log-probabilities.

    Args:
        given: The `logprobs` field of a choice.
        chat: Whether the request was a chat; a completion may still be answered in the format of
            chats.
        text: The choice's text; without text there need not be tokens.

    Raises:
        CapabilityError: There are none.
    """
    tokens = None
    if isinstance(given, Mapping):
        # llama-server answers completions in the shape of chats, so the field tells, not the path
        chat = bool(given.get("content")) or (chat and not given.get("tokens"))
        tokens = given.get("content" if chat else "tokens")
    if not tokens:
        if given is not None and not text:
            return ()
        raise CapabilityError(NO_LOGPROBS)
    if chat:
        return tuple(
            TokenLogprob(
                token=t["token"],
                logprob=checked_logprob(t["logprob"]),
                top=_likeliest((a["token"], a["logprob"]) for a in t.get("top_logprobs") or ()),
            )
            for t in tokens
        )
    top = given.get("top_logprobs") or [None] * len(tokens)
    return tuple(
        TokenLogprob(
            token=token,
            logprob=checked_logprob(logprob),
            top=_likeliest((alternatives or {}).items()),
        )
        for token, logprob, alternatives in zip(tokens, given["token_logprobs"], top, strict=True)
    )


def _likeliest(alternatives: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    checked = ((token, checked_logprob(logprob)) for token, logprob in alternatives)
    return tuple(sorted(checked, key=lambda pair: -pair[1]))


def checked_logprob(value: Any) -> float:
    """Return a reported log-probability, checked, and at most 0.

    Raises:
        ValueError: It is above 0, or no number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= ROUNDED_ZERO:
        raise ValueError(f"{str(value)[:40]!a} is not a valid log-probability")
    return min(0.0, float(value))
