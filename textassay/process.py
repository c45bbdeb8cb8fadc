"""What is set for a whole process: the garbage collector, and the event loop.

Applied where the process is textassay's own (the command line, workers), never when it is used as a
library.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

NEW_OBJECTS = 10_000
"""Objects that are made, and not yet gone, before the garbage collector looks at them (Python's own
figure: 700)."""
IMPORTED_OBJECTS = 400_000
"""The same during imports: twice what `score` makes before its first request."""


def hold_off_gc() -> None:
    """Keep the garbage collector from looking at what imports make: nearly all of it stays.

    Looking took a twentieth of the time to the first request.
    """
    _set_threshold(IMPORTED_OBJECTS)


def start_gc() -> None:
    """Collect from now on as `raise_gc_threshold` says, but never look at what was imported.

    Does nothing unless `hold_off_gc` came before: what is frozen is never freed, which a
    process of many runs, such as one of tests, could not afford.
    """
    if gc.get_threshold()[0] == IMPORTED_OBJECTS:
        gc.freeze()
        raise_gc_threshold()


def raise_gc_threshold() -> None:
    """Let the garbage collector run less often.

    A hundred calls in flight hold some twenty thousand objects for as long as their answers take.
    None of them is garbage, nearly all go without the collector, and looking at them time and again
    took 15 % of a run.
    """
    _set_threshold(NEW_OBJECTS)


def _set_threshold(objects: int) -> None:
    # only the youngest generation: the older ones follow from it, and a library must leave all of
    # this to its host
    gc.set_threshold(objects, *gc.get_threshold()[1:])


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes an event loop of uvloop's, if that is installed: a tenth less work a call.

    As a library, textassay runs in the loop of its host.
    """
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
