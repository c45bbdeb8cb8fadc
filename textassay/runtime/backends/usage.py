"""What answers cost, from the token counts of every provider's format.

`Usage` counts a prompt with what the provider had cached of it, and an answer with its thought.
Providers count these parts inside or beside the whole; where they give a total, it tells which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from textassay.runtime.messages import Price, Usage, cost_at, maker

MAX_TOKENS = 10_000_000
"""Counts of tokens above this are no counts: more than any request can have."""

_usage_of = maker(Usage)


_Path = tuple[str, ...]


class _Format(NamedTuple):
    """Where one format has its counts: paths into it, of which the first that is there counts."""

    prompt: str
    completion: str
    total: str
    reasoning: tuple[_Path, ...] = ()
    cached: tuple[_Path, ...] = ()
    written: tuple[_Path, ...] = ()
    beside: Literal["nothing", "cache", "reasoning"] = "nothing"
    """What is counted beside prompt and completion, if no total tells."""


_FORMATS = (
    # OpenAI's chats, all that copy them, and litellm's own form
    _Format(
        prompt="prompt_tokens",
        completion="completion_tokens",
        total="total_tokens",
        reasoning=(("completion_tokens_details", "reasoning_tokens"), ("reasoning_tokens",)),
        cached=(
            ("prompt_tokens_details", "cached_tokens"),
            ("prompt_cache_hit_tokens",),  # DeepSeek
            ("cache_read_input_tokens",),
            ("cached_tokens",),
            ("num_cached_tokens",),  # Mistral
        ),
        written=(
            ("prompt_tokens_details", "cache_write_tokens"),
            ("prompt_tokens_details", "cache_creation_tokens"),
            ("cache_creation_input_tokens",),
        ),
    ),
    # Anthropic, whose input leaves out what is cached, and OpenAI's Responses, whose does not
    _Format(
        prompt="input_tokens",
        completion="output_tokens",
        total="total_tokens",
        reasoning=(
            ("output_tokens_details", "reasoning_tokens"),
            ("output_tokens_details", "thinking_tokens"),
        ),
        cached=(("cache_read_input_tokens",), ("input_tokens_details", "cached_tokens")),
        written=(
            ("cache_creation_input_tokens",),
            ("input_tokens_details", "cache_write_tokens"),
        ),
        beside="cache",
    ),
    # Gemini
    _Format(
        prompt="promptTokenCount",
        completion="candidatesTokenCount",
        total="totalTokenCount",
        reasoning=(("thoughtsTokenCount",),),
        cached=(("cachedContentTokenCount",),),
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
    form = next((form for form in _FORMATS if form.prompt in counts), None)
    prompt = _count(counts.get(form.prompt)) if form else None
    completion = _count(counts.get(form.completion)) if form else None
    if form is None or prompt is None or completion is None:
        return Usage(calls=1, cost=None)
    reasoning, cached, written = (
        _first(counts, paths) for paths in (form.reasoning, form.cached, form.written)
    )
    total = _count(counts.get(form.total))
    if total:
        beside = total - prompt - completion
    else:
        beside = {"nothing": 0, "cache": cached + written, "reasoning": reasoning}[form.beside]
    if beside > 0:
        if beside == cached + written != reasoning:
            prompt += beside
        else:
            # Gemini's endpoint for OpenAI's format counts thoughts in nothing but the total.
            completion += beside
            reasoning = max(reasoning, beside)
    fields = {
        "calls": 1,
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "reasoning_tokens": min(reasoning, completion),
        "cached_prompt_tokens": min(cached, prompt),
        "cache_write_tokens": min(written, prompt),
        "cost": None if price is None else cost_at(price, prompt, completion, min(cached, prompt)),
    }
    return _usage_of(fields)


def _counts_in(payload: Any) -> Mapping[str, Any]:
    if isinstance(payload, Mapping):
        for name in ("usage", "usageMetadata"):
            counts = payload.get(name)
            if isinstance(counts, Mapping):
                return counts
    return {}


def _first(counts: Mapping[str, Any], paths: Sequence[_Path]) -> int:
    """Return the first count of these that is there and not 0."""
    for path in paths:
        value: Any = counts
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if value and (count := _count(value)):
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
