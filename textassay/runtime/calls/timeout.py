"""Limits how long one attempt may take.

The innermost wrapper, so that waiting in a queue of ours does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from textassay.runtime.errors import TimedOut, parameter
from textassay.runtime.model import A, Model, Q, Wrapper


class DeadlineModel(Wrapper):
    """Gives up an attempt after `timeout` seconds."""

    def __init__(
        self, wrapped: Model, *, timeout: float | None, thinking_timeout: float | None = None
    ) -> None:
        """Wrap a model.

        Args:
            wrapped: The model.
            timeout: Seconds one attempt may take; `None` for no limit.
            thinking_timeout: Seconds for requests that have tokens for a thought, if they may take
                longer.
        """
        super().__init__(wrapped)
        self._plain = None if timeout is None else _Deadlines(timeout)
        self._thinking = self._plain if thinking_timeout is None else _Deadlines(thinking_timeout)

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Answer, or cancel the attempt.

        Raises:
            TimedOut: The time is over.
        """
        deadlines = self._thinking if request.thought_allowance else self._plain
        if deadlines is None:
            return await call(request)
        attempt = deadlines.begin()
        try:
            answer = await call(request)
        except BaseException as error:
            # A `TimeoutError` from further in (a socket, a nested scope) is not about this limit.
            if attempt.expired and attempt.absorb() and isinstance(error, asyncio.CancelledError):
                raise TimedOut(
                    f"no answer from {self.name} within {deadlines.seconds:g} s "
                    f"({parameter('timeout', 'SECONDS')})"
                ) from error
            raise
        else:
            if attempt.expired:
                attempt.absorb()
            return answer
        finally:
            deadlines.end(attempt)


class _Attempt:
    """A task that is canceled if it has not ended by its deadline."""

    __slots__ = ("_cancelling", "_task", "deadline", "expired")

    def __init__(self, task: asyncio.Task[object], deadline: float) -> None:
        self.deadline, self.expired = deadline, False
        self._task, self._cancelling = task, task.cancelling()

    def expire(self) -> None:
        """Cancel the task."""
        self.expired = True
        self._task.cancel()

    def absorb(self) -> bool:
        """Take the cancellation by `expire` back; return whether nobody else canceled the task."""
        return self._task.uncancel() <= self._cancelling


class _Deadlines:
    """Attempts under way in one event loop, and one timer for all of them.

    Does what `asyncio.timeout` does without a timer for each attempt: all may take equally long, so
    they expire in the order in which they began.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._attempts: dict[_Attempt, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> _Attempt:
        """Start the time of the current task."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a time limit needs a task to cancel")
        loop = task.get_loop()
        if loop is not self._loop:  # attempts of an earlier loop have ended with it
            self._loop, self._timer = loop, None
            self._attempts.clear()
        attempt = _Attempt(task, loop.time() + self.seconds)
        self._attempts[attempt] = None
        if self._timer is None:
            self._timer = loop.call_at(attempt.deadline, self._expire)
        return attempt

    def end(self, attempt: _Attempt) -> None:
        """Forget an attempt."""
        # The timer stays: when it fires, it is set for the attempt that is the oldest then.
        self._attempts.pop(attempt, None)

    def _expire(self) -> None:
        self._timer = None
        if self._loop is None:
            return
        now = self._loop.time()
        for attempt in self._attempts:
            if attempt.expired:
                continue  # canceled, and not yet ended
            if attempt.deadline > now:
                self._timer = self._loop.call_at(attempt.deadline, self._expire)
                return
            attempt.expire()
