"""Which map suits so many ratings, learned across sources.

Grouped cross-validation and cross-fitting.

Knows arrays. A row's cross-fitted value comes from a map that saw no row of its source, so that
what the map does to the rows it learned from is never taken for how well it works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np

from textassay.calibration.isotonic import ClippedLine, Isotonic, fit_isotonic, fit_line, fit_shift
from textassay.calibration.ordinal import Ordinal, fit_ordinal
from textassay.learning.splits import folds
from textassay.meta.correlation import Codes, Floats
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName, parameter

MapMethod = Literal["auto", "isotonic", "linear", "ordinal", "shift"]
METHODS: tuple[MapMethod, ...] = get_args(MapMethod)
MIN_LABELS = 8
MIN_ISOTONIC, MIN_LINEAR = (60, 8), (20, 4)
"""Rated rows and sources from which a monotone curve, or a line, may be chosen."""
_FOLDS = 10


class Map(Protocol):
    """A function from a judge's scores to ratings."""

    def predict(self, scores: Floats) -> Floats:
        """Return ratings, shape (n,)."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; `kind` names the map."""
        ...


@dataclass(frozen=True, slots=True)
class Scales:
    """What the numbers may be.

    Attributes:
        judge: Lowest and highest score of the judge; `None` if unbounded.
        raters: Lowest and highest rating.
    """

    judge: tuple[float, float] | None
    raters: tuple[float, float]

    @property
    def slope(self) -> float | None:
        """Points of rating per point of score, by the scales alone; `None` if unbounded."""
        if self.judge is None:
            return None
        return (self.raters[1] - self.raters[0]) / (self.judge[1] - self.judge[0])


_Fit = Callable[[Floats, Floats, Floats | None, Scales], Map]


@dataclass(frozen=True, slots=True)
class LearnedMap:
    """A map, with its values for rows of sources that it was not learned from.

    Attributes:
        map: Learned from all rows.
        kind: `isotonic`, `linear`, `shift` or `ordinal`.
        cross_fitted: Value of each row by a map learned from other sources, shape (n,).
        parts: The maps behind `cross_fitted`, one per fold.
        errors: Mean squared error over held-out sources by kind, for those that were compared.
    """

    map: Map
    kind: str
    cross_fitted: Floats
    parts: tuple[Map, ...]
    errors: Mapping[str, float]

    def predict_unseen(self, scores: Floats) -> Floats:
        """Return the mean of the parts' values for rows of other sources, shape (n,)."""
        # the same maps as behind `cross_fitted`, not the map of all rows: rated and unrated rows
        # must be predicted alike, or their difference would not be the judge's error alone
        return np.asarray(np.mean([part.predict(scores) for part in self.parts], axis=0))


def learn_map(
    scores: Floats,
    ratings: Floats,
    groups: Codes,
    *,
    scales: Scales,
    weights: Floats | None = None,
    method: str = "auto",
    seed: int = 0,
) -> LearnedMap:
    """Learn how ratings follow from scores.

    `auto` takes the monotone curve from 60 rows of 8 sources on, a line from 20 rows of 4, else a
    shift, unless a simpler one has a mean squared error on held-out sources that is lower by more
    than one standard error.

    Args:
        scores: Judge's scores of the rated rows, shape (n,), no NaN.
        ratings: People's ratings, shape (n,), no NaN.
        groups: Code of each row's source, shape (n,).
        scales: Ranges of both.
        weights: How many rows each stands for, shape (n,); `None` if all stand for the same.
        method: One of `METHODS`.
        seed: Seed of the deal into folds.

    Raises:
        UnknownName: There is no such method.
        DataError: Fewer than 8 rows, one source, constant scores or constant ratings.
        ConfigurationError: A shift between scales of unknown length.
    """
    if method not in METHODS:
        raise UnknownName("calibration method", method, METHODS)
    # before any fold is made, so that the message speaks of the data and not of a fold of them
    refuse_unlearnable(scores, ratings, groups)
    # whole sources go into a fold: rows of one source resemble each other, and a map tested on a
    # source it learned from would look better than it is on new ones
    fold = folds(groups, _FOLDS, seed=seed)
    names = _candidates(method, len(scores), len(np.unique(groups)), scales)
    fitted = {
        name: _cross_fit(_FITS[name], scores, ratings, weights, fold, scales) for name in names
    }
    squared = {name: (values - ratings) ** 2 for name, (values, _) in fitted.items()}
    chosen = _unless_clearly_better(names[0], squared, groups)
    values, parts = fitted[chosen]
    return LearnedMap(
        map=_FITS[chosen](scores, ratings, weights, scales),
        kind=chosen,
        cross_fitted=values,
        parts=parts,
        errors={name: float(errors.mean()) for name, errors in squared.items()},
    )


