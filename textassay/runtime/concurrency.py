"""Structured concurrency: no task outlives the call that started it.

`gather` runs a few tasks, `with_branches` tasks that start more on their way, `run_workers` many.
When they return, raise or are left, none of their tasks is running. `in_thread` does the same for
functions that block, and `GroupRead` reads together what tasks look up in one turn. Last, the event
loop of processes that are textassay's own (the command line, workers), never of a host.
Knows nothing of models, agents or files.
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
from typing import Any, Final, Generic, Protocol, Self, TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")


class AsyncResource(ABC):
    """Base of what is closed with `aclose`; `async with` calls it, whatever ended the block."""

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

    `asyncio.to_thread` leaves a canceled caller without the result, so that it is never closed,
    and drops work that no thread has begun yet, such as closing a file.
    """
    # a future and no task, so that a loop that ends and cancels all its tasks waits for it too
    running = asyncio.get_running_loop().run_in_executor(None, work)
    return await to_the_end(running, discard=discard)


async def to_the_end(
    running: asyncio.Future[R], *, discard: Callable[[R], object] | None = None
) -> R:
    """Return a future's result; a cancellation waits for it, too, and has it discarded."""
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

    That is the first in order whose class has `stops_run` set, or else the first that is no
    cancellation.
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

    The first exception cancels the rest and is raised as it is, never inside an exception group; so
    is a cancellation from outside. A single awaitable is awaited in place, without a task.

    Args:
        awaitables: Coroutines, tasks or futures; coroutines that never get to start are closed.
        limit: How many may be under way at a time, at least 1.

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
    """Return what `trunk` returns, once all that it or its branches started has ended as well.

    The first exception of any of them cancels the rest and is raised as it is, never inside an
    exception group; so is a cancellation from outside.
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
    # raised here and not above: its own cause and context stay what they were
    raise failure


async def _guard(branch: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
    """Call and await, and turn a stray cancellation into an error.

    A task group takes a canceled child for a finished one.
    """
    try:
        return await branch(*args)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        # `cancelling()` counts requests to cancel this very task: without one, the cancellation
        # came from what was awaited, and the group would drop this task's result in silence.
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
            awaitable.close()  # does nothing to one that has ended


_END: Final = object()


async def run_workers(
    items: AsyncIterable[T] | Iterable[T],
    work: Callable[[T], Awaitable[R]],
    *,
    workers: int,
    commit: Callable[[list[R]], object] = lambda batch: None,
) -> AsyncGenerator[list[R], None]:
    """Yield `work(item)` for every item, in lists of what has finished, with a fixed crew.

    What has finished in a turn of the event loop is first committed together, however slow the
    consumer is.

    An item is taken only when a worker is free for it and fewer than `2 * workers` results are
    being made, wait to be consumed, or are in the list that was yielded last: memory depends
    neither on the number of items nor on how slow the consumer is. An exception of `work`, `commit`
    or `items` cancels the other workers and is raised as it is, after the results that were ready
    by then. Leaving early (`aclose`, or canceling the consumer) returns once all workers have
    stopped; what they had under way, errors included, goes with them.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    results: _ResultQueue[R] = _ResultQueue(2 * workers, commit)
    # Two ways, since a coroutine around each `next` would cost more than the `next`.
    later = _next_item_of(items) if isinstance(items, AsyncIterable) else None
    now = iter(()) if isinstance(items, AsyncIterable) else iter(items)

    async def keep_working() -> None:
        while True:
            # Room comes before the item: an item that was taken must be worked on, however slow the
            # consumer is, and its result must have a place.
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
            # Half of all places at most, so that workers go on while a slow consumer has a list.
            batch = results.take(workers)
            yield batch
            results.give_room(len(batch))
        await crew
    finally:
        if not crew.done():
            crew.cancel()
            await asyncio.wait([crew])
        if not crew.cancelled():
            # Marks it as retrieved: a consumer that left early wants no report from the event loop.
            crew.exception()


class _ResultQueue(Generic[R]):
    """Results for one consumer, and room for a bounded number of them, first come, first served.

    What `asyncio.Queue` and `asyncio.Semaphore` do for any number of consumers, without a coroutine
    for each item that need not wait.
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
        """Take a place that was given back."""
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

        One by one: a worker whose work is answered from a cache uses many places in one turn.
        """
        while self._capacity and self._held_back:
            future = self._held_back.popleft()
            if not future.done():
                future.set_result(None)
                return

    def add(self, result: R) -> None:
        """Have a result committed at the end of the turn, and then consumed."""
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
        """Have `wait` return when all is consumed."""
        self._ended = True
        self._wake()

    async def wait(self) -> bool:
        """Wait until something is ready; return whether anything is, or else all is consumed."""
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
    """Return a function that several workers may await for the next item, or `_END`."""
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
    """Has what the tasks of an event loop request in one turn read together.

    While another thread writes, a look into a database took 51 microseconds of the loop's thread;
    seven looks together take 164.
    """

    def __init__(self, find: Callable[[Collection[str]], Mapping[str, R]], missing: R) -> None:
        """Keep the function that reads the values of several names, and the value of the others."""
        self._find, self._missing = find, missing
        self._requests: dict[asyncio.AbstractEventLoop, dict[str, list[asyncio.Future[R]]]] = {}

    def request(self, name: str) -> asyncio.Future[R]:
        """Return the value of a name as it will be after this turn."""
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
            found = self._find(requests)
        except Exception:  # of one name, it may be: that is an error only where this is awaited
            for name, futures in requests.items():
                try:
                    give_result(futures, self._find([name]).get(name, self._missing))
                except Exception as error:
                    give_error(futures, error)
            return
        for name, futures in requests.items():
            give_result(futures, found.get(name, self._missing))


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory of event loops, if it is installed: a tenth less work a call.

    As a library, textassay runs in the loop of its host.
    """
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
