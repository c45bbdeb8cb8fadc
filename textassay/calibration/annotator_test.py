"""The alternative annotator test over columns, with trivial measures for comparison.

Knows columns: the judge's scores on the raters' scale, the best constant, and the number of words
as the trivial measure that a judge must beat.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from textassay.calibration.alternative_annotator import AltTest, Standing, alt_test
from textassay.calibration.columns import Columns
from textassay.calibration.conformal import grid_of
from textassay.calibration.maps import Scales, learn_map
from textassay.display import Displayed
from textassay.meta.correlation import Floats
from textassay.meta.raters import RaterAgreement, rater_agreement
from textassay.runtime.errors import DataError
from textassay.table import Column, Flag, Note, Table

LENGTH = "words"
POOLED = "pooled"
_COLUMNS = (
    Column("score", "score"), Column("n", "n", "count"), Column("raters", "raters", "count"),
    Column("sources", "sources", "count"), Column("omega", "omega", "number", 2),
    Column("rho", "rho", "number", 2), Column("passes", "passes"),
    Column("constant", "constant", "number"), Column("constant_omega", "its omega", "number", 2),
    Column("constant_rho", "its rho", "number", 2), Column("words_rho", "words' rho", "number", 2),
    Column("over_constant", "rho - constant's", "interval"),
    Column("may_stand_in", "may stand in"),
)  # fmt: skip
_AGREEMENT = (
    Column("score", "score"), Column("alpha", "alpha", "number", 2),
    Column("between_raters", "rater with rater", "number", 2),
    Column("judge_rater", "judge with rater", "number", 2),
    Column("ceiling", "rater with the others", "number", 2),
    Column("judge_others", "judge with the others", "number", 2),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AnnotatorTest(Displayed):
    """One judge on one aspect.

    Attributes:
        score: Name of the score.
        human: Name of the human aspect.
        test: The test.
        epsilon: Reward for being cheaper.
        metric: `rmse` or `match`.
        agreement: Raters with each other and with the judge; `None` if aspects are pooled.
    """

    score: str
    human: str
    test: AltTest
    epsilon: float
    metric: str
    agreement: RaterAgreement | None

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        test, constant = self.test, self.test.constant
        values = list(test.constant_values)
        return {
            "score": self.score,
            "human": self.human,
            "n": test.n,
            "raters": test.raters,
            "groups": test.groups,
            "epsilon": self.epsilon,
            "metric": self.metric,
            "omega": test.judge.omega,
            "rho": test.judge.rho,
            "passes": test.judge.passes,
            "constant": {"value": values[0] if len(values) == 1 else values, **_as_dict(constant)},
            "trivial": {name: _as_dict(one) for name, one in test.others.items()},
            "over_constant": test.over_constant.as_dict(),
            "may_stand_in": test.may_stand_in,
            "per_rater": [
                {"rater": one.rater, "n": one.n, "rho": one.rho, "p": one.p, "wins": one.wins}
                for one in test.judge.per_rater
            ],
            "raters_skipped": list(test.skipped),
            "agreement": None if self.agreement is None else self.agreement.as_dict(),
        }

    def tables(self) -> list[Table]:
        """Return the test, and the raters' agreement if there is any."""
        test, words = self.test, self.test.others.get(LENGTH)
        row = (
            self.score, test.n, test.raters, test.groups, test.judge.omega, test.judge.rho,
            "yes" if test.judge.passes else "no", _constant(test), test.constant.omega,
            test.constant.rho, None if words is None else words.rho, test.over_constant,
            "yes" if test.may_stand_in else Flag("no"),
        )  # fmt: skip
        tables = [Table(_COLUMNS, [row], tuple(self._notes()), "the judge and the best constant")]
        if self.agreement is not None:
            own = self.agreement
            pairs = (own.between_raters, own.judge_rater, own.ceiling, own.judge_others)
            rhos = (None if pair is None else pair.spearman for pair in pairs)
            # the level of measurement that goes with the metric: distances or equal labels
            alpha = own.alpha["interval" if self.metric == "rmse" else "nominal"]
            title = "agreement of raters with each other and with the judge"
            tables.append(Table(_AGREEMENT, [(self.score, alpha, *rhos)], title=title))
        return tables

    def _notes(self) -> Iterator[Note]:
        test = self.test
        if test.groups is None:
            yield Note("every row counts as a source of its own")
        if self.agreement is not None and self.agreement.alpha["nominal"] is None:
            yield Note(
                f"{self.score}: the raters gave every text the same rating, so nothing shows"
                " whether a judge reads the texts; have texts rated that differ"
            )
        if test.constant.passes:
            yield Note(
                f"{self.score}: always saying {_constant(test)} passes the test as well, so passing"
                " alone shows nothing"
            )
        if test.judge.passes and not test.may_stand_in:
            yield Note(
                f"{self.score}: the judge passes, but is not better than that constant beyond"
                " chance"
            )
        if test.skipped:
            raters = ", ".join(map(str, test.skipped))
            yield Note(
                f"{self.score}: raters {raters} share fewer than 30 items with others and were left"
                " out"
            )


