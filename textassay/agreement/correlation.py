"""Pearson's, Spearman's and Kendall's correlation, also under many weights, and at three levels.

A correlation with a constant side is undefined: `None` from the functions of two arrays, NaN inside
the results of the `_rows` functions, which are building blocks. Constant means exactly equal
numbers.

`Cells` holds two arrays as a sparse contingency table and computes the coefficients for many sets
of weights at once; the caller provides the weights (a resample, or 1 for each row).

Scores and human ratings are compared at one of these levels:

- `dataset`: all rows are pooled, one coefficient.
- `group`: one coefficient per group (source document, dialogue), then the mean over groups in which
  both sides vary.
- `system`: the mean per system on each side, then one coefficient over the systems.

Means are computed with `math.fsum`. With a running sum, systems with equal ratings can differ in
the last digit, which changes published rank correlations.

References:
    Kendall, "The treatment of ties in ranking problems", Biometrika 33 (1945), for tau-b.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from textassay.arrays import Codes, Floats, Mask
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName

Coefficient = Literal["pearson", "spearman", "kendall"]
NumbersLike = ArrayLike | Sequence[float | None]
"""Numbers of shape (n,); `None` or NaN for a missing one."""
COEFFICIENTS: tuple[Coefficient, ...] = get_args(Coefficient)


def pearson(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return Pearson's r of two arrays of shape (n,), or `None` if a side is constant or n < 2.

    Raises:
        DataError: The arrays differ in length, or contain NaN or infinity.
    """
    return _between_arrays(pearson_rows, x, y)


