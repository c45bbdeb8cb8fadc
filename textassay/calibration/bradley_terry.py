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
from textassay.meta.ranks import Codes, Floats

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
    one, systems = comparisons, comparisons.systems
    strengths = np.zeros(systems)
    for _ in range(_STEPS):
        residual, inverse = _newton_parts(one, strengths)
        slope = _sums(one.first, one.second, residual, systems)
        step = inverse @ slope
        # a full step may overshoot where wins are lopsided; log odds of 2 are far enough for one
        step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        strengths += step
        if float(np.abs(step).max()) < _TOLERANCE:
            break
    residual, inverse = _newton_parts(one, strengths)
    sources = int(one.groups.max()) + 1
    # one slope per source instead of one per row: the sandwich's middle part sums them squared
    slopes = np.zeros((systems, sources))
    np.add.at(slopes, (one.first, one.groups), residual)
    np.add.at(slopes, (one.second, one.groups), -residual)
    influence, clusters = inverse @ slopes, len(np.unique(one.groups))
    return tuple(Linearized(float(strengths[at]), influence[at], clusters) for at in range(systems))


def _newton_parts(one: Comparisons, strengths: Floats) -> tuple[Floats, Floats]:
    """Return each row's residual, and the inverse of the information on strengths of mean 0."""
    expected = expit(strengths[one.first] - strengths[one.second])
    weight = expected * (1 - expected)
    # only differences of strengths are identified, so this matrix is singular along the vector of
    # ones; the pseudo-inverse drops that direction, which is what a mean of 0 asks for
    information = np.zeros((one.systems, one.systems))
    np.add.at(information, (one.first, one.first), weight)
    np.add.at(information, (one.second, one.second), weight)
    np.add.at(information, (one.first, one.second), -weight)
    np.add.at(information, (one.second, one.first), -weight)
    inverse = np.asarray(np.linalg.pinv(information, hermitian=True), np.float64)
    return one.values - expected, inverse


def _sums(first: Codes, second: Codes, values: Floats, systems: int) -> Floats:
    ahead = np.bincount(first, weights=values, minlength=systems)
    return np.asarray(ahead - np.bincount(second, weights=values, minlength=systems))
