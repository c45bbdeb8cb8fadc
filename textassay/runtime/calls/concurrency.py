"""How many calls may be in flight at once, learned from answers, rejections and timeouts.

Pure arithmetic on times that the limiter gives: no clock, no event loop.
"""

from __future__ import annotations

import math


class AdaptiveConcurrency:
    """A limit on calls in flight, between 1 and a cap: additive increase, multiplicative decrease.

    Increase: nothing is known of a server at first, which may answer one call at a time. So the
    limit starts at `FIRST_SHARE` of the cap, but at least `FIRST`. After each round of as many
    answers as the limit it grows: at first to as many calls as would be answered within `IN_TIME`
    of the timeout even if they queue, after one cut to twice as many, and then by `GROWTH`, but at
    least by one call.

    Decrease: a rejection (429, 503) cuts the limit to `CUT` of itself or to what it was before it
    last grew, whichever is less; a timeout cuts it to `TIMEOUT_CUT` if answers come late as well.
    Calls that were sent before a cut say nothing of the lower limit, and do not cut it again.

    Rejections may have nothing to do with the calls in flight (a quota that others use up, a faulty
    proxy). So cuts stop if the limit fell to `LOWER` of itself and the share of rejections, over
    `JUDGED` calls, was not even halved; they begin again when it is, or exceeds one half.
    """

    FIRST = 4
    FIRST_SHARE = 0.02
    IN_TIME = 0.75
    GROWTH = 0.05
    CUT = 0.8
    TIMEOUT_CUT = 0.5
    JUDGED = 64
    LOWER = 0.7

    def __init__(self, cap: int, *, timeout: float | None = None) -> None:
        """Set the limits.

        Args:
            cap: The most calls in flight, one or more; may be changed at any time.
            timeout: Seconds after which calls are given up; `None` if they are not.
        """
        self.cap = cap
        self._timeout = math.inf if timeout is None else timeout
        # Growth and cuts are computed on the exact limit: 5 % of 10 calls are half a call.
        self._exact = self._before_growth = max(self.FIRST, self.FIRST_SHARE * cap)
        self._factor = math.inf
        self._cut_at = -math.inf
        self._answers = 0
        # While nothing was answered, any call that times out may have waited for others.
        self._slowest = self._slowest_before = math.inf
        self._calls = self._rejections = 0
        self._judged: tuple[float, float] | None = None
        self._cuts_help = True

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return min(self.cap, int(self._exact))

    def answered(self, sent: float, now: float) -> None:
        """Learn from the answer to a call that was sent at the time `sent`."""
        self._slowest = now - sent if not self._answers else max(self._slowest, now - sent)
        self._answers += 1
        self._judge_cuts(rejections=0)
        if self._answers >= self.limit:
            self._grow()
            self._begin_round()

    def rejected(self, sent: float, now: float) -> None:
        """Learn that the server turned away a call because of load."""
        self._judge_cuts(rejections=1)
        if self._cuts_help:
            self._cut(sent, now, self.CUT)

    def timed_out(self, sent: float, now: float) -> None:
        """Learn from a timeout; one among answers in time has other reasons than load."""
        if max(self._slowest, self._slowest_before) > self.IN_TIME * self._timeout:
            self._cut(sent, now, self.TIMEOUT_CUT)

    def _grow(self) -> None:
        limit = min(self._exact, self.cap)
        grown = max(self._factor * limit, limit + 1)
        if self._slowest > 0:
            # If calls queue, each further one makes all of them slower by the same share.
            grown = min(grown, limit * self.IN_TIME * self._timeout / self._slowest)
        if grown > limit:
            self._before_growth, self._exact = limit, min(grown, self.cap)

    def _cut(self, sent: float, now: float, factor: float) -> None:
        if sent <= self._cut_at:
            return
        self._cut_at = now
        self._exact = max(1.0, min(self._before_growth, factor * self._exact))
        self._factor = 2.0 if self._factor == math.inf else 1 + self.GROWTH
        self._begin_round()

    def _begin_round(self) -> None:
        self._slowest_before = self._slowest
        self._answers, self._slowest = 0, 0.0

    def _judge_cuts(self, *, rejections: int) -> None:
        """Count a call, and decide whether cuts help, once there are `JUDGED` calls."""
        self._calls += 1
        self._rejections += rejections
        if self._calls < self.JUDGED:
            return
        share = self._rejections / self._calls
        self._calls = self._rejections = 0
        if self._judged is None or share > 0.5 or share < self._judged[1] / 2:
            self._judged = (self._exact, share) if share else None
            self._cuts_help = True
        elif self._exact <= self.LOWER * self._judged[0]:
            self._cuts_help = False
