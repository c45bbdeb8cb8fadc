"""Tunes the garbage collector of textassay's own processes; a host's collector stays as it is.

Imports nothing else: it comes before all other imports of a process.
"""

from __future__ import annotations

import gc

NEW_OBJECTS = 10_000
"""Number of new objects before the garbage collector runs (Python's default: 700)."""
IMPORTED_OBJECTS = 400_000
"""The same during imports: twice what `score` makes before its first request."""


def hold_off_gc() -> None:
    """Do not run the garbage collector during imports: nearly all of their objects remain."""
    gc.set_threshold(IMPORTED_OBJECTS)


def start_gc() -> None:
    """Run the garbage collector from now on, less often, and never on imported objects.

    A hundred calls in flight hold some twenty thousand objects. Nearly all are freed without the
    collector, and its repeated scans took 15 % of a run.

    It has no effect unless `hold_off_gc` was called: frozen objects are never freed, which would
    fill the memory of a process with many runs, such as tests.
    """
    if gc.get_threshold()[0] == IMPORTED_OBJECTS:
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS)
