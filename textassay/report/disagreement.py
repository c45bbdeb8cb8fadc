"""How far a judge and people are apart on single texts.

Pure functions on arrays. A judge's scale need not be the raters' scale, and a difference of points
on two scales means nothing.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import stats

from textassay.meta.correlation import Floats
from textassay.runtime.messages import Scale

_SHARE_OF_SCALE = 0.5
"""Share of the judge's scale that ratings must span to count as ratings on that scale."""


Unit = Literal["points", "ranks"]
"""What a difference is counted in: points of the scale that judge and people share, or shares of
the rated texts, from -1 to 1."""


def unit_of(human: Floats, scale: Scale | None) -> Unit:
    """Return `points` if the ratings lie on the judge's scale and span most of it, else `ranks`.

    Args:
        human: All ratings, shape (n,), without NaN.
        scale: The judge's scale; `None` if unbounded.
    """
    return "points" if len(human) and scale is not None and _on_scale(human, scale) else "ranks"


def gaps(scores: Floats, human: Floats, unit: Unit) -> Floats:
    """Return judge minus people for each row, shape (n,); NaN if either number is missing.

    For `ranks`, both sides are ranked among the rows that have both numbers (average ranks), and
    the difference of the ranks is divided by their number.

    Args:
        scores: Shape (n,); NaN if unscored.
        human: Shape (n,); NaN if unrated.
        unit: What the differences are counted in.
    """
    both = ~np.isnan(scores) & ~np.isnan(human)
    distances = np.full(len(scores), np.nan)
    if unit == "points":
        distances[both] = scores[both] - human[both]
    elif both.any():
        ranks = stats.rankdata(scores[both]) - stats.rankdata(human[both])
        distances[both] = ranks / int(both.sum())
    return distances


def _on_scale(human: Floats, scale: Scale) -> bool:
    low, high = scale
    lowest, highest = float(human.min()), float(human.max())
    wide = highest - lowest > _SHARE_OF_SCALE * (high - low)
    # ratings from 0 to 1 fit into a scale of 1 to 5 only by accident; touching an end or spanning
    # half of it shows that they are meant on it
    return low <= lowest and highest <= high and (wide or lowest == low or highest == high)
