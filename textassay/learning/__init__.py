"""Learning from people: aggregators of many scores, grouped splits, and attribution.

Works on arrays.

Example:
    >>> from textassay import learning
    >>> features, human = [[1, 2], [2, 1], [3, 4], [4, 3], [5, 5]], [1, 2, 3, 4, 5]
    >>> learning.Aggregator("avg").fit(features, human).predict([[3, 3]]).round(2).tolist()
    [[3.0]]
"""

from textassay.learning.aggregators import Aggregator, Contributions
from textassay.learning.attribution import (
    Importance,
    explain,
    global_importance,
    permutation_importance,
    pool_importances,
    sample_shapley,
)
from textassay.learning.learners import AGGREGATORS, JOINT, NAMES
from textassay.learning.pooling import Pool
from textassay.learning.splits import folds, group_codes, hold_out, split_rows
from textassay.learning.training import features_for, find_leaks

__all__ = [
    "AGGREGATORS",
    "JOINT",
    "NAMES",
    "Aggregator",
    "Contributions",
    "Importance",
    "Pool",
    "explain",
    "features_for",
    "find_leaks",
    "folds",
    "global_importance",
    "group_codes",
    "hold_out",
    "permutation_importance",
    "pool_importances",
    "sample_shapley",
    "split_rows",
]
