"""Means over sources or texts: intervals, corrected estimates, differences and tests.

Works on arrays. All intervals are t-intervals over sources that allow for skewed contributions of
sources.

The corrected mean combines many scores of the judge with a few ratings (PPI++ over sources): the
mean of the judge's scores over all rows is corrected by the judge's mean error on the rated rows.
Sources may be rated in part. Three kinds of weights take part:

- The *text weight* is the weight of a row in the mean, rated or not. Over texts it is 1; over
  sources, each of which has the weight 1, it is the row's part of that.
- The *sampling weight* of a rated row is its text weight divided by its inclusion probability (the
  probability of being drawn for rating), so that it represents the rows that were not drawn.
- The *mixing weight* lambda, from 0 to 1, sets how much the judge contributes. At 0 the estimate is
  the mean of the ratings alone, so a poor judge does little harm.

`rated_range` shows where there are enough ratings to know how a judge errs. A mean is refused if
its scores lie outside the range of the rated scores, or concentrate at an end of it with only a
handful of ratings. In both cases the mean would only repeat the mean of the rated texts.

References:
    Hall, "On the removal of skewness by transformation" (1992); Efron and Tibshirani, "An
    Introduction to the Bootstrap" (1993), chapter 11, for the jackknife; Angelopoulos, Duchi and
    Zrnic, "PPI++: Efficient prediction-powered inference" (2023); Rogan and Gladen, "Estimating
    prevalence from the results of a screening test" (1978); Lang and Reiczigel (2014), for both
    samples in the variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import numpy as np
from scipy.special import stdtr

from textassay.agreement.correlation import pearson
from textassay.agreement.intervals import effective_number, t_quantile
from textassay.agreement.significance import two_sided
from textassay.arrays import Codes, Floats, Mask
from textassay.runtime.errors import UnknownName
from textassay.table import Estimate, column

MeanUnit = Literal["sources", "texts"]
"""Unit with equal weight in a mean: each source, however many texts it has, or each text."""
MEANS_OVER: dict[MeanUnit, str] = {
    "sources": "means: over sources, each with the same weight however many texts it has",
    "texts": "means: over texts, each with the same weight",
}


@dataclass(frozen=True, slots=True)
class Linearized:
    """An estimate as a sum over sources, from which variances of it and of differences follow."""

    value: float
    influence: Floats
    """Each source's contribution to the error, shape (sources,); 0 for sources without rows."""
    clusters: int
    """Number of independent sources behind it: only sources with ratings, if it uses ratings."""
    unseen: float = 0.0
    """Additional variance that the sources do not show, such as errors too rare to be among the
    rated rows.
    """
    shares: Floats | None = None
    """Share of each source in the estimate, shape (sources,), 0 for sources that are not among the
    clusters; `None` if all clusters have the same."""

    @property
    def variance(self) -> float:
        """Squared standard error by the jackknife over sources; NaN below two sources."""
        if self.clusters < 2:
            return math.nan
        return float(self._changes @ self._changes) * (1 - 1 / self.clusters) + self.unseen

    @property
    def df(self) -> float:
        """Degrees of freedom: Kish's effective number of sources less one, at least 1."""
        number = float(self.clusters)
        if self.shares is not None:
            number = min(number, effective_number(self.shares))
        return max(1.0, number - 1)

    @property
    def _changes(self) -> Floats:
        """Change of the estimate without each source, shape (sources,)."""
        # without a source of share h the estimate would differ by its influence / (1 - h): a source
        # with a large weight pulls the estimate towards itself, so its own deviation looks too
        # small
        equal = 1 / self.clusters
        left_out = equal if self.shares is None else np.where(self.shares, self.shares, equal)
        return np.asarray(self.influence / (1 - left_out))

    def estimate(self, confidence: float, *, one_tailed: bool = False) -> Estimate:
        """Return the value with its interval; no interval below two sources."""
        if self.clusters < 2:
            return Estimate(self.value)
        # Student's t rather than a normal quantile: there are often fewer than thirty rated
        # sources, and with 1.96 intervals would cover far less than promised
        t, error = t_quantile(self.df, confidence), math.sqrt(self.variance)
        a, edge = self._skewness(is_real=one_tailed), t_quantile(self.df, 0.95)
        below, above = _inverse_transform(t, a, edge), -_inverse_transform(-t, a, edge)
        if not one_tailed:
            below, above = max(t, below), max(t, above)
        return Estimate(self.value, self.value - below * error, self.value + above * error)

    def _skewness(self, *, is_real: bool) -> float:
        """Return the third moment of the jackknife in standard errors, within limits.

        The limits are wider if the skewness is known to be real than if it may be chance. Beyond
        them Hall's function is flat where a test decides: even six nearly equal differences would
        not be significant, and an interval would be nine standard errors long.
        """
        most = 0.4 if is_real else 0.35
        if self.variance == 0:
            return 0.0
        skewness = float(((self._changes / math.sqrt(self.variance)) ** 3).sum())
        return max(-most, min(most, skewness))

    def minus(self, other: Linearized) -> Linearized:
        """Return the difference; equal errors of shared sources cancel out."""
        shares = [side.shares for side in (self, other) if side.shares is not None]
        return Linearized(
            self.value - other.value,
            self.influence - other.influence,
            min(self.clusters, other.clusters),
            self.unseen + other.unseen,
            np.maximum.reduce(shares) if shares else None,
        )

    def p_value(self) -> float | None:
        """Return the two-sided p-value of the value being 0; `None` if undefined.

        It is below .05 exactly if the 95 % interval excludes 0, and so at other levels. If
        all sources agree to the last digit, the variation of others is unknown.
        """
        if self.clusters < 2:
            return None
        if self.variance == 0:
            return 1.0 if self.value == 0 else None
        t, edge = self.value / math.sqrt(self.variance), t_quantile(self.df, 0.95)
        hall = _transform(t, self._skewness(is_real=False), edge)
        least = min(abs(t), math.copysign(1.0, t) * hall)
        return min(1.0, 2 * float(stdtr(self.df, -least)))


