"""At which level scores and human ratings are compared: data set, group or system.

Knows two arrays and what each row belongs to; nothing of examples, files or resampling.

- `dataset`: all rows are pooled, one coefficient.
- `group`: one coefficient per group (source document, dialogue), then the mean over groups in which
  both sides vary.
- `system`: the mean per system on each side, then one coefficient over the systems.

Means are taken with `math.fsum`. A running sum tells apart systems whose ratings are equal, and so
changes rank correlations that others have published.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from textassay.meta.correlation import COEFFICIENTS, ROWS, Codes, Coefficient, Floats, finite_array
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName

Level = Literal["dataset", "group", "system"]
LEVELS: tuple[Level, ...] = get_args(Level)
MIN_POINTS = 3
"""Fewest systems that can correlate: the coefficient of two points is 1 or -1 whatever they are."""

RowLabels = Sequence[Hashable] | np.ndarray[tuple[int], np.dtype[np.generic]]
"""What each row belongs to, one hashable per row; `None` if it belongs to nothing."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows that have both numbers.

    Attributes:
        scores: Shape (n,).
        human: Shape (n,).
        groups: Code of each row's group, from 0 without holes, shape (n,); `None` if no groups
            were given.
        systems: The same for systems.
        rated: Number of rows with a human rating, scored or not.
    """

    scores: Floats
    human: Floats
    groups: Codes | None
    systems: Codes | None
    rated: int

    @property
    def coverage(self) -> float | None:
        """Share of the rated rows that have a score; `None` if none is rated."""
        return len(self.scores) / self.rated if self.rated else None


def pair_up(
    scores: ArrayLike | Sequence[float | None],
    human: ArrayLike | Sequence[float | None],
    *,
    groups: RowLabels | None = None,
    systems: RowLabels | None = None,
    level: Level = "dataset",
) -> Pairs:
    """Leave out the rows without both numbers, and number groups and systems.

    Args:
        scores: Shape (n,); `None` or NaN if unscored.
        human: Shape (n,); `None` or NaN if unrated.
        groups: Group of each row, length n.
        systems: System of each row, length n.
        level: The level these rows are meant for; what it needs must be there.

    Raises:
        UnknownName: There is no such level.
        ConfigurationError: The level needs groups or systems and there are none.
        DataError: Lengths differ, a number is infinite, or rows lack the group or system that the
            level needs.
    """
    if level not in LEVELS:
        raise UnknownName("level", str(level), LEVELS)
    x, y = finite_array(scores, "scores"), finite_array(human, "human ratings")
    if len(x) != len(y):
        raise DataError(f"scores and human ratings must be equally long, not {len(x)} and {len(y)}")
    both = ~np.isnan(x) & ~np.isnan(y)
    kept = np.flatnonzero(both)
    return Pairs(
        scores=x[kept],
        human=y[kept],
        groups=_numbered(groups, kept, len(x), "group", needed=level == "group"),
        systems=_numbered(systems, kept, len(x), "system", needed=level == "system"),
        # counted before unscored rows are dropped: coverage must show what the judge failed on
        rated=int(np.count_nonzero(~np.isnan(y))),
    )


def dataset_level(pairs: Pairs) -> dict[Coefficient, float | None]:
    """Return the coefficients over all rows, `None` if a side is constant."""
    return _over_points(pairs.scores, pairs.human)


def system_level(pairs: Pairs) -> dict[Coefficient, float | None]:
    """Return the coefficients of the means per system.

    `None` if a side's means are constant, or there are fewer than `MIN_POINTS` systems.
    """
    scores, human = system_means(pairs)
    return _over_points(scores, human, least=MIN_POINTS)


def system_means(pairs: Pairs) -> tuple[Floats, Floats]:
    """Return the mean score and the mean rating of each system, shape (systems,) each."""
    rows = rows_by_code(_given(pairs.systems))
    return (
        np.array([math.fsum(pairs.scores[i]) / len(i) for i in rows], float),
        np.array([math.fsum(pairs.human[i]) / len(i) for i in rows], float),
    )


def group_coefficients(pairs: Pairs) -> dict[Coefficient, Floats]:
    """Return the coefficients of each group, shape (groups,).

    NaN, for all three alike, if a side is constant.
    """
    rows = rows_by_code(_given(pairs.groups))
    coefficients = {name: np.full(len(rows), np.nan) for name in COEFFICIENTS}
    sizes = np.array([len(i) for i in rows], int)
    # groups of equal size form a rectangular array and are computed in one call
    for size in np.unique(sizes[sizes > 1]):
        same = np.flatnonzero(sizes == size)
        index = np.stack([rows[g] for g in same])
        for name in COEFFICIENTS:
            coefficients[name][same] = ROWS[name](pairs.scores[index], pairs.human[index])
    return coefficients


def average_coefficients(per_group: dict[Coefficient, Floats]) -> dict[Coefficient, float | None]:
    """Return each coefficient's mean over the groups that define it, `None` if there is none."""
    means: dict[Coefficient, float | None] = {}
    for name, values in per_group.items():
        defined = values[~np.isnan(values)]
        means[name] = math.fsum(defined) / len(defined) if len(defined) else None
    return means


def rows_by_code(codes: Codes) -> list[Codes]:
    """Return the rows of each code in order, as a list over codes."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(codes) else []


def _over_points(x: Floats, y: Floats, least: int = 2) -> dict[Coefficient, float | None]:
    coefficients: dict[Coefficient, float | None] = dict.fromkeys(COEFFICIENTS)
    if len(x) >= least:
        for name in COEFFICIENTS:
            value = float(ROWS[name](x[None, :], y[None, :])[0])
            coefficients[name] = None if math.isnan(value) else value
    return coefficients


def _numbered(
    labels: RowLabels | None, kept: Codes, n: int, kind: str, *, needed: bool
) -> Codes | None:
    """Return codes in order of appearance.

    Rows without a label count as groups of their own unless it is needed.
    """
    if labels is None:
        if needed:
            raise ConfigurationError(f"level {kind!r} needs the {kind} of each row; give {kind}s")
        return None
    if len(labels) != n:
        raise DataError(f"{kind}s must be as long as the scores, not {len(labels)} and {n}")
    if needed and all(label is None for label in labels):
        raise ConfigurationError(f"level {kind!r} needs the {kind} of each row, and none has one")
    codes: dict[Hashable, int] = {}
    numbered = np.empty(len(kept), np.intp)
    for position, row in enumerate(kept.tolist()):
        label: Hashable = labels[row]
        if label is None:
            if needed:
                raise DataError(f"level {kind!r} needs the {kind} of each row; row {row} has none")
            # a tuple cannot collide with a label from the data, which is a text or a number
            label = ("no label", row)
        numbered[position] = codes.setdefault(label, len(codes))
    return numbered


def _given(codes: Codes | None) -> Codes:
    if codes is None:
        raise ConfigurationError("this level needs groups or systems, and none were given")
    return codes
