"""What people would say on average, from many judge's scores and a few ratings: PPI++ over sources.

Knows arrays. The mean of the judge's scores over all rows is moved by the judge's mean error on the
rated rows; a tuned weight between 0 and 1 sets how much the judge contributes. At weight 0 the
estimate is that of the ratings alone, so a poor judge does little harm.

The mean is over sources, each with the same weight, shared among its rows; or over texts, each row
with the same weight. A rated row stands for 1 / (its probability of being drawn) rows. Sources may
be rated in part. Either way variances are over sources.

`rated_range` shows where there are enough ratings to say how a judge errs. Two things are refused:
scores outside the range of the rated ones, and scores that pile up at an end of it where there are
only a handful of ratings. In both cases a mean would be that of the rated texts under another name.

References:
    Angelopoulos, Duchi and Zrnic, "PPI++: Efficient prediction-powered inference" (2023);
    Rogan and Gladen, "Estimating prevalence from the results of a screening test" (1978);
    Lang and Reiczigel (2014), for both samples in the variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from textassay.calibration.intervals import (
    Estimate,
    Linearized,
    Weight,
    row_weights,
    weighted_mean,
)
from textassay.meta.correlation import Codes, Floats

_MIN_YOUDEN = 0.1
"""Lower end of sensitivity + specificity - 1 below which dividing by it means nothing."""
MAX_SHARE_OUT_OF_RANGE = 0.05
"""Share of a system's scores outside the rated range above which it is refused."""
FEW = 8
"""Ratings below which nothing is learned from a part of the range."""
_CHANCE_OUTSIDE = 6
_TIMES_CHANCE = 3


@dataclass(frozen=True, slots=True)
class Corrected:
    """The estimates of one mean, side by side.

    Attributes:
        judge_only: Mean of the judge's scores.
        labels_only: Mean of the ratings.
        corrected: Both together.
        weight: PPI++'s lambda: 0 leaves the judge out, 1 takes its differences at face value.
        worth: How many ratings one rating is worth with the judge's help: variance of the ratings
            alone over that of the corrected estimate; `None` if undefined.
    """

    judge_only: Linearized
    labels_only: Linearized
    corrected: Linearized
    weight: float
    worth: float | None


def correct_mean(
    scores: Floats,
    ratings: Floats,
    groups: Codes,
    *,
    probabilities: Floats | None = None,
    count: int | None = None,
    weight: Weight = "sources",
) -> Corrected:
    """Return the mean rating over all sources, or over all rows.

    Args:
        scores: Judge's scores on the raters' scale, shape (n,), no NaN. A map that was learned from
            the same ratings must be cross-fitted.
        ratings: Shape (n,), NaN if unrated; at least one is rated.
        groups: Code of each row's source, shape (n,).
        probabilities: Probability with which each row was drawn for rating, shape (n,); `None` if
            all rows had the same.
        count: Number of sources in the table; the largest code plus one if left out.
        weight: Whether each source counts the same, or each row.
    """
    count = int(groups.max()) + 1 if count is None else count
    rated = ~np.isnan(ratings)
    share = row_weights(groups, weight)
    # inverse-probability weights within a source: an unlikely row speaks for more rows like it
    drawn = share if probabilities is None else share / probabilities
    y, at, of_rated = ratings[rated], groups[rated], drawn[rated]
    judge = weighted_mean(scores, groups, share, count)
    labels = weighted_mean(y, at, of_rated, count)
    # what unrated rows add to the judge's mean: 0 if every row is rated, and then nothing is left
    # to correct
    on_rated = weighted_mean(scores[rated], at, of_rated, count)
    gap = judge.minus(on_rated)
    left = 1.0 - float(share[rated].sum() / share.sum())
    # whole sources rated with equal probability are the paper's independent points
    equal = probabilities is None and (weight == "sources" or of_one_size(groups))
    points = _whole_groups(scores, ratings, groups) if equal else None
    weight_of_judge = _tuned(points, labels, gap, left)
    # PPI++ compares rated with unrated rows, but `gap` compares rated with all rows, which is
    # smaller by the unrated share
    full = weight_of_judge / left if left > 0 else 0.0
    corrected = Linearized(
        labels.value + full * gap.value,
        labels.influence + full * gap.influence,
        labels.clusters,
        shares=labels.shares,
    )
    worth = labels.variance / corrected.variance if corrected.variance > 0 else None
    return Corrected(judge, labels, corrected, weight_of_judge, worth)