def _transform(t: float, skewness: float, edge: float) -> float:
    """Return Hall's function of a t-ratio, whose distribution is less skewed."""
    # applied up to the end of a 95 % interval; beyond, the function is flat without a reason, and
    # would turn a difference of thirty standard errors into one of three
    inside = min(
        max(t, _inverse_transform(-edge, skewness, edge)), _inverse_transform(edge, skewness, edge)
    )
    return (
        inside + skewness * inside**2 / 3 + skewness**2 * inside**3 / 27 + skewness / 6 + t - inside
    )


def _inverse_transform(t: float, skewness: float, edge: float) -> float:
    # the limit for skewness 0, where the quotient loses precision
    if abs(skewness) < 1e-6:
        return t
    inside = min(max(t, -edge), edge)
    return 3 * (float(np.cbrt(1 + skewness * (inside - skewness / 6))) - 1) / skewness + t - inside


def mean_unit(name: str) -> MeanUnit:
    """Return the unit that the option `weight` names; raise `UnknownName` for any other name."""
    for unit in MEANS_OVER:
        if name == unit:
            return unit
    raise UnknownName("weight", name, list(MEANS_OVER))


def text_weights(groups: Codes, weight: MeanUnit) -> Floats:
    """Return the text weight of each row: 1, or its part of its source's 1, shape (n,)."""
    if mean_unit(weight) == "texts":
        return np.ones(len(groups))
    return np.asarray(1.0 / np.bincount(groups)[groups])


def mean_over(weight: MeanUnit, values: Floats, groups: Codes, count: int = 0) -> Linearized:
    """Return the mean over sources or over texts; arguments as for `mean_over_groups`."""
    if mean_unit(weight) == "texts":
        return weighted_mean(values, groups, count=count)
    return mean_over_groups(values, groups, count)


