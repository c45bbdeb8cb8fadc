"""Structured concurrency: no task outlives the call that started it.

`gather` runs a few tasks, `with_branches` tasks that start further tasks, `run_workers` many. After
they return, raise or are closed, no task of theirs is running. `in_thread` does the same for
blocking functions, and `GroupRead` combines the lookups of one turn of the event loop. `fast_loop`
is the event loop of textassay's own processes (the command line, workers), never of a host.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
)
from functools import partial
from typing import Any, Final, Generic, Protocol, Self, cast

from textassay.runtime.base import R, T


class AsyncResource(ABC):
    """Base of resources with `aclose`, which `async with` calls at the end of the block."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close it; safe to call twice."""

    async def __aenter__(self) -> Self:
        """Return the resource itself; override if entering opens something."""
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def in_thread(work: Callable[[], R], *, discard: Callable[[R], object] | None = None) -> R:
    """Run `work` in a thread and return its result; a cancellation waits for its end.

    With `asyncio.to_thread` a canceled caller loses the result, which is then never closed, and
    work that no thread has begun, such as closing a file, is dropped.
    """
    # a future rather than a task, so that a loop that cancels all its tasks at its end waits for it
    running = asyncio.get_running_loop().run_in_executor(None, work)
    return await to_the_end(running, discard=discard)


async def to_the_end(
    running: asyncio.Future[R], *, discard: Callable[[R], object] | None = None
) -> R:
    """Return a future's result; a cancellation also waits for it, and discards it."""
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return running.result()
    if running.exception() is None and discard is not None:
        discard(running.result())
    raise cancelled


class _CancelledInside(Exception):
    """A child task was canceled from inside, e.g. through a shared future."""


