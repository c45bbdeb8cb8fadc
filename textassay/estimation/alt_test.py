"""May the judge stand in for a rater? The alternative annotator test, as published and by source.

`alt_test` works on arrays, `annotator_test` on columns. Each rater in turn is left out, and judge
and rater are compared with the other raters, item by item. The judge wins against a rater if it is
closer to the others at least as often, minus a reward `epsilon` for being cheap. It passes if it
wins against half of the raters.

This test differs from the published one in two ways. Rows of one source are not independent, so the
source is the unit unless `groups` is `None`. A constant passes the published test if ratings are
skewed, so the best constant, learned on other sources, is tested beside the judge.

The best constant and the number of words, the trivial measure that a judge must beat, are tested
beside the judge's scores on the raters' scale.

If several raters are replaced together, each of them is compared with the raters who stay, and the
judge has to win against each.

References:
    Calderon, Reichart and Dror, "The alternative annotator test for LLM-as-a-judge", ACL 2025;
    Benjamini and Yekutieli, "The control of the false discovery rate under dependency" (2001).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.special import stdtr

from textassay.agreement.intervals import effective_number
from textassay.agreement.raters import RaterAgreement, rater_agreement, rating_table
from textassay.arrays import Codes, Floats
from textassay.estimation.columns import Columns
from textassay.estimation.maps import MapScales, grid_of, learn_map
from textassay.estimation.means import Linearized, weighted_mean
from textassay.learning.splits import folds
from textassay.runtime.errors import DataError, UnknownName
from textassay.table import Alert, Displayed, Estimate, Note, Table, column, part, table_of

MIN_ITEMS = 30
"""Items that a rater must share with others to be tested."""
LENGTH = "words"


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


@dataclass(frozen=True, slots=True)
class RaterTest:
    """The judge against one rater."""

    rater: int
    """Number of the rater, from 1."""
    n: int = field(metadata=column("n", "count"))
    """Items that the rater shares with others."""
    rho: float = field(metadata=column("rho", "number", 2))
    """Share of them on which the judge is at least as near to the others as the rater."""
    p: float = field(metadata=column("p", "p"))
    """Probability of so much advantage if the rater were better by `epsilon`."""
    wins: bool = field(metadata=column("judge wins", cell=lambda test: _yes(test.wins)))
    """Whether p is significant among all raters (Benjamini-Yekutieli at .05)."""
    severity: float | None = field(default=None, metadata=column("severity", "number", 2))
    """How much lower the rater's ratings are than the others' ratings of the same items, in points;
    `None` for labels.
    """
    distance: float | None = field(default=None, metadata=column("judge's distance", "number", 2))
    """Mean distance of judge and rater in points, or share of differing labels."""


@dataclass(frozen=True, slots=True)
class JudgeResult:
    """Result of one judge against all raters."""

    omega: float
    """Share of the raters that it wins against."""
    rho: float
    """Mean over raters of the share of items on which it is closer."""
    per_rater: tuple[RaterTest, ...]
    """One test per rater."""
    advantage: Floats
    """Each item's contribution to that mean, shape (n,); NaN for items without a tested rater."""
    needed: float = 0.5
    """Lowest omega with which it passes."""

    @property
    def passes(self) -> bool:
        """Whether omega is at least `needed`: one half as published, 1 to replace named raters."""
        return self.omega >= self.needed

    def as_dict(self) -> dict[str, Any]:
        return {"omega": self.omega, "rho": self.rho, "passes": self.passes}


