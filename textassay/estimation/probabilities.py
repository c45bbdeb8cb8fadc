"""Measures how well probabilities match people's answers, and learns a map that improves it.

References: Guo et al., "On calibration of modern neural networks" (2017), sections 3 and 4.2:
expected calibration error, and a temperature for all probabilities of a question.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from textassay.arrays import Codes, Floats
from textassay.estimation.maps import MapScales
from textassay.learning.splits import fold_masks
from textassay.learning.training import FOLDS


def calibration_error(probabilities: Floats, came_true: Floats, bins: int = 10) -> float:
    """Return the expected calibration error of probabilities, shape (n,), of what came true.

    It is the mean over all rows of the distance between the mean probability of a row's bin and the
    share that came true in it. Bins are equal parts of 0 to 1, closed on the right.
    """
    # in binary, .7 times 10 is a little above 7
    bin_of = np.maximum(np.ceil(np.round(probabilities * bins, 9)).astype(int) - 1, 0)
    gaps = np.bincount(bin_of, probabilities - came_true, minlength=bins)
    return float(np.abs(gaps).sum() / len(probabilities))


def with_temperature(shares: Floats, temperature: float) -> Floats:
    """Return probabilities of shape (n, k) at a temperature; above 1 they are less confident."""
    if temperature == 1.0:
        return shares
    positive = np.where(shares > 0, shares, np.inf).min(axis=1, keepdims=True)
    # providers that round to two decimals send 0 below .005
    positive_shares = np.where(shares > 0, shares, np.minimum(positive, 0.005))
    return np.asarray(softmax(np.log(positive_shares) / temperature, axis=1))


def fit_temperature(shares: Floats, chosen: Codes) -> float:
    """Return the temperature that makes people's choices likeliest, one column per row."""
    rows = np.arange(len(chosen))

    def loss(logarithm: float) -> float:
        likely = with_temperature(shares, float(np.exp(logarithm)))[rows, chosen]
        return -float(np.log(likely).mean())

    # beyond these bounds probabilities are nearly uniform, or nearly 0 and 1
    result = minimize_scalar(loss, bounds=(np.log(0.1), np.log(10)), method="bounded")
    return float(np.exp(result.x))


def level_report(
    shares: Floats, levels: Floats, ratings: Floats, groups: Codes, scales: MapScales, seed: int
) -> tuple[float, dict[str, Any] | None]:
    """Return the temperature of a question's levels, and their calibration before and after.

    The report is `None`, and the temperature 1, with fewer than 30 rows whose rating is a level.

    Args:
        shares: Probability of each level, NaN without any, shape (n, k).
        levels: The levels on the judge's scale, shape (k,).
        ratings: People's ratings, shape (n,).
        groups: Code of each row's source, shape (n,).
        scales: Ranges of judge and raters.
        seed: Seed of the folds.
    """
    on_raters_scale = scales.on_raters_scale(levels) if len(levels) else None
    if on_raters_scale is None:
        return 1.0, None
    is_level = np.isclose(ratings[:, None], on_raters_scale[None, :])
    rows = is_level.any(axis=1) & ~np.isnan(shares).any(axis=1)
    if rows.sum() < 30 or len(np.unique(groups[rows])) < FOLDS:
        return 1.0, None
    raw, chosen, groups = shares[rows], is_level[rows].argmax(axis=1), groups[rows]
    after = np.empty_like(raw)
    for test in fold_masks(groups, FOLDS, seed=seed):
        after[test] = with_temperature(raw[test], fit_temperature(raw[~test], chosen[~test]))
    right = (raw.argmax(axis=1) == chosen).astype(float)
    temperature = fit_temperature(raw, chosen)
    return temperature, {
        "of": "the likeliest level",
        "n": int(rows.sum()),
        "raw": calibration_error(raw.max(axis=1), right),
        "calibrated": calibration_error(after.max(axis=1), right),
        "temperature": temperature,
        "right": float(right.mean()),
        "constant": float(np.bincount(chosen).max() / len(chosen)),
    }


def yes_report(probabilities: Floats, calibrated: Floats, ratings: Floats) -> dict[str, Any]:
    """Return the calibration of probabilities of yes before and after; ratings are 0 or 1."""
    share = float(ratings.mean())
    return {
        "of": "yes",
        "n": len(ratings),
        "raw": calibration_error(probabilities, ratings),
        "calibrated": calibration_error(calibrated, ratings),
        "right": float(((probabilities >= 0.5) == ratings).mean()),
        "constant": max(share, 1 - share),
    }
