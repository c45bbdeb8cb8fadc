"""How much may go out in a minute: a smooth pace, and an exact count over every window of a minute.

Pure arithmetic on times and amounts that the caller gives: no clock, no event loop, no queue. The
two parts are complementary. `Pace` spreads requests (or tokens) evenly, so that no burst ever meets
a server's own bucket; `Window` makes sure that what the pace let catch up never adds up to more
than the limit in any minute.
"""

from __future__ import annotations

import math
from collections import deque

MARGIN = 0.5
"""Seconds added to the minute: a request may overtake an earlier one on its way by this much and
still be within it."""

WINDOW = 60.0 + MARGIN
"""Seconds over which a limit per minute is kept."""

CELL = 0.01
"""Seconds of grants that are counted together, as if all came with the last: bounds memory to 6,050
cells."""

CATCH_UP = 0.1
"""Seconds of lateness (slow timers, a busy event loop) that are at least compensated, if the rate
allows it."""


class Pace:
    """Spaces amounts evenly (the generic cell rate algorithm, with weights).

    An amount may go once the one before it is paid off at the given rate. After a rest there is no
    credit: the first amount goes, the next waits its turn. Whoever waited, and was woken late or
    after a correction, is credited for that: up to its own interval or `CATCH_UP`, whichever is
    longer.
    """

    __slots__ = ("_one_second", "free_at", "seconds_each")

    def __init__(self, per_minute: float, *, one_second: bool) -> None:
        """Set the rate.

        Args:
            per_minute: Units (requests or tokens) a minute.
            one_second: Whether to allow for servers that accept at once only what one second
                allows: the credit is at most half of what they tolerate, and none at one unit per
                second or slower.
        """
        self.set_rate(per_minute)
        self._one_second = one_second
        self.free_at = -math.inf
        """The time from which the next amount may go."""

    def set_rate(self, per_minute: float) -> None:
        """Set the units per minute for what is taken from now on."""
        self.seconds_each = WINDOW / per_minute

    def credit(self, amount: float) -> float:
        """Return the seconds that an amount which waited may make good."""
        interval = amount * self.seconds_each
        longest = max(interval, CATCH_UP)
        # A bucket of one second forgives a second minus one interval; half of it is left to
        # the network's own delays.
        return min(longest, max(0.0, (1.0 - interval) / 2)) if self._one_second else longest

    def take(self, now: float, amount: float, *, waited: bool) -> None:
        """Send `amount` now; `waited` says that it stood in a queue and so may be credited."""
        # Only who waited was held back by us: time in which nothing was asked earns no credit, or a
        # quiet minute would be followed by a burst.
        start = now - self.credit(amount) if waited else now
        self.free_at = max(self.free_at, start) + amount * self.seconds_each

    def correct(self, amount: float) -> None:
        """Add to what was taken (or subtract, if negative), once the true amount is known."""
        self.free_at += amount * self.seconds_each


class UsedShare:
    """Running share of reserved tokens that are really used.

    Sums in which every settlement fades by `FADING`.
    """

    FADING = 0.98

    __slots__ = ("_reserved", "_used")

    def __init__(self) -> None:
        self._used = self._reserved = 0.0

    @property
    def value(self) -> float:
        """The share, 1 until something is known."""
        return self._used / self._reserved if self._reserved else 1.0

    def learn(self, used: float, reserved: float) -> None:
        """Take one settlement into account."""
        self._used = self.FADING * self._used + used
        self._reserved = self.FADING * self._reserved + reserved


class Bucket:
    """Grants that came within `CELL` seconds of each other."""

    __slots__ = ("last", "live", "opened", "requests", "tokens")

    def __init__(self, now: float) -> None:
        self.opened = self.last = now
        self.requests = self.tokens = 0
        self.live = True
        """Whether the window still counts this cell."""


class Window:
    """Counts requests and tokens in a sliding minute, so that no minute exceeds the limits.

    A single amount above the token limit is let through when the window holds no tokens at all: it
    could never go otherwise, and is left to the server to refuse.
    """

    __slots__ = ("_cells", "max_requests", "max_tokens", "requests", "tokens")

    def __init__(self, max_requests: float, max_tokens: float) -> None:
        """Set the limits per minute, `math.inf` for none.

        A limit below one request counts as one.
        """
        self.set_limits(max_requests, max_tokens)
        self.requests = 0
        self.tokens = 0
        self._cells: deque[Bucket] = deque()

    def set_limits(self, max_requests: float, max_tokens: float) -> None:
        """Set the limits per minute for what is admitted from now on."""
        self.max_requests = max(1.0, max_requests)
        self.max_tokens = max_tokens

    def ready_at(self, now: float, tokens: int) -> float:
        """Return when `tokens` fit: a past time if they fit now, else when to ask again."""
        self.forget(now)
        over_requests = self.requests + 1 > self.max_requests
        over_tokens = self.tokens > 0 and self.tokens + tokens > self.max_tokens
        # The oldest cell is the first to leave. Whether that frees enough is asked again then,
        # which is simpler than adding up cells, and rare: the pace keeps the window below its
        # limits.
        return self._cells[0].last + WINDOW if over_requests or over_tokens else -math.inf

    def forget(self, now: float) -> None:
        """Drop what is older than the window."""
        cells = self._cells
        while cells and cells[0].last + WINDOW <= now:
            cell = cells.popleft()
            # Settlements can come minutes later, when the sums no longer include this cell.
            cell.live = False
            self.requests -= cell.requests
            self.tokens -= cell.tokens

    def add(self, now: float, tokens: int) -> Bucket:
        """Count one request with `tokens` at `now`, and return the cell it is counted in."""
        cell = self._cells[-1] if self._cells else None
        if cell is None or now - cell.opened >= CELL:
            cell = Bucket(now)
            self._cells.append(cell)
        # A cell leaves the window with its last grant: counting a little too long is safe.
        cell.last = now
        self.correct(cell, 1, tokens)
        return cell

    def correct(self, cell: Bucket, requests: int, tokens: int) -> None:
        """Add to the counts of a cell (or subtract, if negative), unless it has left the window."""
        if cell.live:
            cell.requests += requests
            cell.tokens += tokens
            self.requests += requests
            self.tokens += tokens
