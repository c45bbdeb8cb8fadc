"""Where there are enough ratings to say how a judge errs, and systems whose scores lie elsewhere.

Knows arrays. Two things are refused: scores outside the range of the rated ones, and scores that
pile up at an end of it where there are only a handful of ratings. In both cases a mean would be
that of the rated texts under another name.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from textassay.meta.correlation import Floats

MAX_OUTSIDE = 0.05
"""Share of a system's scores outside the rated range above which it is refused."""
FEW = 8
"""Ratings below which nothing is learned from a part of the range."""
_CHANCE_OUTSIDE = 6
_TIMES_CHANCE = 3


@dataclass(frozen=True, slots=True)
class RatedRange:
    """The range of the rated scores.

    Attributes:
        low: Lowest rated score.
        high: Highest rated score.
        ends: Scores at or beyond which there are at least 8 ratings.
        by_chance: Share of all rows that lies beyond `ends`, as the rated rows have it.
        labels: Rated rows.
    """

    low: float
    high: float
    ends: tuple[float, float]
    by_chance: float
    labels: int

    def outside(self, scores: Floats) -> float:
        """Return the share of scores outside the range."""
        return _beyond(scores, (self.low, self.high))

    def sparse(self, scores: Floats) -> float:
        """Return the share of scores with fewer than 8 ratings at or beyond them."""
        return _beyond(scores, self.ends)

    def refusal(self, outside: float) -> str | None:
        """Return why a mean is refused with this share outside; `None` if it is not."""
        # of exchangeable rows, 2 / (labels + 1) fall outside the rated range by chance; refusing
        # starts at three times that, so that small samples are not refused for being small
        limit = max(MAX_OUTSIDE, _CHANCE_OUTSIDE / (self.labels + 1))
        if outside <= limit:
            return None
        return (
            f"{outside:.0%} of its scores lie outside {self.low:g} to {self.high:g}, where there "
            f"are ratings (at most {limit:.0%}): how the judge errs there is unknown; rate some"
        )

    def refusal_of_few(self, sparse: float) -> str | None:
        """Return why a mean is refused that rests on ratings which are not its own."""
        # one rating at the far end of a range makes it long, and says next to nothing about a
        # system whose scores pile up there
        limit = max(MAX_OUTSIDE, _TIMES_CHANCE * self.by_chance)
        if sparse <= limit:
            return None
        return (
            f"{sparse:.0%} of its scores lie outside {self.ends[0]:g} to {self.ends[1]:g}, where "
            f"fewer than {FEW} texts are rated (at most {limit:.0%}): how the judge errs there is "
            "unknown; rate some"
        )


def rated_range(scores: Floats, probabilities: Floats | None = None) -> RatedRange:
    """Return the range of rated scores.

    Args:
        scores: Judge's scores of the rated rows, shape (n,), at least one.
        probabilities: Probability with which each was drawn for rating, shape (n,); `None` if all
            had the same.
    """
    ordered = np.sort(scores)
    # with fewer than 16 the two ends would cross, and the range be empty
    at = min(FEW, (len(ordered) + 1) // 2) - 1
    ends = float(ordered[at]), float(ordered[-1 - at])
    weights = None if probabilities is None else 1 / probabilities
    return RatedRange(
        low=float(ordered[0]),
        high=float(ordered[-1]),
        ends=ends,
        by_chance=_beyond(scores, ends, weights),
        labels=len(ordered),
    )


def _beyond(scores: Floats, ends: tuple[float, float], weights: Floats | None = None) -> float:
    return float(np.average((scores < ends[0]) | (scores > ends[1]), weights=weights))
