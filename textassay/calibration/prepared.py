"""What must hold before numbers are learned from or estimated.

Scales that fit, one judge, labels drawn by chance.

Knows columns. Every refusal says what is wrong and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from textassay.calibration.columns import Columns
from textassay.calibration.judged import RatingScale
from textassay.calibration.maps import Scales
from textassay.meta.score_files import refuse_several_judges
from textassay.runtime.errors import DataError, parameter

Labels = Literal["random", "chosen"]
MAX_UNSCORED = 0.05
"""Share of rows without a score above which bounds are reported."""


def scales_of(columns: Columns, given: Mapping[str, RatingScale]) -> Scales:
    """Return the scales of judge and raters.

    Args:
        columns: Scores and ratings.
        given: The raters' scale by human aspect, if the user gave it. Otherwise it is the judge's
            if all ratings lie on that, or the range of the ratings if the judge is unbounded, or on
            0 to 1 while a rating is above 1.

    Raises:
        DataError: There are no ratings, or one lies off the scale.
    """
    ratings = columns.ratings[~np.isnan(columns.ratings)]
    if not len(ratings):
        raise DataError(
            f"no row that was judged on {columns.score!r} has a rating of {columns.human!r}; "
            "give ratings in the field 'human' or 'annotators' of DATA"
        )
    low, high = float(ratings.min()), float(ratings.max())
    scale = given.get(columns.human)
    if scale is not None:
        _refuse_off(columns, scale, "the scale that was given")
        return Scales(columns.scale, scale)
    # a judge on 0 to 1 often returns a probability while people rated 1 to 5, so its scale says
    # nothing about theirs
    if columns.scale is None or (columns.scale == (0.0, 1.0) and high > 1):
        return Scales(columns.scale, (low, high) if low < high else (low, low + 1.0))
    _refuse_off(columns, columns.scale, "the judge's scale; if the raters used another, give it")
    return Scales(columns.scale, columns.scale)


def one_signature(columns: Columns, *, allow_change: bool | None = None) -> str:
    """Return the signature that all scores share; empty if they have none.

    Args:
        columns: Scores and ratings.
        allow_change: Whether several are taken together; `None` if that cannot be asked for.

    Raises:
        ConfigurationError: There are several.
    """
    if not allow_change:
        refuse_several_judges(
            columns.score,
            columns.signatures,
            ""
            if allow_change is None
            else ", or set allow_change=true if the differences do not matter",
        )
    return columns.signatures[0] if columns.signatures else ""


def assumptions(columns: Columns, *, chosen: bool) -> list[str]:
    """Return the assumptions of an estimate from these columns, as sentences."""
    lines = []
    if chosen:
        lines.append("the labels were chosen by hand, so no interval is promised")
    elif columns.probabilities is None:
        lines.append("the rated rows were drawn by chance, each with the same probability")
    else:
        lines.append("the rated rows were drawn by chance, with the probabilities in the data")
    lines.append(
        "sources are independent of each other"
        if columns.has_groups
        else "every row is a source of its own: the data have no field 'group'"
    )
    return lines


def _refuse_off(columns: Columns, scale: RatingScale, what: str) -> None:
    ratings = columns.ratings
    off = np.flatnonzero((ratings < scale[0]) | (ratings > scale[1]))
    if len(off):
        raise DataError(
            f"{len(off)} of {int((~np.isnan(ratings)).sum())} ratings of {columns.human!r} lie"
            f" outside {scale[0]:g} to {scale[1]:g}, {what} "
            f"({parameter('scale', columns.human + '=LOW,HIGH')}); the first is"
            f" {ratings[off[0]]:g} at example {columns.ids[off[0]]!r}"
        )