@dataclass(frozen=True, slots=True)
class AltTest:
    """The judge beside the best constant."""

    n: int = field(metadata=column("n", "count"))
    """Number of tested items."""
    raters: int = field(metadata=column("raters", "count"))
    """Number of tested raters."""
    groups: int | None = field(metadata=column("sources", "count", name="sources"))
    """Number of sources among the items; `None` if rows were treated as independent."""
    judge: JudgeResult = field(
        metadata=column("omega", "number", 2, name="omega", cell="judge.omega")
        | column("rho", "number", 2, name="rho", cell="judge.rho")
        | column("passes", name="passes", cell=lambda test: _yes(test.judge.passes))
    )
    """The judge's result."""
    constant_values: tuple[float, ...] = field(
        metadata=column("constant", "number", name="constant", cell="constant_in_words")
    )
    """The constant that was the best one most often, one per stratum."""
    constant: JudgeResult = field(
        metadata=column("its omega", "number", 2, name="constant_omega", cell="constant.omega")
        | column("its rho", "number", 2, name="constant_rho", cell="constant.rho")
    )
    """The result of the best constant."""
    others: Mapping[str, JudgeResult] = field(
        metadata=column("words' rho", "number", 2, name="words_rho", cell="words_rho")
    )
    """The results of further measures by name."""
    over_constant: Estimate = field(
        metadata=column("rho - constant's", "interval")
        | column(
            "may stand in", name="may_stand_in",
            cell=lambda test: "yes" if test.may_stand_in else Alert("no"),
        )
    )  # fmt: skip
    """The judge's mean share of items minus the constant's, with an interval."""
    skipped: tuple[int, ...]
    """Numbers of raters with fewer than 30 shared items."""
    labels: tuple[str, ...] = ()
    """Names of the labels that were compared; empty if numbers were."""
    worth: float = math.inf
    """Number of sources of equal size that would be as informative (Kish)."""

    @property
    def constant_in_words(self) -> str:
        """The best constant, or one per stratum."""
        if self.labels:
            return " ".join(self.labels[int(value)] for value in self.constant_values)
        return " ".join(f"{value:g}" for value in self.constant_values)

    @property
    def words_rho(self) -> float | None:
        """Mean share of items of the number of words; `None` if that was not tested."""
        return self.others[LENGTH].rho if LENGTH in self.others else None

    @property
    def may_stand_in(self) -> bool:
        """Whether the judge passes and is better than the best constant beyond chance."""
        return self.judge.passes and self.over_constant.is_above(0)


@dataclass(frozen=True, slots=True)
class _RaterLine:
    """A judge against one rater, by name."""

    score: str = field(metadata=column("score"))
    rater: str = field(metadata=column("rater"))
    test: RaterTest = field(metadata=part(RaterTest))


@dataclass(frozen=True, slots=True)
class _AgreementLine:
    """Agreement of raters with each other and with the judge."""

    score: str = field(metadata=column("score"))
    alpha: float | None = field(metadata=column("alpha (ordinal)", "number", 2))
    between_raters: float | None = field(metadata=column("rater with rater", "number", 2))
    judge_rater: float | None = field(metadata=column("judge with rater", "number", 2))
    ceiling: float | None = field(metadata=column("rater with the others", "number", 2))
    judge_others: float | None = field(metadata=column("judge with the others", "number", 2))


def alt_test(
    scores: Floats,
    ratings: Floats,
    groups: Codes | None = None,
    *,
    epsilon: float = 0.2,
    metric: str = "rmse",
    strata: Codes | None = None,
    measures: Mapping[str, Floats] | None = None,
    replaced: Sequence[int] = (),
    confidence: float = 0.95,
    seed: int = 0,
) -> AltTest:
    """Test whether a judge may stand in for a rater, or for several raters at once.

    Args:
        scores: Judge's scores on the raters' scale, shape (n,), NaN if unscored.
        ratings: Shape (n, raters), NaN for a gap.
        groups: Code of each row's source, shape (n,); `None` treats rows as independent, as
            published.
        epsilon: Reward for being cheaper than the rater, 0 to 1; .1 to .2 as published.
        metric: `rmse` compares distances to the others, `match` shares of equal labels.
        strata: Code of each row's aspect, shape (n,), if several aspects are pooled: the best
            constant is learned for each.
        measures: Further scores to test beside it, on the raters' scale.
        replaced: Columns of the raters to replace together: each is compared with the raters who
            stay. By default each rater is left out in turn.
        confidence: Confidence of the interval of the advantage over the constant.
        seed: Seed of the folds in which constants are learned.

    Raises:
        UnknownName: There is no such metric.
        DataError: Fewer than three raters share items, no rater has 30, or fewer than two sources.
    """
    if metric not in (metrics := ("rmse", "match")):
        raise UnknownName("metric", metric, metrics)
    if replaced and len(replaced) >= ratings.shape[1]:
        raise DataError(
            f"all {ratings.shape[1]} raters would be replaced, so no rater is left to compare with"
        )
    # a row with a single rating is useless: without its rater, no rater is left to compare with
    usable = ~np.isnan(scores) & ((~np.isnan(ratings)).sum(axis=1) > 1)
    units = np.arange(len(scores)) if groups is None else groups
    codes = np.unique(units[usable], return_inverse=True)[1]
    trial = _Trial(ratings[usable], codes, epsilon, metric, tuple(replaced))
    judge = trial.standing(scores[usable])
    about = np.zeros(int(usable.sum()), np.intp) if strata is None else strata[usable]
    constants, values = trial.best_constants(about, seed)
    constant = trial.standing(constants)
    counted = ~np.isnan(judge.advantage)
    gap = weighted_mean(
        judge.advantage[counted] - constant.advantage[counted], trial.units[counted]
    )
    sizes = np.unique(trial.units[counted], return_counts=True)[1]
    return AltTest(
        judge=judge, constant=constant, constant_values=values,
        others={name: trial.standing(other[usable]) for name, other in (measures or {}).items()},
        over_constant=gap.estimate(confidence), n=int(counted.sum()), raters=len(trial.tested),
        groups=None if groups is None else len(np.unique(trial.units[counted])),
        skipped=trial.skipped, worth=effective_number(sizes.astype(float)),
    )  # fmt: skip


