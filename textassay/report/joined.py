"""A run's scores beside people's ratings and a second run, as columns.

Knows the run, its data and the pairing of scores with human aspects; nothing of HTML.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from textassay.meta.ranks import Floats
from textassay.report.disagreement import gaps
from textassay.report.score_table import ScoreTable
from textassay.report.source import DataSource, RunSource
from textassay.runtime.messages import Scale


@dataclass
class Joined:
    """One row per score, shape (n,) each.

    Attributes:
        values: The judge's value; NaN if unscored.
        human: The mean rating of the human aspect that the score is held against; NaN if unrated.
        gaps: Judge minus people; NaN if either is missing.
        sizes: Size of each gap as a share of the scale or of the ranks, so that aspects compare.
        units: What a gap is counted in, by aspect.
        other: Value in the second run; NaN without one.
        changes: Second run minus first; NaN if either is missing or their scales differ.
        flips: Whether a change crosses the middle of the scale.
    """

    values: Floats
    human: Floats
    gaps: Floats
    sizes: Floats
    units: dict[str, str]
    other: Floats
    changes: Floats
    flips: np.ndarray[tuple[int], np.dtype[np.bool_]]

    @property
    def has_people(self) -> bool:
        """Whether any score has a rating beside it."""
        return bool((~np.isnan(self.gaps)).any())


def join(
    run: RunSource, data: DataSource, human_of: Mapping[str, str], second: RunSource | None
) -> Joined:
    """Put scores, ratings and a second run next to each other.

    Args:
        run: The run, read.
        data: Its examples.
        human_of: Human aspect by score; a score that is not named has no ratings.
        second: Another run of the same examples, read.
    """
    table = run.table
    values, count = table.values, len(table)
    aspect, example = np.array(table.aspect, int), np.array(table.example, int)
    human, found, sizes = (np.full(count, np.nan) for _ in range(3))
    units: dict[str, str] = {}
    for at, name in enumerate(table.aspects):
        rows = np.flatnonzero(aspect == at)
        if name not in human_of:
            continue
        rated = [_rating(data, table.ids[example[row]], human_of[name]) for row in rows]
        human[rows] = rated
        apart = gaps(values[rows], human[rows], table.scales[at])
        found[rows], units[name] = apart.values, apart.unit
        scale = table.scales[at]
        width = scale[1] - scale[0] if scale is not None and apart.unit == "points" else 1.0
        sizes[rows] = np.abs(apart.values) / width
    other = np.full(count, np.nan) if second is None else _values_in(second.table, table)
    changes, flips = np.full(count, np.nan), np.zeros(count, bool)
    if second is not None:
        changes, flips = _changes(table, second.table, values, other)
    return Joined(values, human, found, sizes, units, other, changes, flips)


def _rating(data: DataSource, example_id: str, aspect: str) -> float:
    example = data.examples.get(example_id)
    rating = None if example is None else example.human.get(aspect)
    return float("nan") if rating is None else rating


def _values_in(second: ScoreTable, first: ScoreTable) -> Floats:
    """Return the second run's value for every score of the first."""
    rows = [
        second.row(first.ids[example], first.aspects[aspect])
        for example, aspect in zip(first.example, first.aspect, strict=True)
    ]
    values = second.values
    return np.array([float("nan") if row is None else values[row] for row in rows], float)


def _changes(
    first: ScoreTable, second: ScoreTable, values: Floats, other: Floats
) -> tuple[Floats, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    changes, flips = np.full(len(values), np.nan), np.zeros(len(values), bool)
    aspect = np.array(first.aspect, int)
    scales: dict[str, Scale | None] = dict(zip(second.aspects, second.scales, strict=True))
    for at, name in enumerate(first.aspects):
        rows = np.flatnonzero(aspect == at)
        scale = first.scales[at]
        if scales.get(name, scale) != scale:
            continue  # a difference of points on two scales means nothing
        changes[rows] = other[rows] - values[rows]
        if scale is not None:
            middle = (scale[0] + scale[1]) / 2
            flips[rows] = (values[rows] - middle) * (other[rows] - middle) < 0
    return changes, flips
