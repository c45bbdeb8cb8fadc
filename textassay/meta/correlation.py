"""Pearson's, Spearman's and Kendall's correlation of two arrays, and of many short pairs at once.

Knows numbers only. A correlation with a constant side is undefined: `None` from the functions of
two arrays, NaN inside the results of the `_rows` functions, which are building blocks. Constant
means exactly equal numbers.

References:
    Kendall, "The treatment of ties in ranking problems", Biometrika 33 (1945), for tau-b.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textassay.meta.contingency import Cells, centered
from textassay.meta.ranks import Floats, average_ranks
from textassay.runtime.errors import DataError

Coefficient = Literal["pearson", "spearman", "kendall"]
COEFFICIENTS: tuple[Coefficient, ...] = get_args(Coefficient)

_PAIRWISE_UP_TO = 48
"""Columns up to which comparing all pairs of a row beats counting its inversions."""
_MAX_MAGNITUDE = 1e300
"""Largest magnitude of a number; sums of a hundred million of them are still finite."""
_CHUNK = 2_000_000
"""Numbers that a temporary array may hold."""


def pearson(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return Pearson's r of two arrays of shape (n,), or `None` if a side is constant or n < 2.

    Raises:
        DataError: The arrays differ in length, or hold NaN or infinity.
    """
    return _of_arrays(pearson_rows, x, y)


def spearman(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return Spearman's rho with average ranks, or `None` if a side is constant or n < 2.

    Raises:
        DataError: The arrays differ in length, or hold NaN or infinity.
    """
    return _of_arrays(spearman_rows, x, y)


def kendall(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return Kendall's tau-b, or `None` if a side is constant or n < 2.

    Tau-b corrects for ties on both sides.

    Raises:
        DataError: The arrays differ in length, or hold NaN or infinity.
    """
    return _of_arrays(kendall_rows, x, y)


def pearson_rows(x: Floats, y: Floats) -> Floats:
    """Return Pearson's r of each row of `x` with the same row of `y`.

    Args:
        x: Shape (rows, n).
        y: Shape (rows, n).

    Returns:
        Shape (rows,); NaN if a side is constant.
    """
    defined = varies(x) & varies(y)
    r = np.full(len(x), np.nan)
    a, b = centered(x[defined]), centered(y[defined])
    norms = np.sqrt(np.einsum("ij,ij->i", a, a) * np.einsum("ij,ij->i", b, b))
    # rounding can carry a perfect correlation past 1, and Fisher's z would then be NaN
    r[defined] = np.clip(np.einsum("ij,ij->i", a, b) / norms, -1.0, 1.0)
    return r


def spearman_rows(x: Floats, y: Floats) -> Floats:
    """Return Spearman's rho of each row of `x` with the same row of `y`.

    Shapes as for `pearson_rows`.
    """
    return pearson_rows(average_ranks(x), average_ranks(y))


def kendall_rows(x: Floats, y: Floats) -> Floats:
    """Return Kendall's tau-b of each row of `x` with the same row of `y`.

    Shapes as for `pearson_rows`.
    """
    rows, n = x.shape
    if n > _PAIRWISE_UP_TO:
        return np.array([_kendall_by_inversions(x[i], y[i]) for i in range(rows)], float)
    # the pairwise array has n * n numbers per row; chunks bound the memory
    step = max(1, _CHUNK // max(n * n, 1))
    parts = [_kendall_by_pairs(x[i : i + step], y[i : i + step]) for i in range(0, rows, step)]
    return np.concatenate(parts) if parts else np.empty(0)


ROWS: dict[Coefficient, Callable[[Floats, Floats], Floats]] = {
    "pearson": pearson_rows,
    "spearman": spearman_rows,
    "kendall": kendall_rows,
}
"""The three coefficients by name."""


def varies(rows: Floats) -> NDArray[np.bool_]:
    """Return for each row of shape (rows, n) whether it holds two different numbers."""
    return np.asarray((rows != rows[:, :1]).any(axis=1), bool)


def finite_array(values: ArrayLike | Sequence[float | None], name: str) -> Floats:
    """Return a float array of shape (n,), with NaN where `values` holds `None` or NaN.

    Args:
        values: One number per row.
        name: What to call them in the error.

    Raises:
        DataError: They are not numbers, not one-dimensional, or one is infinite or beyond 1e300.
    """
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name} must be numbers (None or NaN for a missing value): {error}"
        ) from error
    if array.ndim != 1:
        raise DataError(f"{name} must have one dimension, not shape {array.shape}")
    if (beyond := np.abs(array) > _MAX_MAGNITUDE).any():
        row = int(np.flatnonzero(beyond)[0])
        raise DataError(
            f"{name} contain {array[row]} at row {row}; a number must be finite and at most"
            f" {_MAX_MAGNITUDE:g}"
        )
    return array


def _of_arrays(
    rows: Callable[[Floats, Floats], Floats], x: ArrayLike, y: ArrayLike
) -> float | None:
    a, b = finite_array(x, "x"), finite_array(y, "y")
    if len(a) != len(b):
        raise DataError(f"x and y must be equally long, not {len(a)} and {len(b)}")
    if np.isnan(a).any() or np.isnan(b).any():
        raise DataError(
            "x and y must not contain NaN; leave out rows without both numbers, as correlate() does"
        )
    if len(a) < 2:
        return None
    value = float(rows(a[None, :], b[None, :])[0])
    return None if np.isnan(value) else value


def _kendall_by_pairs(x: Floats, y: Floats) -> Floats:
    """Compare all pairs of columns; shape (rows, n) to (rows,)."""
    sx, sy = (np.sign(side[:, :, None] - side[:, None, :]) for side in (x, y))
    s = np.einsum("kij,kij->k", sx, sy)
    # ordered pairs on both sides of the fraction, so the factor 2 drops out
    norms = np.sqrt(
        np.count_nonzero(sx, axis=(1, 2)) * np.count_nonzero(sy, axis=(1, 2)).astype(float)
    )
    tau: Floats = np.divide(s, norms, out=np.full(len(x), np.nan), where=norms > 0)
    return tau


def _kendall_by_inversions(x: Floats, y: Floats) -> float:
    cells = Cells(x, y)
    return float(cells.kendall(cells.weighted(np.ones((len(x), 1))))[0])
