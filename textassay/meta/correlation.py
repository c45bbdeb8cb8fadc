"""Pearson's, Spearman's and Kendall's correlation of two arrays, also under many sets of weights.

Knows numbers only. A correlation with a constant side is undefined: `None` from the functions of
two arrays, NaN inside the results of the `_rows` functions, which are building blocks. Constant
means exactly equal numbers.

`Cells` holds two arrays as a sparse contingency table and computes the coefficients for many sets
of weights at once; what the weights stand for (a resample, all rows once) is the caller's affair.
`InversionCounter` is the core of Kendall's tau.

References:
    Kendall, "The treatment of ties in ranking problems", Biometrika 33 (1945), for tau-b.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textassay.runtime.errors import DataError

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Coefficient = Literal["pearson", "spearman", "kendall"]
COEFFICIENTS: tuple[Coefficient, ...] = get_args(Coefficient)
_PAIRWISE_UP_TO = 48
"""Columns up to which comparing all pairs of a row beats counting its inversions."""
_MAX_MAGNITUDE = 1e300
"""Largest magnitude of a number; sums of a hundred million of them are still finite."""
_NUMBERS_AT_ONCE = 2_000_000
"""Numbers that a temporary array may hold."""


def pearson(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return Pearson's r of two arrays of shape (n,), or `None` if a side is constant or n < 2.

    Raises:
        DataError: The arrays differ in length, or hold NaN or infinity.
    """
    return _between_arrays(pearson_rows, x, y)


