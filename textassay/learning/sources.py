"""How far a row lies from the mean of its source: partial pooling over sources.

Knows features and labels of sources, never ratings. Judges rate all texts about one source higher
or lower than people do, so how a text compares with the others about its source says more than its
score alone. Means are shrunk as those of systems are. The sources of new texts are new as well, so
means always come from the texts that are judged together, and are no part of a saved aggregator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from textassay.learning.splits import Mask
from textassay.learning.systems import SystemMeans, Systems
from textassay.learning.training import Floats

MIN_ROWS = 5
"""Rows of a source below which its means say too little to be used."""
MIN_SOURCES = 4
"""Sources in training below which nothing can be learned of how sources differ."""

MIN_GAIN = 0.01
"""Share by which the error of left-out sources must fall: a smaller gain is not worth a pool."""


@dataclass(frozen=True, slots=True)
class SourceMeans:
    """Shrunken means of standardized features by source.

    Attributes:
        means: The means, on the features' own scale.
    """

    means: SystemMeans

    @classmethod
    def learn(cls, features: Floats, sources: Systems) -> SourceMeans | None:
        """Learn from rows, or return `None` for fewer than 4 sources of at least 5 rows.

        Args:
            features: Standardized, shape (n, features); NaN for gaps.
            sources: Source of each row, `None` for rows without one.
        """
        found = SystemMeans.learn(features, sources, min_rows=MIN_ROWS)
        if found is None or len(found.means) < MIN_SOURCES or not found.ratios.any():
            return None
        # unlike means of systems these are subtracted from features, so they keep their scale
        return cls(replace(found, scales=np.ones_like(found.scales))).over(features, sources)

    def over(self, features: Floats, sources: Systems) -> SourceMeans:
        """Return the means of the sources of these rows, and of no others."""
        none = replace(self.means, means={}, rows={})
        return SourceMeans(none.extended(features, sources))

    def known(self, sources: Systems) -> Mask:
        """Return which rows have a source with means, shape (n,)."""
        return self.means.known(sources)

    def deviations(self, features: Floats, sources: Systems) -> Floats:
        """Return features less their source's shrunken means, for rows that have such means."""
        means = [self.means.means[name] for name in sources if name is not None]
        return np.asarray(features - np.array(means, float).reshape(features.shape), float)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, which leave out the means themselves."""
        return {"ratios": self.means.ratios.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SourceMeans:
        """Build from `to_dict`: no source is known until `over` is given rows."""
        ratios = np.array(data["ratios"], float)
        return cls(SystemMeans({}, {}, ratios, np.ones_like(ratios), MIN_ROWS))
