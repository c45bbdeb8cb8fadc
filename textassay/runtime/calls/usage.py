"""Tokens and cost of calls: estimated before they are asked, counted when they are answered.

They are counted for a whole model, and for the piece of work that is being done: whatever runs
inside `with track_usage()`, child tasks included. Its ledger travels in a context variable, so that
agents need not carry it. Estimates need no tokenizer.
"""

from __future__ import annotations

import string
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token

from textassay.runtime.errors import BudgetReached, ModelError
from textassay.runtime.images import IMAGE_TOKENS
from textassay.runtime.messages import Usage, UsageTotal
from textassay.runtime.model import (
    A,
    AnyRequest,
    AnyResponse,
    ChoicesRequest,
    ContinuationRequest,
    Model,
    Q,
    Request,
    Response,
    Wrapper,
)


class Ledger:
    """What the calls of a piece of work cost, in the order in which they were answered."""

    __slots__ = ("__weakref__", "usages")

    def __init__(self) -> None:
        self.usages: list[Usage] = []


_current: ContextVar[Ledger | None] = ContextVar("textassay_ledger", default=None)


class track_usage:
    """Gives a ledger of every call made inside the block, also by tasks started there."""

    _token: Token[Ledger | None]

    def __enter__(self) -> Ledger:
        ledger = Ledger()
        self._token = _current.set(ledger)
        return ledger

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def current_ledger() -> Ledger | None:
    """Return the ledger of the piece of work that the caller is part of, if it is part of one."""
    return _current.get()


class MeteredModel(Wrapper):
    """Counts every answer in `total` and in the current ledger."""

    def __init__(self, wrapped: Model) -> None:
        super().__init__(wrapped)
        self.total = UsageTotal()

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Answer and count; a failed request counts with the cost of its unusable answers."""
        try:
            response = await call(request)
        except (ModelError, BudgetReached) as error:
            # Providers bill answers that could not be used (cut off, filtered, not JSON).
            if error.usage is not None:
                self._count(error.usage)
            raise
        self._count(response.usage)
        return response

    def _count(self, usage: Usage) -> None:
        self.total.add(usage)
        ledger = _current.get()
        if ledger is not None:
            ledger.usages.append(usage)


_LETTERS = string.ascii_letters.encode()
_DIGITS = string.digits.encode()
_PUNCTUATION = string.punctuation.encode()
_ALL = bytes(range(256))
_NOT_LETTERS, _NOT_DIGITS, _NOT_PUNCTUATION = (
    bytes(set(_ALL) - set(kept)) for kept in (_LETTERS, _DIGITS, _PUNCTUATION)
)
_ASCII = bytes(range(128))


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a byte-pair tokenizer makes of `text`, at least 1.

    A linear count of words, letters, digits, punctuation marks, line ends and bytes outside ASCII.
    Its weights were fitted to cl100k_base on 480 news texts, summaries, dialogues and stories: over
    each of eight English sets the total is within 8 % (median text within 7 %, nine texts in ten
    within 12 %); Python, TOML and JSON within 18 %, Russian 20 % too high, Chinese 30 % too low.
    Takes 16 microseconds for 2,000 characters.
    """
    # Deleting bytes by table runs in C: a count in one pass, without a regular expression's
    # matches.
    raw = text.encode("utf-8", "surrogatepass")
    tokens = (
        0.42 * len(text.split())
        + 0.14 * len(raw.translate(None, _NOT_LETTERS))
        + 0.32 * len(raw.translate(None, _NOT_DIGITS))
        + 0.95 * len(raw.translate(None, _NOT_PUNCTUATION))
        + 0.55 * raw.count(b"\n")
        + 0.25 * len(raw.translate(None, _ASCII))
    )
    return max(1, round(tokens))


def prompt_tokens(request: AnyRequest) -> int:
    """Return about how many tokens the prompt of a request has: its text and its images."""
    tokens = estimate_tokens(request.text)
    return tokens + IMAGE_TOKENS * len(request.images) if request.images else tokens


MIN_CACHED_TOKENS = 1024
"""Shortest prefix that most providers keep, in tokens."""


def is_worth_caching(request: AnyRequest) -> bool:
    """Return whether a provider will keep the prefix that requests share."""
    # No estimate where it is too short for certain: a token has at least one byte.
    least = MIN_CACHED_TOKENS
    return request.shared_prefix > least and estimate_tokens(request.prefix) >= least


HEADROOM = 1.2
"""By how much a forecast exceeds the mean so far."""
MEMORY = 200
"""Answers after which older ones fade from a mean."""


class RunningMean:
    """The mean of what was seen, about the last `MEMORY` of it."""

    def __init__(self, first: float) -> None:
        self._mean, self._seen, self._first = 0.0, 0, first

    def add(self, value: float) -> None:
        """Take a value into account."""
        # A count that stops growing turns the running mean into an exponential one.
        self._seen = min(self._seen + 1, MEMORY)
        self._mean += (value - self._mean) / self._seen

    @property
    def is_known(self) -> bool:
        """Whether anything was seen."""
        return self._seen > 0

    @property
    def forecast(self) -> float:
        """A value that most of those to come will not exceed."""
        return HEADROOM * self._mean if self._seen else self._first


class TokenForecast:
    """Expected prompt and completion tokens.

    A sample is taken to be `max_tokens` long; if a request sets none, 256 tokens until the first
    answer has come, and then `HEADROOM` times the mean of such answers. The part of `max_tokens`
    that is there for a thought is far more than most thoughts take: it counts as 1,000 tokens
    until the first answer to such a request has come, and then as `HEADROOM` times what these took.
    """

    def __init__(self) -> None:
        self._unlimited, self._thought = RunningMean(256), RunningMean(1000)

    def prompt(self, request: AnyRequest) -> int:
        """Return the estimated tokens of what is sent."""
        if isinstance(request, ContinuationRequest):
            return estimate_tokens(request.text) + estimate_tokens(request.continuation)
        return prompt_tokens(request)

    def completion(self, request: AnyRequest) -> int:
        """Return the expected tokens over all samples; 1 for requests that score given text."""
        if isinstance(request, ContinuationRequest):
            return 1
        allowance = request.thought_allowance
        thought = round(min(self._thought.forecast, allowance)) if allowance else 0
        if request.probing and not self._thought.is_known:
            thought = 0  # it need not be a model that thinks
        if isinstance(request, ChoicesRequest):
            return 1 + thought
        if request.max_tokens is not None:
            return request.n * (request.max_tokens - allowance + thought)
        return max(1, round(request.n * self._unlimited.forecast))

    def learn(self, request: AnyRequest, answer: AnyResponse) -> None:
        """Take into account how long an answer was; one that reports no tokens teaches nothing."""
        usage = answer.usage
        if not usage.completion_tokens or isinstance(request, ContinuationRequest):
            return
        samples = request.n if isinstance(answer, Response) and isinstance(request, Request) else 1
        if request.thought_allowance:
            # Some providers count thoughts without telling them apart.
            thought = usage.reasoning_tokens or usage.completion_tokens
            self._thought.add(thought / samples)
        elif isinstance(request, Request) and request.max_tokens is None:
            self._unlimited.add(usage.completion_tokens / samples)
