"""Counts what answering costs: for a whole model, and for the piece of work that is being done.

A piece of work is whatever runs inside `metered()`, child tasks included; the ledger travels in a context variable so
that agents need not carry it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from textassay.runtime.messages import Usage
from textassay.runtime.model import A, Model, Q, Wrapper


class Ledger:
    """A running sum of usages."""

    def __init__(self) -> None:
        """Start at nothing."""
        self.calls = self.cached_calls = self.prompt_tokens = self.completion_tokens = 0
        self.cost: float | None = 0.0

    def add(self, usage: Usage) -> None:
        """Count one more usage; an unknown cost makes the sum's cost unknown."""
        self.calls += usage.calls
        self.cached_calls += usage.cached_calls
        self.prompt_tokens += usage.prompt_tokens
        self.completion_tokens += usage.completion_tokens
        self.cost = None if self.cost is None or usage.cost is None else self.cost + usage.cost

    @property
    def usage(self) -> Usage:
        """The sum so far."""
        return Usage(
            calls=self.calls,
            cached_calls=self.cached_calls,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cost=self.cost,
        )


_current: ContextVar[Ledger | None] = ContextVar("textassay_ledger", default=None)


@contextmanager
def metered() -> Iterator[Ledger]:
    """Give a ledger that counts every call made inside the block, also by tasks started there."""
    ledger = Ledger()
    token = _current.set(ledger)
    try:
        yield ledger
    finally:
        _current.reset(token)


class MeteredModel(Wrapper):
    """Counts every answer in `total` and in the current ledger."""

    def __init__(self, wrapped: Model) -> None:
        """Wrap a model."""
        super().__init__(wrapped)
        self.total = Ledger()

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Answer and count."""
        response = await call(request)
        self.total.add(response.usage)
        ledger = _current.get()
        if ledger is not None:
            ledger.add(response.usage)
        return response