def spearman(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return Spearman's rho with average ranks, or `None` if a side is constant or n < 2.

    Raises:
        DataError: The arrays differ in length, or contain NaN or infinity.
    """
    return _between_arrays(spearman_rows, x, y)


def kendall(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return Kendall's tau-b, or `None` if a side is constant or n < 2.

    Tau-b corrects for ties on both sides.

    Raises:
        DataError: The arrays differ in length, or contain NaN or infinity.
    """
    return _between_arrays(kendall_rows, x, y)


def pearson_rows(x: Floats, y: Floats) -> Floats:
    """Return Pearson's r of each row of `x` with the same row of `y`."""
    defined = varies(x) & varies(y)
    r = np.full(len(x), np.nan)
    a, b = center_rows(x[defined]), center_rows(y[defined])
    norms = np.sqrt(np.einsum("ij,ij->i", a, a) * np.einsum("ij,ij->i", b, b))
    # rounding can carry a perfect correlation past 1, and Fisher's z would then be NaN
    r[defined] = np.clip(np.einsum("ij,ij->i", a, b) / norms, -1.0, 1.0)
    return r


def spearman_rows(x: Floats, y: Floats) -> Floats:
    """Return Spearman's rho of each row of `x` with the same row of `y`."""
    return pearson_rows(average_ranks(x), average_ranks(y))


def kendall_rows(x: Floats, y: Floats) -> Floats:
    """Return Kendall's tau-b of each row of `x` with the same row of `y`."""
    rows, n = x.shape
    # up to this number of columns, comparing all pairs of a row is faster than counting inversions
    if n > 48:
        each = (Cells(*row).coefficients(np.ones((n, 1))) for row in zip(x, y, strict=True))
        return np.array([coefficients["kendall"][0] for coefficients in each], float)
    # the pairwise array has n * n numbers per row; chunks bound the memory
    step = max(1, 2_000_000 // max(n * n, 1))
    parts = [_kendall_by_pairs(x[i : i + step], y[i : i + step]) for i in range(0, rows, step)]
    return np.concatenate(parts) if parts else np.empty(0)


ROWS: dict[Coefficient, Callable[[Floats, Floats], Floats]] = {
    "pearson": pearson_rows,
    "spearman": spearman_rows,
    "kendall": kendall_rows,
}
"""The three coefficients by name."""


def varies(rows: Floats) -> Mask:
    """Return for each row of shape (rows, n) whether it holds two different numbers."""
    return np.asarray((rows != rows[:, :1]).any(axis=1), bool)


def finite_array(values: NumbersLike, name: str) -> Floats:
    """Return a float array of shape (n,), with NaN where `values` holds `None` or NaN."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name} must be numbers (None or NaN for a missing value): {error}"
        ) from error
    if array.ndim != 1:
        raise DataError(f"{name} must have one dimension, not shape {array.shape}")
    most = 1e300  # sums of a hundred million such numbers are still finite
    if (beyond := np.abs(array) > most).any():
        row = int(np.flatnonzero(beyond)[0])
        raise DataError(
            f"{name} contain {array[row]} at row {row}; a number must be finite and at most"
            f" {most:g}"
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
    return number_or_none(rows(a[None, :], b[None, :])[0])


def number_or_none(value: float) -> float | None:
    """Return a number as Python's own; `None` if it is NaN."""
    return None if np.isnan(value) else float(value)


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


class Cells:
    """Two arrays as the filled cells of a contingency table, for coefficients under many weights.

    Rows with equal (x, y) share a cell, so scores on a scale of few values need few cells. A weight
    is how often a row counts, such as how often a resample has drawn it; the coefficients are the
    same as if the rows were repeated.
    """

    def __init__(self, x: Floats, y: Floats) -> None:
        rx, ry = (np.unique(side, return_inverse=True)[1] for side in (x, y))
        # inversions are counted in the side with fewer values
        if rx.max(initial=0) < ry.max(initial=0):
            x, y, rx, ry = y, x, ry, rx
        self._rows = np.lexsort((ry, rx))
        rx, ry = rx[self._rows], ry[self._rows]
        self._starts = np.flatnonzero(np.r_[True, (np.diff(rx) != 0) | (np.diff(ry) != 0)])
        first = self._rows[self._starts]
        self._rx, self._ry = rx[self._starts], ry[self._starts]
        self._values = center_rows(np.stack([x[first], y[first]]))
        self._x_starts = np.flatnonzero(np.r_[True, np.diff(self._rx) != 0])
        self._by_y = np.argsort(self._ry, kind="stable")
        self._y_starts = np.flatnonzero(np.r_[True, np.diff(self._ry[self._by_y]) != 0])
        self._inversions = InversionCounter(self._ry)

    def coefficients(self, weights: Floats) -> dict[Coefficient, Floats]:
        """Return each coefficient for each column of integer weights of shape (n, b), shape (b,).

        NaN if a side is constant.
        """
        cells = np.add.reduceat(weights[self._rows], self._starts, axis=0)
        x = np.add.reduceat(cells, self._x_starts, axis=0)
        y = np.add.reduceat(cells[self._by_y], self._y_starts, axis=0)
        defined = ((x > 0).sum(axis=0) > 1) & ((y > 0).sum(axis=0) > 1)
        total = cells.sum(axis=0)
        # the coefficient of a column without weights is undefined; avoid dividing 0 by 0
        dx, dy = (side[:, None] - side @ cells / np.maximum(total, 1.0) for side in self._values)
        rx, ry = _center_ranks(x), _center_ranks(y)
        rx_of_cells, ry_of_cells = rx[self._rx], ry[self._ry]
        pairs = total * (total - 1) / 2
        tied_x, tied_y, tied_both = _tie_share(x), _tie_share(y), _tie_share(cells)
        # concordant minus discordant; pairs tied on both sides were subtracted twice
        s = pairs - tied_x - tied_y + tied_both - 2 * self._inversions.count(cells)
        sums: dict[Coefficient, tuple[Floats, Floats, Floats]] = {
            "pearson": (_sum(cells, dx, dy), _sum(cells, dx, dx), _sum(cells, dy, dy)),
            "spearman": (_sum(cells, rx_of_cells, ry_of_cells), _sum(x, rx, rx), _sum(y, ry, ry)),
            "kendall": (s, pairs - tied_x, pairs - tied_y),
        }
        return {name: _bounded_ratio(*parts, defined) for name, parts in sums.items()}


def _sum(weights: Floats, a: Floats, b: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij,ij->j", weights, a, b))


def _bounded_ratio(above: Floats, x_below: Floats, y_below: Floats, defined: Mask) -> Floats:
    ratio = np.full(len(above), np.nan)
    below = np.sqrt(np.maximum(x_below, 0.0)) * np.sqrt(np.maximum(y_below, 0.0))
    defined = defined & (below > 0)  # a spread whose square underflows counts as 0
    ratio[defined] = np.clip(above[defined] / below[defined], -1.0, 1.0)
    return ratio


def _center_ranks(margin: Floats) -> Floats:
    """Return average ranks, less their mean, of the values behind a margin of shape (values, b)."""
    below = np.cumsum(margin, axis=0) - margin
    return np.asarray(below + (margin - margin.sum(axis=0)) / 2)


def _tie_share(weights: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->j", weights, weights - 1) / 2)


def center_rows(rows: Floats) -> Floats:
    """Return rows of shape (rows, n) with mean 0, scaled so that no magnitude is above 2.

    Done twice, so that numbers of any size remain distinguishable, even if they differ in their
    last digits only.
    """
    for _ in range(2):
        largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
        rows = rows / np.where(largest > 0, largest, 1.0)
        rows = rows - rows.mean(axis=1, keepdims=True)
    return rows


class InversionCounter:
    """Counts pairs `i < j` with `ranks[i] > ranks[j]`, each pair weighted by `w[i] * w[j]`.

    Two ranks differ first at one bit, seen from the top. So one pass per bit, over rows that agree
    in all higher bits, counts every inversion exactly once: O(n log K) for K distinct ranks. The
    passes depend on the ranks alone and are laid out once; counting under other weights is a
    gather, a running sum and a product for each.
    """

    def __init__(self, ranks: Codes) -> None:
        bits = int(ranks.max(initial=0)).bit_length()
        self._passes = [
            level for bit in reversed(range(bits)) if (level := _one_bit(ranks, bit)) is not None
        ]

    def count(self, weights: Floats) -> Floats:
        """Return the weighted number of inversions, shape (b,)."""
        total = np.zeros(weights.shape[1])
        for ones, zeros, until, since in self._passes:
            before = np.zeros((len(ones) + 1, weights.shape[1]))
            np.cumsum(weights[ones], axis=0, out=before[1:])
            larger_before = before[until]
            larger_before -= before[since]
            total += np.einsum("ij,ij->j", larger_before, weights[zeros])
        return total


def _one_bit(ranks: Codes, bit: int) -> tuple[Codes, Codes, Codes, Codes] | None:
    """Lay out the pass over one bit."""
    prefix = ranks >> (bit + 1)
    # stable, because inversions depend on the order of the rows with equal prefixes
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


Level = Literal["dataset", "group", "system"]
LEVELS: tuple[Level, ...] = get_args(Level)
MIN_POINTS = 3
"""Fewest systems that can correlate: two points always correlate with 1 or -1."""

RowLabels = Sequence[Hashable] | np.ndarray[tuple[int], np.dtype[np.generic]]
"""The group (source, system) of each row, one hashable per row; `None` if it has no group."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows that have both numbers."""

    scores: Floats
    """Shape (n,)."""
    human: Floats
    """Shape (n,)."""
    groups: Codes
    """Code of each row's group, from 0 without gaps, shape (n,); each row has its own code if no
    groups were given."""
    systems: Codes
    """Code of each row's system, shape (n,)."""
    has_groups: bool
    """Whether groups were given."""
    has_systems: bool
    rated: int
    """Number of rows with a human rating, scored or not."""

    @property
    def coverage(self) -> float | None:
        """Share of the rated rows that have a score; `None` without rated rows."""
        return len(self.scores) / self.rated if self.rated else None


def pair_up(
    scores: NumbersLike,
    human: NumbersLike,
    *,
    groups: RowLabels | None = None,
    systems: RowLabels | None = None,
    level: Level = "dataset",
) -> Pairs:
    """Leave out the rows without both numbers, and number groups and systems."""
    if level not in LEVELS:
        raise UnknownName("level", str(level), LEVELS)
    x, y = finite_array(scores, "scores"), finite_array(human, "human ratings")
    if len(x) != len(y):
        raise DataError(f"scores and human ratings must be equally long, not {len(x)} and {len(y)}")
    both = ~np.isnan(x) & ~np.isnan(y)
    rows = np.flatnonzero(both)
    return Pairs(
        scores=x[rows],
        human=y[rows],
        groups=_encode(groups, rows, len(x), "group", needed=level == "group"),
        systems=_encode(systems, rows, len(x), "system", needed=level == "system"),
        has_groups=groups is not None,
        has_systems=systems is not None,
        # counted before unscored rows are dropped, so that coverage includes the judge's failures
        rated=int(np.count_nonzero(~np.isnan(y))),
    )


def dataset_level(pairs: Pairs) -> dict[Coefficient, float | None]:
    """Return the coefficients over all rows, `None` if a side is constant."""
    return _over_points(pairs.scores, pairs.human)


def system_level(pairs: Pairs) -> dict[Coefficient, float | None]:
    """Return the coefficients of the means per system.

    `None` if a side's means are constant, or there are fewer than `MIN_POINTS` systems.
    """
    scores, human = system_means(pairs)
    return _over_points(scores, human, least=MIN_POINTS)


def system_means(pairs: Pairs) -> tuple[Floats, Floats]:
    """Return the mean score and the mean rating of each system, shape (systems,) each."""
    rows = rows_by_code(pairs.systems)
    return (
        np.array([math.fsum(pairs.scores[i]) / len(i) for i in rows], float),
        np.array([math.fsum(pairs.human[i]) / len(i) for i in rows], float),
    )


def group_coefficients(pairs: Pairs) -> dict[Coefficient, Floats]:
    """Return the coefficients of each group, shape (groups,); all NaN if a side is constant."""
    rows = rows_by_code(pairs.groups)
    coefficients = {name: np.full(len(rows), np.nan) for name in COEFFICIENTS}
    sizes = np.array([len(i) for i in rows], int)
    # groups of equal size form a rectangular array and are computed in one call
    for size in np.unique(sizes[sizes > 1]):
        same = np.flatnonzero(sizes == size)
        index = np.stack([rows[g] for g in same])
        for name in COEFFICIENTS:
            coefficients[name][same] = ROWS[name](pairs.scores[index], pairs.human[index])
    return coefficients


def average_coefficients(per_group: dict[Coefficient, Floats]) -> dict[Coefficient, float | None]:
    """Return each coefficient's mean over the groups that define it, `None` if no group does."""
    means: dict[Coefficient, float | None] = {}
    for name, values in per_group.items():
        defined = values[~np.isnan(values)]
        means[name] = math.fsum(defined) / len(defined) if len(defined) else None
    return means


def rows_by_code(codes: Codes) -> list[Codes]:
    """Return the rows of each code in order, as a list over codes."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(codes) else []


def _over_points(x: Floats, y: Floats, least: int = 2) -> dict[Coefficient, float | None]:
    coefficients: dict[Coefficient, float | None] = dict.fromkeys(COEFFICIENTS)
    if len(x) >= least:
        for name in COEFFICIENTS:
            coefficients[name] = number_or_none(ROWS[name](x[None, :], y[None, :])[0])
    return coefficients


def _encode(labels: RowLabels | None, rows: Codes, n: int, kind: str, *, needed: bool) -> Codes:
    """Return codes in order of appearance; rows without a label get their own unless `needed`."""
    if labels is None:
        if needed:
            raise ConfigurationError(f"level {kind!r} needs the {kind} of each row; give {kind}s")
        return np.arange(len(rows))
    if len(labels) != n:
        raise DataError(f"{kind}s must be as long as the scores, not {len(labels)} and {n}")
    if needed and all(label is None for label in labels):
        raise ConfigurationError(f"level {kind!r} needs the {kind} of each row, and none has one")
    codes: dict[Hashable, int] = {}
    numbered = np.empty(len(rows), np.intp)
    for position, row in enumerate(rows.tolist()):
        label: Hashable = labels[row]
        if label is None:
            if needed:
                raise DataError(f"level {kind!r} needs the {kind} of each row; row {row} has none")
            # a tuple cannot collide with a label from the data, which is a text or a number
            label = ("no label", row)
        numbered[position] = codes.setdefault(label, len(codes))
    return numbered
