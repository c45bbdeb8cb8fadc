"""What several tasks want at once is done once.

Equal requests in flight, and agents whose result never changes.

Nothing is kept on disk here; `cache.py` does that. The work runs in a task of its own, so that it
outlives the caller that began it as long as anyone else waits, and is canceled with the last one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, ParamSpec, TypeVar, cast

from textassay.runtime.calls.cache import Keys
from textassay.runtime.messages import CACHED
from textassay.runtime.model import A, AnyResponse, Model, Q, Wrapper

P = ParamSpec("P")
R = TypeVar("R")


class _Call(Generic[R]):
    """One call under way, in a task of its own, and the futures that wake those who wait for it."""

    __slots__ = ("claimed", "task", "waiting")

    def __init__(self, call: Callable[[], Awaitable[R]]) -> None:
        # A future for each waiter: awaiting the task itself would cancel it with the first of them.
        self.waiting: list[asyncio.Future[None]] = []
        self.claimed = False
        self.task = asyncio.create_task(self._run(call))

    async def _run(self, call: Callable[[], Awaitable[R]]) -> R:
        try:
            return await call()
        finally:
            for future in self.waiting:
                if not future.done():
                    future.set_result(None)

    async def end(self) -> None:
        """Cancel the call unless it has ended, and wait for its end."""
        if not self.task.done():
            self.task.cancel()
            await asyncio.wait([self.task])
        if not self.task.cancelled():
            # nobody waits for it any more, and asyncio logs an exception that is never retrieved
            self.task.exception()


class SharedCalls(Generic[R]):
    """Calls in progress by key; a caller with a known key joins the call."""

    def __init__(self) -> None:
        self._calls: dict[Hashable, _Call[R]] = {}

    async def join(self, key: Hashable, call: Callable[[], Awaitable[R]]) -> tuple[R, bool]:
        """Return the result of the call under `key`, and whether this caller started it.

        Exactly one of the callers that get a result gets `True`. A failure reaches all callers.

        Args:
            key: What equal calls have in common.
            call: Starts the call.

        Raises:
            Exception: Whatever the call raised.
        """
        shared = self._calls.get(key)
        if shared is None:
            shared = self._calls[key] = _Call(call)
        completed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        shared.waiting.append(completed)
        try:
            if not shared.task.done():
                await completed
            result = shared.task.result()
        finally:
            shared.waiting.remove(completed)
            if not shared.waiting:
                # not sooner, so that an equal request finds either this call or what its callers
                # made of it
                if self._calls.get(key) is shared:
                    del self._calls[key]
                await shared.end()
        # Without an await in between, exactly one caller takes the cost of the answer on itself.
        first, shared.claimed = not shared.claimed, True
        return result, first


class SharedModel(Wrapper):
    """Asks equal requests that are in flight at the same time only once.

    One caller gets the response with its cost, the others with none. If the caller that asked is
    canceled, the request continues for the others; if it fails, it fails for all of them.
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
