"""How long a provider may fail every call, and what its user is told meanwhile."""

from __future__ import annotations

import logging

from textassay.runtime.errors import ModelError, NothingListening

FIRST_ANSWER = 10.0
"""Seconds after which a server is given up at whose address nothing has listened in this session:
its address is more likely wrong than that it is being restarted."""

_log = logging.getLogger(__name__)


class Outage:
    """Decides when a provider that fails is given up; one for all batches of a model."""

    def __init__(self, name: str, longest: float) -> None:
        """Store the model's name, for messages, and how many seconds an outage may last."""
        self._name, self._longest = name, longest
        self._has_answered = self._is_reported = False

    def answered(self) -> None:
        """Note that the provider has answered a call."""
        self._has_answered = True
        if self._is_reported:
            self._is_reported = False
            _log.warning("the batch API of %s answers again", self._name)

    def is_too_long(self, failing_for: float, error: ModelError) -> bool:
        """Return whether to give the provider up; if not, log a warning, once per outage."""
        longest = self._longest
        if isinstance(error, NothingListening) and not self._has_answered:
            longest = min(longest, FIRST_ANSWER)
        if failing_for > longest:
            return True
        if not self._is_reported:
            self._is_reported = True
            _log.warning(
                "the batch API of %s fails with %s; it is tried again for %g s",
                self._name,
                type(error).__name__,
                longest,
            )
        return False