class _Trial:
    """Items, raters, and how close each rater is to the others."""

    def __init__(
        self, ratings: Floats, units: Codes, epsilon: float, metric: str, replaced: tuple[int, ...]
    ) -> None:
        self.units, self._ratings, self._epsilon = units, ratings, epsilon
        self._is_match, self._replaced = metric == "match", list(replaced)
        is_rated = ~np.isnan(ratings)
        stay = is_rated.copy()
        stay[:, self._replaced] = False
        others = stay.sum(axis=1, keepdims=True) - stay
        shared = (is_rated & (others > 0)).sum(axis=0)
        if replaced:
            shared[np.setdiff1d(np.arange(ratings.shape[1]), replaced)] = 0
        self.tested = tuple(int(r) for r in np.flatnonzero(shared >= MIN_ITEMS))
        self.skipped = tuple(
            int(r) + 1 for r in np.flatnonzero((shared > 0) & (shared < MIN_ITEMS))
        )
        _check_testable(shared, units, self.tested, least=1 if replaced else 2)
        # how close each rater is to the others does not depend on the tested scores: computed once
        # for the judge, every constant and every further measure
        self._rows = {r: np.flatnonzero(is_rated[:, r] & (others[:, r] > 0)) for r in self.tested}
        self._own = {r: self._against(ratings[:, r], r) for r in self.tested}

    def standing(self, scores: Floats) -> JudgeResult:
        """Test scores without gaps against every rater."""
        from scipy.stats import false_discovery_control  # takes a second to import

        differences, total, times = [], np.zeros(len(scores)), np.zeros(len(scores))
        apart: dict[int, tuple[float | None, float]] = {}
        for rater, rows in self._rows.items():
            judge, rater_score = self._against(scores, rater), self._own[rater]
            # a tie is a win for both sides, as published: it raises rho but cancels out of the
            # excess, so ties neither help nor harm the test
            won = (judge >= rater_score).astype(float)
            excess = weighted_mean((rater_score >= judge) - won, self.units[rows])
            differences.append(
                (rater, len(rows), float(won.mean()), _p_below(excess, self._epsilon))
            )
            apart[rater] = self._apart(scores, rater)
            total[rows] += won
            times[rows] += 1
        # Benjamini-Yekutieli, as in the paper: the same judge takes part in every test, so their
        # p-values depend on each other in an unknown way, which rules out Benjamini-Hochberg
        adjusted = false_discovery_control([p for *_, p in differences], method="by")
        tests = tuple(
            RaterTest(rater + 1, n, rho, p, bool(q <= 0.05), *apart[rater])
            for (rater, n, rho, p), q in zip(differences, adjusted, strict=True)
        )
        return JudgeResult(
            omega=sum(test.wins for test in tests) / len(tests),
            rho=math.fsum(test.rho for test in tests) / len(tests),
            per_rater=tests,
            advantage=np.divide(total, times, out=np.full(len(total), np.nan), where=times > 0),
            needed=1.0 if self._replaced else 0.5,
        )

    def _apart(self, scores: Floats, rater: int) -> tuple[float | None, float]:
        """Return a rater's severity among the others, and the distance of judge and rater."""
        rows, others = self._rows[rater], self._others(rater)
        ratings = self._ratings[rows, rater]
        if self._is_match:
            return None, float((ratings != scores[rows]).mean())
        severity = float((np.nanmean(others, axis=1) - ratings).mean())
        return severity, float(np.abs(ratings - scores[rows]).mean())

    def _others(self, rater: int) -> Floats:
        """Return the ratings of the raters that a rater is compared with, NaN elsewhere."""
        others: Floats = self._ratings[self._rows[rater]].copy()
        others[:, [rater, *self._replaced]] = np.nan
        return others

    def best_constants(self, strata: Codes, seed: int) -> tuple[Floats, tuple[float, ...]]:
        """Return each item's best constant on other sources, and the usual one per stratum."""
        # a constant chosen on the rows that test it would be too good by chance
        fold = folds(self.units, count=10, seed=seed)
        best_values, usual = np.empty(len(self.units)), []
        for stratum in np.unique(strata):
            inside = strata == stratum
            # any number could be the best constant under RMSE; trying the ratings that occur
            # suffices, and the limit avoids one candidate per row for continuous ratings
            values = _most_frequent(self._ratings[inside])
            shares = np.stack(
                [self._win_rates(np.full(len(self.units), value)) for value in values]
            )
            picked = []
            for number in np.unique(fold[inside]):
                best = shares[:, inside & (fold != number)].sum(axis=1).argmax()
                best_values[inside & (fold == number)] = values[best]
                picked.append(values[best])
            constants, times = np.unique(picked, return_counts=True)
            usual.append(float(constants[times.argmax()]))
        return best_values, tuple(usual)

    def _win_rates(self, scores: Floats) -> Floats:
        total = np.zeros(len(scores))
        for rater, rows in self._rows.items():
            # each rater has the same weight however many items they rated, as in the mean rho
            total[rows] += (self._against(scores, rater) >= self._own[rater]) / len(rows)
        return total

    def _against(self, scores: Floats, rater: int) -> Floats:
        """Return the share of each item's other raters who agree, or the negative RMS distance."""
        rows, others = self._rows[rater], self._others(rater)
        if self._is_match:
            same = np.where(np.isnan(others), np.nan, others == scores[rows, None])
            return np.asarray(np.nanmean(same, axis=1))
        return np.asarray(-np.sqrt(np.nanmean((others - scores[rows, None]) ** 2, axis=1)))


