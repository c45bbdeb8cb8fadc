"""Draws of a design and their results: the loop that all designs share."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from textassay.runtime.errors import DataError

MIN_COUNT = 20
"""Least number of intervals whose share is reported: few draws of some designs have no warning."""
MOST_ALARMS = 0.06
"""Share of the tests at .05 above which a design is marked."""


class Interval(NamedTuple):
    """An interval of one draw; ends that are `None` are not counted."""

    low: float | None
    high: float | None
    truth: float
    warned: bool = False
    """Whether it has a warning."""
    error: float | None = None
    """The error of the value, if it is measured."""


Outcome = Interval | Sequence[Interval] | bool
"""An interval, several of them, or whether a test raised a false alarm."""
Measure = Callable[[np.random.Generator, int], Mapping[str, Outcome]]
"""Draws a data set, with a seed for the computation; returns the results by name."""


@dataclass
class Tally:
    """Number of intervals that contain the truth, or of false alarms, and of how many."""

    draws: int = 0
    held: int = 0
    widths: float = 0.0
    errors: list[float] = field(default_factory=list)
    is_alarm: bool = False

    def add(self, one: Interval) -> None:
        """Count an interval."""
        if one.error is not None:
            self.errors.append(one.error)
        if one.low is not None and one.high is not None:
            self.draws += 1
            self.held += bool(one.low <= one.truth <= one.high)
            self.widths += (one.high - one.low) / 2

    def add_test(self, found: bool) -> None:
        """Count a test."""
        self.is_alarm, self.draws, self.held = True, self.draws + 1, self.held + found

    @property
    def share(self) -> float:
        """The share of intervals that contain the truth, or of false alarms."""
        return self.held / self.draws

    @property
    def half_width(self) -> float:
        """Mean half-width."""
        return self.widths / self.draws

    @property
    def rms_error(self) -> float:
        """Root mean squared error."""
        return float(np.sqrt(np.mean(np.square(self.errors))))

    def describe(self, low: float, high: float) -> str:
        """Return the figures as text, with `!` at a share that is significantly out of range."""
        texts = []
        if self.draws:
            share = self.share
            noise = 2 * math.sqrt(max(share * (1 - share), 0.01) / self.draws)
            if self.is_alarm:
                missed = share > MOST_ALARMS + noise
            else:
                missed = not low - noise <= share <= high + noise
            mark = " !" if missed and self.draws >= MIN_COUNT else ""
            width = "" if self.is_alarm else f" ±{self.half_width:.3f}"
            texts.append(f"{share:.3f} of {self.draws}{width}{mark}")
        if self.errors:
            texts.append(f"error {np.mean(self.errors):+.3f}, rms {self.rms_error:.3f}")
        return " ".join(texts) or "none"


def tally(measure: Measure, draws: int) -> defaultdict[str, Tally]:
    """Draw this number of times; return the results by name.

    Intervals with a warning are counted separately, under their name and `warned`. A draw that the
    command refuses is not counted.
    """
    found: defaultdict[str, Tally] = defaultdict(Tally)
    for seed in range(draws):
        try:
            outcomes = measure(np.random.default_rng(seed), seed)
        except DataError:  # such as equal ratings throughout
            continue
        for name, one in outcomes.items():
            if isinstance(one, bool):
                found[name].add_test(one)
                continue
            for interval in [one] if isinstance(one, Interval) else one:
                found[f"{name} warned" if interval.warned else name].add(interval)
    return found


@dataclass(frozen=True)
class Design:
    """One line of the table."""

    command: str
    words: str
    measure: Callable[[], Measure]
    """Called once, since it may draw a large population to know the truth."""
    share: float = 1.0
    """Share of the requested draws that are made, below 1 for slow designs."""
    span: tuple[float, float] = (0.93, 0.97)
    """Range in which the coverage should be."""


def is_found(p: float | None, limit: float = 0.05) -> bool:
    """Return whether a p-value says that there is a difference."""
    return p is not None and p < limit
