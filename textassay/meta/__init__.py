"""Agreement with people: correlations at three levels, intervals, and tests of a difference.

Works on two arrays; files and examples come in through `read_scores` and `agreement_table` only.

Example:
    >>> from textassay import meta
    >>> round(meta.correlate([1, 2, 3, 4], [1, 3, 2, 4]).spearman, 3)
    0.8
"""

from textassay.meta.agreement import Agreement, correlate
from textassay.meta.correlation import kendall, pearson, spearman
from textassay.meta.levels import LEVELS, Level
from textassay.meta.score_files import read_scores
from textassay.meta.significance import Comparison, Difference, WilliamsTest, compare, williams
from textassay.meta.table import AgreementTable, TableRow, agreement_table

__all__ = [
    "LEVELS",
    "Agreement",
    "AgreementTable",
    "Comparison",
    "Difference",
    "Level",
    "TableRow",
    "WilliamsTest",
    "agreement_table",
    "compare",
    "correlate",
    "kendall",
    "pearson",
    "read_scores",
    "spearman",
    "williams",
]