def _most_frequent(ratings: Floats, most: int = 25) -> Floats:
    """Return the ratings that occur most often, increasing."""
    values, counts = np.unique(ratings[~np.isnan(ratings)], return_counts=True)
    return np.asarray(np.sort(values[np.argsort(-counts, kind="stable")[:most]]))


def _check_testable(shared: Codes, units: Codes, tested: tuple[int, ...], *, least: int) -> None:
    if int((shared > 0).sum()) < least:
        raise DataError(
            "the alternative annotator test leaves one rater out and compares with the others, and "
            "no scored item has ratings of two; it needs 2 raters of the same items, better 3, in "
            "the field 'annotators'"
        )
    if not tested:
        raise DataError(
            f"no rater shares {MIN_ITEMS} scored items with another; the most is {shared.max()}. "
            "Have more items rated by two raters or more"
        )
    if len(np.unique(units)) < 2:
        raise DataError(
            "all items belong to one source, so differences between sources are unknown; add "
            "sources, or "
            "take rows as independent (as published) if they are"
        )


def _p_below(excess: Linearized, epsilon: float) -> float:
    """Return the one-sided p-value against a mean of at least `epsilon`."""
    if excess.clusters < 2 or excess.variance == 0:
        # all sources agree exactly, so there is no error to divide by; a sign test gives the
        # probability that they all lie on the same side by chance
        return 0.5**excess.clusters if excess.value < epsilon else 1.0
    t = (excess.value - epsilon) / math.sqrt(excess.variance)
    # sources, not rows, are independent, and a source with most of the rows is still one source, so
    # the degrees of freedom follow from the effective number of sources
    return float(stdtr(excess.df, t))


