"""The alternative annotator test over columns, with trivial measures for comparison.

Knows columns: the judge's scores on the raters' scale, the best constant, and the number of words
as the trivial measure that a judge must beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from textassay.calibration.alternative_annotator import AltTest, Standing, alt_test
from textassay.calibration.columns import Columns
from textassay.calibration.conformal import grid_of
from textassay.calibration.maps import Scales, learn_map
from textassay.meta.ranks import Floats
from textassay.meta.raters import RaterAgreement, rater_agreement
from textassay.runtime.errors import DataError

LENGTH = "words"
POOLED = "pooled"


@dataclass(frozen=True, slots=True)
class AnnotatorTest:
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


def _as_dict(standing: Standing) -> dict[str, Any]:
    return {"omega": standing.omega, "rho": standing.rho, "passes": standing.passes}
