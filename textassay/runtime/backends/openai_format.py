"""The wire format of OpenAI-compatible servers: bodies of requests, and what their answers mean.

Pure functions from our messages to JSON values and back. Knows nothing of networks, statuses or
keys.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from pydantic import ValidationError

from textassay.runtime.backends import http_errors
from textassay.runtime.errors import (
    CapabilityError,
    ConfigurationError,
    ContentRefused,
    MalformedResponse,
    RequestRefused,
    option,
    parameter,
)
from textassay.runtime.messages import Usage
from textassay.runtime.model import (
    ChoicesRequest,
    ChoicesResponse,
    FinishReason,
    Json,
    Prompted,
    Request,
    Response,
    Sample,
    TokenLogprob,
)

TOP_ALTERNATIVES = 20
"""Alternatives asked for to read the probabilities of choices: the most that servers give."""

AMBIGUOUS_PROBABILITY = 0.01
"""From which probability on a token that begins an unreported choice makes the reading
ambiguous."""

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
    f"use a model that sends them, or samples where the method takes them: {parameter('n', '20')}"
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
    body: Json = {"temperature": request.temperature}
    if request.n > 1:
        body["n"] = request.n
    if request.top_p < 1:
        body["top_p"] = request.top_p
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
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


def choices_as_request(request: ChoicesRequest) -> Request:
    """Return the request for one token whose alternatives hold the choices."""
    return Request(
        messages=request.messages, prompt=request.prompt, max_tokens=1, logprobs=TOP_ALTERNATIVES
    )


def read_usage(payload: Mapping[str, Any], price: tuple[float, float] | None) -> Usage:
    """Return what an answer cost.

    If the server reports no token counts, or impossible ones, they are 0 and the cost is unknown.

    Args:
        payload: The answer.
        price: US dollars per million prompt and completion tokens, if known.
    """
    counts = payload.get("usage") if isinstance(payload, Mapping) else None
    if not isinstance(counts, Mapping):
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
    choices = payload.get("choices") if isinstance(payload, Mapping) else None
    if not isinstance(choices, Sequence) or not choices:
        raise MalformedResponse("the answer has no choices")
    try:
        samples = tuple(
            s for c in choices[: request.n] for s in [_sample(c, request)] if s is not None
        )
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
    return Sample(text=text, finish_reason=_FINISH.get(reason, "other"), logprobs=logprobs)


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
                logprob=_log_probability(t["logprob"]),
                top=_likeliest((a["token"], a["logprob"]) for a in t.get("top_logprobs") or ()),
            )
            for t in tokens
        )
    top = given.get("top_logprobs") or [None] * len(tokens)
    return tuple(
        TokenLogprob(
            token=token,
            logprob=_log_probability(logprob),
            top=_likeliest((alternatives or {}).items()),
        )
        for token, logprob, alternatives in zip(tokens, given["token_logprobs"], top, strict=True)
    )


def _likeliest(alternatives: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    checked = ((token, _log_probability(logprob)) for token, logprob in alternatives)
    return tuple(sorted(checked, key=lambda pair: -pair[1]))


def _log_probability(value: Any) -> float:
    """Return a reported log-probability, checked, and at most 0.

    Raises:
        ValueError: It is above 0, or no number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= ROUNDED_ZERO:
        raise ValueError(f"{str(value)[:40]!a} is not a valid log-probability")
    return min(0.0, float(value))


def read_choices(response: Response, request: ChoicesRequest) -> ChoicesResponse:
    """Return the probabilities of choices from the alternatives of the first token.

    A surface form is found as it is or after one space, as tokenizers write words.

    Raises:
        ConfigurationError: Two labels share a surface form.
        CapabilityError: The alternatives are missing, or the model needs several tokens for a
            choice.
    """
    tokens = response.samples[0].logprobs
    if not tokens or not tokens[0].top:
        raise CapabilityError(NO_LOGPROBS)
    first = tokens[0]
    top = (
        first.top
        # Some servers leave the sampled token out of its own alternatives.
        if any(token == first.token for token, _ in first.top)
        else (*first.top, (first.token, first.logprob))
    )
    labels = _labels_by_form(request.choices)
    by_label: dict[str, list[float]] = {}
    for token, logprob in top:
        label = labels.get(_bare(token))
        if label is not None:
            by_label.setdefault(label, []).append(logprob)
    for label, forms in request.choices.items():
        if label not in by_label:
            _check_one_token(label, forms, top)
    summed = {
        label: _log_sum(by_label[label]) if label in by_label else None for label in request.choices
    }
    return ChoicesResponse(logprobs=summed, usage=response.usage, model=response.model)


