"""What a run can tell about itself while it goes: one frozen snapshot, made on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from textassay.runtime.calls.limit import LimiterState
from textassay.runtime.messages import Usage

MIN_SAMPLED = 20
"""Scores after which equal samples are no coincidence."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands."""

    done: int
    """Examples finished, those of earlier sessions of the run that were passed by included."""
    total: int | None
    """Examples of the run; `None` if the data have no known length."""
    seconds: float
    """Time since the session began."""
    outcomes: dict[str, int]
    """Scores of this session by outcome."""
    usage: Usage
    """Cost of this session."""
    settled_before: int = 0
    """Those of `done` that an earlier session of the run had settled."""
    failures: dict[str, int] = field(default_factory=dict)
    """Failed attempts by error class, those that a retry mended included."""
    sampled: int = 0
    """Scores of this session that are the mean of several samples."""
    unanimous: int = 0
    """Those of `sampled` whose samples all gave the same rating."""
    limiters: dict[str, LimiterState] = field(default_factory=dict)
    """State of each model's limiter, by model name."""

    @property
    def samples_never_differ(self) -> bool:
        """Whether further samples changed nothing, over at least `MIN_SAMPLED` scores.

        Either the server ignores the temperature, or the judge is certain of every rating.
        """
        return self.unanimous == self.sampled >= MIN_SAMPLED

    @property
    def rate(self) -> float:
        """Examples a second since the session began."""
        # examples of earlier sessions took no time in this one and would make the estimate too
        # hopeful
        return (self.done - self.settled_before) / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimated time to the end; `None` if unknown."""
        if self.total is None or not self.rate:
            return None
        return (self.total - self.done) / self.rate


def summed(parts: Iterable[Progress]) -> Progress:
    """Return the progress of several workers together, the total of which none of them knows."""
    known = list(parts)
    outcomes, failures = Counter[str](), Counter[str]()
    for part in known:
        outcomes.update(part.outcomes)
        failures.update(part.failures)
    return Progress(
        done=sum(part.done for part in known),
        total=None,
        # they run side by side, so the longest time is that of the whole
        seconds=max((part.seconds for part in known), default=0.0),
        outcomes=dict(outcomes),
        usage=sum((part.usage for part in known), Usage()),
        settled_before=sum(part.settled_before for part in known),
        failures=dict(failures),
        sampled=sum(part.sampled for part in known),
        unanimous=sum(part.unanimous for part in known),
        limiters=limiters_by_name(state for part in known for state in part.limiters.items()),
    )


def limiters_by_name(states: Iterable[tuple[str, LimiterState]]) -> dict[str, LimiterState]:
    """Return the state of each model's limiters; those of one name together."""
    found: dict[str, LimiterState] = {}
    for name, state in states:
        found[name] = found[name] + state if name in found else state
    return found
