"""Computes means, correlations and the order of systems, with intervals over sources.

Every interval is a 95 % interval with the source as the unit: texts of one source are never treated
as independent. All functions are vectorized over sources and draws.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from textassay.agreement.correlation import pearson
from textassay.agreement.intervals import CONFIDENCE, effective_number, t_quantile
from textassay.arrays import Codes, Floats, Mask
from textassay.table import Estimate

MIN_ITEMS = 30
"""Texts that a rater must share with others to be compared with them, as in the paper."""
_DETECT = 2.80
"""True difference, in standard errors, whose 95 % interval excludes 0 in four of five samples: 1.96
+ 0.84.
"""
_DRAWS = 400
"""Resamples of sources, and random orders of systems; the 2.5 % tail rests on ten of them."""


def mean_over(values: Floats, groups: Codes) -> Estimate:
    """Return the mean of rows with a t-interval over sources, which may have unequal sizes.

    Args:
        values: Shape (n,), no NaN.
        groups: Code of each row's source, shape (n,).
    """
    if not len(values):
        return Estimate(None)
    mean = float(values.mean())
    error, df = _error_of_mean(values - mean, groups)
    if math.isnan(error):
        return Estimate(mean)
    half = t_quantile(df, CONFIDENCE) * error
    return Estimate(mean, mean - half, mean + half)


def detectable_mean(values: Floats, groups: Codes) -> float | None:
    """Return the mean whose 95 % interval excludes 0 in four of five such samples."""
    error = _error_of_mean(values - values.mean(), groups)[0] if len(values) else math.nan
    return None if math.isnan(error) else _DETECT * error


def _error_of_mean(deviations: Floats, groups: Codes) -> tuple[float, float]:
    """Return the standard error of a mean over rows, and its degrees of freedom."""
    sums = np.bincount(groups, weights=deviations)
    sizes: Floats = np.bincount(groups).astype(float)
    sums, sizes = sums[sizes > 0], sizes[sizes > 0]
    number, total = len(sizes), float(sizes.sum())
    if number < 2:
        return math.nan, 1.0
    # a source with a large share pulls the mean towards itself, so its own deviation looks too
    # small; the mean without the source corrects this
    left_out = sums / (total - sizes)
    error = math.sqrt(float(left_out @ left_out) * (1 - 1 / number))
    return error, max(1.0, effective_number(sizes) - 1)


def correlation(x: Floats, y: Floats, groups: Codes) -> Estimate:
    """Return Pearson's r; its interval is a jackknife over sources on Fisher's z scale.

    `Estimate(None)` if a side is constant.
    """
    if len(x) < 3 or x.min() == x.max() or y.min() == y.max():
        return Estimate(None)
    x, y = x - x.mean(), y - y.mean()
    parts = np.stack([
        np.bincount(groups, weights=part) for part in (np.ones(len(x)), x, y, x * x, y * y, x * y)
    ])  # fmt: skip
    parts = parts[:, parts[0] > 0]
    total = parts.sum(axis=1, keepdims=True)
    value = float(_pearson(total)[0])
    left_out = _pearson(total - parts)
    number = parts.shape[1]
    if number < 2 or np.isnan(left_out).any():
        return Estimate(value)
    most = 1 - 1e-6  # Fisher's z is infinite at 1
    z = np.arctanh(np.clip(left_out, -most, most))
    error = math.sqrt(float(np.sum((z - z.mean()) ** 2)) * (1 - 1 / number))
    df = max(1.0, effective_number(parts[0]) - 1)
    half = t_quantile(df, CONFIDENCE) * error
    center = math.atanh(max(-most, min(most, value)))
    low, high = math.tanh(center - half), math.tanh(center + half)
    return Estimate(value, min(low, value), max(high, value))


def _pearson(sums: Floats) -> Floats:
    """Return the correlation behind n, Σx, Σy, Σx², Σy², Σxy; NaN where a side is constant."""
    n, x, y, xx, yy, xy = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = (xx - x * x / n) * (yy - y * y / n)
        r = np.where(spread > 1e-12, (xy - x * y / n) / np.sqrt(np.maximum(spread, 1e-300)), np.nan)
    return np.asarray(np.clip(r, -1, 1))


def within_sources(x: Floats, y: Floats, groups: Codes) -> Estimate:
    """Return the correlation of deviations from the means of the sources."""
    sizes = np.bincount(groups)
    several = sizes[groups] > 1
    x, y, groups = x[several], y[several], groups[several]
    if not len(x):
        return Estimate(None)
    return correlation(_center(x, groups), _center(y, groups), groups)


def _center(values: Floats, groups: Codes) -> Floats:
    sizes = np.maximum(np.bincount(groups), 1)
    return np.asarray(values - (np.bincount(groups, weights=values) / sizes)[groups])


class SystemOrder(NamedTuple):
    """Whether the judge orders systems as people do."""

    systems: int = 0
    """Number of systems with texts; 0 if there are fewer than two, or fewer than two sources."""
    pairs: int = 0
    """Number of pairs of systems that people's ratings distinguish."""
    right: Estimate = Estimate(None)
    """Share of these pairs, weighted by people's difference, that the judge orders as people do."""
    reversed: int = 0
    """Number of pairs that the judge is shown to order the other way round."""
    luck: float = 1.0
    """Share of random orders of the systems that agree as well."""
    detectable: float | None = None
    """Difference between two systems that people's ratings would show in four of five samples."""