def mean_over_groups(values: Floats, groups: Codes, count: int = 0) -> Linearized:
    """Return the mean over sources of each source's mean.

    `count` is their number in the table, if the largest codes are not among these rows.
    """
    by_group = group_means(values, groups, count)
    present = ~np.isnan(by_group)
    means = by_group[present]
    # fsum rounds once, so the order of the sources cannot change the last digits of a mean, and
    # equal runs have equal means
    center = math.fsum(means) / len(means)
    influence = np.zeros(len(by_group))
    influence[present] = (means - center) / len(means)
    return Linearized(center, influence, len(means))


def group_means(values: Floats, groups: Codes, count: int) -> Floats:
    """Return each source's mean, shape (sources,); NaN if it has no row."""
    sizes = np.bincount(groups, minlength=count)
    sums = np.bincount(groups, weights=values, minlength=count)
    return np.asarray(np.divide(sums, sizes, out=np.full(len(sizes), np.nan), where=sizes > 0))


def weighted_mean(
    values: Floats, groups: Codes, weights: Floats | None = None, count: int = 0
) -> Linearized:
    """Return the weighted mean of rows as a ratio of two sums over sources."""
    weights = np.ones(len(values)) if weights is None else weights
    shares = np.bincount(groups, weights=weights, minlength=count)
    total = float(shares.sum())
    center = float(weights @ values) / total
    influence = np.bincount(groups, weights=weights * (values - center), minlength=count) / total
    return Linearized(center, influence, int((shares > 0).sum()), shares=shares / total)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return Holm's adjusted p-values in the order given; `None` stays and does not count.

    References:
        Holm, "A simple sequentially rejective multiple test procedure" (1979).
    """
    defined = [at for at, p in enumerate(p_values) if p is not None]
    defined.sort(key=lambda at: p_values[at] or 0.0)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, at in enumerate(defined):
        # the running maximum keeps the order of the p-values, which the decreasing factor could
        # reverse
        highest = max(highest, min(1.0, (len(defined) - rank) * (p_values[at] or 0.0)))
        adjusted[at] = highest
    return adjusted


@dataclass(frozen=True, slots=True)
class SystemDifference:
    """The difference of two systems' means, paired by source: of corrected ones, or of scores."""

    aspect: str = field(metadata=column("score", name="score"))
    """Name of the score."""
    a: str = field(metadata=column("a"))
    """The first system."""
    b: str = field(metadata=column("b"))
    """The second system."""
    difference: Estimate = field(metadata=column("a - b", "interval"))
    """`a - b` with its interval."""
    p: float | None = field(metadata=column("p", "p"))
    """Two-sided p-value; `None` if undefined."""
    p_holm: float | None = field(default=None, metadata=column("p (Holm)", "p"))
    """The same, adjusted over all pairs of the aspect."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "aspect": self.aspect, "a": self.a, "b": self.b, **self.difference.as_dict(),
            "p": self.p, "p_holm": self.p_holm,
        }  # fmt: skip


Differences = TypeVar("Differences", bound=SystemDifference)


def adjust_p(differences: Sequence[Differences]) -> list[Differences]:
    """Return differences with Holm's p-values over all of them: all pairs of an aspect."""
    adjusted = holm([difference.p for difference in differences])
    return [replace(delta, p_holm=p) for delta, p in zip(differences, adjusted, strict=True)]


def paired_ranks(
    values: Sequence[float], tests: Sequence[tuple[int, int, float | None]]
) -> list[tuple[int, int]] | None:
    """Return the best and worst rank that the tests of pairs leave open to each item; 1 is highest.

    `None` if no pair could be tested.
    """
    # without any test every rank would be open, which would look like a result
    if all(p is None for *_, p in tests):
        return None
    above, below = [0] * len(values), [0] * len(values)
    for a, b, p in tests:
        if p is not None and p < 0.05:
            lower, higher = (a, b) if values[a] < values[b] else (b, a)
            above[lower] += 1
            below[higher] += 1
    return [(1 + up, len(values) - down) for up, down in zip(above, below, strict=True)]


def rank_range(rank: tuple[int, int] | None) -> str | None:
    """Return best and worst rank as text: `2` rather than `2-2` if the tests settle it."""
    return None if rank is None else "-".join(map(str, dict.fromkeys(rank)))