@dataclass(frozen=True, slots=True)
class AnnotatorTest(Displayed):
    """One judge on one aspect."""

    score: str = field(metadata=column("score"))
    """Name of the score."""
    human: str
    """Name of the human aspect."""
    test: AltTest = field(metadata=part(AltTest))
    """The test."""
    epsilon: float
    """Reward for being cheaper."""
    metric: str
    """`rmse` or `match`."""
    agreement: RaterAgreement | None
    """Raters with each other and with the judge; `None` if aspects are pooled."""
    names: tuple[str, ...] = ()
    """Names of the raters by column."""
    replaced: tuple[str, ...] = ()
    """Names of the raters to replace together; empty if each is replaced in turn."""

    def _name(self, rater: int) -> str:
        return self.names[rater - 1] if rater <= len(self.names) else str(rater)

    def as_dict(self) -> dict[str, Any]:
        test, values = self.test, list(self.test.constant_values)
        return {
            "score": self.score,
            "human": self.human,
            "n": test.n,
            "raters": test.raters,
            "groups": test.groups,
            "epsilon": self.epsilon,
            "metric": self.metric,
            **test.judge.as_dict(),
            "constant": {
                "value": values[0] if len(values) == 1 else values,
                **test.constant.as_dict(),
            },
            "trivial": {name: result.as_dict() for name, result in test.others.items()},
            "over_constant": test.over_constant.as_dict(),
            "may_stand_in": test.may_stand_in,
            "per_rater": [{"name": self._name(r.rater), **asdict(r)} for r in test.judge.per_rater],
            "raters_skipped": list(test.skipped),
            "replaced": list(self.replaced),
            "agreement": self.agreement and self.agreement.as_dict(),
        }

    def tables(self) -> list[Table]:
        """Return the test, and the raters' agreement if there is any."""
        title = "the judge and the best constant"
        tables = [table_of(AnnotatorTest, [self], self._notes(), title)]
        each = [_RaterLine(self.score, self._name(r.rater), r) for r in self.test.judge.per_rater]
        meaning = (
            "severity: points below the other raters on the same items; judge's distance: mean"
            " distance of judge and rater in points, or share of other labels"
        )
        tables.append(table_of(_RaterLine, each, (Note(meaning),), "the judge and each rater"))
        if self.agreement:
            # as of `textassay agreement --raters` and `annotate`
            alpha, rhos = self.agreement.alpha["ordinal"], self.agreement.rank_correlations
            title = "agreement of raters with each other and with the judge"
            line = _AgreementLine(self.score, alpha, *rhos)
            tables.append(table_of(_AgreementLine, [line], title=title))
        return tables

    def _notes(self) -> Iterator[Note]:
        test = self.test
        if self.replaced:
            yield Note(
                f"{self.score}: replaced {', '.join(self.replaced)}; each is compared with the"
                " raters who stay, as the judge is, and the judge has to win against each"
            )
        if test.groups is None:
            yield Note("every row counts as a source of its own")
        elif test.worth < test.groups / 2:
            yield Note(
                f"{self.score}: a few sources have most of the texts, so that {test.groups} are"
                f" worth {test.worth:.1f} of equal size: with so few hardly a judge passes; have"
                " texts of more sources rated"
            )
        if self.agreement and self.agreement.alpha["nominal"] is None:
            yield Note(
                f"{self.score}: the raters gave every text the same rating, so nothing shows"
                " whether a judge reads the texts; have texts rated that differ"
            )
        if test.constant.passes:
            yield Note(
                f"{self.score}: always saying {test.constant_in_words} passes the test as well, so"
                " passing alone shows nothing"
            )
        if test.judge.passes and not test.may_stand_in:
            yield Note(
                f"{self.score}: the judge passes, but is not better than that constant beyond"
                " chance"
            )
        if test.skipped:
            raters = ", ".join(map(self._name, test.skipped))
            yield Note(
                f"{self.score}: raters {raters} share fewer than {MIN_ITEMS} items with others and"
                " were left out"
            )


