"""Waits for another process, thread or task, at any load of the machine.

Nothing is asserted about the time that passes: the deadline only turns a hang into a failure.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator

HANGS_AFTER = 200.0
"""Seconds; below the timeout of every test, so that the failure says what did not happen."""


def until(condition: Callable[[], object], *, every: float = 0.01) -> None:
    """Return once the condition holds."""
    never = threading.Event()
    for _ in _turns(condition):
        never.wait(every)


async def eventually(condition: Callable[[], object], *, every: float = 0.005) -> None:
    """Return once the condition holds; the event loop continues meanwhile."""
    for _ in _turns(condition):
        await asyncio.sleep(every)


def _turns(condition: Callable[[], object]) -> Iterator[None]:
    deadline = time.monotonic() + HANGS_AFTER
    while not condition():
        assert time.monotonic() < deadline, f"not within {HANGS_AFTER:g} s"
        yield


def free_port() -> int:
    """Return a port on which nothing listens, for a server that cannot choose one itself.

    It is below the ports that systems assign, so that no other program takes it meanwhile.
    """
    ports = list(range(15_000, 30_000))
    random.SystemRandom().shuffle(ports)
    for port in ports:
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")