FEW = 8
"""Fewest ratings from which something is learned about a part of the range."""


@dataclass(frozen=True, slots=True)
class Corrected:
    """The estimates of one mean, side by side."""

    judge_only: Linearized
    """Mean of the judge's scores."""
    labels_only: Linearized
    """Mean of the ratings."""
    corrected: Linearized
    """The mean of the judge's scores, corrected by the ratings."""
    lambda_: float
    """PPI++'s mixing weight: 0 leaves the judge out, 1 takes it at face value."""
    worth: float | None
    """How many ratings one rating is worth with the judge's help: the variance of the ratings alone
    divided by the variance of the corrected estimate; `None` if undefined.
    """


def correct_mean(
    scores: Floats,
    ratings: Floats,
    groups: Codes,
    *,
    probabilities: Floats | None = None,
    count: int = 0,
    weight: MeanUnit = "sources",
) -> Corrected:
    """Return the mean rating over all sources, or over all rows.

    Args:
        scores: Judge's scores on the raters' scale, shape (n,), no NaN. A map that was learned from
            the same ratings must be cross-fitted.
        ratings: Shape (n,), NaN if unrated; at least one is rated.
        groups: Code of each row's source, shape (n,).
        probabilities: Inclusion probability of each row, with which it was drawn for rating, shape
            (n,); `None` if all rows had the same.
        count: Number of sources in the table, if the largest codes are not among these rows.
        weight: Whether sources or texts have equal weights in the mean.
    """
    count = max(count, int(groups.max()) + 1)
    rated = ~np.isnan(ratings)
    text_weight = text_weights(groups, weight)
    # an unlikely row represents more rows of its source
    sampling_weight = (text_weight if probabilities is None else text_weight / probabilities)[rated]
    judge = weighted_mean(scores, groups, text_weight, count)
    rating_mean = weighted_mean(ratings[rated], groups[rated], sampling_weight, count)
    # the contribution of unrated rows to the judge's mean; 0 if all rows are rated
    on_rated = weighted_mean(scores[rated], groups[rated], sampling_weight, count)
    gap = judge.minus(on_rated)
    unrated = 1.0 - float(text_weight[rated].sum() / text_weight.sum())
    # whole sources rated with equal probability are the paper's independent points
    equal = probabilities is None and (weight == "sources" or of_one_size(groups))
    points = _whole_groups(scores, ratings, groups) if equal else None
    lambda_ = _tune_lambda(points, rating_mean, gap, unrated)
    # PPI++ compares rated with unrated rows, but `gap` compares rated with all rows, which is
    # smaller by the unrated share
    factor = lambda_ / unrated if unrated > 0 else 0.0
    corrected = Linearized(
        rating_mean.value + factor * gap.value,
        rating_mean.influence + factor * gap.influence,
        rating_mean.clusters,
        shares=rating_mean.shares,
    )
    worth = ratio_of_variances(rating_mean, corrected)
    return Corrected(judge, rating_mean, corrected, lambda_, worth)


def ratio_of_variances(rating_mean: Linearized, corrected: Linearized) -> float | None:
    """Return how many ratings one rating is worth with the judge's help; `None` if undefined."""
    return rating_mean.variance / corrected.variance if corrected.variance > 0 else None


def power_tuned(ratings: Floats, on_rated: Floats, on_unrated: Floats) -> float:
    """Return PPI++'s lambda for independent points, clipped to 0 to 1 (equation 6 there)."""
    n, m = len(on_rated), len(on_unrated)
    # the variance of the judge's scores is over rated and unrated points together, as in equation
    # 6: there are too few rated points for a stable denominator
    variance = float(np.var(np.concatenate([on_rated, on_unrated]), ddof=1))
    if variance == 0:
        return 0.0
    covariance = float((ratings - ratings.mean()) @ (on_rated - on_rated.mean())) / n
    return float(np.clip(covariance / ((1 + n / m) * variance), 0.0, 1.0))


