"""Partial pooling over systems.

How the rows of a row's system look on average, shrunk toward all rows.

Knows features and labels of systems, never ratings: what a system's other texts look like is known
without asking people. A judge errs on single texts more than on a system's mean, so the mean tells
something that the row's own features do not. Shrinkage is empirical Bayes from the variances
between and within systems (Gelman and Hill, "Data Analysis Using Regression and
Multilevel/Hierarchical Models", 2006, section 12.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from textassay.learning.splits import Mask
from textassay.learning.training import Floats

MIN_ROWS = 10
"""Rows of a system below which its means say too little to be used."""
MIN_SYSTEMS = 3
"""Systems in training below which nothing can be learned of how systems differ."""

Systems = Sequence[str | None]


@dataclass(frozen=True, slots=True)
class SystemMeans:
    """Shrunken means of standardized features by system, on a scale on which systems differ by 1.

    Attributes:
        means: Shape (features,) by system.
        rows: Rows behind each system's means.
        ratios: Variance between systems over variance within, by feature: one row's worth. The
            means of n rows are shrunk by n * ratio / (n * ratio + 1).
        scales: What shrunken means are multiplied with to have standard deviation 1 over the
            systems of training; 0 for features in which systems do not differ.
        min_rows: Rows of a system below which it has no means.
    """

    means: Mapping[str, Floats]
    rows: Mapping[str, int]
    ratios: Floats
    scales: Floats
    min_rows: int = MIN_ROWS

    @classmethod
    def learn(
        cls, features: Floats, systems: Systems, *, min_rows: int = MIN_ROWS
    ) -> SystemMeans | None:
        """Learn from rows, or return `None` for fewer than 3 systems of at least 10 rows.

        Args:
            features: Standardized, shape (n, features); NaN for gaps.
            systems: System of each row, `None` for rows without one.
            min_rows: Rows that a system must have, if not 10.
        """
        by_system = _by_system(features, systems, min_rows)
        if len(by_system) < MIN_SYSTEMS:
            return None
        means = np.array([_mean(rows) for rows in by_system.values()])
        counts = np.array([(~np.isnan(rows)).sum(axis=0) for rows in by_system.values()])
        squares = sum(
            np.nansum((rows - mean) ** 2, axis=0)
            for rows, mean in zip(by_system.values(), means, strict=True)
        )
        within = np.asarray(squares, float) / np.maximum(counts.sum(axis=0) - len(by_system), 1)
        # observed means differ by chance too: the expected part of that is taken off before
        # shrinking
        noise = within * (1 / np.maximum(counts, 1)).mean(axis=0)
        between = np.maximum(means.var(axis=0, ddof=1) - noise, 0.0)
        # a feature that is constant within every system has no noise to shrink away
        ratios = between / np.maximum(within, 1e-12)
        weights = counts * ratios
        # shrunken means vary less than features; without rescaling a ridge penalty would press
        # them out
        spread = (means * weights / (weights + 1)).std(axis=0)
        scales = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
        return cls({}, {}, ratios, scales, min_rows).extended(features, systems)

    def extended(self, features: Floats, systems: Systems) -> SystemMeans:
        """Return these means and those of systems that are not among them and have enough rows."""
        means, rows = dict(self.means), dict(self.rows)
        for name, own in _by_system(features, systems, self.min_rows).items():
            if name not in means:
                weight = (~np.isnan(own)).sum(axis=0) * self.ratios
                means[name] = self.scales * _mean(own) * weight / (weight + 1)
                rows[name] = len(own)
        return replace(self, means=means, rows=rows)

    def known(self, systems: Systems) -> Mask:
        """Return which rows have a system with means, shape (n,)."""
        return np.array([name in self.means for name in systems], bool)

    def of(self, systems: Systems) -> Floats:
        """Return the means of each row's system, shape (n, features); 0 if it has none."""
        nothing = np.zeros(len(self.ratios))
        means = [nothing if name is None else self.means.get(name, nothing) for name in systems]
        return np.array(means, float).reshape(len(systems), len(nothing))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "ratios": self.ratios.tolist(),
            "scales": self.scales.tolist(),
            "known": {
                name: {"rows": self.rows[name], "means": mean.tolist()}
                for name, mean in self.means.items()
            },
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SystemMeans:
        """Build from `to_dict`."""
        known = data["known"]
        return cls(
            {name: np.array(one["means"], float) for name, one in known.items()},
            {name: int(one["rows"]) for name, one in known.items()},
            np.array(data["ratios"], float),
            np.array(data["scales"], float),
        )


def _by_system(features: Floats, systems: Systems, min_rows: int) -> dict[str, Floats]:
    at: dict[str, list[int]] = {}
    for row, name in enumerate(systems):
        if name is not None and not np.isnan(features[row]).all():
            at.setdefault(name, []).append(row)
    return {name: features[rows] for name, rows in at.items() if len(rows) >= min_rows}


def _mean(rows: Floats) -> Floats:
    """Return means over what is there, 0 for a feature that no row has."""
    there = ~np.isnan(rows)
    return np.asarray(
        np.where(there, rows, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1), float
    )
