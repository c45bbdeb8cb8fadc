"""Confidence intervals of a coefficient, and the resamples of groups behind them.

Works on paired rows and levels. Coverage is shown by `benchmarks/coverage/`.

- `dataset`: the jackknife's standard error over groups on Fisher's z scale, with Student's t on the
  effective number of groups less one. Resamples of few groups vary too much (with 8 to 20 groups
  intervals are up to half longer), and those that miss the few large groups too little; they are
  used if groups are many. If nearly all ratings are equal, and few groups contain other ratings,
  the interval is still too narrow, and a note says so.
- `group`: Student's t over the coefficients of the groups, which are independent of each other, and
  at least the interval of their mean with half a group added at -1 and at 1: if a judge agrees in
  nearly all groups, few of the groups in which it does not agree are drawn.
- `system`: systems are the points, however many rows each has, so the interval is computed for that
  number of points (Fisher's z). Resampling documents says nothing about other systems, and adds
  noise to means that are noisy already. The end away from 0 allows for the agreement that this
  noise may hide; the other end allows for the agreement that it creates where judge and people err
  alike on single texts.

An interval that cannot be trusted is left out, and a note says why.

Rows that share a source are drawn together or not at all. A resample is a set of counts, one per
group, rather than a copy of rows. Every coefficient is then a function of weighted cells that are
sorted once, so a thousand resampled taus cost about as much as forty computed one by one.

References:
    Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapters 6, 8, 12 and 13.
    Fieller, Hartley and Pearson, "Tests for rank correlation coefficients", Biometrika 44 (1957),
    for the standard errors of rank coefficients on the z scale. Spearman (1904) for attenuation.
    Ferguson, "A Bayesian analysis of some nonparametric problems", Annals of Statistics 1 (1973),
    for the mean of a bounded distribution. Gaffke, "Three test statistics for a nonparametric
    one-sided hypothesis on the mean of a nonnegative variable", Mathematical Methods of Statistics
    14 (2005), and Learned-Miller and Thomas (arXiv 1905.06208, 2019), for its lower end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from textassay.agreement.correlation import (
    COEFFICIENTS,
    MIN_POINTS,
    Cells,
    Coefficient,
    Level,
    Pairs,
    group_coefficients,
    system_means,
)
from textassay.arrays import Floats
from textassay.runtime.errors import ConfigurationError
from textassay.table import Estimate

CONFIDENCE = 0.95
"""Nominal coverage of the intervals."""
_CHUNK = 200_000
"""Numbers per temporary array: fastest if it fits into a core's cache."""

MOSTLY = 0.55
"""Share of the commonest rating from which on ratings count as mostly equal."""


@dataclass(frozen=True, slots=True)
class Fewest:
    """Fewest groups and systems for an interval, from simulated coverage of 95 % intervals."""

    groups: int = 5
    """Groups in the data: with fewer, coverage falls below 90 %."""
    defined: int = 15
    """Groups with a coefficient at group level: with 12 of them, coverage on skewed ratings is 90
    to 93 %."""
    other: int = 12
    """Effective number of groups with another rating if ratings are mostly equal: with fewer than
    8 of them and 90 % equal ratings, coverage at data set level is 63 to 93 %."""
    systems: int = 6
    """Systems at system level: with 6 systems of 40 groups, coverage is 95 to 100 %; an interval of
    five systems would cover most of -1 to 1."""
    groups_of_systems: int = 40
    """Groups behind the means of systems."""