def _tune_lambda(
    points: tuple[Floats, Floats, Floats] | None,
    rating_mean: Linearized,
    gap: Linearized,
    unrated: float,
) -> float:
    """Return the lambda of the least variance, as PPI++ computes it.

    `unrated` is the share of the weight that is unrated.
    """
    if unrated <= 0:
        return 0.0
    # independent points have the paper's closed form; otherwise lambda minimizes the linearized
    # variance over sources directly
    if points is not None:
        return power_tuned(*points)
    square = float(gap.influence @ gap.influence)
    best = -float(rating_mean.influence @ gap.influence) / square if square > 0 else 0.0
    return float(np.clip(best * unrated, 0.0, 1.0))


def of_one_size(groups: Codes) -> bool:
    """Return whether all sources have the same number of rows."""
    sizes = np.bincount(groups)
    return len(np.unique(sizes[sizes > 0])) == 1


def _whole_groups(
    scores: Floats, ratings: Floats, groups: Codes
) -> tuple[Floats, Floats, Floats] | None:
    """Return the means of rated and unrated sources; `None` if any is partly, or all are, rated."""
    rated = ~np.isnan(ratings)
    sizes = np.bincount(groups)
    rated_sums = np.bincount(groups, weights=rated)
    whole, none = (rated_sums == sizes) & (sizes > 0), (rated_sums == 0) & (sizes > 0)
    if not (whole | none | (sizes == 0)).all() or not none.any():
        return None
    sums = np.bincount(groups, weights=np.where(rated, ratings, 0.0))
    judged = np.bincount(groups, weights=scores)
    return sums[whole] / sizes[whole], judged[whole] / sizes[whole], judged[none] / sizes[none]


@dataclass(frozen=True, slots=True)
class Prevalence:
    """The share of yes, corrected for a yes/no judge's mistakes."""

    share: Linearized
    """Rogan and Gladen's estimate; not clipped."""
    sensitivity: float
    """Share of people's yes that the judge calls yes."""
    specificity: float
    """Share of people's no that the judge calls no."""
    youden: Estimate
    """Sensitivity + specificity - 1 with its interval."""
    usable: bool
    """Whether the interval of `youden` stays clear of 0; else `share` is meaningless."""


def rogan_gladen(
    scores: Floats,
    ratings: Floats,
    groups: Codes,
    *,
    confidence: float = 0.95,
    count: int = 0,
    weight: MeanUnit = "sources",
) -> Prevalence | None:
    """Return the share of yes, as a mean over sources or rows, from a judge that says yes or no.

    Both samples are in the variance: all rows, which give the judge's share of yes, and the rated
    ones, which give its sensitivity and specificity.

    Args:
        scores: 0 or 1, shape (n,).
        ratings: 0 or 1, NaN if unrated, shape (n,).
        groups: Code of each row's source, shape (n,).
        confidence: Confidence of `youden`.
        count: Number of sources in the table, if the largest codes are not among these rows.
        weight: Whether sources or texts have equal weights in the mean.

    Returns:
        `None` if people gave only one of the answers, or the judge separates them no better than
        by chance to the last digit.
    """
    rated = ~np.isnan(ratings)
    count = max(count, int(groups.max()) + 1)
    yes, no = rated & (ratings == 1), rated & (ratings == 0)
    if not (yes.any() and no.any()):
        return None
    text_weight = text_weights(groups, weight)
    positive = weighted_mean(scores, groups, text_weight, count)
    sensitivity = _rate(scores[yes], groups[yes], text_weight[yes], count)
    specificity = _rate(1 - scores[no], groups[no], text_weight[no], count)
    # a source may have few yes or no among its ratings; its influence on the result is their sum
    by_source = weighted_mean(ratings[rated], groups[rated], text_weight[rated], count)
    clusters, shares = by_source.clusters, by_source.shares
    youden = Linearized(
        sensitivity.value + specificity.value - 1,
        sensitivity.influence + specificity.influence,
        clusters,
        shares=shares,
    )
    # the estimate divides by it: a judge that cannot separate yes from no shows no prevalence
    if youden.value == 0:
        return None
    share = (positive.value + specificity.value - 1) / youden.value
    # delta method: the derivative of (positive + specificity - 1) / youden by each of the three
    influence = (
        positive.influence - share * sensitivity.influence + (1 - share) * specificity.influence
    ) / youden.value
    unseen = (share / youden.value) ** 2 * _unseen_error(sensitivity)
    unseen += ((1 - share) / youden.value) ** 2 * _unseen_error(specificity)
    spread = youden.estimate(confidence)
    return Prevalence(
        share=Linearized(share, influence, clusters, unseen, shares),
        sensitivity=sensitivity.value,
        specificity=specificity.value,
        youden=spread,
        # if the interval of the denominator nearly contains 0, the ratio has no finite moments
        usable=spread.is_above(0.1),
    )


