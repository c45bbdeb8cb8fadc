"""Process-wide settings, applied by the command line only, never when used as a library."""

from __future__ import annotations

import gc

NEW_OBJECTS = 10_000
"""Objects that are made, and not yet gone, before the garbage collector looks at them (Python's own
figure: 700)."""


def raise_gc_threshold() -> None:
    """Let the garbage collector run less often.

    A hundred calls in flight hold some twenty thousand objects for as long as their answers take.
    None of them is garbage, nearly all go without the collector, and looking at them time and again
    took 15 % of a run.
    """
    # only the youngest generation: the older ones follow from it, and a library must leave all of
    # this to its host
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
