"""How well scores agree with people, from two arrays.

Knows levels and intervals; nothing of examples or files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from textassay.meta.bootstrap import Interval
from textassay.meta.correlation import Coefficient
from textassay.meta.intervals import Intervals, intervals_at
from textassay.meta.levels import (
    Level,
    Pairs,
    RowLabels,
    average_coefficients,
    dataset_level,
    group_coefficients,
    pair_up,
    system_level,
)
from textassay.runtime.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of one set of scores with human ratings at one level.

    Attributes:
        level: `dataset`, `group` or `system`.
        n: Rows with both numbers.
        coverage: `n` over rows with a human rating; `None` if none is rated.
        groups: Groups that count: at group level those averaged over, else all that occur; `None`
            without groups.
        groups_skipped: Groups left out because a side is constant there; 0 at the other levels.
        systems: Systems that occur; `None` without systems.
        pearson: Pearson's r; `None` if undefined.
        spearman: Spearman's rho with average ranks; `None` if undefined.
        kendall: Kendall's tau-b; `None` if undefined.
        ci: 95 % interval of each coefficient, `None` if undefined or none can hold; `None` as a
            whole if none was asked for.
        note: Why there is no interval; `None` if there is one, or none was asked for.
    """

    level: Level
    n: int
    coverage: float | None
    groups: int | None
    groups_skipped: int
    systems: int | None
    pearson: float | None
    spearman: float | None
    kendall: float | None
    ci: dict[Coefficient, Interval | None] | None = None
    note: str | None = None


def correlate(
    scores: ArrayLike | Sequence[float | None],
    human: ArrayLike | Sequence[float | None],
    *,
    groups: RowLabels | None = None,
    systems: RowLabels | None = None,
    level: Level = "dataset",
    bootstrap: int = 0,
    seed: int = 0,
) -> Agreement:
    """Return how well scores agree with human ratings.

    Args:
        scores: Shape (n,); `None` or NaN if a row is unscored: it is left out, and `coverage`
            says so.
        human: Shape (n,); `None` or NaN if a row is unrated.
        groups: What each row belongs to (its source document), length n; needed at group level, and
            what the bootstrap draws. Without groups it draws rows.
        systems: Who made each row, length n; needed at system level.
        level: `dataset`, `group` or `system`.
        bootstrap: Number of resamples behind the intervals; 0 for no intervals. At group and system
            level the intervals need no resamples, and any number above 0 gives the same.
        seed: Seed of the resamples.

    Raises:
        UnknownName: There is no such level.
        ConfigurationError: The level needs groups or systems and there are none.
        DataError: Lengths differ, a number is infinite, or rows lack the group or system that the
            level needs.

    Example:
        >>> round(correlate([1, 2, 3, 4], [1, 3, 2, 4]).spearman, 3)
        0.8
    """
    return agreement_of(
        pair_up(scores, human, groups=groups, systems=systems, level=level),
        level,
        bootstrap=bootstrap,
        seed=seed,
    )


def agreement_of(pairs: Pairs, level: Level, *, bootstrap: int = 0, seed: int = 0) -> Agreement:
    """Return the agreement of rows that are paired already; arguments as for `correlate`."""
    if bootstrap < 0:
        raise ConfigurationError(f"a bootstrap needs at least 1 resample, not {bootstrap}")
    groups, skipped, per_group = _number_of(pairs.groups), 0, None
    if level == "group":
        per_group = group_coefficients(pairs)
        coefficients = average_coefficients(per_group)
        # a side that is constant leaves all three coefficients undefined, so any of them serves
        # for counting
        skipped = int(np.isnan(per_group["pearson"]).sum())
        groups = len(per_group["pearson"]) - skipped
    else:
        coefficients = dataset_level(pairs) if level == "dataset" else system_level(pairs)
    spans = (
        Intervals(ci={})
        if not bootstrap
        else intervals_at(
            pairs, level, coefficients, per_group=per_group, resamples=bootstrap, seed=seed
        )
    )
    return Agreement(
        level=level,
        n=len(pairs.scores),
        coverage=pairs.coverage,
        groups=groups,
        groups_skipped=skipped,
        systems=_number_of(pairs.systems),
        pearson=coefficients["pearson"],
        spearman=coefficients["spearman"],
        kendall=coefficients["kendall"],
        ci=spans.ci if bootstrap else None,
        note=spans.note,
    )


def _number_of(codes: np.ndarray[tuple[int], np.dtype[np.intp]] | None) -> int | None:
    return None if codes is None else int(codes.max(initial=-1)) + 1
