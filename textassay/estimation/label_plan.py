"""Plans how many more ratings an interval of a given width needs, and of which rows.

Rows are drawn at random within strata of the judge's score, more of them in strata where people and
judge were far apart. Each row's probability of being drawn is recorded, so that the estimate stays
unbiased (see `means`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from textassay.agreement.intervals import t_quantile
from textassay.agreement.joined import People
from textassay.arrays import Codes, Floats, Mask
from textassay.estimation.columns import Columns, Judged
from textassay.estimation.maps import MapScales, learn_map
from textassay.runtime.data.ratings import SAMPLING_PROBABILITY as PROBABILITY
from textassay.runtime.errors import ConfigurationError
from textassay.table import Displayed, Note, ResultRow, Table, column, table_of

_STRATA = 5


@dataclass(frozen=True, slots=True)
class LabelPlan(ResultRow, Displayed):
    """A forecast for one aspect."""

    score: str = field(metadata=column("score"))
    """Name of the score."""
    human: str
    """Name of the human aspect."""
    rated: int = field(metadata=column("rated", "count"))
    """Rows rated so far."""
    rated_groups: int = field(
        metadata=column("sources", "count", name="sources", cell="rated_of_all")
    )
    """Number of their sources."""
    n: int
    """Scored rows."""
    groups: int
    """Number of their sources."""
    half_width: float = field(metadata=column("half-width now", "number"))
    """Half-width of the corrected interval that is expected now."""
    target: float = field(metadata=column("wanted", "number"))
    """Half-width that was requested."""
    more: int | None = field(metadata=column("ratings more", "count", cell="more_in_words"))
    """Ratings to add; `None` if rating every row would not suffice."""
    labels_only: int | None = field(
        metadata=column("without judge", "count", cell="more_without_judge")
    )
    """Ratings needed without the judge; `None` if out of reach."""
    with_all: float = field(metadata=column("if all were rated", "number"))
    """Half-width if every row were rated."""

    @property
    def rated_of_all(self) -> str:
        """Rated sources, and all."""
        return f"{self.rated_groups}/{self.groups}"

    @property
    def more_in_words(self) -> int | str:
        """`more`, or why it is unknown."""
        if self.rated == self.n:
            return "all rated"
        return "not enough rows" if self.more is None else self.more

    @property
    def more_without_judge(self) -> int | None:
        """Ratings to add without the judge; `None` if out of reach."""
        return None if self.labels_only is None else max(0, self.labels_only - self.rated)

    def tables(self) -> list[Table]:
        note = (
            f"{self.score}: all {self.n} rows are rated, so nothing is left to draw: the interval"
            " comes from the ratings alone, and only texts of further sources narrow it"
            if self.rated == self.n
            else "a forecast for further rows drawn at random from all sources, with errors as "
            "so far"
        )
        return [table_of(LabelPlan, [self], (Note(note),), "ratings needed")]


def plan_labels(
    columns: Columns,
    half_width: float,
    *,
    scales: MapScales,
    confidence: float = 0.95,
    seed: int = 0,
) -> LabelPlan:
    """Forecast how many ratings bring the interval of the corrected mean down to a half-width.

    Further rows are assumed to be drawn at random from all sources.

    Raises:
        ConfigurationError: The half-width is not above 0.
        DataError: The ratings so far do not suffice for a forecast, as `learn_map` says.
    """
    if not half_width > 0:
        raise ConfigurationError(f"the half-width must be above 0, not {half_width!r}")
    scored, rated = columns.only(columns.scored), columns.rated[columns.scored]
    x, y, groups = columns.pairs
    learned = learn_map(x, y, groups, scales=scales, seed=seed)
    # rated rows alone: their calibrated scores are cross-fitted, as in the estimate
    between, within = _parts(y, learned.cross_fitted, groups)
    _, codes, sizes = np.unique(scored.groups, return_inverse=True, return_counts=True)
    rated_of = np.bincount(codes[rated], minlength=len(sizes))
    forecast = _Forecast(sizes, rated_of, between, within, confidence)
    now, total = len(x), len(scored.ids)
    needed, without = (forecast.least(half_width, with_judge=judge) for judge in (True, False))
    return LabelPlan(
        score=columns.score,
        human=columns.human,
        rated=now,
        rated_groups=len(np.unique(groups)),
        n=total,
        groups=len(sizes),
        half_width=forecast.half_width(now),
        target=half_width,
        more=None if needed is None else max(0, needed - now),
        with_all=forecast.half_width(total),
        labels_only=without,
    )


@dataclass(frozen=True, slots=True)
class _Component:
    """Variances of ratings and calibrated scores, and their covariance."""

    ratings: float
    scores: float
    both: float

    def remaining_variance(self, lambda_: float) -> float:
        """Return the variance of the ratings minus lambda times the scores."""
        return self.ratings - 2 * lambda_ * self.both + lambda_**2 * self.scores


def _parts(ratings: Floats, scores: Floats, groups: Codes) -> tuple[_Component, _Component]:
    """Return how ratings and scores vary between sources, and within them, by one-way ANOVA."""
    _, at, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    table = np.stack([ratings, scores], axis=1)
    table = table - table.mean(axis=0)
    sums = np.zeros((len(sizes), 2))
    np.add.at(sums, at, table)
    means = sums / sizes[:, None]
    spare, whole = len(ratings) - len(sizes), max(len(sizes) - 1, 1)
    if spare == 0:
        return _component(table.T @ table / whole), _Component(0.0, 0.0, 0.0)
    apart = table - means[at]
    within = apart.T @ apart / spare
    size = (len(ratings) - float((sizes**2).sum()) / len(ratings)) / whole
    between = ((means * sizes[:, None]).T @ means / whole - within) / size
    return _component(between), _component(within)


def _component(matrix: Floats) -> _Component:
    """Return estimated variances, at least 0, and a covariance within their bounds."""
    ratings, scores = max(0.0, float(matrix[0, 0])), max(0.0, float(matrix[1, 1]))
    most = math.sqrt(ratings * scores)
    return _Component(ratings, scores, min(max(float(matrix[0, 1]), -most), most))


@dataclass(frozen=True, slots=True)
class _Forecast:
    """Half-widths with more ratings, from the number of rows and of rated rows of each source."""

    sizes: Codes
    rated: Codes
    between: _Component
    within: _Component
    confidence: float

    def half_width(self, count: int, *, with_judge: bool = True) -> float:
        """Return the half-width with `count` rated rows, drawn from all sources."""
        between, within = self.between, self.within
        # even if every row is rated, the sources are a sample; the judge reduces only the variance
        # added by rating a part of the rows
        all_sources = 1 / len(self.sizes)
        all_rows = float((1 / self.sizes).mean() / len(self.sizes))
        of_sources, of_rows = self._weights(count)
        some, few = max(0.0, of_sources - all_sources), max(0.0, of_rows - all_rows)
        lambda_ = 0.0
        if with_judge and (spread := between.scores * some + within.scores * few) > 0:
            # the mixing weight of the least variance, which PPI++ estimates
            lambda_ = max(0.0, (between.both * some + within.both * few) / spread)
        variance = between.ratings * all_sources + within.ratings * all_rows
        variance += (
            between.remaining_variance(lambda_) * some + within.remaining_variance(lambda_) * few
        )
        # the same t quantile as in the later interval; otherwise few sources would promise too much
        t = t_quantile(max(1, round(1 / of_sources) - 1), self.confidence)
        return t * math.sqrt(max(variance, 0.0))

    def _weights(self, count: int) -> tuple[float, float]:
        """Return the sums of the squared weights of sources and of rows in the mean rating.

        Their inverses are Kish's effective numbers of sources and rows.
        """
        now, free = int(self.rated.sum()), self.sizes - self.rated
        more = max(0, count - now)
        # each source has the same weight, shared among its rows
        share, spread = self.rated / self.sizes, np.zeros(len(self.sizes))
        if more:
            falls = free / free.sum()
            free_share = (free.sum() - more) / max(1, free.sum() - 1)
            share = share + more * falls / self.sizes
            # which source a further row belongs to is left to chance: hypergeometric
            spread = more * falls * (1 - falls) * free_share / self.sizes**2
        square = float(share.sum()) ** 2
        fewer = min(1.0, count / now)
        return (
            max(1 / len(self.sizes), min(0.5, float((share**2 + spread).sum()) / square / fewer)),
            float((share / self.sizes).sum()) / square / fewer,
        )

    def least(self, half_width: float, *, with_judge: bool) -> int | None:
        """Return the fewest rows that reach the requested half-width; `None` if all rows do not."""

        def is_enough(count: int) -> bool:
            return self.half_width(count, with_judge=with_judge) <= half_width

        # bisection is valid because the half-width does not grow with the number of rated rows
        total = int(self.sizes.sum())
        return bisect_left(range(total), True, lo=2, key=is_enough) if is_enough(total) else None


def first_rows(
    scores: Mapping[str, Judged], people: People, count: int, *, seed: int = 0
) -> list[dict[str, Any]]:
    """Draw the first rows to rate, each with the same probability.

    Args:
        scores: From `read_judged`.
        people: The data.
        count: Number of rows to draw, among the scored rows of the data.
        seed: Seed of the draw.

    Returns:
        Objects as `next_rows` returns them, without `score` and `stratum`.

    Raises:
        ConfigurationError: `count` is not between 1 and the number of scored rows.
    """
    scored = [
        id_
        for id_ in people.ids
        if any(judged.values.get(id_) is not None for judged in scores.values())
    ]
    if not 1 <= count <= len(scored):
        raise ConfigurationError(f"{len(scored)} rows are scored, so count= cannot be {count}")
    rows = np.sort(np.random.default_rng(seed).choice(len(scored), count, replace=False))
    return [
        {"id": scored[row], PROBABILITY: count / len(scored), "rated": False}
        for row in rows.tolist()
    ]


def next_rows(
    columns: Columns, count: int, *, scales: MapScales, seed: int = 0
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
        is the chance of having been drawn by now, in this draw or an earlier one: rows rated so far
        were drawn with the probabilities of the columns, or all with the same if they have none.
        Rated rows without a score have no `score` and `stratum`, and keep their earlier
        probability: other aspects may have scores of them.

    Raises:
        ConfigurationError: `count` is not between 1 and the number of unrated rows.
    """
    scored, rated = columns.only(columns.scored), columns.rated[columns.scored]
    free = int((~rated).sum())
    if not 1 <= count <= free:
        raise ConfigurationError(f"{free} scored rows are unrated, so count= cannot be {count}")
    strata = _strata(scored.scores)
    errors = _errors(scored, rated, strata, scales, seed)
    rng = np.random.default_rng(seed)
    before = _probability_so_far(scored, rated, strata)
    shares = _allocation(strata[~rated], errors, count)
    is_drawn, later = np.zeros(len(rated), bool), np.zeros(len(rated))
    for stratum, share in enumerate(shares):
        pool = np.flatnonzero(~rated & (strata == stratum))
        if len(pool):
            is_drawn[rng.choice(pool, share, replace=False)] = True
            later[strata == stratum] = share / len(pool)
    # a row is rated if it was drawn before, or is drawn now; the estimate divides by this total
    # probability, not by the probability of the last draw
    probability = before + (1 - before) * later
    order = np.concatenate([np.flatnonzero(is_drawn), np.flatnonzero(rated)])
    earlier = columns.probabilities
    if earlier is None:
        earlier = np.full(len(columns.ids), rated.mean())
    unscored = np.flatnonzero(~columns.scored & ~np.isnan(columns.ratings))
    rows: list[tuple[Any, ...]] = [
        (scored.ids[at], float(scored.scores[at]), int(strata[at]), float(probability[at]),
         bool(rated[at]))
        for at in order.tolist()
    ]  # fmt: skip
    rows += [(columns.ids[at], None, None, float(earlier[at]), True) for at in unscored.tolist()]
    names = ("id", "score", "stratum", PROBABILITY, "rated")
    return [dict(zip(names, row, strict=True)) for row in rows]


