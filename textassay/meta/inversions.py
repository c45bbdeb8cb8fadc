"""Counts weighted inversions for many sets of weights at once.

The core of Kendall's tau, once and under resampling.

Knows ranks and weights; nothing of scores, people or levels.
"""

from __future__ import annotations

import numpy as np

from textassay.meta.ranks import Codes, Floats


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
