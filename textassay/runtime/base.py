"""The base of all messages, type variables, the types of numbers, and the cost of answers.

Has neither texts nor models; `messages.py`, `questions.py` and `model.py` build on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, ParamSpec, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")

Json = dict[str, Any]

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
"""A finite number; ints are accepted, booleans and strings are not."""

Count = Annotated[int, Field(ge=0, lt=2**63)]
"""A count, within 64 bits, as the JSON encoder requires."""

Outcome = Literal["scored", "abstained", "invalid", "error"]
"""`abstained`: the judge declined; `invalid`: its answer is unusable; `error`: the request failed.
"""

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model thinks before it answers; `none` switches thinking off."""


class Message(BaseModel):
    """Base of all messages: frozen, no unknown fields, no NaN or infinity.

    Building validators takes much of the time of a start. Classes that few runs use build them on
    first use (`defer_build`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields replaced, without cached properties."""
        copied = super().model_copy(update=update, deep=deep)
        fields = type(self).__pydantic_fields__
        if len(copied.__dict__) > len(fields):
            for name in copied.__dict__.keys() - fields.keys():
                del copied.__dict__[name]  # a cached property
        return copied


class ScoreError(Message):
    """The reason why there is no value."""

    type: str = Field(min_length=1)
    """Short stable name, such as `RateLimited`, `NoScoreFound` or `EmptyOutput`."""
    message: str
    """Description of the problem, with advice."""


class Usage(Message):
    """The cost of answers.

    Usages can be added; a cost is unknown (`None`) if a part of it is unknown.
    """

    calls: Count = 0
    """Number of requests that a model answered."""
    cached_calls: Count = 0
    """Number of requests answered from the cache, or by an equal request in flight, at no cost."""
    prompt_tokens: Count = 0
    """Prompt tokens of `calls`, tokens that the provider had cached included."""
    completion_tokens: Count = 0
    """Sampled tokens of `calls`, over all samples, thoughts included."""
    reasoning_tokens: Count = 0
    """Tokens of thoughts, a part of `completion_tokens`; 0 where the provider does not report
    them."""
    cached_prompt_tokens: Count = 0
    """Tokens that the provider read from its own cache of prompts, a part of `prompt_tokens`."""
    cache_write_tokens: Count = 0
    """Tokens that the provider wrote to its own cache of prompts, a part of `prompt_tokens`."""
    cost: float | None = Field(default=0.0, ge=0)
    """US dollars for `calls`; `None` if the price is unknown."""

    def __add__(self, other: Usage) -> Usage:
        # Most sums have one empty side, and building a message is the slowest part.
        if self is NO_USAGE:
            return other
        if other is NO_USAGE:
            return self
        total = UsageTotal()
        total.add(self)
        total.add(other)
        return total.usage


NO_USAGE = Usage()
"""No calls at no cost."""

CACHED = Usage(cached_calls=1)
"""Usage of a cached or shared answer."""


Price = tuple[float, ...]
"""US dollars per million prompt tokens, per million completion tokens and, if there are more
numbers, per million prompt tokens that the provider had cached, and that it wrote to its cache."""


def cost_at(
    price: Price,
    prompt_tokens: int,
    completion_tokens: int,
    cached_tokens: int = 0,
    written_tokens: int = 0,
) -> float:
    """Return the cost of tokens in US dollars.

    Cached tokens, and tokens that are written to the cache, are parts of the prompt's.
    """
    full, completion, cached, written = (*price, *[price[0]] * (4 - len(price)))
    plain_tokens = prompt_tokens - cached_tokens - written_tokens
    prompt = plain_tokens * full + cached_tokens * cached + written_tokens * written
    return (prompt + completion_tokens * completion) / 1e6


class UsageTotal:
    """A running sum of usages."""

    def __init__(self) -> None:
        self.calls = self.cached_calls = self.prompt_tokens = self.completion_tokens = 0
        self.reasoning_tokens = self.cached_prompt_tokens = self.cache_write_tokens = 0
        self.cost: float | None = 0.0

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> UsageTotal:
        """Return a usage from its JSON fields, five times as fast as making a message."""
        total = cls()
        total.__dict__.update(fields)
        return total

    def add(self, usage: Usage | UsageTotal) -> None:
        """Count one more usage, or a ledger's; with an unknown cost, the sum's is unknown."""
        if usage is CACHED:  # the usual case of a replay, several times per score
            self.cached_calls += 1
            return
        # one by one: much faster than a loop over the names
        self.calls += usage.calls
        self.cached_calls += usage.cached_calls
        self.prompt_tokens += usage.prompt_tokens
        self.completion_tokens += usage.completion_tokens
        self.reasoning_tokens += usage.reasoning_tokens
        self.cached_prompt_tokens += usage.cached_prompt_tokens
        self.cache_write_tokens += usage.cache_write_tokens
        self.cost = None if self.cost is None or usage.cost is None else self.cost + usage.cost

    @property
    def usage(self) -> Usage:
        """The sum so far."""
        return Usage(**vars(self))
