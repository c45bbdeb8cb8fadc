"""Amount of work, counted exactly or as growth, since seconds depend on the machine's load."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any


def opcodes(run: Callable[[], object]) -> int:
    """Return how many instructions of Python `run` executes, in all functions that it calls.

    Equal each time on one version of Python; versions differ by some percent. `run` is called
    twice: Python 3.13 counts a function's instructions from its second call on.
    """
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 asks for it before tracing begins
    sys.settrace(trace)
    try:
        run()
        count = 0
        run()
    finally:
        sys.settrace(before)
    return count


def grows_linearly(read: Callable[[str], object], unit: str, length: int = 1_000) -> bool:
    """Return whether a text 16 times as long takes less than 64 times the CPU time.

    256 times would be quadratic. Patterns run in C, so instructions of Python do not measure them.

    Args:
        read: What reads the text.
        unit: What the text repeats.
        length: Characters of the shorter text.
    """

    def seconds(text: str) -> float:
        began = time.thread_time()
        read(text)
        return time.thread_time() - began

    short, long = unit * (length // len(unit)), unit * (16 * length // len(unit))
    allowed = 64 * max(min(seconds(short) for _ in range(2)), 2e-4)
    # the better of two: another process in the same core's cache slows single ones down
    return seconds(long) < allowed or seconds(long) < allowed
