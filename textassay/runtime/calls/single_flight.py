"""What several tasks want at once is done once.

Equal requests in flight, and agents whose result never changes.

Nothing is kept on disk here; `cache.py` does that. The first caller does the work itself: a task of
its own would outlive a canceled caller, but would add a tenth to the CPU time of every request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, NamedTuple, ParamSpec, TypeVar, cast

from textassay.runtime.calls.cache import Keys
from textassay.runtime.messages import CACHED
from textassay.runtime.model import A, AnyResponse, Model, Q, Wrapper

P = ParamSpec("P")
R = TypeVar("R")


class _Outcome(NamedTuple, Generic[R]):
    """How a call ended."""

    result: R | None
    error: Exception | None


class SharedCalls(Generic[R]):
    """Calls in progress by key; a caller with a known key joins the call."""

    def __init__(self) -> None:
        self._calls: dict[Hashable, list[asyncio.Future[_Outcome[R] | None]]] = {}
        """For each call in progress, what those that have joined it wait for: its outcome, or
        `None` if it was canceled."""

    async def join(self, key: Hashable, call: Callable[[], Awaitable[R]]) -> tuple[R, bool]:
        """Return the result of the call under `key`, and whether this caller made the call.

        Exactly one of the callers that get a result gets `True`. A failure reaches all callers. If
        the caller that makes the call is canceled, one of the others makes it anew.

        Args:
            key: What equal calls have in common.
            call: Makes the call.

        Raises:
            Exception: Whatever the call raised.
        """
        while (joined := self._calls.get(key)) is not None:
            waiter: asyncio.Future[_Outcome[R] | None] = asyncio.get_running_loop().create_future()
            joined.append(waiter)
            outcome = await waiter
            if outcome is None:
                continue  # to make the call anew, or to join whoever was quicker
            if outcome.error is not None:
                raise outcome.error
            return cast(R, outcome.result), False
        joined, outcome = [], None
        self._calls[key] = joined
        try:
            result = await call()
            outcome = _Outcome(result, None)
            return result, True
        except Exception as error:
            outcome = _Outcome(None, error)
            raise
        finally:
            # Without an await before the caller goes on: an equal request finds either this call or
            # what its caller made of it.
            del self._calls[key]
            for waiter in joined:
                if not waiter.done():
                    waiter.set_result(outcome)


class SharedModel(Wrapper):
    """Asks equal requests that are in flight at the same time only once.

    One caller gets the response with its cost, the others with none. If the request fails, it fails
    for all of them; if the caller that asked is canceled, one of the others asks anew.
    """

    def __init__(self, wrapped: Model) -> None:
        """Wrap a model, whose identity stays the same as long as the wrapper lives."""
        super().__init__(wrapped)
        self._shared: SharedCalls[AnyResponse] = SharedCalls()
        self._keys: Keys | None = None

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Join an equal request in flight, or ask."""
        if self._keys is None:
            self._keys = Keys(self.wrapped.identity)
        response, first = await self._shared.join(self._keys.get(request), lambda: call(request))
        return cast(A, response if first else response.model_copy(update={"usage": CACHED}))


class Once(Generic[P, R]):
    """Calls an agent once for equal arguments and remembers the result.

    Failures are not remembered.
    """

    def __init__(self, agent: Callable[P, Awaitable[R]]) -> None:
        """Wrap an async callable whose arguments are hashable."""
        self._agent = agent
        self._results: dict[Hashable, R] = {}
        self._shared: SharedCalls[R] = SharedCalls()

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result for these arguments.

        Raises:
            TypeError: An argument is not hashable.
            Exception: Whatever the agent raised.
        """
        key = (args, tuple(sorted(kwargs.items())))
        if key in self._results:
            return self._results[key]
        result, _ = await self._shared.join(key, lambda: self._agent(*args, **kwargs))
        # All callers of one call get here; the first one's object is what everybody keeps.
        return self._results.setdefault(key, result)


def once(agent: Callable[P, Awaitable[R]]) -> Once[P, R]:
    """Return `agent` so that equal arguments share one call, as G-Eval's steps for an aspect do.

    Results live as long as the returned object: make one for each run.
    """
    return Once(agent)