def leading(error: BaseException) -> BaseException:
    """Return the decisive exception of an exception group, or any other exception itself.

    It is the first whose class has `stops_run` set, or else the first that is not a cancellation.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = list(_leaves(error))
    for leaf in leaves:
        if getattr(leaf, "stops_run", False):
            return leaf
    for leaf in leaves:
        if not isinstance(leaf, asyncio.CancelledError | _CancelledInside):
            return leaf
    return asyncio.CancelledError()


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterable[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def gather(awaitables: Iterable[Awaitable[T]], *, limit: float = math.inf) -> list[T]:
    """Await all at once and return their results in the order given.

    The first exception, or a cancellation from outside, cancels the rest and is raised directly,
    never inside an exception group. A single awaitable is awaited in place, without a task.

    Args:
        awaitables: Coroutines, tasks or futures; coroutines that never get to start are closed.
        limit: Maximum number of concurrent tasks, at least 1.

    Raises:
        ValueError: The limit is below 1.
    """
    pending = list(awaitables)
    if limit < 1:
        _close(pending)
        raise ValueError(f"limit must be at least 1, not {limit}")
    if len(pending) < 2:
        return [await pending[0]] if pending else []
    gated = limit < len(pending)
    wait = partial(_await_gated, asyncio.Semaphore(int(limit))) if gated else _await

    async def trunk(start: Start) -> list[asyncio.Task[T]]:
        return [start(wait, awaitable) for awaitable in pending]

    try:
        tasks = await with_branches(trunk)
    finally:
        _close(pending)
    return [task.result() for task in tasks]


class Start(Protocol):
    """Starts a coroutine function in a task of its own."""

    def __call__(
        self, branch: Callable[..., Coroutine[Any, Any, R]], /, *args: Any
    ) -> asyncio.Task[R]:
        """Return the task."""
        ...


async def with_branches(trunk: Callable[[Start], Coroutine[Any, Any, T]]) -> T:
    """Return the result of `trunk`, after all tasks that it or its branches started have ended.

    The first exception of any of them, or a cancellation from outside, cancels the rest and is
    raised directly, never inside an exception group.
    """
    failure: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:

            def start(
                branch: Callable[..., Coroutine[Any, Any, R]], /, *args: Any
            ) -> asyncio.Task[R]:
                guarded = _guard(branch, *args)
                try:
                    return group.create_task(guarded)
                except RuntimeError:  # the group is being canceled
                    guarded.close()
                    raise

            return await _guard(trunk, start)
    except BaseExceptionGroup as error:
        failure = leading(error)
    # raised here and not above, to keep its cause and context
    raise failure


async def _guard(branch: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
    """Call and await, and turn a stray cancellation into an error.

    A task group treats a canceled child as finished.
    """
    try:
        return await branch(*args)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        # `cancelling()` counts requests to cancel this task: without one, the cancellation came
        # from the awaited object, and the group would silently drop this task's result.
        if task is None or task.cancelling():
            raise
        raise _CancelledInside from error


async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable


async def _await_gated(gate: asyncio.Semaphore, awaitable: Awaitable[T]) -> T:
    async with gate:
        return await awaitable


def _close(awaitables: Iterable[object]) -> None:
    for awaitable in awaitables:
        if inspect.iscoroutine(awaitable):
            awaitable.close()  # has no effect on a finished one


_END: Final = object()


async def run_workers(
    items: AsyncIterable[T] | Iterable[T],
    work: Callable[[T], Awaitable[R]],
    *,
    workers: int,
    commit: Callable[[list[R]], object] = lambda batch: None,
) -> AsyncGenerator[list[R], None]:
    """Yield `work(item)` for every item, in lists of finished results.

    Results of one turn of the event loop are first committed together, independent of the consumer.

    An item is taken only if a worker is free and fewer than `2 * workers` results are in progress,
    wait for the consumer, or are in the last yielded list, so memory depends neither on the number
    of items nor on the consumer's speed. An exception of `work`, `commit` or `items` cancels the
    other workers and is raised directly, after the results that are ready. Leaving early (`aclose`,
    or canceling the consumer) returns after all workers have stopped; their unfinished results and
    errors are discarded.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    results: _ResultQueue[R] = _ResultQueue(2 * workers, commit)
    # There are two ways, since a coroutine around each `next` would cost more than the `next`.
    later = _next_item_of(items) if isinstance(items, AsyncIterable) else None
    now = iter(()) if isinstance(items, AsyncIterable) else iter(items)

    async def keep_working() -> None:
        while True:
            # A place is reserved before the item is taken, since the result of a taken item needs a
            # place even with a slow consumer.
            if not results.take_room():
                await results.wait_for_room()
            item = next(now, _END) if later is None else await later()
            if item is _END:
                results.give_room(1)
                return
            results.add(await work(cast(T, item)))

    crew = asyncio.create_task(_all_of(keep_working, workers))
    crew.add_done_callback(lambda _: results.end())
    try:
        while await results.wait():
            # Half of all places at most, so that workers continue while a slow consumer has a list.
            batch = results.take(workers)
            yield batch
            results.give_room(len(batch))
        await crew
    finally:
        if not crew.done():
            crew.cancel()
            await asyncio.wait([crew])
        if not crew.cancelled():
            # Marks it as retrieved, so that the event loop does not report it if a consumer left
            # early.
            crew.exception()


