"""What answers cost, from the token counts of every provider's format.

`Usage` counts a prompt with what the provider had cached of it, and an answer with its thought.
Providers count these parts inside or beside the whole; where they give a total, it tells which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeGuard

from textassay.runtime.messages import Price, Usage, cost_at, maker

MAX_TOKENS = 10_000_000
"""Counts of tokens above this are no counts: more than any request can have."""

_usage_of = maker(Usage)


class _Format(NamedTuple):
    """Where one format has its counts.

    Of several names, the first that is there counts. `_inside` are names in the objects that the
    format divides prompt and completion into.
    """

    prompt: str
    completion: str
    total: str
    prompt_parts: str = ""
    completion_parts: str = ""
    reasoning_inside: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()
    cached_inside: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    written_inside: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    beside: Literal["nothing", "cache", "reasoning"] = "nothing"
    """What is counted beside prompt and completion, if no total tells."""


_FORMATS = (
    # OpenAI's chats, all that copy them, and litellm's own form
    _Format(
        prompt="prompt_tokens",
        completion="completion_tokens",
        total="total_tokens",
        prompt_parts="prompt_tokens_details",
        completion_parts="completion_tokens_details",
        reasoning_inside=("reasoning_tokens",),
        reasoning=("reasoning_tokens",),
        cached_inside=("cached_tokens",),
        # DeepSeek, litellm, Hugging Face, Mistral
        cached=(
            "prompt_cache_hit_tokens",
            "cache_read_input_tokens",
            "cached_tokens",
            "num_cached_tokens",
        ),
        written_inside=("cache_write_tokens", "cache_creation_tokens"),
        written=("cache_creation_input_tokens",),
    ),
    # Anthropic, whose input leaves out what is cached, and OpenAI's Responses, whose does not
    _Format(
        prompt="input_tokens",
        completion="output_tokens",
        total="total_tokens",
        prompt_parts="input_tokens_details",
        completion_parts="output_tokens_details",
        reasoning_inside=("reasoning_tokens", "thinking_tokens"),
        cached_inside=("cached_tokens",),
        cached=("cache_read_input_tokens",),
        written_inside=("cache_write_tokens",),
        written=("cache_creation_input_tokens",),
        beside="cache",
    ),
    # Gemini
    _Format(
        prompt="promptTokenCount",
        completion="candidatesTokenCount",
        total="totalTokenCount",
        reasoning=("thoughtsTokenCount",),
        cached=("cachedContentTokenCount",),
        beside="reasoning",
    ),
)


def read_usage(payload: Any, price: Price | None) -> Usage:
    """Return what an answer cost.

    If the server reports no token counts, or impossible ones, they are 0 and the cost is unknown.

    Args:
        payload: The answer, in the format of any provider.
        price: `None` if not known.
    """
    counts = _counts_in(payload)
    for form in _FORMATS:
        if form.prompt in counts:
            break
    else:
        return Usage(calls=1, cost=None)
    prompt, completion = _count(counts[form.prompt]), _count(counts.get(form.completion))
    if prompt is None or completion is None:
        return Usage(calls=1, cost=None)
    inside = counts.get(form.completion_parts)
    reasoning = _first(inside, form.reasoning_inside) or _first(counts, form.reasoning)
    inside = counts.get(form.prompt_parts)
    cached = _first(inside, form.cached_inside) or _first(counts, form.cached)
    written = _first(inside, form.written_inside) or _first(counts, form.written)
    total = _count(counts.get(form.total))
    if total:
        beside = total - prompt - completion
    else:
        beside = cached + written if form.beside == "cache" else 0
        beside = reasoning if form.beside == "reasoning" else beside
    if beside > 0:
        if beside == cached + written != reasoning:
            prompt += beside
        else:
            # Gemini's endpoint for OpenAI's format counts thoughts in nothing but the total.
            completion += beside
            reasoning = max(reasoning, beside)
    cached = min(cached, prompt)
    fields: dict[str, Any] = {
        "calls": 1,
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "cost": None if price is None else cost_at(price, prompt, completion, cached),
    }
    if reasoning:
        fields["reasoning_tokens"] = min(reasoning, completion)
    if cached or written:
        fields |= {"cached_prompt_tokens": cached, "cache_write_tokens": min(written, prompt)}
    return _usage_of(fields)


def _counts_in(payload: Any) -> Mapping[str, Any]:
    if is_object(payload):
        for name in ("usage", "usageMetadata"):
            counts = payload.get(name)
            if is_object(counts):
                return counts
    return {}


def is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value is an object of JSON."""
    # parsers make dictionaries, and an abstract class takes ten times as long to ask
    return type(value) is dict or isinstance(value, Mapping)


def _first(counts: Any, names: Sequence[str]) -> int:
    """Return the first count of these that is there and not 0."""
    if counts and is_object(counts):
        for name in names:
            if (value := counts.get(name)) and (count := _count(value)):
                return count
    return 0


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