def _rate(values: Floats, groups: Codes, weights: Floats, count: int) -> Linearized:
    return replace(weighted_mean(values, groups, weights, count), shares=None)


def unseen_errors(wrong: Floats, groups: Codes, weights: Floats) -> float:
    """Return the variance that the judge's observed errors do not show.

    Args:
        wrong: Whether the judge is wrong about each rated row, 0 or 1, shape (n,).
        groups: Code of each row's source, shape (n,).
        weights: Text weight of each row, shape (n,).
    """
    return _unseen_error(_rate(wrong, groups, weights, 0))


def _unseen_error(rate: Linearized) -> float:
    """Return the additional variance of the error rate of a judge that hardly errs.

    Among few ratings such a judge may make no error at all, and its rate would then look certain.
    Its variance is at least the variance of Jeffreys' posterior for the number of independent
    observations that would vary like the sources; a source is one observation if no error was seen.
    """
    seen = rate.variance
    binomial = rate.value * (1 - rate.value)
    n = binomial / seen if binomial > 0 and seen > 0 else float(rate.clusters)
    successes = rate.value * n + 0.5
    least = successes * (n + 1 - successes) / ((n + 1) ** 2 * (n + 2))
    return least if math.isnan(seen) else max(0.0, least - seen)


def number_against_rating(raters: Floats, groups: Codes) -> tuple[float, float] | None:
    """Correlate how many raters rated a text with its mean rating, over means of sources.

    Args:
        raters: Single ratings, shape (n, raters), NaN in the gaps.
        groups: Code of each row's source, shape (n,).

    Returns:
        Pearson's r and its two-sided p-value; `None` if all texts have as many ratings, if all mean
        ratings are equal, or with fewer than four sources.
    """
    counts = (~np.isnan(raters)).sum(axis=1)
    rated = counts > 0
    counts, codes = counts[rated], np.unique(groups[rated], return_inverse=True)[1]
    sizes = np.bincount(codes)
    if len(sizes) < 4:  # with three sources, no p-value is small
        return None
    means = np.nanmean(raters[rated], axis=1)
    return _test_correlation(*(np.bincount(codes, weights=one) / sizes for one in (counts, means)))


def _test_correlation(x: Floats, y: Floats) -> tuple[float, float] | None:
    r, df = pearson(x, y), len(x) - 2
    if r is None or abs(r) == 1 or df < 1:
        return None
    return r, two_sided(r * math.sqrt(df / (1 - r * r)), df)


def measure_trend(values: Floats, groups: Codes) -> tuple[float, float] | None:
    """Correlate the order of sources, by their first rows, with their mean values.

    Args:
        values: Shape (n,), no NaN.
        groups: Code of each row's source, shape (n,).

    Returns:
        Pearson's r and its two-sided p-value; `None` if all means are equal, or with fewer than
        three sources.
    """
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    means = np.bincount(codes, weights=values) / np.bincount(codes)
    return _test_correlation(np.argsort(np.argsort(first)).astype(float), means)


@dataclass(frozen=True, slots=True)
class RatedSelection:
    """How a judge scores the rated texts, and the others."""

    rated: float
    """Mean score of the rated texts, or of their sources."""
    others: float
    """Mean score of the others."""
    p: float
    """Two-sided p-value of a difference at least as large in random draws."""


