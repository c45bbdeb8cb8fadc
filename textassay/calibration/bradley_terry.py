"""Strengths of systems from comparisons in pairs, with the source as the unit.

Knows arrays. A system of strength a beats one of strength b with probability logistic(a - b); half
of a tie counts for each side. Strengths are those of the highest likelihood, moved to a mean of 0.
Their errors are summed over sources (a sandwich), so comparisons of one source may be alike.

References:
    Bradley and Terry, "Rank analysis of incomplete block designs" (1952); Ford, "Solution of a
    ranking problem from binary comparisons" (1957), for when the strengths are finite; Liang and
    Zeger, "Longitudinal data analysis using generalized linear models" (1986), for the sandwich.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import expit

from textassay.calibration.intervals import Linearized, mean_over_groups
from textassay.meta.correlation import Codes, Floats

_STEPS = 100
_TOLERANCE = 1e-10


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Comparisons of systems, one row each.

    Attributes:
        first: Code of the first system, shape (n,).
        second: Code of the second, shape (n,).
        values: 1 if the first is better, 0 if the second is, 0.5 for a tie, shape (n,).
        groups: Code of each row's source, shape (n,).
        systems: Number of systems.
    """

    first: Codes
    second: Codes
    values: Floats
    groups: Codes
    systems: int

    def win_rate(self, system: int) -> Linearized:
        """Return the share of its comparisons that a system wins, ties as half, over sources."""
        ahead, behind = self.first == system, self.second == system
        values = np.concatenate([self.values[ahead], 1 - self.values[behind]])
        groups = np.concatenate([self.groups[ahead], self.groups[behind]])
        return mean_over_groups(values, groups, int(self.groups.max()) + 1)

    def connected(self) -> Codes:
        """Return the component of each system; systems compared, even via others, share one."""
        return self._parts(np.ones(len(self.values), bool), np.ones(len(self.values), bool), "weak")

    def has_strengths(self) -> bool:
        """Return whether the likelihood has its maximum at finite strengths (Ford's condition).

        In every split of the systems into two, some system of each side has to win, or tie, against
        one of the other side.
        """
        return bool((self._parts(self.values > 0, self.values < 1, "strong") == 0).all())

    def _parts(self, won: np.ndarray, lost: np.ndarray, connection: str) -> Codes:
        winners = np.concatenate([self.first[won], self.second[lost]])
        losers = np.concatenate([self.second[won], self.first[lost]])
        shape = (self.systems, self.systems)
        graph = coo_array((np.ones(len(winners)), (winners, losers)), shape=shape)
        parts = connected_components(graph, directed=True, connection=connection)[1]
        return np.asarray(parts, np.intp)


def fit_strengths(comparisons: Comparisons) -> tuple[Linearized, ...] | None:
    """Return the strength of each system in log odds; `None` if they are not finite.

    Args:
        comparisons: At least one row.
    """
    # Newton's method would run off to infinity, for instance for a system that never loses
    if not comparisons.has_strengths():
        return None
    counts, wins = _by_pair(comparisons)
    strengths = np.zeros(comparisons.systems)
    for _ in range(_STEPS):
        expected, inverse = _newton_parts(counts, strengths)
        # what a system has won beyond what its strength predicts
        step = inverse @ (wins - counts * expected).sum(axis=1)
        # a full step may overshoot where wins are lopsided; log odds of 2 are far enough for one
        step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        strengths += step
        if float(np.abs(step).max()) < _TOLERANCE:
            break
    _, inverse = _newton_parts(counts, strengths)
    influence = inverse @ _slopes(comparisons, strengths)
    clusters = len(np.unique(comparisons.groups))
    return tuple(
        Linearized(float(strength), influence[at], clusters)
        for at, strength in enumerate(strengths)
    )


def _by_pair(one: Comparisons) -> tuple[Floats, Floats]:
    """Return how often each system met each other, and won, ties as half; (systems, systems)."""
    winning = np.concatenate([one.values, 1 - one.values])
    ahead = np.concatenate([one.first, one.second])
    behind = np.concatenate([one.second, one.first])
    cell, shape = ahead * one.systems + behind, (one.systems, one.systems)
    counts = np.bincount(cell, minlength=one.systems**2).reshape(shape)
    wins = np.bincount(cell, winning, one.systems**2).reshape(shape)
    return counts.astype(np.float64), np.asarray(wins, np.float64)


def _newton_parts(counts: Floats, strengths: Floats) -> tuple[Floats, Floats]:
    """Return the chance of each win, and the inverse of the information on strengths of mean 0."""
    expected = expit(strengths[:, None] - strengths)
    weight = counts * expected * (1 - expected)
    information = np.diag(weight.sum(axis=1)) - weight
    # only differences of strengths are identified: the information is singular along the vector of
    # ones, exactly so only up to rounding, which a pseudo-inverse could take for information. A
    # constant makes it regular, and its inverse is taken off again: that keeps a mean of 0
    constant = float(np.trace(information)) / len(strengths) ** 2
    regular = np.linalg.inv(information + constant)
    return expected, regular - 1 / (constant * len(strengths) ** 2)


def _slopes(one: Comparisons, strengths: Floats) -> Floats:
    """Return the slope of the likelihood by system and source; (systems, sources).

    One slope per source instead of one per row: the sandwich's middle part sums them squared.
    """
    residual = one.values - expit(strengths[one.first] - strengths[one.second])
    sources = int(one.groups.max()) + 1
    cells, shape = one.systems * sources, (one.systems, sources)
    gained, lost = (
        np.bincount(side * sources + one.groups, residual, cells).reshape(shape)
        for side in (one.first, one.second)
    )
    return np.asarray(gained - lost)
