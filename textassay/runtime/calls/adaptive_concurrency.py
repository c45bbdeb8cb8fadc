"""How many calls may be in flight at once: learned from rejections and from latency.

Pure arithmetic on what the limiter reports: no clock, no event loop. `AdaptiveLimit` decides;
`Congestion` judges from latency and throughput whether the last calls only queued up inside the
server.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import Literal

LoadSign = Literal["free", "unsure", "congested", "mistaken"]


class Congestion:
    """Distinguishes calls that queue inside the server from calls that are slow by nature.

    Answers are taken together in blocks of `BLOCK` or more. A block is *slow* if one of the last
    `MEMORY` blocks had a median latency less than half as long at 0.9 of the throughput or more, so
    that the calls in between only waited. Two slow blocks in a row are congestion. If `TRIAL` cuts
    leave the latency above 0.85 of what it was, the number of calls was not the reason (longer
    answers are, say): the verdict is "mistaken" and the memory is cleared.
    """

    # Medians over fewer answers move by chance, and a false alarm costs throughput.
    BLOCK = 256
    MEMORY = 64
    SLOW = 2.0
    SAME_THROUGHPUT = 0.9
    TRIAL = 3
    RELIEF = 0.85

    def __init__(self) -> None:
        self._blocks: deque[tuple[float, float]] = deque(maxlen=self.MEMORY)
        self._latencies: list[float] = []
        self._since: float | None = None
        self._slow_in_a_row = 0
        self._cuts = 0
        self._latency_at_first_cut = 0.0

    def answered(self, now: float, latency: float, in_flight: int) -> LoadSign | None:
        """Count one answer; return a verdict if it completes a block.

        Args:
            now: The time in seconds.
            latency: Seconds that the call took.
            in_flight: Calls in flight, this one included.
        """
        # The first block began when its first call was sent, not when that was answered: otherwise
        # its throughput would be too high to compare with.
        if self._since is None:
            self._since = now - latency
        self._latencies.append(latency)
        # At least one turn of all calls in flight: the first answers of a turn are the fast ones.
        if len(self._latencies) < max(self.BLOCK, in_flight):
            return None
        typical, elapsed = median(self._latencies), now - self._since
        throughput = len(self._latencies) / elapsed if elapsed > 0 else float("inf")
        self._latencies.clear()
        self._since = now
        return self._judge(typical, throughput)

    def _judge(self, latency: float, throughput: float) -> LoadSign:
        comparable = [
            seen for seen, rate in self._blocks if rate >= self.SAME_THROUGHPUT * throughput
        ]
        # Appended only now, so that a block is never compared with itself.
        self._blocks.append((latency, throughput))
        # A low latency counts only if it came with the same throughput: a server that was hardly
        # used answers quickly, too, and says nothing about its queue.
        if not comparable or latency <= self.SLOW * min(comparable):
            self._slow_in_a_row = self._cuts = 0
            return "free"
        self._slow_in_a_row += 1
        if self._slow_in_a_row < 2:
            return "unsure"  # one slow block may be a pause of the server, such as loading
        if self._cuts == 0:
            self._latency_at_first_cut = latency
        elif self._cuts >= self.TRIAL:
            # calls that queued in the server would have become faster with each cut
            if latency > self.RELIEF * self._latency_at_first_cut:
                self._blocks.clear()
                self._slow_in_a_row = self._cuts = 0
                return "mistaken"
            self._cuts, self._latency_at_first_cut = 0, latency
        self._cuts += 1
        return "congested"


@dataclass(slots=True)
class Round:
    """What became of some calls in a row; `limit` is the one that held when they began."""

    limit: int = 0
    answered: int = 0
    saturated: int = 0
    failed: int = 0
    rejected: int = 0
    began: float | None = None
    """When the first of its answers was asked for, or the round before it ended."""
    fastest: float = math.inf
    slowest: float = 0.0

    @property
    def calls(self) -> int:
        """Calls that ended in this round."""
        return self.answered + self.failed + self.rejected

    @property
    def rejected_share(self) -> float:
        """Share of the calls that were rejected."""
        return self.rejected / self.calls


class AdaptiveLimit:
    """Limit on calls in flight that adapts to what the server can handle, between 1 and a cap.

    It starts at `START` and doubles after every round until the first cut; from then on it grows by
    `GROWTH` (at least one) a round. Only a clean round grows it (no rejection, at most `FAILURES`
    of the calls failed otherwise), and only if `SATURATED` of the answers came while that share
    of the limit was in use: an unused limit teaches nothing. A rejection (429) cuts it by `CUT`, an
    overload (503) by `OVERLOAD_CUT`, congestion by `CONGESTION_CUT`; the caller sees to it that one
    episode cuts once.

    Rejections may have nothing to do with the number of calls in flight (a rate limit elsewhere, a
    faulty proxy). So cuts go no further than half within `JUDGED` calls, and once the limit was
    halved and the share of rejected calls is still above `NO_RELIEF` of what it was, though most
    calls are answered, cuts stop: until there are no rejections, their share falls below `RELIEF`
    of what it was, or most calls are rejected.

    With a timeout, nothing is known of the server at first, which may answer one call at a time:
    it starts at `PROBES` of the cap, but at least `SLOW_START`. If the first calls took equally
    long (`ALIKE`), or a higher limit brought answers in proportion (`IN_PROPORTION`), the server
    answers them side by side, and the limit leaps to up to `JUMP` times as many at once: as far as
    a queue of that length would end well in time. A leap that meets rejections is taken back,
    except for the calls that it brought answers to: they show how many the server takes.
    Doubling ends, and its last step is taken back, if more calls bring no more answers per second
    (`GAIN`) and the slowest takes `LATE` of the timeout; the limit then grows only while
    the slowest takes less than `TOO_LATE` of it, and never so far that the slowest would take more
    than `IN_TIME` of it if calls queue. Calls that time out while others are slow cut the limit by
    `TIMEOUT_CUT`.
    """

    START = 32
    SLOW_START = 4
    PROBES = 0.02
    JUMP = 64
    ALIKE = 1.5
    IN_PROPORTION = 0.75
    GAIN = 0.15
    LATE = 0.25
    TOO_LATE = 0.5
    IN_TIME = 0.9
    TIMEOUT_CUT = 0.5
    GROWTH = 0.05
    CUT = 0.7
    OVERLOAD_CUT = 0.9
    CONGESTION_CUT = 0.9
    SATURATED = 0.8
    FAILURES = 0.1
    JUDGED = 64
    NO_RELIEF = 0.7
    RELIEF = 0.35

    def __init__(self, cap: int, *, timeout: float | None = None) -> None:
        """Set the limits.

        Args:
            cap: The most calls in flight, one or more.
            timeout: Seconds after which calls are given up; `None` if they are not.
        """
        self.cap, self._timeout = cap, timeout
        self.limit = self._start()
        """Calls that may be in flight now."""
        # The limit itself is a whole number; growth and cuts are computed on the exact one.
        self._exact = float(self.limit)
        self._doubling = True
        # Two windows count the same calls: `_round` (as many calls as the limit) decides on growth,
        # `_judged` (never fewer than `JUDGED`) on whether cuts have helped.
        self._round = Round(limit=self.limit)
        self._last: Round | None = None
        self._last_rate = 0.0
        self._saturated = False
        # The limit before a leap whose calls have not all ended yet, and whether that was taken
        # back; both belong to the round that began with the leap.
        self._leapt_from: float | None = None
        self._leap_failed = False
        self._judged = Round(limit=self.limit)
        self._before_cuts: Round | None = None
        self._holding = False
        self._congestion = Congestion()
        self._slow = False
        self._before_congestion: float | None = None

    def answered(self, now: float, latency: float, in_flight: int) -> None:
        """Learn from an answer after `latency` seconds with `in_flight` calls, itself included."""
        done = self._round
        done.answered += 1
        if done.began is None:
            done.began = now - latency
        if latency < done.fastest:
            done.fastest = latency
        if latency > done.slowest:
            done.slowest = latency
        self._judged.answered += 1
        # Answers that came while the limit was hardly used say nothing about a higher one.
        done.saturated += in_flight >= self.SATURATED * self.limit
        if self._leap_failed:
            self._set(max(self._exact, done.answered))
        verdict = self._congestion.answered(now, latency, in_flight)
        if verdict is not None:
            self._apply(verdict)
        self._end_rounds(now)

    def failed(self) -> None:
        """Count a call that failed for a passing reason other than load."""
        self._round.failed += 1
        self._judged.failed += 1
        self._end_rounds()

    def rejected(self) -> None:
        """Count a call that the server rejected because of load."""
        self._round.rejected += 1
        self._judged.rejected += 1
        self._end_rounds()

    @property
    def answers_come_late(self) -> bool:
        """Whether calls are likely to time out because they queue.

        That is, other calls are slow, or none has been answered yet.
        """
        if self._timeout is None:
            return False
        # The round under way may have no answer yet; then the one before it speaks for the server.
        seen = [r.slowest for r in (self._last, self._round) if r is not None and r.answered]
        return not seen or max(seen) > self.LATE * self._timeout

    def cut(self, factor: float) -> None:
        """Shrink to `factor` of the limit, unless earlier cuts brought no relief."""
        self._doubling = False
        if self._leap_failed:
            # A call that was sent under the lower limit was rejected as well: no more than an
            # ordinary cut from here on, or each answer would undo it.
            self._leapt_from, self._leap_failed = None, False
        if self._leapt_from is not None:
            # Cutting step by step would have many of the calls that wait rejected at every step.
            self._leap_failed = True
            self._set(max(self._leapt_from, self._round.answered))
        elif not self._holding:
            # at most half per judged round: rejections come in bursts, from calls that were all
            # sent under the same limit
            self._set(max(self._exact * factor, self._judged.limit / 2))

    def set_cap(self, cap: int) -> None:
        """Change the most calls in flight; a limit that is above it falls to it at once."""
        self.cap = cap
        unused = self._last is None and not self._round.calls
        self._set(min(self._exact, self._start()) if unused else self._exact)

    def _start(self) -> int:
        if self._timeout is None:
            return min(self.cap, self.START)
        return min(self.cap, max(self.SLOW_START, int(self.PROBES * self.cap)))

    def _set(self, limit: float) -> None:
        # The exact limit keeps fractions: 5 % of a limit below 20 would be lost in whole numbers.
        self._exact = min(float(self.cap), max(1.0, limit))
        self.limit = int(self._exact)

    def _apply(self, verdict: LoadSign) -> None:
        self._slow = verdict in ("unsure", "congested")
        if verdict == "congested":
            # Of several cuts in a row, only the limit before the first is worth restoring.
            self._before_congestion = self._before_congestion or self._exact
            self._doubling = False
            self._set(self._exact * self.CONGESTION_CUT)
        elif verdict == "mistaken" and self._before_congestion is not None:
            # the cuts were for nothing: take all of them back at once, or a run whose answers grew
            # longer would crawl at the lower limit
            self._set(max(self._exact, self._before_congestion))
        if verdict in ("free", "mistaken"):
            self._before_congestion = None

    def _end_rounds(self, now: float | None = None) -> None:
        # Cuts are judged over more calls than growth: shares of few calls are mostly chance.
        if self._judged.calls >= max(self.limit, self.JUDGED):
            self._judge_cuts(self._judged)
            self._judged = Round(limit=self.limit)
        # Checked against the limit as it is now: after a cut, a round ends sooner. Only a leap that
        # failed is judged by all of its calls.
        if self._round.calls >= (self._round.limit if self._leap_failed else self.limit):
            before, self._leapt_from, self._leap_failed = self._exact, None, False
            self._grow_after(self._round, now)
            if self._exact > 2 * before:
                self._leapt_from = before
            self._last, self._round = self._round, Round(limit=self.limit, began=now)

    def _grow_after(self, done: Round, now: float | None) -> None:
        if done.rejected:
            # a rejection says more than latency does: its cut replaces what congestion had found
            self._before_congestion = None
            return
        # A few failures happen at any load; a round with many of them must not raise it.
        clean = done.failed <= self.FAILURES * done.calls
        if not clean or done.saturated < self.SATURATED * done.answered or self._slow:
            return
        factor = 2.0
        if self._timeout is not None:
            elapsed = now - done.began if now is not None and done.began is not None else 0.0
            rate = done.answered / elapsed if elapsed > 0 else 0.0
            # The limit of the last round gave the same throughput with less waiting: go back to it.
            if self._doubling and self._gained_nothing(done, rate):
                self._doubling, self._saturated = False, True
                self._set(self._last.limit if self._last is not None else self._exact)
                return
            if self._saturated and done.slowest > self.TOO_LATE * self._timeout:
                return
            if self._doubling and self._side_by_side(done, rate):
                in_time = self.TOO_LATE * self._timeout / done.slowest if done.slowest else math.inf
                factor = max(factor, min(self.JUMP, in_time))
            self._last_rate = rate
        grown = (
            self._exact * factor
            if self._doubling
            else self._exact + max(1.0, self.GROWTH * self._exact)
        )
        if self._timeout is not None:
            # if calls queue, each further one makes all of them slower by the same share
            in_time = done.limit * self.IN_TIME * self._timeout / done.slowest
            grown = max(self._exact, min(grown, in_time))
        self._set(grown)

    def _gained_nothing(self, done: Round, rate: float) -> bool:
        """Whether the last growth only made calls wait in the server, longer than is safe."""
        gain = self._gain(done, rate)
        late = self._timeout is not None and done.slowest > self.LATE * self._timeout
        return late and gain is not None and gain < self.GAIN

    def _side_by_side(self, done: Round, rate: float) -> bool:
        """Whether the server answers calls in parallel, as far as this round can tell."""
        # Latencies are compared in the first round alone: later ones mix calls that were sent
        # under different limits.
        if self._last is None:
            return done.slowest <= self.ALIKE * done.fastest
        gain = self._gain(done, rate)
        return gain is not None and gain >= self.IN_PROPORTION

    def _gain(self, done: Round, rate: float) -> float | None:
        """Return the growth of the throughput relative to that of the limit.

        `None` if the limit did not grow or a throughput is not known.
        """
        if self._last is None or not self._last_rate or not rate:
            return None
        grown = done.limit / self._last.limit - 1
        return (rate / self._last_rate - 1) / grown if grown > 0 else None

    def _judge_cuts(self, done: Round) -> None:
        """Decide from the calls since the last decision whether further cuts may help."""
        # A server that turns away every tenth call whatever is in flight (a rate limit shared with
        # others, a faulty proxy) would be cut down to one call and never grow again. So remember
        # the share of rejections at the first cut; if half the limit did not lower it, the number
        # of calls is not the cause.
        before, share = self._before_cuts, done.rejected_share
        if not done.rejected:
            self._before_cuts, self._holding = None, False
        elif before is None or share > 0.5 or share < self.RELIEF * before.rejected_share:
            self._before_cuts, self._holding = done, False
        elif self.limit <= before.limit / 2 and share > self.NO_RELIEF * before.rejected_share:
            self._holding = True
