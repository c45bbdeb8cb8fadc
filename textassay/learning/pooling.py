"""Partial pooling: means of the rows of a system or source help to predict a single rating.

Uses features and labels of systems and sources, never ratings: the features of a system's other
texts are known without people. A judge errs on single texts more than on a system's mean, so the
mean adds information to the row's own features. Judges also rate all texts about one source higher
or lower than people do, so the comparison with other texts about the source adds information to the
score. Means are shrunk toward the mean of all rows by empirical Bayes, from the variances between
and within systems (Gelman and Hill, "Data Analysis Using Regression and Multilevel/Hierarchical
Models", 2006, section 12.2).

`compare_pooling` decides on left-out rows whether means help. If the systems to be judged are among
the training rows, sources are left out; if they are new, systems and sources, since results for few
systems may not apply to a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from textassay.arrays import Codes, Floats, Mask
from textassay.learning.regression import fit_ridge
from textassay.learning.splits import fold_masks
from textassay.learning.training import FOLDS, ROWS_TO_COMPARE, HeldOut, Training, least_error

Systems = Sequence[str | None]


@dataclass(frozen=True, slots=True)
class FewestRows:
    """With fewer rows, the means of a system or source are too uncertain to be used."""

    systems: int = 3
    """Systems in training from which the variance between systems is learned."""
    of_system: int = 10
    """Rows of a system."""
    sources: int = 4
    """Sources in training from which the variance between sources is learned."""
    of_source: int = 5
    """Rows of a source."""


FEWEST = FewestRows()


@dataclass(frozen=True, slots=True)
class PooledMeans:
    """Shrunken means of standardized features by source, or by system, scaled to differ by 1.

    Without ratios there are no means, and no row has any.
    """

    means: Mapping[str, Floats] = field(default_factory=dict)
    """Shape (features,) by system."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Rows behind each system's means."""
    ratios: Floats = field(default_factory=lambda: np.empty(0))
    """Variance between systems over variance within, by feature: one row's worth. The means of n
    rows are shrunk by n * ratio / (n * ratio + 1)."""
    scales: Floats = field(default_factory=lambda: np.empty(0))
    """Factors that give shrunken means a standard deviation of 1 over the systems of training; 0
    for features in which systems do not differ. All 1 for sources, whose means are subtracted from
    features.
    """
    min_rows: int = FEWEST.of_system
    """Rows of a system below which it has no means."""

    @classmethod
    def learn(
        cls, features: Floats, systems: Systems, *, min_rows: int = FEWEST.of_system
    ) -> PooledMeans:
        """Learn from rows; there are no means of fewer than 3 systems of at least 10 rows."""
        by_system = _by_system(features, systems, min_rows)
        if len(by_system) < FEWEST.systems:
            return cls()
        means = np.array([_mean(rows) for rows in by_system.values()])
        counts = np.array([(~np.isnan(rows)).sum(axis=0) for rows in by_system.values()])
        squares = sum(
            np.nansum((rows - mean) ** 2, axis=0)
            for rows, mean in zip(by_system.values(), means, strict=True)
        )
        within = np.asarray(squares, float) / np.maximum(counts.sum(axis=0) - len(by_system), 1)
        # observed means also differ by chance; the expected part is subtracted
        noise = within * (1 / np.maximum(counts, 1)).mean(axis=0)
        between = np.maximum(means.var(axis=0, ddof=1) - noise, 0.0)
        # a feature that is constant within every system has no noise to shrink away
        ratios = between / np.maximum(within, 1e-12)
        weights = counts * ratios
        # shrunken means vary less than features, so a ridge penalty would suppress them
        spread = (means * weights / (weights + 1)).std(axis=0)
        scales = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
        return cls({}, {}, ratios, scales, min_rows).extend(features, systems)

    @classmethod
    def of_sources(cls, features: Floats, sources: Systems) -> PooledMeans:
        """Learn from rows; there are no means of fewer than 4 sources of at least 5 rows."""
        learned = cls.learn(features, sources, min_rows=FEWEST.of_source)
        if len(learned.means) < FEWEST.sources or not learned.ratios.any():
            return cls()
        return cls.of_ratios(learned.ratios).over(features, sources)

    @classmethod
    def of_ratios(cls, ratios: Floats) -> PooledMeans:
        """Return the means of sources; there are none until `over` is given rows."""
        return cls({}, {}, ratios, np.ones_like(ratios), FEWEST.of_source)

    def over(self, features: Floats, sources: Systems) -> PooledMeans:
        """Return the means of the sources of these rows, and of no others."""
        return replace(self, means={}, rows={}).extend(features, sources)

    def extend(self, features: Floats, systems: Systems) -> PooledMeans:
        """Return these means with the means of further systems that have enough rows."""
        means, rows = dict(self.means), dict(self.rows)
        for name, rows_of_system in _by_system(features, systems, self.min_rows).items():
            if name not in means:
                weight = (~np.isnan(rows_of_system)).sum(axis=0) * self.ratios
                means[name] = self.scales * _mean(rows_of_system) * weight / (weight + 1)
                rows[name] = len(rows_of_system)
        return replace(self, means=means, rows=rows)

    def known_rows(self, systems: Systems) -> Mask:
        """Return whether each row has a system with means, shape (n,)."""
        return np.array([name in self.means for name in systems], bool)

    def of(self, systems: Systems) -> Floats:
        """Return the means of each row's system, shape (n, features); 0 if it has none."""
        nothing = np.zeros(len(self.ratios))
        means = [nothing if name is None else self.means.get(name, nothing) for name in systems]
        return np.array(means, float).reshape(len(systems), len(nothing))

    def deviations(self, features: Floats, sources: Systems) -> Floats:
        """Return features less their source's shrunken means, for rows that have such means."""
        means = [self.means[name] for name in sources if name is not None]
        return np.asarray(features - np.array(means, float).reshape(features.shape), float)

    def to_dict(self) -> dict[str, Any]:
        return {
            "ratios": self.ratios.tolist(),
            "scales": self.scales.tolist(),
            "known": {
                name: {"rows": self.rows[name], "means": mean.tolist()}
                for name, mean in self.means.items()
            },
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PooledMeans:
        saved = data["known"]
        return cls(
            {name: np.array(entry["means"], float) for name, entry in saved.items()},
            {name: int(entry["rows"]) for name, entry in saved.items()},
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
    """Return means over the known values, 0 for a feature that no row has."""
    there = ~np.isnan(rows)
    return np.asarray(
        np.where(there, rows, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1), float
    )


class Pool(NamedTuple):
    """Rows whose features count in the means of systems and sources."""

    features: Floats
    """Shape (n, features); NaN for gaps."""
    systems: Systems
    """System that wrote each row's text, `None` if unknown."""
    sources: Systems | None = None
    """Source of each row, `None` if unknown; absent without means of sources."""


@dataclass(frozen=True, slots=True)
class RowsWithMeans:
    """Rows with the means of their systems and sources."""

    features: Floats
    """Standardized features, shape (n, features)."""
    systems: PooledMeans
    """Means of systems; empty if they are not used."""
    sources: PooledMeans
    """Means of sources; empty if they are not used."""
    system_of: Systems
    """System of each row."""
    source_of: Systems
    """Source of each row."""

    def known_rows(self, *, system: bool, source: bool) -> Mask:
        """Return a mask of the rows that have these means, shape (n,)."""
        has_means = np.ones(len(self.features), bool)
        if system:
            has_means &= self.systems.known_rows(self.system_of)
        if source:
            has_means &= self.sources.known_rows(self.source_of)
        return has_means

    def only(self, selected: Mask) -> RowsWithMeans:
        """Return the chosen rows."""
        return replace(
            self,
            features=self.features[selected],
            system_of=list(compress(self.system_of, selected)),
            source_of=list(compress(self.source_of, selected)),
        )

    def rows(self, selected: Mask, *, system: bool, source: bool) -> Floats:
        """Return features of rows that have these means, with the means beside them."""
        part = self.only(selected)
        blocks = [part.features]
        if system:
            blocks.append(self.systems.of(part.system_of))
        if source:
            blocks.append(self.sources.deviations(part.features, part.source_of))
        return np.hstack(blocks)


def compare_pooling(
    without: Training, beside: Training, systems: Codes, *, new: bool, least_gain: float
) -> tuple[bool, dict[str, float]] | None:
    """Compare learning without and with the means of systems, by ridge regression on both.

    Return whether the means lower the error, of new systems by more than one standard error, and
    the errors, relative to the error of predicting the mean; `None` if a row has too few groups.
    """
    compared = np.isin(without.groups, without.at_most(ROWS_TO_COMPARE).groups)
    without, beside, systems = without.rows(compared), beside.rows(compared), systems[compared]
    predicted = {"without": np.empty(len(systems)), "with": np.empty(len(systems))}
    cells = _cells(without, systems, new=new)
    # ridge regression needs two groups to choose its penalty
    if any(len(np.unique(without.groups[inside])) < 2 for inside, _ in cells):
        return None
    for inside, outside in cells:
        for name, rows in (("without", without), ("with", beside)):
            values: Floats = fit_ridge(rows.rows(inside)).predictor.predict(rows.features[outside])
            predicted[name][outside] = values
    # errors on rows of a new system are not independent, so they count as one observation
    units = systems if new else without.groups
    held_out = HeldOut(without.target, units, predicted, {})
    errors = held_out.errors()
    falls = errors["with"] < (1 - least_gain) * errors["without"]
    clearly = least_error(held_out.squared, units, "without") == "with"
    return clearly if new else falls, errors


def _cells(rows: Training, systems: Codes, *, new: bool) -> list[tuple[Mask, Mask]]:
    """Return masks of rows to learn from and rows to predict; every row is predicted once."""
    if len(np.unique(rows.groups)) < 2 or (new and len(np.unique(systems)) < 2):
        return [(np.zeros(len(systems), bool), np.ones(len(systems), bool))]
    by_group = fold_masks(rows.groups, FOLDS, seed=rows.seed)
    if not new:
        return [(~outside, outside) for outside in by_group]
    cells = [
        (~of_group & ~of_system, of_group & of_system)
        for of_group in by_group
        for of_system in fold_masks(systems, FOLDS, seed=rows.seed)
    ]
    return [(inside, outside) for inside, outside in cells if outside.any()]