FEWEST = Fewest()


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals of the three coefficients at one level."""

    ci: dict[Coefficient, Estimate] = field(default_factory=dict)
    """Coefficients with their intervals; those without a trustworthy interval may be missing."""
    note: str | None = None
    """The reason why there are no intervals, or why they are too narrow."""


def intervals_at(
    pairs: Pairs,
    level: Level,
    point: dict[Coefficient, float | None],
    *,
    per_group: dict[Coefficient, Floats] | None = None,
    resamples: int,
    seed: int,
) -> Intervals:
    """Return an interval for each coefficient, or a note that says why there is no reliable one."""
    if level == "system" and (systems := len(system_means(pairs)[0])) < MIN_POINTS:
        return Intervals(
            note=f"no coefficient: needs at least {MIN_POINTS} systems, found {systems}; with two"
            " it could only be 1 or -1"
        )
    if all(value is None for value in point.values()):
        return Intervals(note="the coefficients are undefined: a side is constant, or too few rows")
    if level == "group" and per_group is not None:
        return _over_groups(point, per_group)
    if level == "system":
        return _over_systems(pairs, point)
    return _over_rows(pairs, point, resamples, seed)


def t_quantile(df: float, confidence: float) -> float:
    """Return the two-sided quantile of Student's t.

    Equal to `scipy.special.stdtrit`, whose package takes longer to import than a whole check.

    Raises:
        ConfigurationError: The confidence is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ConfigurationError(f"a confidence is a share such as 0.95, not {confidence!r}")
    # Newton's method from 0: the tail probability is convex there, so no step goes too far
    t, step = 0.0, math.inf
    scale = 2 * math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    while step > 1e-14 * t:
        density = scale * (1 + t * t / df) ** (-(df + 1) / 2)
        step = (_t_tails(t, df) - (1 - confidence)) / density
        t += step
    return t


def _t_tails(t: float, df: float) -> float:
    """Return the probability that Student's t is beyond -t or t: 1 - I(t² / (df + t²); 1/2, df/2).

    By the continued fraction of the incomplete beta function (DLMF 8.17.22), on its fast side.
    """
    if not t:
        return 1.0
    x = t * t / (df + t * t)
    a, b = (0.5, df / 2) if x < 1.5 / (2.5 + df / 2) else (df / 2, 0.5)
    y = x if a == 0.5 else 1 - x
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(y) + b * math.log1p(-y)
    )
    # Lentz's method, two terms a turn
    c, d = 1.0, 1 / (1 - (a + b) * y / (a + 1))
    value = d
    for m in itertools.count(1):
        for term in (
            m * (b - m) * y / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * y / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + term * d)
            c = 1 + term / c
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    tail = front * value / a
    return 1 - tail if a == 0.5 else tail


def effective_number(weights: Floats) -> float:
    """Return Kish's effective number of weights; 0 if all are 0."""
    square = float(weights @ weights)
    # rounded, so that equal weights count exactly as their number
    return round(float(weights.sum()) ** 2 / square, 9) if square else 0.0


def number_of_groups(pairs: Pairs) -> int:
    """Return the number of groups, or of rows if there are no groups."""
    return int(pairs.groups.max(initial=-1)) + 1


def too_few_groups(pairs: Pairs) -> str:
    """Return the reason for no interval if there are fewer than `FEWEST.groups` groups, or rows."""
    kind = "groups" if pairs.has_groups else "rows"
    groups = number_of_groups(pairs)
    return _too_few(kind, groups, FEWEST.groups) if groups < FEWEST.groups else ""


def _too_few(kind: str, count: int, needed: int) -> str:
    return f"no interval: needs at least {needed} {kind}, found {count}"


def _over_rows(
    pairs: Pairs, point: dict[Coefficient, float | None], resamples: int, seed: int
) -> Intervals:
    if note := too_few_groups(pairs):
        return Intervals(note=note)
    df, varied = degrees_of_freedom(pairs), vary_groups(pairs, resamples, seed)
    errors = {name: varied.error(to_z(values)) for name, values in varied.values.items()}
    ci = {name: interval_around(value, errors[name], df) for name, value in point.items()}
    if not any(estimate.ends for estimate in ci.values()):
        note = (
            "no interval: the coefficients are at the end of their range, or undefined without some"
            " of the groups"
        )
        return Intervals(ci, note)
    return Intervals(ci, note_mostly_equal(pairs))


