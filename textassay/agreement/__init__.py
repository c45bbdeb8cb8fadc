"""Agreement with people: correlations at three levels, intervals, and tests of a difference.

Works on two arrays; files and examples come in through `read_scores` and `agreement_table` only.

Example:
    >>> from textassay import agreement
    >>> round(agreement.correlate([1, 2, 3, 4], [1, 3, 2, 4]).spearman, 3)
    0.8
"""

from typing import TYPE_CHECKING

from textassay.lazy import lazy

if TYPE_CHECKING:
    from textassay.agreement.correlation import LEVELS, Level, kendall, pearson, spearman
    from textassay.agreement.labels import LabelAgreement, Measure, label_agreement
    from textassay.agreement.raters import RaterAgreement, krippendorff_alpha, rater_agreement
    from textassay.agreement.records import read_scores
    from textassay.agreement.significance import (
        Agreement,
        Comparison,
        Difference,
        WilliamsTest,
        compare,
        correlate,
        williams,
    )
    from textassay.agreement.table import AgreementTable, TableRow, agreement_table

_NAMES_IN = {
    "correlation": "LEVELS Level kendall pearson spearman",
    "labels": "LabelAgreement Measure label_agreement",
    "raters": "RaterAgreement krippendorff_alpha rater_agreement",
    "records": "read_scores",
    "significance": "Agreement Comparison Difference WilliamsTest compare correlate williams",
    "table": "AgreementTable TableRow agreement_table",
}

__all__ = [
    "LEVELS",
    "Agreement",
    "AgreementTable",
    "Comparison",
    "Difference",
    "LabelAgreement",
    "Level",
    "Measure",
    "RaterAgreement",
    "TableRow",
    "WilliamsTest",
    "agreement_table",
    "compare",
    "correlate",
    "kendall",
    "krippendorff_alpha",
    "label_agreement",
    "pearson",
    "rater_agreement",
    "read_scores",
    "spearman",
    "williams",
]

__getattr__, __dir__ = lazy(__name__, _NAMES_IN)