def _labels_by_form(choices: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for label, forms in choices.items():
        for form in map(_bare, forms):
            if labels.setdefault(form, label) != label:
                raise ConfigurationError(
                    f"the choices {labels[form]!r} and {label!r} share the form {form!r}"
                )
    return labels


def _bare(token: str) -> str:
    """Return the token without the one space, or the sign for it, that begins a word."""
    return token[1:] if token[:1] in (" ", "\u2581", "\u0120") and len(token) > 1 else token


def _check_one_token(label: str, forms: tuple[str, ...], top: Sequence[tuple[str, float]]) -> None:
    """Raise if an unreported choice may span several tokens, the first of which is reported."""
    bare = [_bare(form) for form in forms]
    # some servers show a part of a character as "", with which every form would begin
    beginnings = [
        (token, math.exp(logprob))
        for token, logprob in top
        if _bare(token) and any(f != _bare(token) and f.startswith(_bare(token)) for f in bare)
    ]
    spaced = all(any(c.isspace() for c in form) for form in bare)
    if spaced or math.fsum(share for _, share in beginnings) >= AMBIGUOUS_PROBABILITY:
        likeliest = max(beginnings, key=lambda one: one[1], default=None)
        reason = (
            "its forms contain spaces"
            if likeliest is None
            else (
                f"the model begins with {likeliest[0]!r} at a probability of {likeliest[1]:.3g}, "
                "and no whole form is reported"
            )
        )
        raise CapabilityError(
            f"the choice {label!r} seems to take more than one token of this model ({reason}), so"
            " its probability cannot be read from one token; use choices of one token "
            f"({option('form', 'letters')}) or samples, where the method takes them: "
            f"{parameter('n', '20')}"
        )


def _log_sum(logprobs: Sequence[float]) -> float:
    highest = max(logprobs)
    return min(0.0, highest + math.log(math.fsum(math.exp(lp - highest) for lp in logprobs)))


def read_continuation(payload: Any, prompt: str, continuation: str) -> tuple[TokenLogprob, ...]:
    """Return the tokens of `continuation` from a completion that echoed prompt and continuation.

    Raises:
        CapabilityError: The server did not echo, or gave no log-probabilities or places of tokens.
        RequestRefused: The tokens of this text do not lie as they must.
        MalformedResponse: The answer has another shape, or a log-probability above 0.
    """
    full = prompt + continuation
    try:
        choice = payload["choices"][0]
        given, text = choice.get("logprobs"), choice.get("text") or ""
    except (LookupError, TypeError, AttributeError) as error:
        raise MalformedResponse("the answer has no choices") from error
    # Without an echo, the log-probabilities are of new text, and would be taken for those of ours.
    if not text.startswith(full):
        raise CapabilityError(
            "the server does not echo prompts, so it cannot score the likelihood of a given text"
        )
    tokens, logprobs, offsets = (
        (given or {}).get(k) or [] for k in ("tokens", "token_logprobs", "text_offset")
    )
    if not tokens or not len(tokens) == len(logprobs) == len(offsets):
        raise CapabilityError("the server echoes the prompt without its log-probabilities")
    if tokens[0] and not full.startswith(
        tokens[0]
    ):  # the mark for the beginning of a text, which counts in offsets
        shift = (offsets[1] if len(offsets) > 1 else len(full)) - offsets[0]
        tokens, logprobs, offsets = (
            tokens[1:],
            logprobs[1:],
            [offset - shift for offset in offsets[1:]],
        )
    try:
        return _aligned(tokens, logprobs, offsets, full, len(prompt))
    except (TypeError, ValueError) as error:
        raise MalformedResponse(f"the answer is not in the format of the API: {error}") from error


def _aligned(
    tokens: Sequence[str],
    logprobs: Sequence[float | None],
    offsets: Sequence[int],
    full: str,
    start: int,
) -> tuple[TokenLogprob, ...]:
    """Return the tokens from `start` to the end, after checking that all tokens tile `full`."""
    ends = [*offsets[1:], offsets[-1] + len(tokens[-1])] if offsets else []
    if (
        not offsets
        or offsets[0] != 0
        or any(end < begin for begin, end in zip(offsets, ends, strict=True))
    ):
        raise CapabilityError(
            "the offsets of the echoed tokens do not cover the prompt, so they cannot be trusted"
        )
    if start not in offsets:
        place = max(i for i, offset in enumerate(offsets) if offset < start)
        raise RequestRefused(
            f"the token {tokens[place]!a} spans the border between prompt and continuation; begin "
            "the continuation with the space and end the prompt without one"
        )
    kept: list[TokenLogprob] = []
    for token, logprob, begin, end in zip(tokens, logprobs, offsets, ends, strict=True):
        # What follows the echo is the one token that had to be sampled.
        if begin >= len(full):
            break
        if not _stands_at(token, full[begin:end]):
            raise RequestRefused(
                f"the echoed token {token!a} at character {begin} is not the text there, "
                f"{full[begin:end]!a}, so its log-probability cannot be trusted"
            )
        if begin < start:
            continue
        if logprob is None:
            raise CapabilityError(
                "the server gives no log-probability for the first token: the prompt is empty"
            )
        kept.append(TokenLogprob(token=token, logprob=_log_probability(logprob)))
    return tuple(kept)


def _stands_at(token: str, text: str) -> bool:
    """Whether a token as the server shows it can be `text`.

    Part of a character is shown in several ways.
    """
    part = not token or "\ufffd" in token or token.startswith("bytes:")
    return part or token == text
