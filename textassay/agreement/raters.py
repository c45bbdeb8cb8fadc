"""Agreement among raters.

Krippendorff's alpha, agreement of each two raters, and the leave-one-out ceiling.

Knows one array of ratings with gaps, shape (items, raters); nothing of examples or files.

Raters are columns. If the data name no raters, column k is the k-th rating of an item, not always
by the same person; this matters for the pairwise figures, but not for alpha.

References:
    Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011). Calderon, Reichart and Dror,
    "The alternative annotator test", ACL 2025, for leaving one rater out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from textassay.agreement.correlation import NumbersLike, kendall, pearson, spearman
from textassay.arrays import Floats
from textassay.runtime.errors import DataError, UnknownName
from textassay.table import ResultRow

MeasurementLevel = Literal["nominal", "ordinal", "interval"]
MEASUREMENTS: tuple[MeasurementLevel, ...] = get_args(MeasurementLevel)

RatingsLike = ArrayLike | Sequence[Sequence[float | None]]
"""Ratings of shape (items, raters); `None` or NaN if a rater did not rate an item. Rows may be
of different lengths: missing ends are gaps."""


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """Agreement of two columns of ratings on the items that both rated."""

    n: int
    """Items that both rated."""
    same: float | None = None
    """Share of the items with equal ratings; `None` if n is 0."""
    mean_difference: float | None = None
    """Mean absolute difference, in points of the scale; `None` if n is 0."""
    pearson: float | None = None
    """Pearson's r; `None` if undefined."""
    spearman: float | None = None
    """Spearman's rho with average ranks; `None` if undefined."""
    kendall: float | None = None
    """Kendall's tau-b; `None` if undefined."""


@dataclass(frozen=True, slots=True)
class RaterAgreement(ResultRow):
    """How well raters agree with each other, and a judge with them."""

    raters: int
    """Columns with a rating."""
    items: int
    """Rows with a rating."""
    ratings: int
    """Number of ratings."""
    alpha: dict[MeasurementLevel, float | None]
    """Krippendorff's alpha by level of measurement; `None` if undefined."""
    between_raters: PairAgreement | None
    """Mean over all pairs of raters; `None` without two raters who share items."""
    ceiling: PairAgreement | None
    """Mean over raters of one rater's agreement with the mean of the others."""
    judge_rater: PairAgreement | None = None
    """Mean over raters of the judge's agreement with one rater; `None` without a judge."""
    judge_others: PairAgreement | None = None
    """Mean over raters of the judge's agreement with the mean of the other raters, on that rater's
    items: the figure to compare with `ceiling`; `None` without a judge."""

    @property
    def rank_correlations(self) -> tuple[float | None, ...]:
        """Spearman's rho of two raters, of judge and rater, and of either with the others."""
        pairs = (self.between_raters, self.judge_rater, self.ceiling, self.judge_others)
        return tuple(None if pair is None else pair.spearman for pair in pairs)


def rating_table(ratings: RatingsLike) -> Floats:
    """Return ratings as an array of shape (items, raters), with NaN in the gaps."""
    if isinstance(ratings, np.ndarray) and ratings.ndim == 1:
        raise DataError(
            "ratings must have two dimensions, items and raters; reshape one column "
            "with ratings[:, None]"
        )
    rows: Sequence[Any] = list(ratings)  # type: ignore[arg-type]  # nested sequences, checked below
    try:
        width = max((len(row) for row in rows), default=0)
        table = np.full((len(rows), width), np.nan)
        for number, row in enumerate(rows):
            table[number, : len(row)] = np.asarray(row, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"ratings must be rows of numbers, one row per item (None or NaN for a gap): {error}"
        ) from error
    if np.isinf(table).any():
        item, rater = map(int, np.argwhere(np.isinf(table))[0])
        raise DataError(f"the rating of item {item} by rater {rater} is infinite")
    return table


def krippendorff_alpha(
    ratings: RatingsLike, *, level: MeasurementLevel = "interval"
) -> float | None:
    """Return Krippendorff's alpha: 1 for full agreement, 0 for agreement by chance.

    Items with fewer than two ratings show no agreement and are left out.

    Args:
        ratings: Shape (items, raters), gaps as `None` or NaN.
        level: `nominal` counts all differences equally, `ordinal` by the ranks between two values,
            `interval` by the squared distance.

    Returns:
        `None` if no item has two ratings, or all ratings in such items are equal: there is no
        disagreement by chance to compare with.

    Raises:
        UnknownName: There is no such level of measurement.
        DataError: A rating is not a finite number.

    Example:
        >>> krippendorff_alpha([[1, 1], [2, 2], [3, 4], [4, None]], level="nominal")
        0.6153846153846154
    """
    if level not in MEASUREMENTS:
        raise UnknownName("level of measurement", str(level), MEASUREMENTS)
    table = rating_table(ratings)
    table = table[np.count_nonzero(~np.isnan(table), axis=1) > 1]
    values, codes = np.unique(table[~np.isnan(table)], return_inverse=True)
    if len(values) < 2:
        return None
    counts = np.zeros((len(table), len(values)))
    np.add.at(counts, (np.nonzero(~np.isnan(table))[0], codes.ravel()), 1.0)
    coincidences = _coincidences(counts)
    totals = coincidences.sum(axis=1)
    distance = _squared_distance(values, totals, level)
    # pairs by chance are drawn without replacement, hence totals - 1
    expected = (totals @ distance @ totals) / (totals.sum() - 1)
    return float(1 - np.sum(coincidences * distance) / expected)