def compare_rated_with_others(scores: Floats, rated: Mask, groups: Codes) -> RatedSelection | None:
    """Compare the scores of rated and other texts: means of sources if whole sources are rated.

    Args:
        scores: Judge's scores, shape (n,), no NaN.
        rated: Whether each row is rated, shape (n,).
        groups: Code of each row's source, shape (n,).

    Returns:
        `None` if fewer than two sources are on either side, or all scores are equal.
    """
    codes = np.unique(groups, return_inverse=True)[1]
    shares = np.bincount(codes, weights=rated) / np.bincount(codes)
    if is_of_sources := bool(np.isin(shares, (0, 1)).all()):
        # rows of large sources are not more likely to be rated, so each source has the same weight
        scores = np.bincount(codes, weights=scores) / np.bincount(codes)
        rated, codes = shares == 1, np.arange(len(shares))
    sides = [weighted_mean(scores[s], codes[s], count=len(shares)) for s in (rated, ~rated)
             if s.any()]  # fmt: skip
    if len(sides) < 2 or min(side.clusters for side in sides) < 2:
        return None
    difference = sides[0].minus(sides[1])
    # no correction for skewness: a warning does not need it
    variance, df = difference.variance, difference.df
    if is_of_sources:
        # in a random draw both sides vary alike; a few rated sources may be equal by chance
        within, df = scores - np.where(rated, sides[0].value, sides[1].value), len(scores) - 2
        variance = float(within @ within) / df * sum(1 / side.clusters for side in sides)
    if variance == 0:
        return None
    t = difference.value / math.sqrt(variance)
    return RatedSelection(sides[0].value, sides[1].value, 2 * float(stdtr(df, -abs(t))))


@dataclass(frozen=True, slots=True)
class RatedRange:
    """The range of the rated scores."""

    low: float
    high: float
    ends: tuple[float, float]
    """Scores at or beyond which there are at least 8 ratings."""
    by_chance: float
    """Share of all rows beyond `ends`, estimated from the rated rows."""
    ratings: int
    """Number of ratings."""

    def outside(self, scores: Floats) -> float:
        """Return the share of scores outside the range."""
        return _beyond(scores, (self.low, self.high))

    def sparse(self, scores: Floats) -> float:
        """Return the share of scores with fewer than 8 ratings at or beyond them."""
        return _beyond(scores, self.ends)

    def refusal(self, outside: float) -> str | None:
        """Return why a mean is refused with this share outside; `None` if it is not."""
        # the share of exchangeable rows that falls outside the rated range by chance
        by_chance = 2 / (self.ratings + 1)
        return _refusal(outside, by_chance, (self.low, self.high), "there are ratings")

    def refusal_of_few(self, sparse: float) -> str | None:
        """Return why a mean that relies on the ratings of other systems is refused."""
        # a single rating extends the range, but says almost nothing about a system whose scores
        # concentrate there
        return _refusal(sparse, self.by_chance, self.ends, f"fewer than {FEW} texts are rated")


def _refusal(share: float, by_chance: float, ends: tuple[float, float], place: str) -> str | None:
    # at three times chance, so that small samples are not refused for being small
    limit = max(0.05, 3 * by_chance)
    if share <= limit:
        return None
    return (
        f"{share:.0%} of its scores lie outside {ends[0]:g} to {ends[1]:g}, where {place} (at most"
        f" {limit:.0%}): how the judge errs there is unknown; rate some"
    )


def rated_range(scores: Floats, probabilities: Floats | None = None) -> RatedRange:
    """Return the range of rated scores, given the probabilities of being drawn for rating."""
    ordered = np.sort(scores)
    # with fewer than 16 ratings the two ends would cross, and the range would be empty
    at = min(FEW, (len(ordered) + 1) // 2) - 1
    low, first, last, high = (float(ordered[i]) for i in (0, at, -1 - at, -1))
    weights = None if probabilities is None else 1 / probabilities
    by_chance = _beyond(scores, (first, last), weights)
    return RatedRange(low, high, (first, last), by_chance, len(ordered))


def _beyond(scores: Floats, ends: tuple[float, float], weights: Floats | None = None) -> float:
    return float(np.average((scores < ends[0]) | (scores > ends[1]), weights=weights))
