"""Whether an agent reads a model's log-probabilities, or samples of its answers in their place.

Both estimate the same: the distribution over answers, exactly or by drawing from it (G-Eval,
section 2.3: 20 samples of a model without log-probabilities). Which one a model allows shows at the
first call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Literal, TypeVar

from textassay.runtime.errors import CapabilityError
from textassay.runtime.messages import Failure, How, Score
from textassay.runtime.model import Model

Reading = Literal["auto", "logprob"]
"""Log-probabilities if the model sends usable ones, else samples; or log-probabilities alone."""

SAMPLES = 20
"""Samples in place of log-probabilities, as in G-Eval's paper."""
SAMPLES_OF_THINKING = 5
"""The same for a model that thinks: a thought costs more than fifty short answers."""

TOKENS_TO_SHOW = 1024
"""Longest answer that is to show whether a model thinks: a thought that is cut may not be told from
an answer."""

AUTO = "|how:auto|"
"""What a method's signature says as long as nobody knows how its scores are obtained."""

_log = logging.getLogger(__name__)
T = TypeVar("T")


class LogprobsOrSamples:
    """Reads log-probabilities until the model turns out to send none, and samples from then on."""

    def __init__(self, model: Model, ability: Literal["logprobs", "choices"]) -> None:
        """Store which ability of which model is wanted."""
        self.model, self._ability = model, ability
        self._is_refused = False
        self._samples: int | None = None
        self._counting = asyncio.Lock()

    @property
    def reads_logprobs(self) -> bool | None:
        """Whether log-probabilities are read; `None` if only the first call can tell."""
        if self._is_refused:
            return False
        able: bool | None = getattr(self.model.capabilities, self._ability)
        return able

    @property
    def how(self) -> How:
        """How scores are obtained, as far as it is known."""
        return "sampled" if self.reads_logprobs is False else "logprob"

    def refuse(self) -> None:
        """Read samples from now on."""
        self._is_refused = True

    async def first(self, read: Callable[[], Awaitable[T]]) -> T | None:
        """Return what `read` makes of log-probabilities; `None` if the model sends none.

        Raises:
            ModelError: The model could not be asked.
        """
        if self.reads_logprobs is False:
            return None
        try:
            return await read()
        except CapabilityError as error:
            if not self._is_refused:
                self.refuse()
                _log.warning("samples take the place of log-probabilities: %s", error)
        return None

    async def samples(self, ask_one: Callable[[], Awaitable[object]]) -> int:
        """Return how many samples take the place of log-probabilities: fewer of a thinking model.

        Args:
            ask_one: Asks for one sample, which shows whether the model thinks.

        Raises:
            ModelError: The model could not be asked.
        """
        async with self._counting:
            if self._samples is None:
                if self.model.capabilities.thinks is None:
                    await ask_one()
                self._samples = self.most_samples
        return self._samples

    @property
    def most_samples(self) -> int:
        """Samples for what is known of the model by now."""
        return SAMPLES_OF_THINKING if self.model.capabilities.thinks else SAMPLES

    @property
    def notice(self) -> str:
        """What is read, and how many samples, for people who are about to pay for it."""
        name, samples = self.model.name, f"{self.most_samples} samples"
        able = self.reads_logprobs
        if able:
            return f"reads log-probabilities of {name}"
        if able is False:
            return f"reads {samples} of each answer, as {name} sends no log-probabilities"
        if self.model.capabilities.thinks is None:
            samples += f" ({SAMPLES_OF_THINKING} if it thinks)"
        return f"reads log-probabilities if {name} sends usable ones, else {samples} of each answer"


def read_as(signature: str, samples: int | None, temperature: float = 1.0) -> str:
    """Return a signature that says how a score was obtained, where that was open.

    Args:
        signature: The method's.
        samples: How many were asked for; `None` for log-probabilities.
        temperature: Of the samples.
    """
    how = "how:logprob" if samples is None else f"how:sampled|n:{samples}|temp:{temperature:g}"
    return signature.replace(AUTO, f"|{how}|", 1)


def possible_signatures(signature: str) -> tuple[str, ...]:
    """Return what the scores of a method can carry."""
    counts = (None, SAMPLES, SAMPLES_OF_THINKING)
    return tuple(dict.fromkeys(read_as(signature, count) for count in counts))


def signature_of_parts(signature: str, parts: Iterable[Score | Failure]) -> str:
    """Return the signature of a score that is made of parts, which say how they were obtained."""
    if AUTO not in signature:
        return signature
    scores = [part for part in parts if isinstance(part, Score) and part.signature]
    sampled = [score for score in scores if score.how == "sampled"]
    return next((score.signature for score in (*sampled, *scores)), signature)