def system_order(
    x: Floats, y: Floats, groups: Codes, systems: Codes, *, seed: int = 0
) -> SystemOrder:
    """Compare the order of systems by the judge's means with the order by people's.

    Args:
        x: Judge's scores, shape (n,).
        y: People's ratings, shape (n,).
        groups: Code of each row's source, shape (n,).
        systems: Code of each row's system, shape (n,); -1 for rows without one.
        seed: Seed of the resamples.
    """
    has_system = systems >= 0
    x, y = x[has_system], y[has_system]
    groups = np.unique(groups[has_system], return_inverse=True)[1]
    systems = np.unique(systems[has_system], return_inverse=True)[1]
    if not len(x) or systems.max() < 1 or groups.max() < 1:
        return SystemOrder()
    count, sources = int(systems.max()) + 1, int(groups.max()) + 1
    cells = groups * count + systems
    tables: list[Floats] = [
        np.bincount(cells, weights=values, minlength=sources * count)
        .reshape(sources, count)
        .astype(float)
        for values in (np.ones(len(x)), x, y)
    ]
    rng = np.random.default_rng(seed)
    a, b = np.triu_indices(count, 1)
    judge, people = _system_means(np.ones((1, sources)), tables)
    judged, rated = (judge[:, a] - judge[:, b])[0], (people[:, a] - people[:, b])[0]
    drawn_judge, drawn_people = _drawn_means(tables, rng)
    drawn_j = drawn_judge[:, a] - drawn_judge[:, b]
    drawn_p = drawn_people[:, a] - drawn_people[:, b]
    correction = math.sqrt(sources / (sources - 1))
    error_j, error_p = (np.nanstd(deltas, axis=0) * correction for deltas in (drawn_j, drawn_p))
    critical = t_quantile(sources - 1, CONFIDENCE)
    apart = np.abs(rated) > critical * error_p
    detectable = _DETECT * float(np.median(error_p))
    if not apart.any():
        return SystemOrder(count, detectable=detectable)
    sign, weight = np.sign(rated[apart]), np.abs(rated[apart])
    weight = weight / weight.sum()
    value = float(_right(judged[apart] * sign) @ weight)
    shares = _right(drawn_j[:, apart] * sign) @ weight
    low, high = np.nanpercentile(shares, (50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)))
    shuffled = np.stack([rng.permutation(judge[0]) for _ in range(_DRAWS)])
    by_luck = _right((shuffled[:, a] - shuffled[:, b])[:, apart] * sign) @ weight
    luck = (1 + int(np.count_nonzero(by_luck >= value - 1e-9))) / (1 + _DRAWS)
    if count <= 5:
        luck = _exact_luck(judge[0], a[apart], b[apart], sign, weight, value)
    reversed_ = int(np.count_nonzero(-judged[apart] * sign > critical * error_j[apart]))
    right = Estimate(value, min(float(low), value), max(float(high), value))
    return SystemOrder(count, int(apart.sum()), right, reversed_, luck, detectable)


