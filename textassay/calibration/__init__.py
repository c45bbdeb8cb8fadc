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

from textassay.calibration.alternative_annotator import AltTest, alt_test
from textassay.calibration.annotator_test import (
    AnnotatorTest,
    annotator_test,
    pooled_annotator_test,
)
from textassay.calibration.bradley_terry import Comparisons, fit_strengths
from textassay.calibration.calibration import AspectCalibration, Calibrated, calibrate
from textassay.calibration.columns import Columns, People, join_columns, read_plan
from textassay.calibration.compare_runs import CompareRow, agreement_difference, compare_runs, gate
from textassay.calibration.conformal import Grid, fit_cells, grid_of
from textassay.calibration.correction import (
    Corrected,
    Prevalence,
    correct_mean,
    power_tuned,
    rogan_gladen,
)
from textassay.calibration.estimate import estimate_means
from textassay.calibration.estimate_rows import EstimateRow, Estimates, SystemDifference
from textassay.calibration.folder import Calibration, load, save
from textassay.calibration.intervals import Estimate, Linearized, holm, tie_groups
from textassay.calibration.isotonic import fit_isotonic, fit_line, fit_shift
from textassay.calibration.judged import Judged, read_judged
from textassay.calibration.label_plan import LabelPlan, next_rows, plan_labels
from textassay.calibration.maps import LearnedMap, Scales, learn_map
from textassay.calibration.ordinal import Ordinal, fit_ordinal
from textassay.calibration.paired import PairedDifference, paired_difference, sign_flip_p
from textassay.calibration.prepared import scales_of
from textassay.calibration.ranking import RankDifference, Ranking, RankRow, rank_systems

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