@dataclass(frozen=True, slots=True)
class Varied:
    """Coefficients at dataset level, recomputed over resampled or left-out groups."""

    values: dict[Coefficient, Floats]
    """Values of each coefficient, NaN where it is undefined."""
    groups: int
    is_jackknife: bool
    """Whether each group was left out in turn, rather than groups drawn at random."""

    def error(self, values: Floats) -> float | None:
        """Return the standard error of a figure with these values; `None` if undefined."""
        return jackknife_error(values) if self.is_jackknife else standard_error(values, self.groups)

    @property
    def least_p(self) -> float:
        """Smallest p-value that this number of resamples can show."""
        return 0.0 if self.is_jackknife else 2 / (len(self.values["pearson"]) + 1)


def vary_groups(pairs: Pairs, resamples: int, seed: int) -> Varied:
    """Compute each coefficient at dataset level in resamples of the groups, or without each group.

    The drawn groups depend on the groups and the seed alone, so the effect of a resample on two
    sets of scores cancels in their difference.
    """
    # resamples of few groups vary too much, and those that miss the few large groups too little; if
    # there are more groups than resamples, no single group matters that much
    if (count := number_of_groups(pairs)) <= resamples:
        return Varied(without_each_group(pairs), count, is_jackknife=True)
    resampled = resample(pairs, "dataset", resamples=resamples, seed=seed)
    return Varied(resampled, count, is_jackknife=False)


def degrees_of_freedom(pairs: Pairs) -> float:
    """Return the effective number of groups less one, at least 1."""
    return max(1.0, effective_number(np.bincount(pairs.groups).astype(float)) - 1)


def commonest(values: Floats) -> tuple[float, float]:
    """Return the value that occurs most often, and its share."""
    distinct, counts = np.unique(values, return_counts=True)
    return float(distinct[counts.argmax()]), float(counts.max()) / len(values)


def note_mostly_equal(pairs: Pairs) -> str | None:
    """Return why intervals from ratings that are mostly equal are too narrow; else `None`."""
    rating, share = commonest(pairs.human)
    sizes = np.bincount(pairs.groups).astype(float)
    worth = effective_number(sizes[np.unique(pairs.groups[pairs.human != rating])])
    if share <= MOSTLY or worth >= FEWEST.other:
        return None
    return (
        f"{share:.0%} of the ratings are {rating:g}, and groups with another one weigh as much"
        f" as {worth:.0f} of equal size (at least {FEWEST.other} are needed): the intervals are too"
        " narrow; rate more groups"
    )


def coefficient_interval(
    value: float | None, resampled: Floats, groups: int, least: float = 0.0, inflation: float = 1.0
) -> Estimate:
    """Return a correlation with its interval by Student's t on Fisher's z scale.

    Args:
        value: The correlation.
        resampled: The same in resamples of the groups.
        groups: Number of groups.
        least: Least standard error, on the z scale: resamples of few rows vary too little.
        inflation: Factor of the standard error.
    """
    if groups < FEWEST.groups or (error := standard_error(to_z(resampled), groups)) is None:
        return Estimate(value)
    # groups are the sampled unit, so they, not rows, give the degrees of freedom
    return interval_around(value, inflation * max(error, least), groups - 1)


def interval_around(value: float | None, error: float | None, df: float) -> Estimate:
    """Return a correlation with its interval, given its error on Fisher's z scale."""
    # Fisher's z is close to normal with a spread that hardly depends on r, so a symmetric t
    # interval is taken there and carried back; on r itself it could leave -1 to 1
    if value is None or error is None:
        return Estimate(value)
    rounding = 1e-9
    if abs(value) >= 1 - rounding:  # an exact relation: Fisher's z is infinite
        return Estimate(value, value, value) if error < rounding else Estimate(value)
    half = t_quantile(df, CONFIDENCE) * error
    return Estimate(value, math.tanh(math.atanh(value) - half), math.tanh(math.atanh(value) + half))