def refuse_unlearnable(scores: Floats, ratings: Floats, groups: Codes) -> None:
    """Raise if nothing can be learned from these rows.

    Raises:
        DataError: Fewer than 8 rows, one source, constant scores or constant ratings.
    """
    if len(scores) < MIN_LABELS:
        raise DataError(
            f"only {len(scores)} rows have both a score and a rating; {MIN_LABELS} is the minimum, "
            "and 60 from 8 sources are a good start"
        )
    if len(np.unique(groups)) < 2:
        raise DataError(
            "all rated rows belong to one source, so nothing shows how sources differ; "
            "rate texts of at least 2 sources (8 are a good start), or check the field 'group'"
        )
    if scores.min() == scores.max():
        raise DataError(
            f"the judge gives {scores[0]:g} to every rated row, so its scores carry no information "
            "about the ratings; use the mean of the ratings instead"
        )
    if ratings.min() == ratings.max():
        raise DataError(
            f"people gave {ratings[0]:g} to every rated row, so there is nothing to learn from "
            "them; rate rows that differ"
        )


def read_map(content: Mapping[str, Any]) -> Map:
    """Read what `to_dict` returned.

    Raises:
        DataError: It is none of the kinds of map.
    """
    try:
        kind = content["kind"]
        if kind == "isotonic":
            return Isotonic(np.array(content["scores"], float), np.array(content["ratings"], float))
        if kind in ("linear", "shift"):
            slope, intercept, low, high = (
                float(content[name]) for name in ("slope", "intercept", "low", "high")
            )
            return ClippedLine(slope, intercept, low, high, kind=kind)
        if kind == "ordinal":
            return Ordinal(
                np.array(content["grid"], float),
                np.array(content["thresholds"], float),
                float(content["slope"]),
            )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"a calibration map is damaged: {error}") from error
    raise DataError(f"there is no calibration map of the kind {kind!r}")


def _candidates(method: str, rows: int, groups: int, scales: Scales) -> tuple[str, ...]:
    """Return the kinds to compare, the one that is taken unless another is clearly better first."""
    if method != "auto":
        if method == "shift" and scales.slope is None:
            raise ConfigurationError(
                "a shift needs a judge whose scale has two ends, and this one's scores are "
                f"unbounded; use {parameter('method', 'linear')} with 20 ratings or more"
            )
        return (method,)
    shift = ("shift",) if scales.slope is not None else ()
    if rows >= MIN_ISOTONIC[0] and groups >= MIN_ISOTONIC[1]:
        # the most flexible kind that so many ratings can support comes first and stays unless a
        # simpler one is clearly better
        return ("isotonic", "linear", *shift)
    if (rows >= MIN_LINEAR[0] and groups >= MIN_LINEAR[1]) or not shift:
        return ("linear", *shift)
    return shift


def _cross_fit(
    fit: _Fit,
    scores: Floats,
    ratings: Floats,
    weights: Floats | None,
    fold: Codes,
    scales: Scales,
) -> tuple[Floats, tuple[Map, ...]]:
    values, parts = np.empty(len(scores)), []
    for number in range(int(fold.max()) + 1):
        outside = fold == number
        own = None if weights is None else weights[~outside]
        parts.append(fit(scores[~outside], ratings[~outside], own, scales))
        values[outside] = parts[-1].predict(scores[outside])
    return values, tuple(parts)


def _unless_clearly_better(first: str, squared: Mapping[str, Floats], groups: Codes) -> str:
    """Return the kind of least error, or the first if it is no more than a standard error worse."""
    best = min(squared, key=lambda name: float(squared[name].mean()))
    # errors are summed per source before their spread is taken: rows of a source are not
    # independent evidence for one kind over another
    worse = np.bincount(groups, weights=squared[first] - squared[best])
    present = np.bincount(groups) > 0
    error = float(worse[present].std() * np.sqrt(present.sum())) / len(groups)
    return first if float(worse.sum()) / len(groups) <= error else best


_FITS: Mapping[str, _Fit] = {
    "isotonic": lambda scores, ratings, weights, _: fit_isotonic(scores, ratings, weights),
    "linear": lambda scores, ratings, weights, scales: fit_line(
        scores, ratings, weights, bounds=scales.raters
    ),
    "shift": lambda scores, ratings, weights, scales: fit_shift(
        scores, ratings, weights, bounds=scales.raters, slope=scales.slope or 1.0
    ),
    "ordinal": lambda scores, ratings, weights, _: fit_ordinal(scores, ratings, weights),
}