def annotator_test(
    columns: Columns,
    *,
    scales: MapScales,
    epsilon: float = 0.2,
    metric: str = "rmse",
    rows_independent: bool = False,
    replace: Sequence[str] = (),
    confidence: float = 0.95,
    seed: int = 0,
) -> AnnotatorTest:
    """Test whether the judge may stand in for a rater on one aspect.

    With `replace`, for these raters at once, by name or by their number from 1.

    Scores on another scale than the raters' are moved to theirs by the two scales' ends.

    Raises:
        DataError: There are no single ratings, the scale is unbounded, or as `alt_test`.
    """
    scores, names = _on_raters_scale(columns, scales), columns.rater_names
    replaced = [_column_of(name, names, columns.human) for name in dict.fromkeys(replace)]
    test = alt_test(
        scores,
        columns.raters,
        None if rows_independent else columns.groups,
        epsilon=epsilon,
        metric=metric,
        # exact matches need labels; a rating made from a number of words is not a label
        measures={} if metric == "match" else _length(columns, scales, seed),
        replaced=list(dict.fromkeys(replaced)),
        confidence=confidence,
        seed=seed,
    )
    # without a field 'group' each row is a source of its own; reporting their number would suggest
    # that the sources are known
    if not columns.has_groups:
        test = dataclasses.replace(test, groups=None)
    if metric == "match":
        test = dataclasses.replace(test, labels=columns.labels)
    # labels without an order have no ranks; `textassay agreement --raters` shows theirs
    agreement = None if columns.labels else rater_agreement(columns.raters, judge=scores)
    return AnnotatorTest(
        columns.score, columns.human, test, epsilon, metric, agreement, names,
        tuple(names[column] for column in dict.fromkeys(replaced)),
    )  # fmt: skip


def _column_of(rater: str, names: Sequence[str], human: str) -> int:
    """Return the column of a rater, by name or by number from 1."""
    if rater in names:
        return names.index(rater)
    numbers = [str(number) for number in range(1, len(names) + 1)]
    if rater not in numbers:
        raise UnknownName(f"rater of {human!r}", rater, names)
    return numbers.index(rater)


def pooled_annotator_test(
    tables: Sequence[tuple[Columns, MapScales]],
    *,
    epsilon: float = 0.2,
    metric: str = "rmse",
    rows_independent: bool = False,
    confidence: float = 0.95,
    seed: int = 0,
) -> AnnotatorTest:
    """Test all aspects as one, as published; the best constant is learned for each aspect.

    Raises:
        DataError: As `annotator_test`.
    """
    test = alt_test(
        np.concatenate([_on_raters_scale(*table) for table in tables]),
        # aspects may have different numbers of raters
        rating_table([row for c, _ in tables for row in c.raters]),
        None if rows_independent else np.concatenate([c.groups for c, _ in tables]),
        epsilon=epsilon,
        metric=metric,
        strata=np.repeat(np.arange(len(tables)), [len(c.ids) for c, _ in tables]),
        confidence=confidence,
        seed=seed,
    )
    humans = "+".join(dict.fromkeys(columns.human for columns, _ in tables))
    return AnnotatorTest("pooled", humans, test, epsilon, metric, None)


def _on_raters_scale(columns: Columns, scales: MapScales) -> Floats:
    if not columns.raters.shape[1]:
        raise DataError(
            f"the data contain no single ratings of {columns.human!r}: the test needs the field "
            "'annotators' with one entry per rater"
        )
    moved = None if scales.judge == scales.raters else scales.on_raters_scale(columns.scores)
    return columns.scores if moved is None else moved


def _length(columns: Columns, scales: MapScales, seed: int) -> dict[str, Floats]:
    """Return the number of words, read as ratings on the grid by maps that saw other sources."""
    usable = columns.rated & (columns.words > 0)
    x, y = columns.words[usable], columns.ratings[usable]
    if not len(x) or x.min() == x.max() or y.min() == y.max():
        return {}
    single = columns.raters[~np.isnan(columns.raters)]
    learned = learn_map(
        x, y, columns.groups[usable], scales=MapScales(None, scales.raters), seed=seed
    )
    values = learned.predict_unseen(columns.words)
    # as for the judge, no row is mapped by a map that was learned from it
    values[usable] = learned.cross_fitted
    return {LENGTH: grid_of(single, scales.raters).nearest(values)}
