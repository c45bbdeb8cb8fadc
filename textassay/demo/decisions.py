"""From the demo's scores to decisions.

One judge of one task calibrated and estimated from some of our ratings, and tested against all of
our raters.

Reads a run of the demo; asks no model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from textassay.calibration import (
    AnnotatorTest,
    Columns,
    EstimateRow,
    People,
    annotator_test,
    calibrate,
    estimate_means,
    join_columns,
    read_judged,
    scales_of,
)
from textassay.demo.layout import DemoFolder

JUDGE = "g-eval"
RATED = 4
"""Sources whose ratings are used; those of the others are kept to look at afterward."""


@dataclass(frozen=True, slots=True)
class Decided:
    """One aspect.

    Attributes:
        estimate: Means from the judge's scores of all texts and the ratings of some.
        all_ratings: Mean of all our ratings, of which the estimate saw some.
        error: Mean absolute distance of the judge's scores from the ratings, on the rated texts.
        calibrated_error: The same of calibrated scores, by maps that saw other sources.
        kind: Kind of the map.
        annotator_test: The alternative annotator test against all raters, by source.
    """

    estimate: EstimateRow
    all_ratings: float
    error: float
    calibrated_error: float
    kind: str
    annotator_test: AnnotatorTest


def decided(layout: DemoFolder) -> list[Decided]:
    """Calibrate, estimate and test each aspect of the first task.

    Raises:
        TextassayError: A run cannot be read, or its scores cannot be learned from.
    """
    task = layout.tasks[0]
    judged = read_judged(layout.run(task, JUDGE))
    tables = join_columns(judged, People(layout.data(task)))
    return [_decided(table) for table in tables]


def _decided(table: Columns) -> Decided:
    # whole sources are rated, as in practice a rater reads all texts of one article
    drawn = np.random.default_rng(0).permutation(int(table.groups.max()) + 1)[:RATED]
    some = np.where(np.isin(table.groups, drawn), table.ratings, np.nan)
    partly = replace(table, ratings=some)
    scales = scales_of(partly, {})
    _, report = calibrate(partly, scales=scales)
    agreement = report["agreement"]
    return Decided(
        estimate=estimate_means(partly, scales=scales).rows[0],
        all_ratings=float(np.mean(table.ratings)),
        error=agreement["before"]["mean_absolute_error"],
        calibrated_error=agreement["after"]["mean_absolute_error"],
        kind=report["kind"],
        annotator_test=annotator_test(table, scales=scales_of(table, {})),
    )
