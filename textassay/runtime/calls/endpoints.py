"""One model behind several endpoints: each has its limiter, and one that fails is rested.

Knows models, limiters and the families of errors; knows nothing of addresses and keys.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textassay.runtime.calls.call import Call, Send, Wrapper, sender
from textassay.runtime.errors import (
    ConnectionFailed,
    FatalModelError,
    ModelError,
    NothingListening,
    RateLimited,
    ServerFailed,
    TimedOut,
)
from textassay.runtime.model import AnyResponse, Model

if TYPE_CHECKING:
    from textassay.runtime.calls.limits import Limiter

FIRST_REST = 1.0
MAX_REST = 60.0
"""Seconds for which an endpoint is rested: doubled with each failure in a row, up to the
longest."""

# A rate limit is no reason to rest (the endpoint's limiter slows down by itself). A timeout is,
# but it is not repeated elsewhere: the provider may be generating, and will bill, the answer.
_RESTED = (ServerFailed, ConnectionFailed, NothingListening, TimedOut, FatalModelError)
_ELSEWHERE = (ServerFailed, ConnectionFailed, NothingListening, RateLimited, FatalModelError)
"""Failures that no provider bills, after which another endpoint is asked at once."""

_CERTAIN = (NothingListening, FatalModelError)
"""Failures after which a second one need not be seen to call the endpoint down."""

_log = logging.getLogger(__name__)


class EndpointState:
    """What is known of one endpoint; shared by all stacks around its model."""

    def __init__(self, number: int, limiter: Limiter, weight: float) -> None:
        self.number, self.limiter, self.weight = number, limiter, weight
        self.credit = 0.0
        """Credit of the smooth weighted round robin."""
        self._failed_in_a_row = 0
        self._is_reported = False
        self.cooldown_until = float("-inf")
        """The event loop's time from which it is asked again."""

    def is_cooling_down(self, now: float) -> bool:
        """Whether it has failed and is not asked now."""
        return now < self.cooldown_until

    @property
    def is_free(self) -> bool:
        """Whether a request would be admitted at once, judging by its calls in flight."""
        state = self.limiter.state
        return not state.waiting and state.in_flight < state.limit and not state.paused_for

    @property
    def paused_for(self) -> float:
        """Seconds for which it is sent nothing, as it asked to."""
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
        """Rest it after a failure; calls that were in flight together count as one."""
        if self.is_cooling_down(now):
            return
        self._failed_in_a_row += 1
        # The exponent is bounded, since a float overflows after a thousand failures in a row.
        rest = min(MAX_REST, FIRST_REST * 2.0 ** min(self._failed_in_a_row - 1, 30))
        self.cooldown_until = now + rest
        # Once per outage, and not for one error among many answers, after which it rests all the
        # same.
        is_down = self._failed_in_a_row > 1 or isinstance(error, _CERTAIN)
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

    Requests are divided by weight among the endpoints that can take one at once; if none can, the
    one with the least to do for its weight gets it, of those that have not asked to wait. After a
    failure that is not billed, the others are asked before the failure is raised. If all rest, the
    one whose rest ends first is asked.
    """

    def __init__(self, models: Sequence[Model], endpoints: Sequence[EndpointState]) -> None:
        """Store the endpoints and the model behind each, limited by its limiter.

        Name, identity and capabilities are those of the first model.
        """
        super().__init__(models[0])
        self._models = dict(zip(endpoints, models, strict=True))

    async def aclose(self) -> None:
        """Close the models of all endpoints."""
        for model in self._models.values():
            await model.aclose()

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        """Answer from one of the endpoints."""
        loop = asyncio.get_running_loop()
        left = list(self._models)
        while True:
            endpoint = self._choose(left, loop.time())
            left.remove(endpoint)
            try:
                answer = await sender(self._models[endpoint])(call)
            except ModelError as error:
                if isinstance(error, _RESTED):
                    endpoint.record_failure(loop.time(), error)
                # Only those available: asking the others as well would multiply every failure by
                # their number.
                others = [other for other in left if not other.is_cooling_down(loop.time())]
                if not others or not isinstance(error, _ELSEWHERE):
                    raise
                left = others
            else:
                endpoint.record_success()
                return answer

    def _choose(self, left: Sequence[EndpointState], now: float) -> EndpointState:
        available = [endpoint for endpoint in left if not endpoint.is_cooling_down(now)]
        if not available:
            return min(left, key=lambda endpoint: endpoint.cooldown_until)
        free = [endpoint for endpoint in available if endpoint.is_free]
        if not free:
            return min(available, key=lambda endpoint: (endpoint.paused_for, endpoint.load))
        # smooth weighted round robin: in turn, rather than in runs of one endpoint
        for endpoint in free:
            endpoint.credit += endpoint.weight
        chosen = max(free, key=lambda endpoint: endpoint.credit)
        chosen.credit -= sum(endpoint.weight for endpoint in free)
        return chosen
