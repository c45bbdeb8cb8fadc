"""Reads the usage of an answer: its tokens, in the format of each provider, and their cost.

`Usage` counts cached tokens as a part of the prompt, and thoughts as a part of the answer. Some
providers count them beside prompt and answer; a total, if they give one, shows where.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeGuard

from textassay.runtime.base import Price, Usage, cost_at


@dataclass(frozen=True)
class _Format:
    """Where one format of a usage has its counts; of several places, the first with one is read.

    A place is the name of a field, after the name of the object that contains it and a dot.
    """

    prompt: str
    completion: str
    total: str
    reasoning: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    beside: Literal["nothing", "cache", "reasoning"] = "nothing"
    """Counts that prompt and completion leave out; if there is a total, it shows them instead."""

    @cached_property
    def parts(self) -> frozenset[str]:
        """All places of counts that are a part of another; few servers report any."""
        return frozenset((*self.reasoning, *self.cached, *self.written))


_FORMATS = (
    # OpenAI's chats, all that copy them (DeepSeek, Hugging Face, Mistral), and litellm's own form
    _Format(
        prompt="prompt_tokens",
        completion="completion_tokens",
        total="total_tokens",
        reasoning=("completion_tokens_details.reasoning_tokens", "reasoning_tokens"),
        cached=(
            "prompt_tokens_details.cached_tokens",
            "prompt_cache_hit_tokens",
            "cache_read_input_tokens",
            "cached_tokens",
            "num_cached_tokens",
        ),
        written=(
            "prompt_tokens_details.cache_write_tokens",
            "prompt_tokens_details.cache_creation_tokens",
            "cache_creation_input_tokens",
        ),
    ),
    # Anthropic, whose input leaves out cached tokens, and OpenAI's Responses, whose includes them
    _Format(
        prompt="input_tokens",
        completion="output_tokens",
        total="total_tokens",
        reasoning=(
            "output_tokens_details.reasoning_tokens",
            "output_tokens_details.thinking_tokens",
        ),
        cached=("input_tokens_details.cached_tokens", "cache_read_input_tokens"),
        written=("input_tokens_details.cache_write_tokens", "cache_creation_input_tokens"),
        beside="cache",
    ),
    # Gemini's decisions
    _Format(prompt="total_input_tokens", completion="total_output_tokens", total="total_tokens"),
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
    """Return the usage and cost of an answer.

    If the server reports no token counts, or impossible ones, they are 0 and the cost is unknown.
    """
    counts = _counts_in(payload)
    for form in _FORMATS:
        if form.prompt in counts:
            break
    else:
        return Usage(calls=1, cost=None)
    prompt, completion = _count(counts[form.prompt]), _count(counts.get(form.completion))
    # every prompt has tokens: LM Studio sends zeros
    if prompt is None or completion is None or prompt == completion == 0:
        return Usage(calls=1, cost=None)
    reasoning = cached = written = 0
    if not form.parts.isdisjoint(counts):
        reasoning = _first(counts, form.reasoning)
        cached, written = _first(counts, form.cached), _first(counts, form.written)
    total = _count(counts.get(form.total))
    if total:
        beside = total - prompt - completion
    else:
        beside = {"nothing": 0, "cache": cached + written, "reasoning": reasoning}[form.beside]
    if beside > 0:
        if beside == cached + written and beside != reasoning:
            prompt += beside
        else:
            # Gemini's endpoint for OpenAI's format counts thoughts in the total alone
            completion += beside
            reasoning = max(reasoning, beside)
    cached = min(cached, prompt)
    written = min(written, prompt - cached)
    return Usage(
        calls=1,
        prompt_tokens=prompt,
        completion_tokens=completion,
        reasoning_tokens=min(reasoning, completion),
        cached_prompt_tokens=cached,
        cache_write_tokens=written,
        cost=price and cost_at(price, prompt, completion, cached, written),
    )


def _counts_in(payload: Any) -> Mapping[str, Any]:
    """Return the counts by place; parts of 0, which have no effect, are left out."""
    if is_object(payload):
        for name in ("usage", "usageMetadata"):
            counts = payload.get(name)
            if is_object(counts):
                parts: dict[str, Any] = {}
                for whole, details in counts.items():
                    if details and type(details) is not int and is_object(details):
                        for part, count in details.items():
                            if count:
                                parts[f"{whole}.{part}"] = count
                return {**parts, **counts} if parts else counts
    return {}


def is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is an object of JSON."""
    # parsers make dictionaries, and an abstract class takes ten times as long to ask
    return type(value) is dict or isinstance(value, Mapping)


def _first(counts: Mapping[str, Any], places: Iterable[str]) -> int:
    """Return the first count at these places that is not 0."""
    for place in places:
        if (value := counts.get(place)) and (count := _count(value)):
            return count
    return 0


def _count(value: Any) -> int | None:
    """Return a token count, 0 if it is missing, or `None` if the value cannot be one."""
    if type(value) in (int, float):  # and no boolean
        return int(value) if 0 <= value <= 10_000_000 else None  # no request can have more
    return 0 if value is None else None
