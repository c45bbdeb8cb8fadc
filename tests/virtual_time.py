"""An event loop whose clock jumps to the next timer, so that tests of minutes take milliseconds."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Never sleeps: where nothing is ready, its time is that of the next timer, plus `lateness()`
    seconds."""

    def __init__(
        self, *, start: float = 1000.0, lateness: Callable[[], float] | None = None
    ) -> None:
        self._virtual_now = start
        self._lateness = lateness or (lambda: 0.0)
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self._virtual_now

    def jump(self) -> None:
        """Go to the next timer; asyncio keeps its timers in the heap `_scheduled`."""
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        self._virtual_now = max(self._virtual_now, timers[0].when() + self._lateness())


class SkippingLoop(asyncio.SelectorEventLoop):
    """The real clock, which a test puts forward once others have done what it waits for."""

    def __init__(self) -> None:
        self._skipped = 0.0
        super().__init__()

    def time(self) -> float:
        return super().time() + self._skipped

    def skip(self, seconds: float) -> None:
        """Advance the clock by these seconds."""
        self._skipped += seconds


class _Jumping(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("every task waits, and no timer is set that could wake one")
        if timeout > 0:
            self._loop.jump()
        return super().select(0)


def run_virtual(
    main: Coroutine[Any, Any, T],
    *,
    start: float = 1000.0,
    lateness: Callable[[], float] | None = None,
) -> T:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(
        loop_factory=lambda: VirtualTimeLoop(start=start, lateness=lateness)
    ) as runner:
        return runner.run(main)


def virtual(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Have a test that is a coroutine run in virtual time."""

    @wraps(test)
    def run(*args: P.args, **keywords: P.kwargs) -> None:
        run_virtual(test(*args, **keywords))

    return run


def run_skipping(main: Callable[[SkippingLoop], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine that is given its loop, whose clock it may put forward."""
    loop = SkippingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main(loop))
