"""What answers of OpenAI-compatible servers say about probabilities.

Pure functions, as in `openai_format`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from textassay.runtime.backends.openai_format import (
    NO_DISTRIBUTION,
    NO_LOGPROBS,
    checked_logprob,
)
from textassay.runtime.errors import (
    CapabilityError,
    ConfigurationError,
    MalformedResponse,
    NoLogprobs,
    Refusal,
    RequestRefused,
)
from textassay.runtime.model import (
    ChoicesRequest,
    ChoicesResponse,
    Prompted,
    Request,
    Response,
    TokenLogprob,
    is_distribution,
)

AMBIGUOUS_PROBABILITY = 0.01
"""From which probability on a token that begins an unreported choice makes the reading
ambiguous."""


def choices_as_request(request: ChoicesRequest) -> Request:
    """Return the request for one token, behind a thought, whose alternatives hold the choices."""
    shared = {name: getattr(request, name) for name in Prompted.model_fields}
    return Request(
        **shared, max_tokens=1 + request.thought_allowance, logprobs=request.alternatives
    )


def read_choices(response: Response, request: ChoicesRequest) -> ChoicesResponse:
    """Return the probabilities of choices from the alternatives of the answer's first token.

    A surface form is found as it is or after one space, as tokenizers write words.
    """
    labels = _labels_by_form(request.choices)
    sample = response.samples[0]
    if sample.is_unfinished and not sample.logprobs:
        raise _unfinished(response)
    tokens = sample.logprobs
    if not tokens or not tokens[0].top:
        raise NoLogprobs(NO_LOGPROBS)
    if request.alternatives > 1 and not is_distribution(tokens):
        raise NoLogprobs(NO_DISTRIBUTION)
    first = tokens[0]
    top = (
        first.top
        # Some servers leave the sampled token out of its own alternatives.
        if any(token == first.token for token, _ in first.top)
        else (*first.top, (first.token, first.logprob))
    )
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
    fields: dict[str, Any] = {"usage": response.usage, "model": response.model}
    if response.samples[0].thought is not None:
        fields["follows_thought"] = True
    return ChoicesResponse(logprobs=summed, **fields)


def _unfinished(response: Response) -> RequestRefused:
    error = RequestRefused(
        "the model came to its limit of tokens before it answered: its thought took all of them"
    )
    error.refusal = Refusal("room", "max_tokens")
    error.usage = response.usage
    return error


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
            "(options={'form': 'letters'}) or samples, if the method takes them: n=20"
        )


def _log_sum(logprobs: Sequence[float]) -> float:
    highest = max(logprobs)
    return min(0.0, highest + math.log(math.fsum(math.exp(lp - highest) for lp in logprobs)))


def read_continuation(payload: Any, prompt: str, continuation: str) -> tuple[TokenLogprob, ...]:
    """Return the tokens of `continuation` from a completion that echoed prompt and continuation."""
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
        kept.append(TokenLogprob(token=token, logprob=checked_logprob(logprob)))
    return tuple(kept)


def _stands_at(token: str, text: str) -> bool:
    """Whether a token as the server shows it can be `text`.

    Part of a character is shown in several ways.
    """
    part = not token or "\ufffd" in token or token.startswith("bytes:")
    return part or token == text
