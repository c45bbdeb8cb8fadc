"""The scale on which people rated an aspect: the given one, or whole numbers around the ratings.

Means and ends of a scale cannot show which scale a rater had in mind, but two scales in one column
can be seen where whole sources lie on either side of 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from textassay.fitting.table import FeatureTable
from textassay.learning.training import Floats
from textassay.runtime.errors import DataError, UnknownName

Scales = dict[str, tuple[float, float]]
_ROWS = 3
"""Rated rows of a source from which on it shows a scale."""


def scales_of(table: FeatureTable, given: Mapping[str, tuple[float, float]]) -> Scales:
    """Return lowest and highest rating by aspect.

    Args:
        table: Rated rows.
        given: Scales that the caller gave.

    Raises:
        UnknownName: A scale is given for an aspect that is not learned.
        DataError: Ratings lie outside the given scale, do not vary, or come on two scales.
    """
    for name in given:
        if name not in table.aspects:
            raise UnknownName("human aspect with a scale", name, list(table.aspects))
    scales: Scales = {}
    for column, name in enumerate(table.aspects):
        ratings = table.human[:, column]
        low, high = float(np.nanmin(ratings)), float(np.nanmax(ratings))
        if low == high:
            raise DataError(
                f"aspect {name!r}: people rated every row {low:g}, so nothing can be learned; leave"
                " it out"
            )
        if name in given:
            if low < given[name][0] or high > given[name][1]:
                raise DataError(
                    f"aspect {name!r}: ratings go from {low:g} to {high:g}, off the scale "
                    f"{given[name][0]:g} to {given[name][1]:g} that was given"
                )
            scales[name] = given[name]
            continue
        _refuse_two_scales(name, ratings, table)
        scales[name] = (float(math.floor(low)), float(math.ceil(high)))
    return scales


def _refuse_two_scales(name: str, ratings: Floats, table: FeatureTable) -> None:
    below, above = 0, 0
    for code in np.unique(table.groups):
        own = ratings[table.groups == code]
        own = own[~np.isnan(own)]
        if len(own) < _ROWS:
            continue
        if own.max() <= 1 and own.min() < 1:
            below += 1
        elif own.min() >= 1 and own.max() > 1:
            above += 1
        # ratings on both sides of 1 within one source show that a single scale crosses 1
        elif own.min() < 1 < own.max():
            return
    if min(below, above) >= 2:
        raise DataError(
            f"aspect {name!r} is rated on two scales: all ratings of {below} sources lie within 0"
            f" to 1, all of {above} others at 1 and above; bring them to one scale, or learn from"
            " one part at a time"
        )