def jackknife_error(left_out: Floats) -> float | None:
    """Return the standard error behind the values without each group; `None` if one is NaN."""
    if np.isnan(left_out).any():
        return None
    changes = left_out - left_out.mean()
    return math.sqrt(float(changes @ changes) * (1 - 1 / len(changes)))


def standard_error(resampled: Floats, groups: int) -> float | None:
    """Return the standard error behind resampled values; `None` if half of them or more are NaN."""
    defined = resampled[~np.isnan(resampled)]
    if 2 * len(defined) <= len(resampled) or len(defined) < 2:
        return None
    # the variance of a resample of G groups is (G - 1) / G times the variance of the estimate
    return float(np.std(defined, ddof=1)) * math.sqrt(groups / (groups - 1))


def to_z(values: Floats) -> Floats:
    """Return correlations on Fisher's z scale."""
    # Fisher's z of 1 is infinite
    return np.arctanh(np.clip(values, 1e-6 - 1, 1 - 1e-6))


def _over_groups(
    point: dict[Coefficient, float | None], per_group: dict[Coefficient, Floats]
) -> Intervals:
    ci: dict[Coefficient, Estimate] = {}
    for name, value in point.items():
        defined = per_group[name][~np.isnan(per_group[name])]
        if len(defined) < FEWEST.defined or value is None:
            return Intervals(
                note=_too_few("groups with a coefficient", len(defined), FEWEST.defined)
            )
        ci[name] = Estimate(value, *_around_mean(defined))
    return Intervals(ci)


def _around_mean(coefficients: Floats) -> tuple[float, float]:
    """Return the interval of a mean of coefficients of groups, which lie between -1 and 1."""
    groups, mean = len(coefficients), float(coefficients.mean())
    error = float(np.std(coefficients, ddof=1)) / math.sqrt(groups)
    half = t_quantile(groups - 1, CONFIDENCE) * error
    # a judge that agrees in nearly all groups disagrees in some that were not drawn
    below, above = bounded_mean_interval((1 + coefficients) / 2)
    return max(-1.0, min(mean - half, 2 * below - 1)), min(1.0, max(mean + half, 2 * above - 1))


