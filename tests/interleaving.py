"""Simulates another process at the worst moment: just before this one touches a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class _Step:
    event: str
    path: str
    act: Callable[[], object]


_steps: list[_Step] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _steps or not arguments or not isinstance(arguments[0], str | os.PathLike):
        return
    step = _steps[0]
    if event == "os.scandir":  # by which pathlib lists a folder since Python 3.13
        event = "os.listdir"
    if event == step.event and os.fspath(arguments[0]) == step.path:
        del _steps[0]  # first, since what it does is watched as well
        step.act()


# an audit hook cannot be removed
sys.addaudithook(_watch)


@contextmanager
def before(*steps: tuple[str, Path, Callable[[], object]]) -> Iterator[None]:
    """Have each step done just before Python raises its audit event for its path, in this order.

    Fails if an event never comes.

    Args:
        steps: Event (`open`, `os.listdir`, `os.rmdir`, ...), path and what to do, of each.
    """
    _steps[:] = [_Step(event, str(path), act) for event, path, act in steps]
    try:
        yield
        assert not _steps, f"never came: {_steps[0].event} of {_steps[0].path}"
    finally:
        _steps.clear()
