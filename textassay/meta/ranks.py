"""Ranks of numbers, with and without holes.

Knows arrays only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


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