def _coincidences(counts: Floats) -> Floats:
    """Return how often each pair of values occurs within an item, shape (values, values)."""
    # weighted over an item's ordered pairs, so that every rating counts once
    weights = 1 / (counts.sum(axis=1) - 1)
    pairs = (counts * weights[:, None]).T @ counts
    # a rating is not paired with itself
    return np.asarray(pairs - np.diag(weights @ counts))


def _squared_distance(values: Floats, totals: Floats, level: MeasurementLevel) -> Floats:
    if level == "nominal":
        return 1.0 - np.eye(len(values))
    if level == "interval":
        return np.asarray((values[:, None] - values[None, :]) ** 2)
    # ranks between two values: all values from one to the other, both ends counted half
    middle = np.cumsum(totals) - totals / 2
    return np.asarray((middle[:, None] - middle[None, :]) ** 2)


def pair_agreement(a: ArrayLike, b: ArrayLike) -> PairAgreement:
    """Return the agreement of two columns on the rows that have a number in both."""
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if x.shape != y.shape or x.ndim != 1:
        raise DataError(f"two columns of equal length are needed, not {x.shape} and {y.shape}")
    both = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[both], y[both]
    if not len(x):
        return PairAgreement(0)
    return PairAgreement(
        n=len(x), same=float(np.mean(x == y)), mean_difference=math.fsum(np.abs(x - y)) / len(x),
        pearson=pearson(x, y), spearman=spearman(x, y), kendall=kendall(x, y),
    )  # fmt: skip


def mean_of_others(ratings: RatingsLike) -> Floats:
    """Return for each rating the mean of the item's others, (items, raters); NaN without others."""
    table = rating_table(ratings)
    means = np.full(table.shape, np.nan)
    is_rated = ~np.isnan(table)
    for item, rater in np.argwhere(is_rated & (is_rated.sum(axis=1, keepdims=True) > 1)):
        others = np.delete(table[item], rater)
        others = others[~np.isnan(others)]
        # fsum, so that equal sets of ratings have equal means in any order
        means[item, rater] = math.fsum(others) / len(others)
    return means


def rater_agreement(
    ratings: RatingsLike, judge: NumbersLike | None = None, *, is_nominal: bool = False
) -> RaterAgreement:
    """Return how well raters agree with each other, and a judge with them on the same items.

    Args:
        ratings: Shape (items, raters), gaps as `None` or NaN.
        judge: The judge's scores of the same items, shape (items,), `None` or NaN if unscored. If
            given, all figures are over the scored items, so that people and judge can be compared.
        is_nominal: Whether the numbers are names of labels without an order: then only alpha
            (nominal) and the shares of equal labels are defined.

    Raises:
        DataError: A rating is not a finite number, or the lengths differ.

    Example:
        >>> found = rater_agreement([[1, 1], [2, 3], [4, 4], [5, 4]], judge=[1, 2, 4, 5])
        >>> round(found.between_raters.pearson, 3), round(found.judge_rater.pearson, 3)
        (0.904, 0.952)
    """
    table = rating_table(ratings)
    scores = None
    if judge is not None:
        scores = np.asarray(judge, dtype=float)
        if scores.shape != (len(table),):
            raise DataError(
                f"judge must contain one score per item, shape ({len(table)},), not {scores.shape}"
            )
        # a judge that skips hard items would look better than raters who rated them, so raters are
        # measured on the scored items only
        table = np.where(np.isnan(scores)[:, None], np.nan, table)
    is_rated = ~np.isnan(table)
    table = table[:, is_rated.any(axis=0)]
    columns = range(table.shape[1])

    def mean(pairs: Iterable[tuple[Floats, Floats]]) -> PairAgreement | None:
        result = _mean(pair_agreement(x, y) for x, y in pairs)
        # numbers of nominal labels have no mean and no order
        return PairAgreement(result.n, result.same) if result is not None and is_nominal else result

    def with_others(of: Callable[[int], Floats]) -> PairAgreement | None:
        # labels without an order have no mean to compare a rater with
        return None if is_nominal else mean((of(k), others[:, k]) for k in columns)

    others = mean_of_others(table)
    return RaterAgreement(
        raters=table.shape[1],
        items=int(is_rated.any(axis=1).sum()),
        ratings=int(is_rated.sum()),
        alpha={
            level: None
            if is_nominal and level != "nominal"
            else krippendorff_alpha(table, level=level)
            for level in MEASUREMENTS
        },
        between_raters=mean((table[:, a], table[:, b]) for a, b in combinations(columns, 2)),
        ceiling=with_others(lambda k: table[:, k]),
        judge_rater=None if scores is None else mean((scores, table[:, k]) for k in columns),
        judge_others=None if scores is None else with_others(lambda _: scores),
    )


def _mean(pairs: Iterator[PairAgreement]) -> PairAgreement | None:
    """Return the mean of each figure over the pairs that define it, and the number of items."""
    # agreement on a single item shows nothing
    defined = [pair for pair in pairs if pair.n > 1]
    if not defined:
        return None

    def mean(name: str) -> float | None:
        values = [value for pair in defined if (value := getattr(pair, name)) is not None]
        return math.fsum(values) / len(values) if values else None

    return PairAgreement(
        sum(pair.n for pair in defined),
        *(mean(name) for name in ("same", "mean_difference", "pearson", "spearman", "kendall")),
    )
