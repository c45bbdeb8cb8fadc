"""From scores to decisions.

Calibration, corrected estimates, paired comparisons, the alternative annotator test.

Everything works on arrays; files, runs and data sets come in through `read_judged`, `People` and
`join_columns` only. The source is the sampled unit.

Example:
    >>> import numpy as np
    >>> from textassay import calibration
    >>> scores, ratings = np.array([1.0, 2, 3, 4]), np.array([2.0, 3, np.nan, np.nan])
    >>> calibration.correct_mean(scores, ratings, np.arange(4)).labels_only.value
    2.5
"""

from textassay.calibration.alternative_annotator import (
    AltTest,
    AnnotatorTest,
    alt_test,
    annotator_test,
    pooled_annotator_test,
)
from textassay.calibration.calibration import (
    AspectCalibration,
    Calibrated,
    Calibration,
    calibrate,
    load,
    save,
)
from textassay.calibration.columns import (
    Columns,
    Judged,
    People,
    join_columns,
    read_judged,
    read_plan,
    scales_of,
)
from textassay.calibration.compare_runs import (
    CompareRow,
    PairedDifference,
    agreement_difference,
    compare_runs,
    gate,
    label_difference,
    paired_difference,
    sign_flip_p,
)
from textassay.calibration.conformal import Grid, fit_cells, grid_of
from textassay.calibration.correction import (
    Corrected,
    Prevalence,
    correct_mean,
    power_tuned,
    rogan_gladen,
)
from textassay.calibration.estimate import EstimateRow, Estimates, SystemDifference, estimate_means
from textassay.calibration.intervals import Estimate, Linearized, holm, tie_groups
from textassay.calibration.label_plan import LabelPlan, first_rows, next_rows, plan_labels
from textassay.calibration.maps import (
    LearnedMap,
    Ordinal,
    Scales,
    fit_isotonic,
    fit_line,
    fit_ordinal,
    fit_shift,
    learn_map,
)
from textassay.calibration.ranking import (
    Comparisons,
    RankDifference,
    Ranking,
    RankRow,
    fit_strengths,
    rank_systems,
)

__all__ = [
    "AltTest",
    "AnnotatorTest",
    "AspectCalibration",
    "Calibrated",
    "Calibration",
    "Columns",
    "CompareRow",
    "Comparisons",
    "Corrected",
    "Estimate",
    "EstimateRow",
    "Estimates",
    "Grid",
    "Judged",
    "LabelPlan",
    "LearnedMap",
    "Linearized",
    "Ordinal",
    "PairedDifference",
    "People",
    "Prevalence",
    "RankDifference",
    "RankRow",
    "Ranking",
    "Scales",
    "SystemDifference",
    "agreement_difference",
    "alt_test",
    "annotator_test",
    "calibrate",
    "compare_runs",
    "correct_mean",
    "estimate_means",
    "first_rows",
    "fit_cells",
    "fit_isotonic",
    "fit_line",
    "fit_ordinal",
    "fit_shift",
    "fit_strengths",
    "gate",
    "grid_of",
    "holm",
    "join_columns",
    "label_difference",
    "learn_map",
    "load",
    "next_rows",
    "paired_difference",
    "plan_labels",
    "pooled_annotator_test",
    "power_tuned",
    "rank_systems",
    "read_judged",
    "read_plan",
    "rogan_gladen",
    "save",
    "scales_of",
    "sign_flip_p",
    "tie_groups",
]