class _ResultQueue(Generic[R]):
    """Results for one consumer, in a bounded number of places, first come, first served.

    Like `asyncio.Queue` with `asyncio.Semaphore`, but without a coroutine for items that need not
    wait.
    """

    def __init__(self, capacity: int, commit: Callable[[list[R]], object]) -> None:
        self._commit = commit
        self._made: list[R] = []
        self._ready: list[R] = []
        self._failure: Exception | None = None
        self._ended = False
        self._capacity = capacity
        self._held_back: deque[asyncio.Future[None]] = deque()
        self._consumer: asyncio.Future[None] | None = None

    def take_room(self) -> bool:
        """Take a place if one is free; otherwise, `wait_for_room` takes one."""
        if not self._capacity:
            return False
        self._capacity -= 1
        return True

    async def wait_for_room(self) -> None:
        """Wait for a place that is given back, and take it."""
        while not self._capacity:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._held_back.append(future)
            try:
                await future
            except BaseException:
                self._wake_worker()  # it may have been woken and canceled in the same turn
                raise
        self._capacity -= 1
        self._wake_worker()

    def give_room(self, places: int) -> None:
        """Give places back."""
        self._capacity += places
        self._wake_worker()

    def _wake_worker(self) -> None:
        """Wake the worker that has waited longest, which wakes the next.

        They wake one by one, since a worker with cached answers uses many places in one turn.
        """
        while self._capacity and self._held_back:
            future = self._held_back.popleft()
            if not future.done():
                future.set_result(None)
                return

    def add(self, result: R) -> None:
        """Add a result, to be committed at the end of the turn and then consumed."""
        if not self._made:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._made.append(result)

    def _end_turn(self) -> None:
        batch, self._made = self._made, []
        try:
            self._commit(batch)
            self._ready += batch
        except Exception as error:  # raised where the results are awaited
            self._failure = self._failure or error
        self._wake()

    def end(self) -> None:
        """Let `wait` return when all results are consumed."""
        self._ended = True
        self._wake()

    async def wait(self) -> bool:
        """Wait until a result is ready, and return `True`; return `False` when all are consumed."""
        while not (self._ready or self._failure or self._ended):
            self._consumer = asyncio.get_running_loop().create_future()
            await self._consumer
        if self._failure and not self._ready:
            raise self._failure
        return bool(self._ready)

    def take(self, most: int) -> list[R]:
        """Return the results that are ready, up to a number."""
        batch, self._ready = self._ready[:most], self._ready[most:]
        return batch

    def _wake(self) -> None:
        if self._consumer is not None and not self._consumer.done():
            self._consumer.set_result(None)


async def _all_of(worker: Callable[[], Awaitable[None]], workers: int) -> None:
    await gather([worker() for _ in range(workers)])


def _next_item_of(items: AsyncIterable[T]) -> Callable[[], Awaitable[object]]:
    """Return a function that returns the next item, or `_END`, for several workers."""
    # An async generator refuses a second `anext` while one is awaited.
    later, turn = aiter(items), asyncio.Lock()

    async def take_later() -> object:
        async with turn:
            return await anext(later, _END)

    return take_later


def give_result(futures: Iterable[asyncio.Future[R]], result: R) -> None:
    """Set the result of all futures that are not canceled."""
    for future in futures:
        if not future.done():
            future.set_result(result)


def give_error(futures: Iterable[asyncio.Future[R]], error: Exception) -> None:
    """Raise an error where the futures that are not canceled are awaited."""
    for future in futures:
        if not future.done():
            future.set_exception(error)


class GroupRead(Generic[R]):
    """Combines the reads that tasks request in one turn of an event loop.

    Combined lookups in a database take less than half the time of the loop's thread while another
    thread writes.
    """

    def __init__(self, find: Callable[[Collection[str]], Mapping[str, R]], missing: R) -> None:
        """Keep the function that reads the values of several names, and the value of the others."""
        self._find, self._missing = find, missing
        self._requests: dict[asyncio.AbstractEventLoop, dict[str, list[asyncio.Future[R]]]] = {}

    def request(self, name: str) -> asyncio.Future[R]:
        """Return the value of a name, read after this turn."""
        loop = asyncio.get_running_loop()
        if loop not in self._requests:
            self._requests[loop] = {}
            loop.call_soon(self._end_turn, loop)
        requests = self._requests[loop]
        future: asyncio.Future[R] = loop.create_future()
        if name in requests:
            requests[name].append(future)
        else:
            requests[name] = [future]
        return future

    def _end_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        requests = self._requests.pop(loop)
        try:
            results = self._find(requests)
        except Exception:  # such as one damaged entry, which is an error only for its awaiters
            for name, futures in requests.items():
                try:
                    give_result(futures, self._find([name]).get(name, self._missing))
                except Exception as error:
                    give_error(futures, error)
            return
        for name, futures in requests.items():
            give_result(futures, results.get(name, self._missing))


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory of event loops, if it is installed: a tenth less work per call.

    As a library, textassay runs in the loop of its host.
    """
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
