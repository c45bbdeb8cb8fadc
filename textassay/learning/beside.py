"""What stands beside a row's own features: the means of its system, its distance from its source.

Knows arrays and labels. Rows of unknown systems and sources have their features alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from textassay.learning.sources import SourceMeans
from textassay.learning.splits import Mask
from textassay.learning.systems import SystemMeans, Systems
from textassay.learning.training import Floats


class Pool(NamedTuple):
    """Rows whose features count in the means of systems and sources.

    Attributes:
        features: Shape (n, features); NaN for gaps.
        systems: System that wrote each row's text, `None` if unknown.
        sources: Source of each row, `None` if unknown; absent if no means of sources are wanted.
    """

    features: Floats
    systems: Systems
    sources: Systems | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """Rows with what is known of their systems and sources.

    Attributes:
        features: Standardized features, shape (n, features).
        systems: Means of systems, `None` if none take part.
        sources: Means of sources, `None` if none take part.
        system_of: System of each row.
        source_of: Source of each row.
    """

    features: Floats
    systems: SystemMeans | None
    sources: SourceMeans | None
    system_of: Systems
    source_of: Systems

    def known(self, *, system: bool, source: bool) -> Mask:
        """Return which rows have the means that are asked for, shape (n,)."""
        known = np.ones(len(self.features), bool)
        if system:
            known &= False if self.systems is None else self.systems.known(self.system_of)
        if source:
            known &= False if self.sources is None else self.sources.known(self.source_of)
        return known

    def rows(self, chosen: Mask, *, system: bool, source: bool) -> Floats:
        """Return features of rows that have these means, with the means beside them.

        Returns:
            Shape (rows, features * k): features, then means of the system, then the distances from
            the means of the source, as far as asked for.
        """
        at = np.flatnonzero(chosen).tolist()
        features = self.features[chosen]
        blocks = [features]
        if system and self.systems is not None:
            blocks.append(self.systems.of([self.system_of[row] for row in at]))
        if source and self.sources is not None:
            own = [self.source_of[row] for row in at]
            blocks.append(self.sources.deviations(features, own))
        return np.hstack(blocks)
