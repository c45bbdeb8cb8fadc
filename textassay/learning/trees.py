"""Trees by LightGBM: a single tree, a random forest, gradient boosting.

Knows standardized arrays. LightGBM's defaults need 20 rows a leaf and predict a constant below 40
rows without a word, so leaves shrink with the data here. Boosting respects the direction in which a
feature clearly moves with the ratings: a judge's higher score never lowers the prediction, which is
worth some hundreds of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from textassay.learning.training import Floats, Learned, Training
from textassay.runtime.errors import DataError

_CLEAR = 2.0
"""Standard errors from 0 beyond which a feature's correlation with the target counts as having a
direction."""


class Trees:
    """An ensemble in LightGBM's text format; exact Shapley values by TreeSHAP.

    Args:
        text: The model as LightGBM writes it.

    References:
        Lundberg et al., "From local explanations to global understanding with explainable AI for
        trees" (2020).
    """

    def __init__(self, text: str) -> None:
        import lightgbm  # heavy, so on first use

        self.text = text
        self._model = lightgbm.Booster(model_str=text)
        # LightGBM averages a forest's predictions and adds up its contributions
        averaged = any(line.strip() == "average_output" for line in text[:2000].splitlines())
        self._divisor = self._model.num_trees() if averaged else 1

    def predict(self, features: Floats) -> Floats:
        """Return predictions, shape (n,)."""
        return np.asarray(self._model.predict(np.ascontiguousarray(features), num_threads=1), float)

    def contributions(self, features: Floats) -> tuple[Floats, float]:
        """Return exact Shapley values, shape (n, features), and the expected prediction."""
        contributions = self._model.predict(
            np.ascontiguousarray(features), pred_contrib=True, num_threads=1
        )
        contributions = np.asarray(contributions, float) / self._divisor
        return contributions[:, :-1], float(contributions[0, -1]) if len(contributions) else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"kind": "trees", "lightgbm": self.text}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trees:
        """Build from `to_dict`."""
        return cls(data["lightgbm"])


def learn_tree(training: Training) -> Learned:
    """Grow one regression tree."""
    return _train(training, 1, learning_rate=1.0, num_leaves=15, min_data_in_leaf=_leaf(training))


def learn_forest(training: Training) -> Learned:
    """A random forest: each tree sees 63 % of the rows, each split a third of the features."""
    return _train(
        training,
        100,
        boosting="rf",
        learning_rate=1.0,
        num_leaves=int(np.clip(len(training.target) // 20, 15, 255)),
        min_data_in_leaf=3,
        bagging_fraction=0.632,
        bagging_freq=1,
        feature_fraction_bynode=1 / 3,
    )


def learn_lightgbm(training: Training) -> Learned:
    """Gradient boosting, monotone in every feature that clearly rises or falls with the ratings."""
    return boosted(training, clear_directions(training))


def boosted(training: Training, directions: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Learned:
    """Gradient boosting that never falls in features of direction 1 nor rises in those of -1.

    0 leaves one free.
    """
    return _train(
        training,
        200,
        learning_rate=0.05,
        num_leaves=7,
        max_depth=3,
        min_data_in_leaf=_leaf(training),
        lambda_l2=1.0,
        monotone_constraints=directions.tolist(),
    )


def clear_directions(training: Training) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return 1 or -1 for features with a clear sign of covariance with the target, else 0.

    Standard errors are those of the rows' products, which scatter widely for a feature that helps
    at one end of its range and harms at the other (White, 1980).
    """
    features, target = (
        training.features - training.features.mean(axis=0),
        training.target - training.target.mean(),
    )
    products = features * target[:, None]
    sums, standard_errors = products.sum(axis=0), np.sqrt((products**2).sum(axis=0))
    return np.where(np.abs(sums) > _CLEAR * standard_errors, np.sign(sums), 0).astype(np.intp)


def _leaf(training: Training) -> int:
    return int(np.clip(len(training.target) // 20, 2, 50))


def _train(training: Training, rounds: int, **settings: Any) -> Learned:
    import lightgbm  # heavy, so on first use

    # LightGBM stops with an error of its own if a bag of rows comes out empty
    if len(training.target) < 2:
        raise DataError(f"trees need at least 2 rows to learn from, not {len(training.target)}")
    parameters = {
        "objective": "regression",
        "verbosity": -1,
        "num_threads": training.threads,
        # equal data, seed and versions must give equal predictions whatever the number of threads,
        # which takes a fixed layout as well
        "deterministic": True,
        "force_row_wise": True,
        "seed": training.seed % 2**31,
        # scores on a scale of a few values would lose values to merged bins
        "min_data_in_bin": 1,
        "use_missing": False,
        **settings,
    }
    data = lightgbm.Dataset(
        training.features, training.target, params={"verbosity": -1}, free_raw_data=True
    )
    return Learned(
        Trees(lightgbm.train(parameters, data, rounds).model_to_string(num_iteration=-1)), {}
    )
