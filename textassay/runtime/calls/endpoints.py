"""Spreads calls over several endpoints of a model; each has a limiter, and rests if it fails.

This module knows models, limiters and the families of errors, but neither addresses nor keys.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textassay.runtime.calls.call import Call, Send, Wrapper, sender
from textassay.runtime.errors import (
    OUTAGE,
    FatalModelError,
    ModelError,
    NothingListening,
    PathNotFound,
    RateLimited,
    TimedOut,
)
from textassay.runtime.model import AnyResponse, Model

if TYPE_CHECKING:
    from textassay.runtime.calls.limits import Limiter

_log = logging.getLogger(__name__)


class EndpointState:
    """The state of one endpoint; shared by all stacks around its model."""

    def __init__(self, number: int, limiter: Limiter, weight: float) -> None:
        self.number, self.limiter, self.weight = number, limiter, weight
        self.credit = 0.0
        """Credit of the smooth weighted round robin."""
        self._failed_in_a_row = 0
        self._is_reported = False
        self.cooldown_until = float("-inf")
        """The event loop's time at which its rest ends."""

    def is_cooling_down(self, now: float) -> bool:
        """Whether it rests after a failure."""
        return now < self.cooldown_until

    @property
    def is_free(self) -> bool:
        """Whether it has a free slot for a request now."""
        state = self.limiter.state
        return not state.waiting and state.in_flight < state.limit and not state.paused_for

    @property
    def paused_for(self) -> float:
        """Seconds for which it has asked to wait."""
        return self.limiter.state.paused_for

    @property
    def load(self) -> float:
        """Requests in flight and waiting, relative to its weight."""
        state = self.limiter.state
        return (state.in_flight + state.waiting) / self.weight

    def record_success(self) -> None:
        """Learn that it answered."""
        self._failed_in_a_row = 0
        if self._is_reported:
            self._is_reported = False
            _log.warning("endpoint %d answers again", self.number)

    def record_failure(self, now: float, error: ModelError) -> None:
        """Let it rest after a failure; the failures of calls in flight together count as one."""
        if self.is_cooling_down(now):
            return
        self._failed_in_a_row += 1
        # one second at first, twice as long after each further failure, and a minute at most; the
        # exponent is bounded, as a float would overflow after a thousand failures
        rest = min(60.0, 2.0 ** min(self._failed_in_a_row - 1, 30))
        self.cooldown_until = now + rest
        # reported once per outage, and not for a single error that may pass
        is_certain = isinstance(error, (NothingListening, PathNotFound, FatalModelError))
        is_down = is_certain or self._failed_in_a_row > 1
        is_new = is_down and not self._is_reported
        self._is_reported = self._is_reported or is_down
        _log.log(
            logging.WARNING if is_new else logging.DEBUG,
            "endpoint %d failed with %s; it is rested for %g s, and for longer if it fails again",
            self.number,
            type(error).__name__,
            rest,
        )


class EndpointsModel(Wrapper):
    """Asks one of several endpoints of the same model.

    Requests are divided by weight among the endpoints with a free slot. If none has one, the
    endpoint with the least load for its weight gets the request, unless it has asked to wait. After
    a failure that is not billed, the others are asked before the failure is raised. If all rest,
    the one whose rest ends first is asked.
    """

    def __init__(self, models: Sequence[Model], endpoints: Sequence[EndpointState]) -> None:
        """Take the endpoints, and the limited model of each.

        The first model provides name, identity and capabilities.
        """
        super().__init__(models[0])
        self._models = dict(zip(endpoints, models, strict=True))

    async def aclose(self) -> None:
        """Close the models of all endpoints."""
        for model in self._models.values():
            await model.aclose()

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        loop = asyncio.get_running_loop()
        untried = list(self._models)
        while True:
            endpoint = self._choose(untried, loop.time())
            untried.remove(endpoint)
            try:
                answer = await sender(self._models[endpoint])(call)
            except ModelError as error:
                # after a rate limit it need not rest, as its own limiter slows down
                if has_failed := isinstance(error, (*OUTAGE, FatalModelError)):
                    endpoint.record_failure(loop.time(), error)
                # not the ones that rest, or every failure would be multiplied by their number
                others = [other for other in untried if not other.is_cooling_down(loop.time())]
                # after a timeout the provider may still generate the answer, and bill it
                is_spent = isinstance(error, TimedOut)
                if is_spent or not others or not (has_failed or isinstance(error, RateLimited)):
                    raise
                untried = others
            else:
                endpoint.record_success()
                return answer

    def _choose(self, untried: Sequence[EndpointState], now: float) -> EndpointState:
        available = [endpoint for endpoint in untried if not endpoint.is_cooling_down(now)]
        if not available:
            return min(untried, key=lambda endpoint: endpoint.cooldown_until)
        free = [endpoint for endpoint in available if endpoint.is_free]
        if not free:
            return min(available, key=lambda endpoint: (endpoint.paused_for, endpoint.load))
        # smooth weighted round robin: endpoints take turns, without runs of one of them
        for endpoint in free:
            endpoint.credit += endpoint.weight
        heaviest = max(free, key=lambda endpoint: endpoint.credit)
        heaviest.credit -= sum(endpoint.weight for endpoint in free)
        return heaviest
