"""From scores and some ratings to calibrated scores, corrected means and comparisons.

Calibration, corrected estimates, paired comparisons, the alternative annotator test.

Everything works on arrays; files, runs and data sets come in through `read_judged`, `People` and
`join_columns` only. The sampled unit is the source.

Example:
    >>> import numpy as np
    >>> from textassay import estimation
    >>> scores, ratings = np.array([1.0, 2, 3, 4]), np.array([2.0, 3, np.nan, np.nan])
    >>> estimation.correct_mean(scores, ratings, np.arange(4)).labels_only.value
    2.5
"""

from textassay.agreement.joined import People
from textassay.estimation.alt_test import (
    AltTest,
    AnnotatorTest,
    alt_test,
    annotator_test,
    pooled_annotator_test,
)
from textassay.estimation.calibration import (
    AspectCalibration,
    CalibratedScores,
    Calibration,
    calibrate,
    load,
    save,
)
from textassay.estimation.columns import (
    Columns,
    Judged,
    join_columns,
    read_judged,
    read_plan,
    scales_of,
)
from textassay.estimation.compare import compare_runs
from textassay.estimation.compare_rows import CompareRow
from textassay.estimation.compared_agreement import agreement_difference, label_difference
from textassay.estimation.estimate import EstimateRow, Estimates, MeanSettings, estimate_means
from textassay.estimation.gate_verdict import gate
from textassay.estimation.label_plan import LabelPlan, first_rows, next_rows, plan_labels
from textassay.estimation.maps import MapScales
from textassay.estimation.means import (
    Corrected,
    Prevalence,
    SystemDifference,
    correct_mean,
    rogan_gladen,
)
from textassay.estimation.paired import PairedDifference, paired_difference
from textassay.estimation.ranking import RankDifference, Ranking, RankRow, rank_systems
from textassay.estimation.run_comparison import (
    Changes,
    RunComparison,
    RunSide,
    ScoreChange,
    compare_sides,
)
from textassay.table import Estimate

__all__ = [
    "AltTest",
    "AnnotatorTest",
    "AspectCalibration",
    "CalibratedScores",
    "Calibration",
    "Changes",
    "Columns",
    "CompareRow",
    "Corrected",
    "Estimate",
    "EstimateRow",
    "Estimates",
    "Judged",
    "LabelPlan",
    "MapScales",
    "MeanSettings",
    "PairedDifference",
    "People",
    "Prevalence",
    "RankDifference",
    "RankRow",
    "Ranking",
    "RunComparison",
    "RunSide",
    "ScoreChange",
    "SystemDifference",
    "agreement_difference",
    "alt_test",
    "annotator_test",
    "calibrate",
    "compare_runs",
    "compare_sides",
    "correct_mean",
    "estimate_means",
    "first_rows",
    "gate",
    "join_columns",
    "label_difference",
    "load",
    "next_rows",
    "paired_difference",
    "plan_labels",
    "pooled_annotator_test",
    "rank_systems",
    "read_judged",
    "read_plan",
    "rogan_gladen",
    "save",
    "scales_of",
]