def annotator_test(
    columns: Columns,
    *,
    scales: Scales,
    epsilon: float = 0.2,
    metric: str = "rmse",
    rows_independent: bool = False,
    confidence: float = 0.95,
    seed: int = 0,
) -> AnnotatorTest:
    """Test whether the judge may stand in for a rater on one aspect.

    Scores on another scale than the raters' are moved to theirs by the two scales' ends.

    Raises:
        DataError: There are no single ratings, the scale is unbounded, or as `alt_test`.
    """
    scores = _on_raters_scale(columns, scales)
    # exact matches need labels; a number of words read as a rating is not one
    measures = {} if metric == "match" else _length(columns, scales, seed)
    test = alt_test(
        scores,
        columns.raters,
        None if rows_independent else columns.groups,
        epsilon=epsilon,
        metric=metric,
        measures=measures,
        confidence=confidence,
        seed=seed,
    )
    return AnnotatorTest(
        columns.score,
        columns.human,
        # without a field 'group' each row got a source of its own: reporting their number would
        # suggest that sources were known
        test if rows_independent or columns.has_groups else replace(test, groups=None),
        epsilon,
        metric,
        rater_agreement(columns.raters, judge=scores),
    )


def pooled_annotator_test(
    tables: Sequence[tuple[Columns, Scales]],
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
    width = max(columns.raters.shape[1] for columns, _ in tables)
    # aspects may have different numbers of raters; a column of NaN is a rater without ratings
    ratings = [
        np.pad(c.raters, ((0, 0), (0, width - c.raters.shape[1])), constant_values=np.nan)
        for c, _ in tables
    ]
    test = alt_test(
        np.concatenate([_on_raters_scale(*table) for table in tables]),
        np.concatenate(ratings),
        None if rows_independent else np.concatenate([c.groups for c, _ in tables]),
        epsilon=epsilon,
        metric=metric,
        strata=np.repeat(np.arange(len(tables)), [len(c.ids) for c, _ in tables]),
        confidence=confidence,
        seed=seed,
    )
    humans = "+".join(dict.fromkeys(columns.human for columns, _ in tables))
    return AnnotatorTest(POOLED, humans, test, epsilon, metric, None)


def _on_raters_scale(columns: Columns, scales: Scales) -> Floats:
    if not columns.raters.shape[1]:
        raise DataError(
            f"the data contain no single ratings of {columns.human!r}: the test needs the field "
            "'annotators' with one entry per rater"
        )
    if scales.judge is None or scales.judge == scales.raters:
        return columns.scores
    slope = scales.slope or 1.0
    return scales.raters[0] + slope * (columns.scores - scales.judge[0])


def _length(columns: Columns, scales: Scales, seed: int) -> dict[str, Floats]:
    """Return the number of words, read as ratings on the grid by maps that saw other sources."""
    usable = columns.rated & (columns.words > 0)
    x, y = columns.words[usable], columns.ratings[usable]
    if not len(x) or x.min() == x.max() or y.min() == y.max():
        return {}
    single = columns.raters[~np.isnan(columns.raters)]
    learned = learn_map(x, y, columns.groups[usable], scales=Scales(None, scales.raters), seed=seed)
    values = learned.predict_unseen(columns.words)
    # a trivial measure gets the same protection as the judge: no row is read by a map that saw it
    values[usable] = learned.cross_fitted
    return {LENGTH: grid_of(single, scales.raters).nearest(values)}


def _constant(test: AltTest) -> str:
    return " ".join(f"{value:g}" for value in test.constant_values)


def _as_dict(standing: Standing) -> dict[str, Any]:
    return {"omega": standing.omega, "rho": standing.rho, "passes": standing.passes}
