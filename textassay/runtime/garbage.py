"""The garbage collector of processes that are textassay's own, never of a host.

Imports nothing else: it comes before all other imports of a process.
"""

from __future__ import annotations

import gc

NEW_OBJECTS = 10_000
"""Objects that are made, and not yet gone, before the garbage collector looks at them (Python's own
figure: 700)."""
IMPORTED_OBJECTS = 400_000
"""The same during imports: twice what `score` makes before its first request."""


def hold_off_gc() -> None:
    """Keep the garbage collector from looking at what imports make: nearly all of it stays.

    Looking took a twentieth of the time to the first request.
    """
    gc.set_threshold(IMPORTED_OBJECTS)


def start_gc() -> None:
    """Collect from now on, though less often, but never look at what was imported.

    A hundred calls in flight hold some twenty thousand objects for as long as their answers take.
    None of them is garbage, nearly all go without the collector, and looking at them time and again
    took 15 % of a run.

    Does nothing unless `hold_off_gc` came before: what is frozen is never freed, which a
    process of many runs, such as one of tests, could not afford.
    """
    if gc.get_threshold()[0] == IMPORTED_OBJECTS:
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS)
