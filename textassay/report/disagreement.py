"""How far a judge and people are apart on single texts.

Pure functions on arrays. A judge's scale need not be the raters' scale, and a difference of points
on two scales means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from textassay.meta.ranks import Floats
from textassay.runtime.messages import Scale

_SHARE_OF_SCALE = 0.5
"""Share of the judge's scale that ratings must span to count as ratings on that scale."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """Judge minus people.

    Attributes:
        values: Shape (n,); NaN if either number is missing.
        unit: `points` of the scale they share, or `ranks`: shares of the rated texts, from -1 to 1.
    """

    values: Floats
    unit: Literal["points", "ranks"]


def gaps(scores: Floats, human: Floats, scale: Scale | None) -> Gaps:
    """Return the signed difference of each score and rating.

    In points if the ratings lie on the judge's scale and span most of it. Otherwise both sides are
    ranked among the rows that have both numbers (average ranks), and the difference of the ranks
    is divided by their number.

    Args:
        scores: Shape (n,); NaN if unscored.
        human: Shape (n,); NaN if unrated.
        scale: The judge's scale; `None` if unbounded.
    """
    both = ~np.isnan(scores) & ~np.isnan(human)
    found = np.full(len(scores), np.nan)
    if not both.any():
        return Gaps(found, "points")
    if scale is not None and _on_scale(human[both], scale):
        found[both] = scores[both] - human[both]
        return Gaps(found, "points")
    ranks = stats.rankdata(scores[both]) - stats.rankdata(human[both])
    found[both] = ranks / int(both.sum())
    return Gaps(found, "ranks")


def _on_scale(human: Floats, scale: Scale) -> bool:
    low, high = scale
    lowest, highest = float(human.min()), float(human.max())
    wide = highest - lowest > _SHARE_OF_SCALE * (high - low)
    return low <= lowest and highest <= high and (wide or lowest == low or highest == high)