def power_tuned(ratings: Floats, on_rated: Floats, on_unrated: Floats) -> float:
    """Return PPI++'s weight for independent points, clipped to 0 to 1 (its equation 6).

    Args:
        ratings: Rating of each rated point, shape (n,).
        on_rated: Judge's score of each rated point, shape (n,).
        on_unrated: Judge's score of each other point, shape (m,), m at least 1.
    """
    n, m = len(on_rated), len(on_unrated)
    # the variance is that of the judge's scores over rated and unrated points together, as in
    # equation 6: the rated ones alone are too few for a stable denominator
    variance = float(np.var(np.concatenate([on_rated, on_unrated]), ddof=1))
    if variance == 0:
        return 0.0
    covariance = float((ratings - ratings.mean()) @ (on_rated - on_rated.mean())) / n
    return float(np.clip(covariance / ((1 + n / m) * variance), 0.0, 1.0))


def _tuned(
    points: tuple[Floats, Floats, Floats] | None, labels: Linearized, gap: Linearized, left: float
) -> float:
    """Return the weight of the least variance, as PPI++ counts it."""
    if left <= 0:
        return 0.0
    # independent points have the paper's closed form; otherwise the weight minimizes the linearized
    # variance over sources directly
    if points is not None:
        return power_tuned(*points)
    square = float(gap.influence @ gap.influence)
    best = -float(labels.influence @ gap.influence) / square if square > 0 else 0.0
    return float(np.clip(best * left, 0.0, 1.0))


def of_one_size(groups: Codes) -> bool:
    """Return whether all sources have as many rows."""
    sizes = np.bincount(groups)
    return len(np.unique(sizes[sizes > 0])) == 1


def _whole_groups(
    scores: Floats, ratings: Floats, groups: Codes
) -> tuple[Floats, Floats, Floats] | None:
    """Return the means of rated and unrated sources.

    `None` if a source is rated in part, or all are.
    """
    rated = ~np.isnan(ratings)
    sizes = np.bincount(groups)
    rated_sums = np.bincount(groups, weights=rated)
    whole, none = (rated_sums == sizes) & (sizes > 0), (rated_sums == 0) & (sizes > 0)
    if (whole | none | (sizes == 0)).all() and none.any():
        sums = np.bincount(groups, weights=np.where(rated, ratings, 0.0))
        judged = np.bincount(groups, weights=scores)
        return (
            sums[whole] / sizes[whole],
            judged[whole] / sizes[whole],
            judged[none] / sizes[none],
        )
    return None


@dataclass(frozen=True, slots=True)
class Prevalence:
    """The share of yes, corrected for a yes/no judge's mistakes.

    Attributes:
        share: Rogan and Gladen's estimate; not clipped.
        sensitivity: Share of people's yes that the judge calls yes.
        specificity: Share of people's no that the judge calls no.
        youden: Sensitivity + specificity - 1 with its interval.
        usable: Whether the interval of `youden` stays clear of 0; else `share` means nothing.
    """

    share: Linearized
    sensitivity: float
    specificity: float
    youden: Estimate
    usable: bool


