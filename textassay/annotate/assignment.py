"""Which item a rater sees next.

Least rated first, balanced by system within a source, some of them twice.

A shown item is leased to its rater. A lease that runs out returns the item to the others, so that
nothing waits for a rater who went away; an answer that comes later still counts.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from textassay.annotate.ratings import CollectedRatings, Rater, Visit

LEASE_SECONDS = 1800.0
REPEAT_DISTANCE = 8
"""Other items between the two showings of a repeated one, so that it is not simply remembered."""


@dataclass(slots=True)
class _Lease:
    visit: Visit
    position: int
    until: float


class Allocation:
    """Deals items to raters.

    Args:
        ratings: What is answered so far.
        lease_seconds: How long an item is kept for a rater who was shown it.
        clock: Seconds from any start, never falling.
    """

    def __init__(
        self,
        ratings: CollectedRatings,
        *,
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ratings, self._study = ratings, ratings.study
        self._lease_seconds, self._clock = lease_seconds, clock
        self._leases: dict[str, list[_Lease]] = {}
        self._orders: dict[str, dict[str, int]] = {}

    def upcoming(self, rater: Rater, count: int = 1) -> list[tuple[Visit, int]]:
        """Return the rater's next visits with their positions, leased to the rater from now on.

        Args:
            rater: Who asks.
            count: Number wanted; a browser asks for some ahead, to go on through a lost connection.

        Returns:
            At most `count`; none if nothing is left that this rater may rate now.
        """
        now = self._clock()
        # leases live in memory only: after a restart nobody holds any, and at worst an item is
        # shown to one rater more
        held = [
            lease
            for lease in self._leases.get(rater.name, [])
            if lease.visit not in self._ratings.answers and lease.until > now
        ]
        self._leases[rater.name] = held
        while len(held) < count:
            visit = self._next(rater, [lease.visit for lease in held], now)
            if visit is None:
                break
            held.append(_Lease(visit, len(rater.visits) + len(held), now + self._lease_seconds))
        # asking again renews all leases: a browser that still asks is still there
        for lease in held:
            lease.until = now + self._lease_seconds
        return [(lease.visit, lease.position) for lease in held[:count]]

    def swapped(self, visit: Visit) -> bool:
        """Return whether a comparison shows its second text first.

        At random, and differently when repeated.
        """
        draw = random.Random(f"{self._study.seed} {visit.rater} {visit.key} {visit.repeat}")
        return self._study.paired and draw.random() < 0.5

    def remaining(self, rater: Rater) -> int:
        """Return how many items this rater may still be asked for the first time."""
        counts = self._counts(rater, self._clock())
        return sum(self._open(rater, key, counts) for key in self._study.keys)

    def _next(self, rater: Rater, held: list[Visit], now: float) -> Visit | None:
        repeated = self._repeat(rater, held)
        if repeated is not None:
            return repeated
        taken = {visit.key for visit in held}
        counts = self._counts(rater, now)
        order = self._order(rater)
        by_system = self._systems_seen(rater, held)
        candidates = [
            key for key in self._study.keys if key not in taken and self._open(rater, key, counts)
        ]
        if not candidates:
            return None
        # least rated first keeps the number of raters equal at whatever moment the study is ended;
        # then the system that this rater saw least, so that a rater's severity does not fall on
        # one system
        chosen = min(
            candidates, key=lambda key: (counts[key], by_system[self._stratum(key)], order[key])
        )
        return Visit(rater.name, chosen)

    def _open(self, rater: Rater, key: str, counts: Counter[str]) -> bool:
        """Return whether the item still wants a rating that this rater may give."""
        answered = Visit(rater.name, key) in self._ratings.answers
        return not answered and counts[key] < self._study.per_item

    def _counts(self, rater: Rater, now: float) -> Counter[str]:
        """Count ratings by item, those that other raters hold a lease for included."""
        # second showings measure the rater, not the item, so they do not fill its quota
        counts = Counter(visit.key for visit in self._ratings.answers if not visit.repeat)
        for name, leases in self._leases.items():
            if name != rater.name:
                counts.update(
                    lease.visit.key
                    for lease in leases
                    if lease.until > now
                    and not lease.visit.repeat
                    and lease.visit not in self._ratings.answers
                )
        return counts

    def _stratum(self, key: str) -> str | None:
        return self._study.by_key[key].system

    def _systems_seen(self, rater: Rater, held: list[Visit]) -> Counter[str | None]:
        seen = [*rater.visits, *held]
        return Counter(self._stratum(visit.key) for visit in seen if not visit.repeat)

    def _order(self, rater: Rater) -> dict[str, int]:
        """Return the rater's own random order, the same after a restart."""
        if rater.name not in self._orders:
            keys = list(self._study.keys)
            random.Random(f"{self._study.seed} {rater.name}").shuffle(keys)
            self._orders[rater.name] = {key: place for place, key in enumerate(keys)}
        return self._orders[rater.name]

    def _repeat(self, rater: Rater, held: list[Visit]) -> Visit | None:
        """Return a second showing of an item when it is time for one.

        Whether it is time depends on the seed, the rater and the number of visits alone, so that a
        restart deals the same.
        """
        past = [*rater.visits, *held]
        # a string as seed: it is hashed by SHA-512 and gives the same draws in every process,
        # which `hash` would not
        draw = random.Random(f"{self._study.seed} {rater.name} repeat {len(past)}")
        if draw.random() >= self._study.repeat_share:
            return None
        twice = {visit.key for visit in past if visit.repeat}
        far = past[: max(0, len(past) - REPEAT_DISTANCE)]
        eligible = [v.key for v in far if not v.repeat and v.key not in twice]
        return Visit(rater.name, draw.choice(eligible), repeat=1) if eligible else None
