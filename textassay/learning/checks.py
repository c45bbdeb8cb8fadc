"""What is given to learn from, checked.

Tables of numbers, names, scales, and features that hold the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from textassay.learning.splits import Mask, is_gap
from textassay.learning.training import Floats
from textassay.runtime.errors import DataError

_MAX_MAGNITUDE = 1e100
_LEAK = 0.999


def find_leaks(
    features: Floats, human: Floats, feature_names: Sequence[str], target_names: Sequence[str]
) -> list[tuple[str, str]]:
    """Return feature-aspect pairs whose correlation exceeds .999 in magnitude on at least 10 rows.

    Args:
        features: Shape (n, features), NaN if absent.
        human: Shape (n, targets), NaN if absent.
        feature_names: Names of the features.
        target_names: Names of the aspects.
    """
    leaks = []
    for t, target in enumerate(target_names):
        for f, feature in enumerate(feature_names):
            both = ~np.isnan(features[:, f]) & ~np.isnan(human[:, t])
            x, y = features[both, f], human[both, t]
            if (
                len(x) >= 10
                and np.ptp(x) > 0
                and np.ptp(y) > 0
                and abs(np.corrcoef(x, y)[0, 1]) > _LEAK
            ):
                leaks.append((feature, target))
    return leaks


def matrix(values: ArrayLike | Sequence[Sequence[float | None]], name: str) -> Floats:
    """Return a table of numbers, shape (rows, columns), NaN for gaps.

    Raises:
        DataError: It holds something else, numbers that are not finite, or nothing.
    """
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name} must be a table of numbers (None or NaN for a missing value): {error}"
        ) from error
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(f"{name} must have rows and columns, not shape {array.shape}")
    # far below the limit of a double, since squares of features are summed
    if (beyond := np.abs(array) > _MAX_MAGNITUDE).any():
        row, column = (int(i) for i in np.argwhere(beyond)[0])
        raise DataError(
            f"{name} contain {array[row, column]} in row {row}, column {column}; numbers must be"
            " finite"
        )
    return np.ascontiguousarray(array)


def labels_of(given: Iterable[object]) -> list[str | None]:
    """Return labels as text, as a saved aggregator has them; `None` for `None` and NaN."""
    return [None if is_gap(label) else str(label) for label in given]


def without_features(x: Floats) -> Mask:
    """Return which rows have no feature at all, shape (n,)."""
    return np.asarray(np.isnan(x).all(axis=1), bool)


def names_of(names: Sequence[str] | None, count: int, kind: str) -> tuple[str, ...]:
    """Return names of columns, made up if none are given.

    Raises:
        DataError: There are too many or too few, or a name repeats.
    """
    if names is None:
        return tuple(f"{kind}_{i}" for i in range(count))
    if len(names) != count:
        raise DataError(f"{len(names)} {kind} names for {count} columns")
    if len(set(names)) != count:
        raise DataError(
            f"{kind} names repeat:"
            f" {', '.join(sorted({n for n in names if list(names).count(n) > 1}))}"
        )
    return tuple(names)


def limits_of(target: Floats, scale: tuple[float, float] | None, name: str) -> tuple[float, float]:
    """Return the scale, or the range of the ratings if none is given.

    Raises:
        DataError: A rating is off the scale.
    """
    low, high = float(target.min()), float(target.max())
    if scale is None:
        return low, high
    if low < scale[0] or high > scale[1]:
        raise DataError(
            f"aspect {name!r}: ratings from {low:g} to {high:g} are off the scale"
            f" {scale[0]:g}-{scale[1]:g}"
        )
    return float(scale[0]), float(scale[1])