def rogan_gladen(
    scores: Floats,
    ratings: Floats,
    groups: Codes,
    *,
    confidence: float = 0.95,
    count: int | None = None,
    weight: Weight = "sources",
) -> Prevalence | None:
    """Return the share of yes, as a mean over sources or rows, from a judge that says yes or no.

    Both samples are in the variance: all rows, which give the judge's share of yes, and the rated
    ones, which give its sensitivity and specificity.

    Args:
        scores: 0 or 1, shape (n,).
        ratings: 0 or 1, NaN if unrated, shape (n,).
        groups: Code of each row's source, shape (n,).
        confidence: Confidence of `youden`.
        count: Number of sources in the table; the largest code plus one if left out.
        weight: Whether each source counts the same, or each row.

    Returns:
        `None` if people gave only one of the answers, or the judge separates them no better than
        by chance to the last digit.
    """
    rated = ~np.isnan(ratings)
    count = int(groups.max()) + 1 if count is None else count
    yes, no = rated & (ratings == 1), rated & (ratings == 0)
    if not (yes.any() and no.any()):
        return None
    share_of = row_weights(groups, weight)
    positive = weighted_mean(scores, groups, share_of, count)
    sensitivity = _rate(scores[yes], groups[yes], share_of[yes], count)
    specificity = _rate(1 - scores[no], groups[no], share_of[no], count)
    # of its ratings a source may have few yes or no, but what it weighs in the result is their sum
    by_source = weighted_mean(ratings[rated], groups[rated], share_of[rated], count)
    clusters, shares = by_source.clusters, by_source.shares
    youden = Linearized(
        sensitivity.value + specificity.value - 1,
        sensitivity.influence + specificity.influence,
        clusters,
        shares=shares,
    )
    # the estimate divides by it: a judge that cannot tell yes from no says nothing about
    # prevalence
    if youden.value == 0:
        return None
    share = (positive.value + specificity.value - 1) / youden.value
    # delta method: the derivative of (said + specificity - 1) / youden by each of its three parts
    influence = (
        positive.influence - share * sensitivity.influence + (1 - share) * specificity.influence
    ) / youden.value
    unseen = (share / youden.value) ** 2 * _unseen(sensitivity) + (
        (1 - share) / youden.value
    ) ** 2 * _unseen(specificity)
    spread = youden.estimate(confidence)
    return Prevalence(
        share=Linearized(share, influence, clusters, unseen, shares),
        sensitivity=sensitivity.value,
        specificity=specificity.value,
        youden=spread,
        # a denominator whose interval touches 0 makes a ratio without finite moments
        usable=spread.low is not None and spread.low > _MIN_YOUDEN,
    )


def _rate(values: Floats, groups: Codes, weights: Floats, count: int) -> Linearized:
    return replace(weighted_mean(values, groups, weights, count), shares=None)


def _unseen(rate: Linearized) -> float:
    """Return the variance by which the rate of a judge that hardly errs is less sure than it looks.

    Among few ratings such a judge may make no error at all, and then its rate would pass for
    certain. Its variance is at least that of Jeffreys' posterior for as many independent
    observations as would vary as the sources do; a source is one observation if no error was seen.
    """
    seen = rate.variance
    binomial = rate.value * (1 - rate.value)
    n = binomial / seen if binomial > 0 and seen > 0 else float(rate.clusters)
    successes = rate.value * n + 0.5
    least = successes * (n + 1 - successes) / ((n + 1) ** 2 * (n + 2))
    return least if math.isnan(seen) else max(0.0, least - seen)


@dataclass(frozen=True, slots=True)
class RatedRange:
    """The range of the rated scores."""

    low: float
    high: float
    ends: tuple[float, float]
    """Scores at or beyond which there are at least 8 ratings."""
    by_chance: float
    """Share of all rows that lies beyond `ends`, as the rated rows have it."""
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
        limit = max(MAX_SHARE_OUT_OF_RANGE, _CHANCE_OUTSIDE / (self.labels + 1))
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
        limit = max(MAX_SHARE_OUT_OF_RANGE, _TIMES_CHANCE * self.by_chance)
        if sparse <= limit:
            return None
        return (
            f"{sparse:.0%} of its scores lie outside {self.ends[0]:g} to {self.ends[1]:g}, where "
            f"fewer than {FEW} texts are rated (at most {limit:.0%}): how the judge errs there is "
            "unknown; rate some"
        )


def rated_range(scores: Floats, probabilities: Floats | None = None) -> RatedRange:
    """Return the range of rated scores, which were drawn for rating with these probabilities."""
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
