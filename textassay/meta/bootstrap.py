"""Coefficients in resamples of the groups.

Rows that share a source are drawn together or not at all.

Knows paired rows and levels; nothing of examples or files.

A resample is a set of counts, one per group, rather than a copy of rows. Every coefficient is then
a function of weighted cells that are sorted once, so a thousand taus cost about as much as forty
computed one by one.

References:
    Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapters 8 and 13.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from textassay.meta.contingency import Cells
from textassay.meta.correlation import COEFFICIENTS, ROWS, Coefficient
from textassay.meta.levels import Level, Pairs, group_coefficients
from textassay.meta.ranks import Codes, Floats
from textassay.runtime.errors import ConfigurationError

CONFIDENCE = 0.95
"""Nominal coverage of an interval."""
_CHUNK = 200_000
"""Numbers per temporary array: what fits a core's cache is fastest."""
_DIGITS = 12
"""Digits of resampled system means that count; below them lies rounding, which would break ties."""

Interval = tuple[float, float]


def resampled(
    pairs: Pairs, level: Level, *, resamples: int, seed: int
) -> dict[Coefficient, Floats]:
    """Return each coefficient in each resample, shape (resamples,).

    NaN if it is undefined there.

    Raises:
        ConfigurationError: `resamples` is below 1.
    """
    if resamples < 1:
        raise ConfigurationError(f"a bootstrap needs at least 1 resample, not {resamples}")
    # whole groups are drawn: drawing rows would treat texts of one source as independent and give
    # intervals that are too narrow
    groups = pairs.groups if pairs.groups is not None else np.arange(len(pairs.scores))
    count = int(groups.max(initial=-1)) + 1
    if count < 2:
        return {name: np.full(resamples, np.nan) for name in COEFFICIENTS}
    draw = {"dataset": _dataset, "group": _group, "system": _system}[level]
    chunks = list(draw(pairs, groups, count, resamples, np.random.default_rng(seed)))
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in COEFFICIENTS}


def draw_counts(groups: int, resamples: int, rng: np.random.Generator) -> Floats:
    """Return how often each group is drawn in each resample, shape (groups, resamples)."""
    drawn = rng.integers(0, groups, size=(resamples, groups))
    # an offset per resample lets one bincount count all of them at once
    drawn += np.arange(resamples)[:, None] * groups
    counts = np.bincount(drawn.ravel(), minlength=resamples * groups)
    return np.ascontiguousarray(counts.reshape(resamples, groups).T, dtype=float)


def _counts_in_chunks(
    groups: int, rows: int, resamples: int, rng: np.random.Generator
) -> Iterator[Floats]:
    step = max(16, _CHUNK // max(rows, groups, 1))
    for start in range(0, resamples, step):
        yield draw_counts(groups, min(step, resamples - start), rng)


def _dataset(
    pairs: Pairs, groups: Codes, count: int, resamples: int, rng: np.random.Generator
) -> Iterator[dict[Coefficient, Floats]]:
    cells = Cells(pairs.scores, pairs.human)
    for counts in _counts_in_chunks(count, len(groups), resamples, rng):
        sample = cells.weighted(counts[groups])
        yield {
            "pearson": cells.pearson(sample),
            "spearman": cells.spearman(sample),
            "kendall": cells.kendall(sample),
        }


def _group(
    pairs: Pairs, groups: Codes, count: int, resamples: int, rng: np.random.Generator
) -> Iterator[dict[Coefficient, Floats]]:
    # a group's coefficient does not change between resamples, only how often it counts
    per_group = group_coefficients(pairs)
    defined = ~np.isnan(per_group["pearson"])
    values = np.stack([np.where(defined, per_group[name], 0.0) for name in COEFFICIENTS])
    for counts in _counts_in_chunks(count, count, resamples, rng):
        used = defined.astype(float) @ counts
        means = np.divide(
            values @ counts, used, out=np.full((len(values), len(used)), np.nan), where=used > 0
        )
        yield dict(zip(COEFFICIENTS, means, strict=True))


def _system(
    pairs: Pairs, groups: Codes, count: int, resamples: int, rng: np.random.Generator
) -> Iterator[dict[Coefficient, Floats]]:
    if pairs.systems is None:
        raise ConfigurationError("level 'system' needs the system of each row; give systems")
    systems = int(pairs.systems.max(initial=-1)) + 1
    cell = groups * systems + pairs.systems
    tables = [
        np.bincount(cell, weights=weights, minlength=count * systems).reshape(count, systems).T
        for weights in (
            np.ones(len(cell)),
            # sums of deviations instead of values: with a large offset, sums would lose the digits
            # in which the systems differ
            pairs.scores - pairs.scores.mean(),
            pairs.human - pairs.human.mean(),
        )
    ]
    for counts in _counts_in_chunks(count, systems * systems, resamples, rng):
        rows, x, y = (np.ascontiguousarray((table @ counts).T) for table in tables)
        yield _over_systems(rows, x, y)


def _over_systems(rows: Floats, x: Floats, y: Floats) -> dict[Coefficient, Floats]:
    """Return the coefficients over system means in each resample.

    Systems without a drawn row are left out there.

    Args:
        rows: Number of drawn rows per resample and system, shape (b, systems).
        x: Sum of scores, the same shape.
        y: Sum of ratings, the same shape.
    """
    draws = {name: np.full(len(rows), np.nan) for name in COEFFICIENTS}
    # resamples that lack the same systems are computed together, on arrays without gaps
    present, pattern = np.unique(rows > 0, axis=0, return_inverse=True)
    for number, systems in enumerate(present):
        same = np.flatnonzero(pattern.ravel() == number)
        if np.count_nonzero(systems) < 2:
            continue
        block = np.ix_(same, systems)
        x_means, y_means = _snapped(x[block] / rows[block]), _snapped(y[block] / rows[block])
        for name in COEFFICIENTS:
            draws[name][same] = ROWS[name](x_means, y_means)
    return draws


def _snapped(means: Floats) -> Floats:
    """Round relative to the largest value, so that means differing by rounding errors are ties."""
    largest = float(np.abs(means).max(initial=0.0))
    return np.round(means / largest, _DIGITS) if largest > 0 else means
