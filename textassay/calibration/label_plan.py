"""How many more ratings an interval of a given width takes, and of which rows.

Knows columns. Rows are drawn by chance within strata of the judge's score, more of them where
people and judge were far apart, and each row's probability of having been drawn is kept, so that
the estimate stays right (see `correction`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from textassay.calibration.columns import PROBABILITY, Columns
from textassay.calibration.maps import Scales, learn_map
from textassay.meta.intervals import t_quantile
from textassay.meta.ranks import Codes, Floats
from textassay.runtime.errors import ConfigurationError, parameter

_STRATA = 5
_MAX_RATIO = 3.0
"""How much more probable one stratum may be than another: weights that differ more cost more than
they bring."""


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """A forecast for one aspect.

    Attributes:
        score: Name of the score.
        human: Name of the human aspect.
        rated: Rows rated so far.
        rated_groups: Their sources.
        n: Scored rows.
        groups: Their sources.
        half_width: Half-width of the corrected interval that is expected now.
        target: Half-width that was asked for.
        more: Ratings to add; `None` if rating every row would not suffice.
        with_all: Half-width if every row were rated.
        labels_only: Ratings that it would take without the judge; `None` if out of reach.
    """

    score: str
    human: str
    rated: int
    rated_groups: int
    n: int
    groups: int
    half_width: float
    target: float
    more: int | None
    with_all: float
    labels_only: int | None

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


def plan_labels(
    columns: Columns,
    half_width: float,
    *,
    scales: Scales,
    confidence: float = 0.95,
    seed: int = 0,
) -> LabelPlan:
    """Forecast how many ratings bring the interval of the corrected mean down to a half-width.

    Further rows are taken to be drawn by chance over all sources.

    Raises:
        ConfigurationError: The half-width is not above 0.
        DataError: The ratings so far do not suffice for a forecast, as `learn_map` says.
    """
    if not half_width > 0:
        raise ConfigurationError(f"the half-width must be above 0, not {half_width!r}")
    scored, rated = columns.only(columns.scored), columns.rated[columns.scored]
    x, y, groups = scored.scores[rated], scored.ratings[rated], scored.groups[rated]
    learned = learn_map(x, y, groups, scales=scales, seed=seed)
    judged = learned.predict_unseen(scored.scores)
    total, sources = len(scored.ids), len(np.unique(scored.groups))
    sizes = np.unique(groups, return_counts=True)[1]
    forecast = _Forecast(total, sources, len(x), float((sizes**2).sum()), confidence)
    residual = _parts(y - learned.cross_fitted, groups)
    plain = _parts(y, groups)
    between_judged = _parts(judged, scored.groups)
    now = len(x)

    def with_judge(count: int) -> float:
        return forecast.half_width(count, residual, between_judged)

    def alone(count: int) -> float:
        return forecast.half_width(count, plain, None)

    needed, without = forecast.least(with_judge, half_width), forecast.least(alone, half_width)
    return LabelPlan(
        score=columns.score,
        human=columns.human,
        rated=now,
        rated_groups=len(np.unique(groups)),
        n=total,
        groups=sources,
        half_width=with_judge(now),
        target=half_width,
        more=None if needed is None else max(0, needed - now),
        with_all=min(with_judge(total), alone(total)),
        labels_only=without,
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """Variance of a column: between sources, and within them."""

    between: float
    within: float


def _parts(values: Floats, groups: Codes) -> _Parts:
    """Split a variance by one-way analysis with sources of unequal size; a negative part is 0."""
    _, at, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    means = np.bincount(at, weights=values) / sizes
    spare = len(values) - len(sizes)
    if spare == 0:
        return _Parts(float(values.var(ddof=1)), 0.0)
    within = float(((values - means[at]) ** 2).sum()) / spare
    size = (len(values) - float((sizes**2).sum()) / len(values)) / max(len(sizes) - 1, 1)
    mean_square = float((sizes * (means - values.mean()) ** 2).sum()) / max(len(sizes) - 1, 1)
    return _Parts(max(0.0, (mean_square - within) / size), within)


@dataclass(frozen=True, slots=True)
class _Forecast:
    """Half-widths with more ratings, from how many there are and how they lie over the sources."""

    rows: int
    sources: int
    rated: int
    squares: float
    confidence: float

    def half_width(self, count: int, residual: _Parts, judged: _Parts | None) -> float:
        """Return the half-width with `count` rated rows, those to come drawn over all sources."""
        clusters = self._clusters(count)
        # sources that are rated in full are known without error as far as their rows go
        variance = residual.between / clusters + residual.within * (1 / count - 1 / self.rows)
        if judged is not None:
            # the judge's mean over unrated rows is itself a sample; its share shrinks as rows are
            # rated
            variance += judged.between / self.sources * (1 - count / self.rows)
        else:
            variance += residual.within / self.rows
        # the forecast uses the same t quantile as the later interval, or it would promise too much
        # for few sources
        t = t_quantile(max(1, round(clusters) - 1), self.confidence)
        return t * math.sqrt(max(variance, 0.0))

    def _clusters(self, count: int) -> float:
        """Return the number of equally rated sources that would be worth as much (Kish)."""
        more = max(0, count - self.rated)
        share = min(1.0, count / self.rated)
        rated, squares = self.rated * share, self.squares * share
        # expected sum of squared ratings per source if the further rows fall on sources at random
        spread = squares + 2 * more * rated / self.sources + more + more**2 / self.sources
        return max(2.0, min(float(self.sources), (rated + more) ** 2 / spread))

    def least(self, width: Callable[[int], float], half_width: float) -> int | None:
        """Return the fewest rows that reach the wanted half-width; `None` if all do not."""
        # bisection relies on a half-width that does not grow with the number of rated rows
        low, high = 2, self.rows
        if width(high) > half_width:
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if width(middle) <= half_width else (middle + 1, high)
        return low


def next_rows(
    columns: Columns, count: int, *, scales: Scales, seed: int = 0
) -> list[dict[str, Any]]:
    """Draw the rows to rate next.

    Returns every row that is rated or was drawn, with its sampling probability.

    Strata are fifths of the judge's score. A stratum's share follows its size times the standard
    deviation of the error on its rated rows, within a factor of three.

    Args:
        columns: Scores and the ratings so far.
        count: Number of rows to draw.
        scales: Ranges of judge and raters.
        seed: Seed of the draw.

    Returns:
        Objects with `id`, `score`, `stratum`, `sampling_probability` and `rated`; the probability
        is that of having been drawn by now, under the assumption that what is rated so far was
        drawn by chance.

    Raises:
        ConfigurationError: `count` is not between 1 and the number of unrated rows.
    """
    scored, rated = columns.only(columns.scored), columns.rated[columns.scored]
    free = int((~rated).sum())
    if not 1 <= count <= free:
        raise ConfigurationError(
            f"{free} scored rows are unrated, so {parameter('count')} cannot be {count}"
        )
    strata = _strata(scored.scores)
    errors = _errors(scored, rated, strata, scales, seed)
    rng = np.random.default_rng(seed)
    before = _probability_so_far(scored, rated)
    shares = _allocation(strata[~rated], errors, count)
    chosen, later = np.zeros(len(rated), bool), np.zeros(len(rated))
    for stratum, share in enumerate(shares):
        pool = np.flatnonzero(~rated & (strata == stratum))
        if len(pool):
            chosen[rng.choice(pool, share, replace=False)] = True
            later[strata == stratum] = share / len(pool)
    # a row is rated if it was drawn before or, if not, is drawn now; the estimate divides by this
    # total probability, not by that of the last draw
    probability = before + (1 - before) * later
    order = np.concatenate([np.flatnonzero(chosen), np.flatnonzero(rated)])
    return [
        {
            "id": scored.ids[row],
            "score": float(scored.scores[row]),
            "stratum": int(strata[row]),
            PROBABILITY: float(probability[row]),
            "rated": bool(rated[row]),
        }
        for row in order.tolist()
    ]


def _strata(scores: Floats) -> Codes:
    """Return the fifth of each score; equal scores are never parted."""
    edges = np.unique(np.quantile(scores, np.arange(1, _STRATA) / _STRATA))
    codes = np.searchsorted(edges, scores, side="left")
    return np.asarray(np.unique(codes, return_inverse=True)[1], np.intp)


def _errors(scored: Columns, rated: Any, strata: Codes, scales: Scales, seed: int) -> Floats:
    x, y, groups = scored.scores[rated], scored.ratings[rated], scored.groups[rated]
    residual = y - learn_map(x, y, groups, scales=scales, seed=seed).cross_fitted
    whole = float(residual.std()) or 1.0
    spread = np.full(int(strata.max()) + 1, whole)
    for stratum in range(len(spread)):
        own = residual[strata[rated] == stratum]
        # the deviation of a handful of errors is mostly luck; such strata keep that of all rows
        if len(own) >= _STRATA:
            spread[stratum] = own.std()
    return np.asarray(np.maximum(spread, float(spread.max()) / _MAX_RATIO))


def _probability_so_far(scored: Columns, rated: Any) -> Floats:
    if scored.probabilities is not None and not np.isnan(scored.probabilities).any():
        return scored.probabilities
    return np.full(len(rated), float(rated.mean()))


def _allocation(strata: Codes, spread: Floats, count: int) -> list[int]:
    """Return how many rows to draw from each stratum; the rest of a full one goes to the others."""
    sizes = np.bincount(strata, minlength=len(spread))
    shares = np.zeros(len(spread), int)
    while (left := count - int(shares.sum())) > 0:
        room = sizes - shares
        weight = np.where(room > 0, sizes * spread, 0.0)
        exact = left * weight / weight.sum()
        step = np.minimum(np.floor(exact).astype(int), room)
        # every exact share is below one row: hand out single rows by the largest remainder, or the
        # loop would not end
        if not step.any():
            order = np.argsort(-np.where(room > 0, exact - np.floor(exact), -1.0), kind="stable")
            step[order[: min(left, int((room > 0).sum()))]] = 1
        shares += step
    return [int(one) for one in shares]