def _strata(scores: Floats) -> Codes:
    """Return the fifth of each score; equal scores are in the same fifth."""
    edges = np.unique(np.quantile(scores, np.arange(1, _STRATA) / _STRATA))
    codes = np.searchsorted(edges, scores, side="left")
    return np.asarray(np.unique(codes, return_inverse=True)[1], np.intp)


def _errors(scored: Columns, rated: Any, strata: Codes, scales: MapScales, seed: int) -> Floats:
    x, y, groups = scored.pairs
    residual = y - learn_map(x, y, groups, scales=scales, seed=seed).cross_fitted
    whole = float(residual.std()) or 1.0
    spread = np.full(int(strata.max()) + 1, whole)
    for stratum in range(len(spread)):
        residuals = residual[strata[rated] == stratum]
        # the deviation of a handful of errors is mostly chance; such strata use the deviation of
        # all rows
        if len(residuals) >= _STRATA:
            spread[stratum] = residuals.std()
    # no stratum is more than three times as probable as another: more unequal weights increase the
    # variance
    return np.asarray(np.maximum(spread, float(spread.max()) / 3))


def _probability_so_far(scored: Columns, rated: Mask, strata: Codes) -> Floats:
    """Return the probability with which each row was drawn so far, shape (n,)."""
    if scored.probabilities is None:
        return np.full(len(rated), float(rated.mean()))
    has_probability = ~np.isnan(scored.probabilities)
    before = np.where(has_probability, scored.probabilities, float(rated.mean()))
    # a plan lists only drawn rows, but all rows of a stratum had the same chance; if chances
    # differ, the harmonic mean is used, because each drawn row represents 1 / p rows
    for stratum in np.unique(strata):
        is_drawn = has_probability & rated & (strata == stratum)
        if is_drawn.any():
            mean = is_drawn.sum() / (1 / before[is_drawn]).sum()
            before[(strata == stratum) & ~has_probability] = mean
    return before


def _allocation(strata: Codes, spread: Floats, count: int) -> list[int]:
    """Return how many rows to draw from each stratum; others get the surplus of a full one."""
    sizes = np.bincount(strata, minlength=len(spread))
    shares = np.zeros(len(spread), int)
    while (remaining := count - int(shares.sum())) > 0:
        room = sizes - shares
        weight = np.where(room > 0, sizes * spread, 0.0)
        exact = remaining * weight / weight.sum()
        step = np.minimum(np.floor(exact).astype(int), room)
        # all shares are below one row: hand out single rows by largest remainder
        if not step.any():
            order = np.argsort(-np.where(room > 0, exact - np.floor(exact), -1.0), kind="stable")
            step[order[: min(remaining, int((room > 0).sum()))]] = 1
        shares += step
    return [int(share) for share in shares]
