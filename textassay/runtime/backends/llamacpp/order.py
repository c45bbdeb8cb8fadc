"""The order in which queued tasks run: next goes what shares the longest prefix with what ran last.

Knows keys, and nothing of what tasks do. Once in `PATIENCE` turns the task goes first that has
waited longest, if it has waited that long, so nobody starves.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

import numpy as np

PATIENCE = 512
"""Turns after which a task may go first though others share more with what ran last, and until
another one may."""


class Queued(Protocol):
    """What is put in order."""

    key: bytes
    """By which entries are brought next to each other."""
    serial: int
    """Breaks ties between equal keys; earlier submissions have lower numbers."""
    arrived: int
    """Turn in which it was added; set by the order."""
    abandoned: bool
    """Whether the caller no longer waits for it."""
    done: bool
    """Whether it has run, or was dropped."""


E = TypeVar("E", bound=Queued)


class PrefixOrder(Generic[E]):
    """Entries in the order of their keys."""

    def __init__(self) -> None:
        self._sorted: list[tuple[bytes, int, E]] = []
        self._arrivals: deque[E] = deque()
        self._last = b""
        self._turn = self._last_preferred = 0

    def __len__(self) -> int:
        return len(self._sorted)

    def __iter__(self) -> Iterator[E]:
        return (entry for _, _, entry in self._sorted)

    def push(self, entry: E) -> None:
        """Add an entry."""
        entry.arrived = self._turn
        bisect.insort(self._sorted, (entry.key, entry.serial, entry))
        self._arrivals.append(entry)

    def pop(self, most: int) -> list[E]:
        """Take the next entry, and up to `most` - 1 that follow it in order.

        Entries that no caller waits for are dropped.
        """
        chosen: list[E] = []
        self._turn += 1
        place = self._next() if self._sorted else 0
        while self._sorted and len(chosen) < most:
            # Removing an entry brings the next one in order to the same place.
            place = min(place, len(self._sorted) - 1)
            entry = self._sorted.pop(place)[2]
            if entry.abandoned:
                entry.done = True
                if not chosen and self._sorted:
                    place = self._next()
                continue
            chosen.append(entry)
        if chosen:
            self._last = chosen[0].key
        return chosen

    def drain(self) -> list[E]:
        """Take everything."""
        left, self._sorted = [entry for _, _, entry in self._sorted], []
        return left

    def _next(self) -> int:
        """Place of the entry to run.

        The longest waiting once it is out of patience, else the one most alike.
        """
        # Entries are taken out of the sorted list only; here they are dropped when they come to the
        # front.
        while self._arrivals and self._arrivals[0].done:
            self._arrivals.popleft()
        if (
            self._arrivals
            and self._turn - max(self._arrivals[0].arrived, self._last_preferred) > PATIENCE
        ):
            oldest, self._last_preferred = self._arrivals[0], self._turn
            return bisect.bisect_left(self._sorted, (oldest.key, oldest.serial))
        return max(self._neighbors(), key=self._shared_at)

    def _neighbors(self) -> list[int]:
        """Return the places next to where the last key would be inserted.

        In a sorted list, the entry with the longest common prefix is always one of them.
        """
        after = bisect.bisect_left(self._sorted, (self._last, -1))
        return [place for place in (after, after - 1) if 0 <= place < len(self._sorted)]

    def _shared_at(self, place: int) -> int:
        return _shared(self._last, self._sorted[place][0])


def _shared(one: bytes, other: bytes) -> int:
    """Return the length of the common prefix."""
    length = min(len(one), len(other))
    left, right = np.frombuffer(one, np.uint8, length), np.frombuffer(other, np.uint8, length)
    differ = left != right
    return int(differ.argmax()) if differ.any() else length
