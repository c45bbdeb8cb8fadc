"""Chooses once for a connection how answers are read: from log-probabilities or from samples."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Literal

from textassay.runtime.base import T
from textassay.runtime.errors import CapabilityError, MalformedResponse
from textassay.runtime.messages import How
from textassay.runtime.model import Model

SAMPLES, SAMPLES_OF_THINKING = 20, 5
"""Written answers in place of probabilities (G-Eval, section 2.3); fewer if the model thinks, as a
thought costs more than fifty short answers."""
TOKENS_TO_SHOW = 1024
"""Tokens for an answer that shows whether a model thinks: if a thought is cut off, it may look like
an answer. Of the 11 counts in docs/thinking.md (0 to 2,206), 6 fit, 4 into a quarter and all into
four times as much; unused tokens cost nothing."""

_log = logging.getLogger(__name__)


class LogprobsOrSamples:
    """Reads log-probabilities if a model sends usable ones, else samples; never both in one run.

    Both estimate the distribution over answers, exactly or by sampling (G-Eval, section 2.3). The
    first answer decides, so that no mean mixes two measures.
    """

    _written: How = "sampled"
    """How answers are read without log-probabilities."""
    _replacement = "samples take"
    """Their replacement, with its verb, for a warning that continues `the place of ...`."""

    def __init__(self, model: Model, ability: Literal["logprobs", "choices"]) -> None:
        self.model, self._ability = model, ability
        self.decided: How | Literal[""] = ""
        """How answers are read since the first one; empty before it."""
        self._samples = 0
        self._counting = asyncio.Lock()

    @property
    def reads(self) -> Literal["logprobs", "samples", "undecided"]:
        """The choice; undecided before the first call, unless the model's abilities decide."""
        is_able = getattr(self.model.capabilities, self._ability)
        if not self.decided and is_able is None:
            return "undecided"
        does = self.decided == "logprob" if self.decided else is_able
        return "logprobs" if does else "samples"

    @property
    def how(self) -> How:
        """How answers are read, by present knowledge."""
        return self._written if self.reads == "samples" else "logprob"

    def refuse(self) -> None:
        """Read samples from now on."""
        self.decided = "sampled"

    async def first(
        self, read: Callable[[], Awaitable[T]], was_asked: Callable[[T], bool] = lambda result: True
    ) -> T | None:
        """Try log-probabilities: return the result of `read`; `None` if samples are to be read.

        Args:
            read: Asks the model, and reads log-probabilities.
            was_asked: Whether a result of `read` came from the model: a blank text is not asked
                about, and decides nothing.

        Raises:
            MalformedResponse: This answer has no usable log-probabilities, but others had.
        """
        if self.reads == "samples":
            return None
        try:
            result = await read()
        except CapabilityError as error:
            if self.decided == "logprob":
                raise MalformedResponse(
                    f"{error} (other answers had usable log-probabilities, and a run reads either"
                    " these or samples)"
                ) from error
            if not self.decided:
                self.refuse()
                _log.warning(
                    "%s the place of log-probabilities: %s sends no usable ones",
                    self._replacement,
                    self.model.name,
                )
            return None
        if self.decided == "sampled":  # by another answer meanwhile
            return None
        if was_asked(result):
            self.decided = "logprob"
        return result

    async def samples(self, ask_one: Callable[[], Awaitable[object]]) -> int:
        """Return the number of samples, after one has shown whether the model thinks."""
        async with self._counting:
            if not self._samples:
                if self.model.capabilities.thinks is None:
                    await ask_one()
                self._samples = self.most_samples
        return self._samples

    @property
    def most_samples(self) -> int:
        """The number of samples by present knowledge."""
        return SAMPLES_OF_THINKING if self.model.capabilities.thinks else SAMPLES

    @property
    def notice(self) -> str:
        """A sentence about how answers are read, for users before they pay for them."""
        name = self.model.name
        if self.reads == "logprobs":
            return f"reads log-probabilities of {name}"
        if self.reads == "samples":
            return f"reads {self._count()}, as {name} sends no log-probabilities"
        thinks = self.model.capabilities.thinks is None
        samples = self._count(f" ({SAMPLES_OF_THINKING} if it thinks)" * thinks)
        return f"reads log-probabilities if {name} sends usable ones, else {samples}"

    def _count(self, note: str = "") -> str:
        return f"{self.most_samples} samples{note} of each answer"