def _exact_luck(
    means: Floats, a: Codes, b: Codes, sign: Floats, weight: Floats, value: float
) -> float:
    """Return the share of all orders of few systems that agree as well."""
    from itertools import permutations

    orders = means[np.array(list(permutations(range(len(means)))))]
    by_luck = _right((orders[:, a] - orders[:, b]) * sign) @ weight
    return float(np.mean(by_luck >= value - 1e-9))


def _right(agreeing: Floats) -> Floats:
    """Return 1 if a difference has people's sign, 1/2 if it is 0, else 0."""
    return np.asarray((np.sign(agreeing) + 1) / 2)


def _drawn_means(tables: list[Floats], rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the systems' means in resamples of the sources, shape (draws, systems) each."""
    sources = len(tables[0])
    step = max(1, 4_000_000 // sources)  # 32 MB of weights at a time
    parts = []
    for start in range(0, _DRAWS, step):
        size = min(step, _DRAWS - start)
        weights = rng.multinomial(sources, np.full(sources, 1 / sources), size=size)
        parts.append(_system_means(weights.astype(float), tables))
    judge, people = zip(*parts, strict=True)
    return np.concatenate(judge), np.concatenate(people)


def _system_means(weights: Floats, tables: list[Floats]) -> tuple[Floats, Floats]:
    numbers, judged, rated = (weights @ table for table in tables)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(judged / numbers), np.asarray(rated / numbers)


def with_the_others(values: Floats, raters: Floats, groups: Codes) -> tuple[Estimate, float]:
    """Return the correlations of the judge, and of a rater, with the mean of the other raters.

    Both are means over the left-out raters, including the ends of intervals.
    """
    is_rated = ~np.isnan(raters)
    judge, rater = [], []
    for at in range(raters.shape[1]):
        others = is_rated.copy()
        others[:, at] = False
        rows = is_rated[:, at] & others.any(axis=1)
        if np.count_nonzero(rows) < MIN_ITEMS:
            continue
        total = np.where(others, raters, 0.0).sum(axis=1)[rows]
        mean = total / others.sum(axis=1)[rows]
        judge.append(correlation(values[rows], mean, groups[rows]))
        rater.append(pearson(raters[rows, at], mean) or 0.0)
    figures = [(estimate.value, estimate.low, estimate.high) for estimate in judge]
    if any(None in figure for figure in figures):
        return Estimate(None), float(np.mean(rater))
    return Estimate(*np.mean(np.array(figures, float), axis=0).tolist()), float(np.mean(rater))


def halves(groups: Codes, seed: int) -> Mask:
    """Return whether each row belongs to a random half of the sources."""
    number = int(groups.max()) + 1
    in_half = np.zeros(number, bool)
    in_half[np.random.default_rng(seed).permutation(number)[: number // 2]] = True
    return np.asarray(in_half[groups])


def on_a_line(x: Floats, y: Floats, groups: Codes, seed: int) -> Floats:
    """Return people's ratings as predicted by a line learned on the other half."""
    half = halves(groups, seed)
    values = np.full(len(x), np.nan)
    for part in (half, ~half):
        a, b = x[~part], y[~part]
        spread = float(np.var(a)) if len(a) else 0.0
        slope = float(np.cov(a, b, bias=True)[0, 1]) / spread if spread else 0.0
        values[part] = b.mean() + slope * (x[part] - a.mean())
    return values


def best_cut(x: Floats, passes: Floats) -> float | None:
    """Return the cut with the best agreement, with equal weight for both labels."""
    if not len(x) or passes.min() == passes.max():
        return None
    values, codes = np.unique(x, return_inverse=True)
    good = np.bincount(codes, weights=passes) / passes.sum()
    bad = np.bincount(codes, weights=1 - passes) / (1 - passes).sum()
    # for the cut at each value: passes at or above it, failures below it
    quality = good[::-1].cumsum()[::-1] + np.concatenate([[0.0], bad.cumsum()[:-1]])
    return float(values[int(quality.argmax())])
