"""Two arrays as a sparse contingency table, and three coefficients under many weightings.

Knows numbers and weights; what the weights stand for (a resample, all rows once) is the caller's
affair.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from textassay.meta.inversions import InversionCounter
from textassay.meta.ranks import Floats, dense_ranks


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
        return _ratio(sxy, sxx, syy, sample.varies)

    def spearman(self, sample: WeightedCells) -> Floats:
        """Return Spearman's rho for each column of weights, shape (b,).

        NaN if a side is constant.
        """
        rx, ry = _centered_ranks(sample.x), _centered_ranks(sample.y)
        sxx = np.einsum("ij,ij,ij->j", sample.x, rx, rx)
        syy = np.einsum("ij,ij,ij->j", sample.y, ry, ry)
        sxy = np.einsum("ij,ij,ij->j", sample.cells, rx[self._rx], ry[self._ry])
        return _ratio(sxy, sxx, syy, sample.varies)

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
        return _ratio(s, pairs - tied_x, pairs - tied_y, sample.varies)


class WeightedCells:
    """Summed weights of a table's cells and margins, shape (cells or values, b)."""

    def __init__(self, *, cells: Floats, x: Floats, y: Floats) -> None:
        self.cells, self.x, self.y = cells, x, y
        self.varies = ((x > 0).sum(axis=0) > 1) & ((y > 0).sum(axis=0) > 1)


def _ratio(above: Floats, x_below: Floats, y_below: Floats, defined: NDArray[np.bool_]) -> Floats:
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
