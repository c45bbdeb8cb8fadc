"""Averages: the baselines AVG and CorrW of Fusion-Eval (section 4), and the best single feature.

Knows standardized arrays; these need next to no data. All use the features that belong to the
target or to no aspect at all (Fusion-Eval: the assistants and the direct evaluator), or all if that
leaves none, and put the result on the scale of the ratings by a line through the training rows.
"""

from __future__ import annotations

import numpy as np

from textassay.learning.linear import Linear
from textassay.learning.training import Floats, Learned, Training
from textassay.runtime.errors import DataError


def learn_avg(training: Training) -> Learned:
    """Average the standardized features with equal weights.

    Raises:
        DataError: The average does not rise with the ratings.
    """
    return _on_scale(training.own / training.own.sum(), training, "avg")


def learn_single(training: Training) -> Learned:
    """Take the feature that correlates best with the ratings, or its reverse.

    Raises:
        DataError: No feature varies with the ratings.
    """
    r = _correlations(training)
    best = int(np.abs(r).argmax())
    weights = np.zeros(len(r))
    weights[best] = np.sign(r[best])
    return _on_scale(weights, training, "single")


def learn_corrw(training: Training) -> Learned:
    """Average the features, each weighted by its signed correlation with the training ratings.

    Raises:
        DataError: No feature varies with the ratings.
    """
    r = _correlations(training)
    total = np.abs(r).sum()
    return _on_scale(r / total if total > 0 else r, training, "corrw")


def _correlations(training: Training) -> Floats:
    """Return the correlation of each own feature with the ratings; 0 for the others."""
    features = training.features - training.features.mean(axis=0)
    target = training.target - training.target.mean()
    norms = np.sqrt((features**2).sum(axis=0) * (target @ target))
    r = np.divide(target @ features, norms, out=np.zeros(len(norms)), where=norms > 0)
    return np.asarray(r * training.own, float)


def _on_scale(weights: Floats, training: Training, name: str) -> Learned:
    average = training.features @ weights
    spread, mean = average - average.mean(), float(training.target.mean())
    variance = float(spread @ spread)
    slope = float(spread @ (training.target - mean)) / variance if variance > 0 else 0.0
    # a falling line would turn the average round and hide that the features point the wrong way
    if slope <= 0:
        raise DataError(
            f"{name}: the average of the features does not rise with the ratings; negate features "
            "that fall as quality rises, leave out constant ones, or use 'ridge'"
        )
    return Learned(Linear(weights * slope, mean - slope * float(average.mean())), {})
