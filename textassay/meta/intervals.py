"""Confidence intervals of a coefficient, with coverage shown by `benchmarks/coverage.py`.

Knows paired rows and levels; nothing of examples or files.

- `dataset`: the standard error over resampled groups on Fisher's z scale, with Student's t on
  groups less one. Percentiles of the resamples alone are too narrow with few groups.
- `group`: Student's t over the coefficients of the groups, which are independent of each other.
- `system`: systems are the points, however many rows each has, so the interval is that of
  as many points (Fisher's z). Resampling documents says nothing of other systems, and adds its
  noise to means that hold noise already. The upper end allows for what that noise takes off the
  coefficient.

An interval that cannot hold is none, and a note says why.

References:
    Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapters 6 and 12. Fieller,
    Hartley and Pearson, "Tests for rank correlation coefficients", Biometrika 44 (1957), for the
    standard errors of rank coefficients on the z scale. Spearman (1904) for attenuation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from textassay.meta.bootstrap import CONFIDENCE, Interval, resampled
from textassay.meta.correlation import COEFFICIENTS, Coefficient
from textassay.meta.levels import Level, Pairs, rows_by_code, system_means
from textassay.meta.ranks import Codes, Floats

MIN_GROUPS = 5
"""Fewest groups that an interval is given for; below, simulated coverage falls under 90 %."""
MIN_DEFINED_GROUPS = 15
"""Fewest groups with a coefficient at group level: with 12 of them simulated coverage on skewed
ratings is 90 to 93 %."""
MIN_SYSTEMS, MIN_SYSTEM_GROUPS = 10, 40
"""Fewest systems, and groups behind their means, that an interval at system level is given for:
simulated coverage of those given is 96 % here, 91 % with 30 groups, 89 % with 8 systems, and 81 %
with 15 groups and 6 systems. Here it falls to 93 % if systems differ so little that an interval is
given for one data set in six."""
_CERTAIN = 1 - 1e-9
"""Coefficients beyond have no place on the z scale."""
_Z_LIMIT = 1 - 1e-6


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals of the three coefficients at one level.

    Attributes:
        ci: Interval by coefficient; `None` if it is undefined or none can hold.
        note: Why there is none; `None` if there are intervals.
    """

    ci: dict[Coefficient, Interval | None] = field(
        default_factory=lambda: dict.fromkeys(COEFFICIENTS)
    )
    note: str | None = None


def intervals_at(
    pairs: Pairs,
    level: Level,
    point: dict[Coefficient, float | None],
    *,
    per_group: dict[Coefficient, Floats] | None = None,
    resamples: int,
    seed: int,
    confidence: float = CONFIDENCE,
) -> Intervals:
    """Return an interval for each coefficient, or a note that says why none can hold.

    Args:
        pairs: Rows with both numbers; without groups every row is a group.
        level: Level of the coefficients.
        point: The coefficients themselves.
        per_group: The coefficients of each group, at group level.
        resamples: Number of resamples, which the data set level needs.
        seed: Seed of the resamples.
        confidence: Nominal coverage.
    """
    if all(value is None for value in point.values()):
        return Intervals(note="the coefficients are undefined: a side is constant, or too few rows")
    if level == "group" and per_group is not None:
        return _over_groups(point, per_group, confidence)
    if level == "system":
        return _over_systems(pairs, point, confidence)
    return _over_rows(pairs, point, resamples, seed, confidence)


def t_quantile(df: int, confidence: float) -> float:
    """Return the two-sided quantile of Student's t."""
    from scipy.special import stdtrit  # heavy, so on first use

    return float(stdtrit(df, (1 + confidence) / 2))


def number_of_groups(pairs: Pairs) -> int:
    """Return the number of groups, or of rows if there are no groups."""
    if pairs.groups is None:
        return len(pairs.scores)
    return int(pairs.groups.max(initial=-1)) + 1


def _too_few(kind: str, count: int, needed: int) -> Intervals:
    return Intervals(note=f"no interval: needs at least {needed} {kind}, found {count}")


def _over_rows(
    pairs: Pairs,
    point: dict[Coefficient, float | None],
    resamples: int,
    seed: int,
    confidence: float,
) -> Intervals:
    groups = number_of_groups(pairs)
    if groups < MIN_GROUPS:
        return _too_few("groups" if pairs.groups is not None else "rows", groups, MIN_GROUPS)
    values = resampled(pairs, "dataset", resamples=resamples, seed=seed)
    ci: dict[Coefficient, Interval | None] = {}
    for name, value in point.items():
        ci[name] = coefficient_interval(value, values[name], groups, confidence)
    note = None
    if all(span is None for span in ci.values()):
        note = (
            "no interval: the coefficients are at the end of their range, or undefined in half the"
            " resamples"
        )
    return Intervals(ci, note)


def coefficient_interval(
    value: float | None, drawn: Floats, groups: int, confidence: float = CONFIDENCE
) -> Interval | None:
    """Return the interval of a correlation by Student's t on Fisher's z scale.

    Args:
        value: The correlation; `None` if undefined.
        drawn: Its values in resamples of the groups, NaN if undefined there.
        groups: Number of groups that were resampled.
        confidence: Nominal coverage.

    Returns:
        `None` if there are fewer than `MIN_GROUPS` groups, or it is undefined in half the
        resamples.
    """
    if value is None or groups < MIN_GROUPS:
        return None
    # Fisher's z is close to normal with a spread that hardly depends on r, so a symmetric t
    # interval is taken there and carried back; on r itself it could leave -1 to 1
    error = standard_error(_z(drawn), groups)
    if error is None:
        return None
    if abs(value) >= _CERTAIN:  # an exact relation, which has no place on the z scale
        return (value, value) if error < 1 - _CERTAIN else None
    # groups are what is sampled, so they, not rows, give the degrees of freedom
    half = t_quantile(groups - 1, confidence) * error
    return math.tanh(math.atanh(value) - half), math.tanh(math.atanh(value) + half)