def spearman(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return Spearman's rho with average ranks, or `None` if a side is constant or n < 2.

    Raises:
        DataError: The arrays differ in length, or hold NaN or infinity.
    """
    return _between_arrays(spearman_rows, x, y)


def kendall(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return Kendall's tau-b, or `None` if a side is constant or n < 2.

    Tau-b corrects for ties on both sides.

    Raises:
        DataError: The arrays differ in length, or hold NaN or infinity.
    """
    return _between_arrays(kendall_rows, x, y)


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
    step = max(1, _NUMBERS_AT_ONCE // max(n * n, 1))
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


def _between_arrays(
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


class Cells:
    """Two arrays as a sparse contingency table.

    Its filled cells, ready for coefficients under many sets of weights.

    Rows with equal (x, y) share a cell, so scores on a scale of few values need few of them. A
    weight is how often a row counts, such as how often a resample has drawn it; results are those
    of the repeated rows.

    Args:
        x: Shape (n,).
        y: Shape (n,).
    """

    def __init__(self, x: Floats, y: Floats) -> None:
        rx, ry = dense_ranks(x), dense_ranks(y)
        if rx.max(initial=0) < ry.max(
            initial=0
        ):  # inversions are counted in the side with fewer values
            x, y, rx, ry = y, x, ry, rx
        self._rows = np.lexsort((ry, rx))
        rx, ry = rx[self._rows], ry[self._rows]
        self._starts = np.flatnonzero(np.r_[True, (np.diff(rx) != 0) | (np.diff(ry) != 0)])
        first = self._rows[self._starts]
        self._rx, self._ry = rx[self._starts], ry[self._starts]
        self._values = centered(np.stack([x[first], y[first]]))
        self._x_starts = np.flatnonzero(np.r_[True, np.diff(self._rx) != 0])
        self._by_y = np.argsort(self._ry, kind="stable")
        self._y_starts = np.flatnonzero(np.r_[True, np.diff(self._ry[self._by_y]) != 0])
        self._inversions = InversionCounter(self._ry)

    def weighted(self, weights: Floats) -> WeightedCells:
        """Return the sums that the coefficients need under integer weights of shape (n, b).

        The result has one column per set of weights.
        """
        cells = np.add.reduceat(weights[self._rows], self._starts, axis=0)
        return WeightedCells(
            cells=cells,
            x=np.add.reduceat(cells, self._x_starts, axis=0),
            y=np.add.reduceat(cells[self._by_y], self._y_starts, axis=0),
        )

    def pearson(self, sample: WeightedCells) -> Floats:
        """Return Pearson's r for each column of weights, shape (b,).

        NaN if a side is constant.
        """
        # a column without any weight is undefined anyway, and must not divide 0 by 0
        total = np.maximum(sample.cells.sum(axis=0), 1.0)
        dx, dy = (side[:, None] - side @ sample.cells / total for side in self._values)
        sxx = np.einsum("ij,ij,ij->j", sample.cells, dx, dx)
        syy = np.einsum("ij,ij,ij->j", sample.cells, dy, dy)
        sxy = np.einsum("ij,ij,ij->j", sample.cells, dx, dy)
        return _bounded_ratio(sxy, sxx, syy, sample.varies)

    def spearman(self, sample: WeightedCells) -> Floats:
        """Return Spearman's rho for each column of weights, shape (b,).

        NaN if a side is constant.
        """
        rx, ry = _centered_ranks(sample.x), _centered_ranks(sample.y)
        sxx = np.einsum("ij,ij,ij->j", sample.x, rx, rx)
        syy = np.einsum("ij,ij,ij->j", sample.y, ry, ry)
        sxy = np.einsum("ij,ij,ij->j", sample.cells, rx[self._rx], ry[self._ry])
        return _bounded_ratio(sxy, sxx, syy, sample.varies)

    def kendall(self, sample: WeightedCells) -> Floats:
        """Return Kendall's tau-b for each column of weights, shape (b,).

        NaN if a side is constant.
        """
        total = sample.cells.sum(axis=0)
        pairs = total * (total - 1) / 2
        tied_x, tied_y, tied_both = _tied(sample.x), _tied(sample.y), _tied(sample.cells)
        discordant = self._inversions.count(sample.cells)
        # concordant minus discordant; pairs tied on both sides were subtracted twice
        s = pairs - tied_x - tied_y + tied_both - 2 * discordant
        return _bounded_ratio(s, pairs - tied_x, pairs - tied_y, sample.varies)


class WeightedCells:
    """Summed weights of a table's cells and margins, shape (cells or values, b)."""

    def __init__(self, *, cells: Floats, x: Floats, y: Floats) -> None:
        self.cells, self.x, self.y = cells, x, y
        self.varies = ((x > 0).sum(axis=0) > 1) & ((y > 0).sum(axis=0) > 1)


def _bounded_ratio(
    above: Floats, x_below: Floats, y_below: Floats, defined: NDArray[np.bool_]
) -> Floats:
    ratio = np.full(len(above), np.nan)
    below = np.sqrt(np.maximum(x_below, 0.0)) * np.sqrt(np.maximum(y_below, 0.0))
    defined = defined & (below > 0)  # a spread too small for the square of a double counts as none
    ratio[defined] = np.clip(above[defined] / below[defined], -1.0, 1.0)
    return ratio


def _centered_ranks(margin: Floats) -> Floats:
    """Return average ranks, less their mean, of the values behind a margin of shape (values, b)."""
    below = np.cumsum(margin, axis=0) - margin
    return np.asarray(below + (margin - margin.sum(axis=0)) / 2)


def _tied(weights: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->j", weights, weights - 1) / 2)


def centered(rows: Floats) -> Floats:
    """Return rows of shape (rows, n) with mean 0 and no magnitude above 2.

    All scaled, so only ratios mean anything.

    Done twice, so that numbers of any size, and such as differ in their last digits only, keep what
    tells them apart.
    """
    for _ in range(2):
        largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
        rows = rows / np.where(largest > 0, largest, 1.0)
        rows = rows - rows.mean(axis=1, keepdims=True)
    return rows


class InversionCounter:
    """Counts pairs `i < j` with `ranks[i] > ranks[j]`, each pair weighted by `w[i] * w[j]`.

    Two ranks differ first at one bit, seen from the top. So one pass per bit, over rows that agree
    in all higher bits, meets every inversion exactly once: O(n log K) for K distinct ranks. The
    passes depend on the ranks alone and are laid out once; counting under other weights is a
    gather, a running sum and a product for each.

    Args:
        ranks: Integers from 0, shape (n,), in the order in which inversions are counted.
    """

    def __init__(self, ranks: Codes) -> None:
        bits = int(ranks.max(initial=0)).bit_length()
        self._passes = [
            level for bit in reversed(range(bits)) if (level := _one_bit(ranks, bit)) is not None
        ]

    def count(self, weights: Floats) -> Floats:
        """Return the weighted number of inversions, shape (b,).

        Args:
            weights: Non-negative weights, shape (n, b), one column per count.
        """
        total = np.zeros(weights.shape[1])
        for ones, zeros, until, since in self._passes:
            before = np.zeros((len(ones) + 1, weights.shape[1]))
            np.cumsum(weights[ones], axis=0, out=before[1:])
            larger_before = before[until]
            larger_before -= before[since]
            total += np.einsum("ij,ij->j", larger_before, weights[zeros])
        return total


def _one_bit(ranks: Codes, bit: int) -> tuple[Codes, Codes, Codes, Codes] | None:
    """Lay out the pass over one bit.

    Returns:
        Rows whose bit is set; rows whose bit is not set and which have at least one of the former
        before them among rows of equal higher bits; and, for each of the latter, where the run of
        the former ends and starts. `None` if there is no such row.
    """
    prefix = ranks >> (bit + 1)
    # stable, so that rows of equal prefix stay in their order, which is what an inversion is about
    order = np.argsort(prefix, kind="stable")
    prefix, is_set = prefix[order], (ranks[order] >> bit) & 1
    set_before = np.concatenate([[0], np.cumsum(is_set)])
    zeros = np.flatnonzero(is_set == 0)
    until = set_before[zeros]
    since = set_before[np.searchsorted(prefix, prefix[zeros], side="left")]
    inverted = until > since
    if not inverted.any():
        return None
    return order[is_set == 1], order[zeros[inverted]], until[inverted], since[inverted]


def average_ranks(values: Floats) -> Floats:
    """Return ranks from 1 along the last axis, shape (rows, n); ties share their mean rank."""
    n = values.shape[-1]
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    starts = np.ones(values.shape, bool)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    ends = np.ones(values.shape, bool)
    ends[..., :-1] = starts[..., 1:]
    first = np.maximum.accumulate(np.where(starts, np.arange(n), 0), axis=-1)
    last = np.minimum.accumulate(np.where(ends, np.arange(n), n)[..., ::-1], axis=-1)[..., ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=-1)
    return ranks


def dense_ranks(values: Floats) -> Codes:
    """Return ranks from 0 without holes, equal numbers sharing a rank; shape (n,)."""
    return np.unique(values, return_inverse=True)[1]
