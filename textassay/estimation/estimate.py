"""Estimates means of systems and their differences on the raters' scale.

Each mean is estimated in three ways: by the judge alone, by the ratings alone, and corrected.

A mean is over sources, each with the same weight however many texts it has, or over texts; if
sources differ in size, these are different numbers. The corrected estimate moves the mean of the
judge's cross-fitted calibrated scores by the error on the rated rows (see `means`), also for yes
and no: if the rated rows are a random draw, Rogan and Gladen's correction, which divides by
sensitivity + specificity - 1, has larger errors than the ratings alone. It is used for ratings of
texts that were chosen by hand.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from textassay.agreement.intervals import MOSTLY, commonest, effective_number
from textassay.arrays import Codes, Floats, Mask
from textassay.estimation.columns import MAX_UNSCORED, Columns, assumptions
from textassay.estimation.maps import Map, MapScales, check_learnable, learn_map
from textassay.estimation.means import (
    MEANS_OVER,
    Corrected,
    Linearized,
    MeanUnit,
    SystemDifference,
    adjust_p,
    compare_rated_with_others,
    correct_mean,
    group_means,
    measure_trend,
    number_against_rating,
    of_one_size,
    paired_ranks,
    rank_range,
    rated_range,
    ratio_of_variances,
    rogan_gladen,
    text_weights,
    unseen_errors,
    weighted_mean,
)
from textassay.table import (
    Alert,
    Column,
    Displayed,
    Estimate,
    Note,
    ResultRow,
    Table,
    column,
    format_cell,
    table_of,
)


@dataclass(frozen=True, slots=True)
class EstimateLimits:
    """Bounds for choosing a correction and for warnings; docs/estimation.md explains them."""

    own: int = 8
    """A system with at least this number of rated sources is corrected by its own ratings."""
    other: int = 7
    """Fewest sources (Kish's number) with a rating other than the commonest: with fewer, a 95 %
    interval of mostly equal ratings covers less than 93 % in simulations."""
    of_texts: int = 20
    """Fewest rated sources (in sources of equal size) for a mean over texts: with fewer, if ratings
    depend on the size of a source, 95 % intervals cover 90 to 93 % in simulations."""
    unrated: float = 0.05
    """A mean over texts warns of an unrated source with more than this share of the texts: if an
    unrated source with 40 % of them is worse than the others, 95 % intervals contain the mean in
    28 % of the draws."""
    p: float = 0.01
    """Rated texts do not count as a random draw if the test of equal scores of rated and other
    texts has a p-value below this: in simulations this is so for 1 to 2 % of random draws, and for
    97 % of the draws that rate the first sources of a judge that becomes stricter."""
    equal: float = 0.75
    """Sizes or weights are unequal if Kish's number is below this share of the number of sources.
    With ratings that are mostly fives, drawn text by text, 95 % intervals cover 92 to 94 % if
    skewness shortens the end at five, and 93 to 95 % with both ends as long as Student's."""


LIMITS = EstimateLimits()


@dataclass(frozen=True, slots=True)
class EstimateRow(ResultRow):
    """One mean, estimated in three ways; values are on the raters' scale."""

    aspect: str = field(metadata=column("score", name="score"))
    """Name of the judge's score, the heading `score`; `human` is the aspect that people rated."""
    human: str
    """Name of the aspect that people rated."""
    system: str | None = field(metadata=column("system", cell=lambda row: row.system or "all"))
    """The system; `None` for all rows."""
    n: int = field(metadata=column("n", "count"))
    """Scored rows."""
    groups: int
    """Number of their sources."""
    rated: int = field(metadata=column("rated", "count"))
    """Scored rows with a rating."""
    rated_groups: int = field(
        metadata=column(
            "sources", "count", name="sources", cell=lambda row: f"{row.rated_groups}/{row.groups}"
        )
    )
    """Number of their sources."""
    judge_only: Estimate = field(metadata=column("judge only", "interval"))
    """Mean of the judge's scores; no value if its scale is unbounded."""
    labels_only: Estimate = field(metadata=column("labels only", "interval"))
    """Mean of the ratings."""
    corrected: Estimate = field(
        metadata=column(
            "corrected",
            "interval",
            cell=lambda row: Alert("refused") if row.refused else row.corrected,
        )
    )
    """The mean of the judge's scores, corrected by the ratings."""
    lambda_: float | None = field(metadata=column("lambda", "number", 2, name="lambda"))
    """PPI++'s lambda, as of `Corrected`; `None` if not used."""
    worth: float | None = field(metadata=column("1 label =", "number", 2))
    """How many ratings one rating is worth with the judge's help; `None` if undefined."""
    method: str = field(
        metadata=column(
            "correction", name="method", cell=lambda row: None if row.refused else row.method
        )
    )
    """`ppi++`; `rogan-gladen` if rows with yes and no were chosen by hand; or `borrowed` if the
    system has too few ratings and the judge is assumed to err as on the other systems.
    """
    unscored: dict[str, Any]
    """Rows without a score: number, share, mean rating, and bounds on the mean if there are
    many.
    """
    outside: float
    """Share of the scores outside the range that has ratings."""
    sparse: float
    """Share of the scores with fewer than 8 ratings at or beyond them, on either side."""
    refused: str | None = None
    """Why there is no corrected value; `None` if there is."""
    mean_over: MeanUnit = "sources"
    """The unit of the means, `sources` or `texts`."""
    warnings: tuple[str, ...] = ()
    """Reasons not to trust the intervals; empty if there are none."""
    rank: tuple[int, int] | None = field(
        default=None, metadata=column("rank", "number", cell=lambda row: rank_range(row.rank))
    )
    """Best and worst rank that the tests leave open, 1 for the best system; `None` if not
    ranked.
    """


@dataclass(frozen=True, slots=True)
class Estimates(Displayed):
    """All means of one aspect."""

    rows: tuple[EstimateRow, ...]
    """All rows together first, then by system."""
    differences: tuple[SystemDifference, ...]
    """Pairs of systems."""
    assumes: tuple[str, ...]
    """Assumptions of the intervals."""
    map: str
    """Kind of the map behind the calibrated scores."""
    confidence: float
    """Confidence of the intervals."""
    mean_over: MeanUnit = "sources"
    """The unit of the means, `sources` or `texts`."""

    def tables(self) -> list[Table]:
        """Return the means, and the differences of systems if there are any."""
        notes = (
            Note(f"intervals: {self.confidence:.0%}, over sources"),
            Note(MEANS_OVER[self.mean_over]),
            *(Note(f"assumed: {assumption}") for assumption in self.assumes),
            *(note for row in self.rows for note in _notes(row)),
            *_iter_warnings(self.rows),
        )
        tables = [table_of(EstimateRow, self.rows, notes, "means on the raters' scale")]
        if self.differences:
            title = "differences of corrected means, by source"
            tables.append(table_of(SystemDifference, self.differences, title=title))
        return tables


def _notes(row: EstimateRow) -> Iterator[Note]:
    where = ", ".join(filter(None, (row.aspect, row.system)))
    if row.refused:
        yield Note(f"{where}: refused: {row.refused}", warning=True)
    elif row.method == "borrowed":
        yield Note(
            f"{where}: {row.rated_groups} rated sources of its own are too few, so the judge is "
            "assumed to err on it as on the others"
        )
    elif row.method == "rogan-gladen":
        yield Note(
            f"{where}: yes/no, and the rated texts are not a random draw from the run: corrected"
            " for sensitivity and specificity (Rogan-Gladen), which are assumed to be the same in"
            " all texts"
        )
    missing = row.unscored
    if missing["n"]:
        mean = missing["mean_rating"]
        yield Note(
            f"{where}: {missing['n']} rows ({missing['share']:.1%}) have no score and are not in"
            f" the estimate; {missing['rated']} of them are rated, mean"
            f" {'-' if mean is None else f'{mean:.3f}'}"
        )
    if "worst_case" in missing:
        yield Note(
            f"{where}: with them the mean would be between {missing['worst_case']:.3f} and "
            f"{missing['best_case']:.3f}, depending on their ratings"
        )


def _iter_warnings(rows: Sequence[EstimateRow]) -> Iterator[Note]:
    """Yield the warnings of all rows together, and one that names the systems with warnings."""
    whole, *others = rows
    yield from (Note(f"{whole.aspect}: {text}", warning=True) for text in whole.warnings)
    if systems := [str(row.system) for row in others if row.warnings]:
        yield Note(
            f"{whole.aspect}: too few sources for the intervals of {', '.join(systems)}, which "
            "are too narrow; `warnings` of their rows in JSON say why",
            warning=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanSettings:
    """How means are estimated."""

    confidence: float = 0.95
    """Confidence of the intervals."""
    chosen: bool = False
    """Whether the rated rows were chosen by hand; then there are no intervals."""
    calibration: Map | str = "auto"
    """A map learned from other ratings, or the kind of map (`method` of `learn_map`) to learn here,
    cross-fitted."""
    seed: int = 0
    """Seed of the folds."""
    weight: MeanUnit = "sources"
    """The unit of the means: `sources`, each with the same weight however many texts it has, or
    `texts`."""


def estimate_means(
    columns: Columns,
    *,
    scales: MapScales,
    by_system: bool = False,
    lower_is_better: Collection[str] = (),
    settings: MeanSettings = MeanSettings(),
) -> Estimates:
    """Estimate the mean of people's ratings.

    Args:
        columns: Scores and ratings.
        scales: Ranges of both.
        by_system: Whether each system is estimated, and each pair compared.
        lower_is_better: Human aspects on which a low rating is good: rank 1 is the lowest mean.
        settings: How the means are estimated.

    Raises:
        DataError: Nothing can be learned from the ratings, as `learn_map` says.
    """
    estimator = _MeanEstimator(columns, scales, settings)
    rows = [estimator.row(None, estimator.of_all)[0]]
    differences: list[SystemDifference] = []
    if by_system:
        estimates = {name: estimator.row(name, estimator.of(name)) for name in estimator.names}
        differences = estimator.differences(
            {name: point for name, (_, point) in estimates.items() if point is not None}
        )
        rows += _add_ranks(
            [row for row, _ in estimates.values()], differences,
            falls=columns.human in lower_is_better,
        )  # fmt: skip
    return Estimates(
        tuple(rows), tuple(differences), tuple(assumptions(columns, chosen=settings.chosen)),
        estimator.kind, settings.confidence, settings.weight,
    )  # fmt: skip


class _MeanEstimator:
    """Estimates means of the scored rows from their calibrated scores."""

    def __init__(self, every_row: Columns, scales: MapScales, settings: MeanSettings) -> None:
        """Take all rows, with and without a score."""
        self.every_row, self.scales = every_row, scales
        self.confidence, self.chosen = settings.confidence, settings.chosen
        self.weight = settings.weight
        self.columns = scored = every_row.only(every_row.scored)
        self.ratings, self.groups = scored.ratings, scored.groups
        self.count = int(every_row.groups.max()) + 1
        self.calibrated_scores, self.kind = self._calibrate(settings)
        rated, (x, y, at) = scored.rated, scored.pairs
        self.range = rated_range(x, scored.only(rated).probabilities)
        self.names = sorted({name for name in scored.systems if name is not None})
        self.of_all: Mask = np.ones(len(self.ratings), bool)
        self._systems = np.array([name or "" for name in scored.systems], object)
        self._residual = self._mean(y - self.calibrated_scores[rated], at)

    def _calibrate(self, settings: MeanSettings) -> tuple[Floats, str]:
        """Return the calibrated scores, and the kind of their map."""
        calibration, (x, y, at) = settings.calibration, self.columns.pairs
        if isinstance(calibration, Map):
            check_learnable(x, y, at)
            return calibration.predict(self.columns.scores), calibration.kind
        learned = learn_map(x, y, at, scales=self.scales, method=calibration, seed=settings.seed)
        calibrated = learned.predict_unseen(self.columns.scores)
        # a rated row's value comes from folds without its source: with in-sample values, the errors
        # on rated rows, the correction and its interval would be too small
        calibrated[self.columns.rated] = learned.cross_fitted
        return calibrated, learned.map.kind

    def of(self, system: str) -> Mask:
        """Return a mask of the scored rows of a system."""
        return np.asarray(self._systems == system, bool)

    def row(self, system: str | None, inside: Mask) -> tuple[EstimateRow, Linearized | None]:
        """Return the estimates of one mean, and their linearization (`None` if refused)."""
        part = self.columns.only(inside)
        scores, ratings, groups = part.pairs
        sources = len(np.unique(groups))
        outside, sparse = self.range.outside(part.scores), self.range.sparse(part.scores)
        # with fewer rated sources of its own, the error of all systems is the better estimate
        is_own = sources >= LIMITS.own or system is None
        basis = inside if is_own else self.of_all
        corrected = self._correct(basis)
        refused = self.range.refusal(outside)
        # ratings drawn from a system itself cover its range of scores, as ratings drawn from all
        # rows cover the range of all rows
        if refused is None and (not is_own or system is None):
            refused = self.range.refusal_of_few(sparse)
        method: str
        lambda_: float | None = None
        if is_own:
            method, point, lambda_ = "ppi++", corrected.corrected, corrected.lambda_
            rating_means = [corrected.labels_only]
            if self._is_yes_no(part):
                weights = text_weights(groups, self.weight)
                unseen = unseen_errors((scores != ratings).astype(float), groups, weights)
                point = replace(point, unseen=corrected.lambda_**2 * unseen)
                # rows chosen by hand may have one answer more often than the run; the judge can
                # still be right about either answer as often as in the run
                if self.chosen and (share := self._prevalence(part)):
                    method, point, lambda_ = "rogan-gladen", share, None
        else:
            method, point = "borrowed", self._borrow(inside)
            probabilities = part.only(part.rated).probabilities
            rating_means = [self._mean(ratings, groups, probabilities)] if sources else []
        # ratings that are mostly at an end of the scale can deviate to one side only; skewness
        # shows how far, but is unreliable if a few sources have most of the weight
        grade, share_of_it = commonest(self.columns.only(basis).pairs[1])
        is_end = share_of_it > MOSTLY and grade in self.scales.raters and not _unequal(point)
        estimate = Estimate(None) if refused else self._estimate(point, one_tailed=is_end)
        return EstimateRow(
            aspect=part.score,
            human=part.human,
            system=system,
            n=len(part.ids),
            groups=len(np.unique(part.groups)),
            rated=len(ratings),
            rated_groups=sources,
            judge_only=self._judge_only(part),
            labels_only=(
                self._estimate(*rating_means, one_tailed=is_end) if rating_means else Estimate(None)
            ),
            corrected=estimate,
            lambda_=lambda_,
            worth=ratio_of_variances(corrected.labels_only, point) if is_own else None,
            method=method,
            unscored=self._count_unscored(system, estimate),
            outside=outside,
            sparse=sparse,
            refused=refused,
            mean_over=self.weight,
            warnings=() if self.chosen else tuple(self._warnings(basis, corrected)),
        ), (None if refused else point)

    def differences(self, points: dict[str, Linearized]) -> list[SystemDifference]:
        """Compare each pair of systems."""
        differences = []
        for a, b in combinations(points, 2):
            # pairing removes the difficulty of each source; without common ratings the linearized
            # means are subtracted, which still pairs them through shared sources
            delta = self._paired_difference(a, b) or points[a].minus(points[b])
            low, high = self.scales.raters
            estimate = delta.estimate(self.confidence).clip(low - high, high - low)
            if self.chosen or not _shows_spread(delta):
                estimate = Estimate(estimate.value)
            p = None if self.chosen else delta.p_value()
            differences.append(SystemDifference(self.columns.score, a, b, estimate, p))
        return adjust_p(differences)

    def _paired_difference(self, a: str, b: str) -> Linearized | None:
        """Return the corrected mean difference over sources; `None` if too few sources are rated.

        Uses scores of sources that both systems have, and ratings of sources with ratings of both.
        """
        sides = self.of(a), self.of(b)
        is_by_source = self.weight == "sources" or all(of_one_size(self.groups[s]) for s in sides)
        # a source's plain mean over its rated rows is biased if rows were drawn with unequal
        # probabilities, and a mean over texts equals the mean over sources only if all have the
        # same size
        if self.columns.probabilities is not None or not is_by_source:
            return None
        (f_a, y_a), (f_b, y_b) = (self._by_source(inside) for inside in sides)
        f, y = f_a - f_b, y_a - y_b
        here = np.flatnonzero(~np.isnan(f))
        if (~np.isnan(y)).sum() < LIMITS.own:
            return None
        return correct_mean(f[here], y[here], here, count=self.count).corrected

    def _by_source(self, inside: Mask) -> tuple[Floats, Floats]:
        """Return each source's mean calibrated score and mean rating, NaN if it has no rows."""
        rated = inside & ~np.isnan(self.ratings)
        return (
            group_means(self.calibrated_scores[inside], self.groups[inside], self.count),
            group_means(self.ratings[rated], self.groups[rated], self.count),
        )

    def _correct(self, inside: Mask) -> Corrected:
        part = self.columns.only(inside)
        return correct_mean(
            self.calibrated_scores[inside], part.ratings, part.groups,
            probabilities=part.probabilities, count=self.count, weight=self.weight,
        )  # fmt: skip

    def _mean(
        self, values: Floats, groups: Codes, probabilities: Floats | None = None
    ) -> Linearized:
        """Return the mean of rows, which were drawn with these probabilities."""
        weights = text_weights(groups, self.weight)
        if probabilities is not None:
            weights = weights / probabilities
        return weighted_mean(values, groups, weights, self.count)

    def _warnings(self, inside: Mask, corrected: Corrected) -> Iterator[str]:
        """Yield the reasons why intervals from these ratings would be too narrow."""
        part, rating_mean = self.columns.only(inside), corrected.labels_only
        _, y, groups = part.pairs
        if part.probabilities is None:
            yield from self._not_at_random(part)
        number_and_p = number_against_rating(part.raters, part.groups)
        if number_and_p and number_and_p[1] < LIMITS.p:
            fewer = "lower" if number_and_p[0] > 0 else "higher"
            yield (
                f"texts with fewer single ratings have {fewer} ones (r {number_and_p[0]:.2f}, p"
                f" {_p_value(number_and_p[1])}), so raters may have skipped such texts, and the"
                " means describe only the ratings that were given; have every rater rate every text"
            )
        if rating_mean.shares is None:
            return
        if self.weight == "texts":
            yield from self._unequal(part, rating_mean)
        grade, share = commonest(y)
        # if a few sources have most of the weight, the same share of it is worth less
        worth = effective_number(rating_mean.shares[np.unique(groups[y != grade])])
        if share > MOSTLY and worth < LIMITS.other:
            yield (
                f"{share:.0%} of the ratings are {grade:g}, and sources with another one "
                f"weigh as much as {worth:.0f} of equal size (at least {LIMITS.other} are needed):"
                f" the intervals are too narrow, and too near {grade:g}; rate more sources"
            )

    def _unequal(self, part: Columns, rating_mean: Linearized) -> Iterator[str]:
        """Yield the reasons why the interval of a mean over texts is too narrow for these sizes."""
        sizes = np.bincount(part.groups, minlength=self.count).astype(float)
        # of all sources: in draws without the large sources, the rated sources look equal
        equal = effective_number(sizes) / np.count_nonzero(sizes)
        rated = rating_mean.clusters
        if equal < LIMITS.equal and equal * rated < LIMITS.of_texts:
            yield (
                f"sources are of very unequal size, so that {rated} rated ones are worth"
                f" {equal * rated:.0f} of equal size (at least {LIMITS.of_texts} are"
                " needed): the intervals are too narrow if large sources are rated unlike small"
                " ones; rate more sources"
            )
        unrated = np.setdiff1d(np.arange(self.count), part.groups[part.rated])
        largest = float(sizes[unrated].max(initial=0.0) / sizes.sum())
        if largest > LIMITS.unrated:
            yield (
                f"a source with {largest:.0%} of the texts has no rating (at most"
                f" {LIMITS.unrated:.0%} can be left out): the mean over texts depends on it; rate"
                " some of its texts, or take weight='sources'"
            )

    def _not_at_random(self, part: Columns) -> Iterator[str]:
        """Yield a warning if the judge scores the rated texts differently from the others.

        Their mean, or their mean distance from its median, differs. Also if its scores change along
        the data and the ratings belong to one end of them: among all sources a drift shows that a
        few rated sources cannot show.
        """
        then = (
            "which is unlikely for a random draw: the intervals hold only if the rated texts were"
            " drawn at random; rate texts that label-plan draws, or pass chosen=True"
        )
        comparison = compare_rated_with_others(part.scores, part.rated, part.groups)
        if comparison and comparison.p < LIMITS.p:
            yield (
                f"the judge gives the rated texts {comparison.rated:.3f} and the others"
                f" {comparison.others:.3f} on average (p {_p_value(comparison.p)}), {then}"
            )
            return
        # of texts of which the judge is unsure, or sure, the mean may be as that of the others
        distances = np.abs(part.scores - np.median(part.scores))
        comparison = compare_rated_with_others(distances, part.rated, part.groups)
        if comparison and comparison.p < LIMITS.p:
            yield (
                f"the judge's scores of the rated texts are {comparison.rated:.3f} from its median"
                f" score, the others {comparison.others:.3f} (p {_p_value(comparison.p)}), {then}"
            )
            return
        scores = measure_trend(part.scores, part.groups)
        rated = measure_trend(part.rated.astype(float), part.groups)
        if scores and rated and (p := max(scores[1], rated[1])) < LIMITS.p:
            yield (
                f"the judge's scores {'rise' if scores[0] > 0 else 'fall'} along the data"
                f" (r {scores[0]:.2f}), and most rated texts are near"
                f" {'the end' if rated[0] > 0 else 'the beginning'} (p {_p_value(p)}), {then}"
            )

    def _borrow(self, inside: Mask) -> Linearized:
        """Return the calibrated mean, moved by the error on the rated rows of all systems."""
        judge, residual = (
            self._mean(self.calibrated_scores[inside], self.groups[inside]),
            self._residual,
        )
        return Linearized(
            judge.value + residual.value,
            judge.influence + residual.influence,
            # the smaller number gives the wider interval; there are nearly always fewer rated
            # sources
            min(judge.clusters, residual.clusters),
            shares=residual.shares,
        )

    @staticmethod
    def _is_yes_no(part: Columns) -> bool:
        """Return whether judge and people said yes or no, and rows had equal probabilities."""
        binary = all(np.isin(side, (0, 1)).all() for side in (part.scores, part.pairs[1]))
        return binary and part.probabilities is None

    def _prevalence(self, part: Columns) -> Linearized | None:
        """Return the share of yes that follows from the judge's answers and its error rates."""
        corrected = rogan_gladen(
            part.scores, part.ratings, part.groups,
            confidence=self.confidence, count=self.count, weight=self.weight,
        )  # fmt: skip
        return corrected.share if corrected and corrected.usable else None

    def _judge_only(self, part: Columns) -> Estimate:
        on_scale = self.scales.on_raters_scale(part.scores)
        if on_scale is None:
            return Estimate(None)
        return self._on_scale(self._mean(on_scale, part.groups))

    def _estimate(self, linearized: Linearized, *, one_tailed: bool) -> Estimate:
        estimate = self._on_scale(linearized, one_tailed=one_tailed)
        return Estimate(estimate.value) if self.chosen else estimate

    def _on_scale(self, mean: Linearized, *, one_tailed: bool = False) -> Estimate:
        estimate = mean.estimate(self.confidence, one_tailed=one_tailed)
        estimate = estimate.clip(*self.scales.raters)
        return estimate if _shows_spread(mean) else Estimate(estimate.value)

    def _count_unscored(self, system: str | None, corrected: Estimate) -> dict[str, Any]:
        """Return counts of rows without a score, and bounds on the mean if there are many."""
        every_row = self.every_row
        mine = np.array([system is None or name == system for name in every_row.systems])
        inside = mine & ~every_row.scored
        share = float(inside.sum()) / int(mine.sum())
        y = every_row.ratings[inside]
        y = y[~np.isnan(y)]
        summary: dict[str, Any] = {"n": int(inside.sum()), "share": share, "rated": len(y)}
        summary["mean_rating"] = math.fsum(y) / len(y) if len(y) else None
        if share > MAX_UNSCORED and corrected.value is not None:
            lowest, highest = corrected.ends or (corrected.value, corrected.value)
            low, high = self.scales.raters
            summary["worst_case"] = lowest * (1 - share) + low * share
            summary["best_case"] = highest * (1 - share) + high * share
        return summary


def _unequal(mean: Linearized) -> bool:
    """Return whether the sources behind a mean weigh unequally."""
    if mean.shares is None:
        return False
    return bool(effective_number(mean.shares) < LIMITS.equal * np.count_nonzero(mean.shares))


def _shows_spread(mean: Linearized) -> bool:
    """Return whether sources differ: equal sources do not show how much others would vary."""
    return mean.variance > 0


def _add_ranks(
    rows: list[EstimateRow], differences: list[SystemDifference], *, falls: bool
) -> list[EstimateRow]:
    """Return the rows with the ranks that significant differences leave open."""
    ranked = [row for row in rows if row.corrected.value is not None]
    at = {row.system: number for number, row in enumerate(ranked)}
    # Holm-adjusted: with many systems some pair differs by chance, which would separate their ranks
    tests = [(at[difference.a], at[difference.b], difference.p_holm) for difference in differences]
    up = -1 if falls else 1
    ranks = paired_ranks([up * (row.corrected.value or 0.0) for row in ranked], tests)
    if ranks is None:
        return rows
    rank_of = {row.system: rank for row, rank in zip(ranked, ranks, strict=True)}
    return [replace(row, rank=rank_of.get(row.system)) for row in rows]


def _p_value(p: float) -> str:
    """Return a p-value as tables show it, such as `<0.0001`."""
    return format_cell(p, Column("p", "p", "p"))