def standard_error(drawn: Floats, groups: int) -> float | None:
    """Return the standard error behind resampled values; `None` if half of them or more are NaN."""
    defined = drawn[~np.isnan(drawn)]
    if 2 * len(defined) <= len(drawn) or len(defined) < 2:
        return None
    # a resample of G groups varies as (G - 1) / G of what it stands for
    return float(np.std(defined, ddof=1)) * math.sqrt(groups / (groups - 1))


def _z(values: Floats) -> Floats:
    return np.arctanh(np.clip(values, -_Z_LIMIT, _Z_LIMIT))


def _over_groups(
    point: dict[Coefficient, float | None],
    per_group: dict[Coefficient, Floats],
    confidence: float,
) -> Intervals:
    ci: dict[Coefficient, Interval | None] = {}
    for name, value in point.items():
        defined = per_group[name][~np.isnan(per_group[name])]
        if len(defined) < MIN_DEFINED_GROUPS or value is None:
            return _too_few("groups with a coefficient", len(defined), MIN_DEFINED_GROUPS)
        half = t_quantile(len(defined) - 1, confidence) * float(np.std(defined, ddof=1))
        half /= math.sqrt(len(defined))
        ci[name] = max(-1.0, value - half), min(1.0, value + half)
    return Intervals(ci)


def _over_systems(
    pairs: Pairs, point: dict[Coefficient, float | None], confidence: float
) -> Intervals:
    x, y = system_means(pairs)
    systems = len(x)
    if systems < MIN_SYSTEMS:
        return _too_few("systems", systems, MIN_SYSTEMS)
    if pairs.groups is not None and number_of_groups(pairs) < MIN_SYSTEM_GROUPS:
        return _too_few("groups behind the systems", number_of_groups(pairs), MIN_SYSTEM_GROUPS)
    shift = _attenuation(pairs, x, y)
    if shift is None:
        return Intervals(
            note="no interval: the means of the systems differ no more than their rows do by chance"
        )
    errors: dict[Coefficient, float] = {
        "pearson": math.sqrt(1 / (systems - 3)),
        # variances on the z scale for rank coefficients by Fieller, Hartley and Pearson (1957)
        "spearman": math.sqrt(1.06 / (systems - 3)),
        "kendall": math.sqrt(0.437 / (systems - 4)),
    }
    ci: dict[Coefficient, Interval | None] = {}
    for name, value in point.items():
        if value is None:
            ci[name] = None
            continue
        z = math.atanh(max(-_Z_SYSTEM, min(_Z_SYSTEM, value)))
        half = t_quantile(systems - 2, confidence) * errors[name]
        # only the end away from 0 is moved: noise in the means can hide agreement but not create
        # it
        low, high = sorted((0.0, shift if value >= 0 else -shift))
        lower, upper = math.tanh(z + low - half), math.tanh(z + high + half)
        ci[name] = min(lower, value), max(upper, value)
    return Intervals(ci)


_Z_SYSTEM = 0.995
"""Where a coefficient of 1 over few systems is put on the z scale."""


_ALPHA = 0.05
_NEAR_ONE = 0.9
"""A correlation without noise above this may be 1."""


def _attenuation(pairs: Pairs, x: Floats, y: Floats) -> float | None:
    """Return how far noise in the means pulls Pearson's r to 0, on the z scale.

    `None` if noise is all there is.
    """
    codes = pairs.systems
    assert codes is not None  # the level has checked it
    noise_x, noise_y = (_noise(side, pairs, codes) for side in (pairs.scores, pairs.human))
    spread_x, spread_y = float(np.var(x, ddof=1)), float(np.var(y, ddof=1))
    kept = (1 - noise_x / spread_x if spread_x else 0.0) * (
        1 - noise_y / spread_y if spread_y else 0.0
    )
    # the F test of systems against rows: what it does not find cannot be corrected for
    from scipy.special import chdtri  # heavy, so on first use

    critical = float(chdtri(len(x) - 1, _ALPHA)) / (len(x) - 1)
    if spread_x <= critical * noise_x or spread_y <= critical * noise_y or kept <= 0:
        return None
    r = abs(float(np.corrcoef(x, y)[0, 1]))
    corrected = r / math.sqrt(kept)
    if corrected >= _NEAR_ONE:  # then 1 cannot be excluded
        return math.inf
    return max(0.0, math.atanh(corrected) - math.atanh(r))


def _noise(values: Floats, pairs: Pairs, systems: Codes) -> float:
    """Return the mean variance of a system's mean, without what all systems of a group share."""
    residual = values.copy()
    if pairs.groups is not None:
        for rows in rows_by_code(pairs.groups):
            # how hard a source is moves all systems alike and does not blur their order
            residual[rows] -= values[rows].mean()
    variances = [
        float(np.var(residual[rows], ddof=1)) / len(rows)
        for rows in rows_by_code(systems)
        if len(rows) > 1
    ]
    return math.fsum(variances) / len(variances) if variances else 0.0