def bounded_mean_interval(values: Floats, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the interval of a mean of values from 0 to 1, which allows for values not drawn.

    It is that of the posterior with half an observation more at either end (Ferguson 1973), which
    of 0 and 1 alone is Jeffreys'.
    """
    n = len(values)
    values = np.append(values, (0.0, 1.0))
    weights = np.append(np.ones(n), (0.5, 0.5))
    share = float(np.average(values, weights=weights))
    variance = float(np.average((values - share) ** 2, weights=weights)) / (n + 2)
    # as a Beta distribution of its mean and variance
    number = share * (1 - share) / variance - 1
    return beta_interval(share * number, (1 - share) * number, confidence)


def least_mean(values: Floats, tail: float) -> float:
    """Return the lower end of an interval of a mean of values from 0 to 1, of which any may be 0.

    It is Gaffke's: the quantile of random weights (Dirichlet) of the values and of one more that is
    0, here of a Beta distribution of the same mean and variance up to the largest value. Of values
    that are 0 or another number it is Clopper and Pearson's (1934).
    """
    from scipy.special import betaincinv  # heavy, so on first use

    if not (largest := float(values.max())) > 0:
        return 0.0
    shares = np.append(values / largest, 0.0)
    share, variance = float(shares.mean()), float(shares.var()) / (len(shares) + 1)
    number = share * (1 - share) / variance - 1
    return largest * float(betaincinv(share * number, (1 - share) * number, tail))


def beta_interval(
    hits: float, misses: float, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Return the interval of a Beta distribution: Jeffreys' of a share, with 0.5 more of both."""
    from scipy.special import betaincinv  # heavy, so on first use

    low, high = betaincinv(hits, misses, ((1 - confidence) / 2, (1 + confidence) / 2))
    return float(low), float(high)


def _over_systems(pairs: Pairs, point: dict[Coefficient, float | None]) -> Intervals:
    x, y = system_means(pairs)
    systems = len(x)
    if systems < FEWEST.systems:
        return Intervals(note=_too_few("systems", systems, FEWEST.systems))
    if (groups := number_of_groups(pairs)) < FEWEST.groups_of_systems:
        kind = "groups" if pairs.has_groups else "rows"
        return Intervals(
            note=_too_few(f"{kind} behind the systems", groups, FEWEST.groups_of_systems)
        )
    noise = _noise_of_means(pairs, x, y)
    if noise is None:
        return Intervals(
            note="no interval: the means of the systems differ no more than their rows do by chance"
        )
    errors = independent_errors(systems)
    ci: dict[Coefficient, Estimate] = {}
    for name, value in point.items():
        if value is None:
            continue
        z, half = _z_of_means(value), t_quantile(systems - 2, CONFIDENCE) * errors[name]
        below, above = (noise.made, noise.hidden) if value >= 0 else (noise.hidden, noise.made)
        lower, upper = math.tanh(z - below - half), math.tanh(z + above + half)
        ci[name] = Estimate(value, min(lower, value), max(upper, value))
    return Intervals(ci)


def independent_errors(points: int) -> dict[Coefficient, float]:
    """Return the standard errors on Fisher's z scale of at least five independent points.

    For rank coefficients by Fieller, Hartley and Pearson (1957).
    """
    return {
        "pearson": math.sqrt(1 / (points - 3)),
        "spearman": math.sqrt(1.06 / (points - 3)),
        "kendall": math.sqrt(0.437 / (points - 4)),
    }


def _z_of_means(value: float) -> float:
    # a coefficient of 1 over few systems is set to .995, since Fisher's z of 1 is infinite
    return math.atanh(max(-0.995, min(0.995, value)))


class _NoiseOfMeans(NamedTuple):
    """How far noise in the means of systems may have moved Pearson's z."""

    hidden: float
    """Shift toward 0: noise hides agreement."""
    made: float
    """Shift away from 0: judge and people err alike on some texts."""


def _noise_of_means(pairs: Pairs, x: Floats, y: Floats) -> _NoiseOfMeans | None:
    """Return how noise moves the coefficient of the means; `None` if there is only noise."""
    (noise_x, together), (_, noise_y) = chance_covariance(pairs, x, y)
    (spread_x, covariance), (_, spread_y) = np.cov(x, y)
    # the F test of systems against rows: without a difference there is nothing to correct for
    from scipy.special import chdtri  # heavy, so on first use

    critical = float(chdtri(len(x) - 1, 0.05)) / (len(x) - 1)
    if spread_x <= critical * noise_x or spread_y <= critical * noise_y:
        return None
    # the least share of the spread that belongs to the systems themselves, by the same test; with
    # the likeliest share, intervals of 10 systems that hardly differ contain the truth in 72 to 89
    # % of the draws
    least = (1 - critical * noise_x / spread_x) * (1 - critical * noise_y / spread_y)
    r = abs(float(np.corrcoef(x, y)[0, 1]))
    corrected = r / math.sqrt(least)
    # without noise, so high a correlation may be 1
    hidden = math.inf if corrected >= 0.9 else math.atanh(corrected) - math.atanh(r)
    # noise of the opposite sign hides agreement, which the share above allows for
    alike = max(0.0, together * math.copysign(1, covariance))
    by_chance = _z_of_means(r) - _z_of_means(r - alike / math.sqrt(spread_x * spread_y))
    return _NoiseOfMeans(hidden, by_chance)


def chance_covariance(pairs: Pairs, x: Floats, y: Floats) -> Floats:
    """Return the covariance of the systems' means that is due to chance, shape (2, 2).

    Groups are the sampled unit. The difficulty of a group shifts all systems that answer it
    equally, which keeps their order; if each system has groups of its own, it blurs the order.
    """
    systems, sizes = len(x), np.bincount(pairs.systems)
    apart = np.stack([pairs.scores - x[pairs.systems], pairs.human - y[pairs.systems]])
    apart /= sizes[pairs.systems]
    # how much the rows of a group move the mean of a system
    cells, of_row = np.unique(pairs.groups * systems + pairs.systems, return_inverse=True)
    moved = np.stack([np.bincount(of_row, side) for side in apart])
    groups_behind = np.bincount(cells % systems)
    # distances from the mean of few groups are too small, and a single group shows no distance
    moved *= np.sqrt(groups_behind / np.maximum(groups_behind - 1, 1))[cells % systems]
    if not (systems_shown := np.count_nonzero(groups_behind > 1)):
        return np.zeros((2, 2))
    together = np.stack([np.bincount(cells // systems, side) for side in moved])
    noise = (moved @ moved.T - together @ together.T / systems) / (systems - 1)
    return np.asarray(noise * systems / systems_shown, float)


def resample(pairs: Pairs, level: Level, *, resamples: int, seed: int) -> dict[Coefficient, Floats]:
    """Return each coefficient in each resample, shape (resamples,); NaN if it is undefined there.

    The level is `dataset` or `group`.
    """
    count, rng = number_of_groups(pairs), np.random.default_rng(seed)
    if count < 2:
        return {name: np.full(resamples, np.nan) for name in COEFFICIENTS}
    # whole groups are drawn: drawing rows would treat texts of one source as independent and give
    # intervals that are too narrow
    groups, of_rows = pairs.groups, level == "dataset"
    values = Cells(pairs.scores, pairs.human).coefficients if of_rows else _means_over_groups(pairs)
    step = max(16, _CHUNK // (len(groups) if of_rows else count))
    chunks = []
    for start in range(0, resamples, step):
        counts = draw_counts(count, min(step, resamples - start), rng)
        chunks.append(values(counts[groups] if of_rows else counts))
    return _concatenate(chunks)


def _concatenate(chunks: Sequence[dict[Coefficient, Floats]]) -> dict[Coefficient, Floats]:
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in COEFFICIENTS}


def draw_counts(groups: int, resamples: int, rng: np.random.Generator) -> Floats:
    """Return how often each group is drawn in each resample, shape (groups, resamples)."""
    draws = rng.integers(0, groups, size=(resamples, groups))
    # with an offset per resample, one bincount counts all resamples at once
    draws += np.arange(resamples)[:, None] * groups
    counts = np.bincount(draws.ravel(), minlength=resamples * groups)
    return np.ascontiguousarray(counts.reshape(resamples, groups).T, dtype=float)


def _means_over_groups(pairs: Pairs) -> Callable[[Floats], dict[Coefficient, Floats]]:
    """Return a function from counts of groups per resample to mean coefficients."""
    # a group's coefficient does not change between resamples, only how often it counts
    per_group = group_coefficients(pairs)
    defined = ~np.isnan(per_group["pearson"])
    values = np.stack([np.where(defined, per_group[name], 0.0) for name in COEFFICIENTS])

    def means(counts: Floats) -> dict[Coefficient, Floats]:
        used = defined.astype(float) @ counts
        empty = np.full((len(values), len(used)), np.nan)
        mean_of = np.divide(values @ counts, used, out=empty, where=used > 0)
        return dict(zip(COEFFICIENTS, mean_of, strict=True))

    return means


def without_each_group(pairs: Pairs) -> dict[Coefficient, Floats]:
    """Return each coefficient without the rows of each group, shape (groups,); NaN if undefined."""
    groups, count = pairs.groups, number_of_groups(pairs)
    cells = Cells(pairs.scores, pairs.human)
    step = max(16, _CHUNK // max(len(groups), 1))
    chunks = []
    for start in range(0, count, step):
        # one column per left-out group: its rows count 0 times, all others once
        out = np.arange(start, min(start + step, count))
        chunks.append(cells.coefficients((groups[:, None] != out).astype(float)))
    return _concatenate(chunks)
