"""How well scores agree with people, and whether one set of scores agrees better than another.

Knows arrays, levels and intervals; nothing of examples or files.

A difference is tested on the same rows in two ways. The jackknife over groups (a paired bootstrap
of many groups, and at group level) gives its standard error, and Student's t on groups less one its
interval and p-value; at system level the systems are the groups. Williams' test, for two Pearson
correlations that share a variable, assumes independent points. Rows that share a source are not
independent, and the test then reports a difference in a third of the cases without one: it is given
only at system level, and if every row is a group of its own.

References:
    Williams, "The comparison of regression variables", J. R. Stat. Soc. B 21 (1959), 396-399.
    Steiger, "Tests for comparing elements of a correlation matrix", Psychological Bulletin 87
    (1980), 245-251, eq. 7. Graham and Baldwin, "Testing for significance of increased correlation
    with human judgment", EMNLP 2014.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from textassay.agreement.correlation import (
    COEFFICIENTS,
    Coefficient,
    Level,
    NumbersLike,
    Pairs,
    RowLabels,
    average_coefficients,
    dataset_level,
    finite_array,
    group_coefficients,
    pair_up,
    pearson,
    system_level,
    system_means,
)
from textassay.agreement.intervals import (
    CONFIDENCE,
    FEWEST,
    Intervals,
    Varied,
    degrees_of_freedom,
    intervals_at,
    number_of_groups,
    resample,
    standard_error,
    t_quantile,
    vary_groups,
)
from textassay.arrays import Codes, Floats
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.table import Estimate, ResultRow, column


def _coefficient(name: Coefficient) -> dict[str, Any]:
    return column(name, "interval", cell=lambda agreement: agreement.estimate(name))


@dataclass(frozen=True, slots=True)
class Agreement(ResultRow):
    """Agreement of one set of scores with human ratings at one level."""

    level: Level = field(metadata=column("level"))
    """`dataset`, `group` or `system`."""
    n: int = field(
        metadata=column("n", "count")
        | column("coverage", "number", name="coverage", cell="coverage")
    )
    """Rows with both numbers."""
    groups: int | None = field(metadata=column("groups", "count", cell="groups_in_words"))
    """Number of groups: the averaged ones at group level, else all; `None` without groups."""
    groups_skipped: int
    """Groups left out because a side is constant there; 0 at the other levels."""
    coverage: float | None
    """Share of the rated rows that have a score; `None` without rated rows."""
    pearson: float | None = field(metadata=_coefficient("pearson"))
    """Pearson's r; `None` if undefined."""
    spearman: float | None = field(metadata=_coefficient("spearman"))
    """Spearman's rho with average ranks; `None` if undefined."""
    kendall: float | None = field(metadata=_coefficient("kendall"))
    """Kendall's tau-b; `None` if undefined."""
    ci: dict[Coefficient, Estimate] = field(default_factory=dict)
    """Each coefficient with its 95 % interval, if there is a reliable one; empty if intervals were
    not requested."""
    systems: int | None = None
    """Systems that occur; `None` without systems."""
    note: str | None = None
    """The reason why there is no interval, or why it is too narrow; else `None`."""

    def estimate(self, name: Coefficient) -> Estimate:
        """Return a coefficient with its interval."""
        return self.ci.get(name) or Estimate(getattr(self, name))

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values; of intervals the ends, `None` if they were not requested."""
        ends = {name: interval.ends or None for name, interval in self.ci.items()}
        return ResultRow.as_dict(self) | {"ci": ends or None}

    @property
    def groups_in_words(self) -> str | None:
        """The number of groups and, as `(-1)`, the number left out; at system level the systems."""
        if self.level == "system":
            return f"{self.systems} systems"
        if self.groups is None:
            return None
        return f"{self.groups}{f' (-{self.groups_skipped})' if self.groups_skipped else ''}"


def correlate(
    scores: NumbersLike,
    human: NumbersLike,
    *,
    groups: RowLabels | None = None,
    systems: RowLabels | None = None,
    level: Level = "dataset",
    bootstrap: int = 0,
    seed: int = 0,
) -> Agreement:
    """Return how well scores agree with human ratings.

    Args:
        scores: Shape (n,); `None` or NaN for unscored rows, which are left out and lower
            `coverage`.
        human: Shape (n,); `None` or NaN if a row is unrated.
        groups: The source of each row, such as its document, length n; needed at group level: the
            sampled unit. Without groups it is the row.
        systems: Who made each row, length n; needed at system level.
        level: `dataset`, `group` or `system`.
        bootstrap: Number of resamples behind the intervals at dataset level if there are more
            groups; with fewer groups, and at other levels, any number above 0 gives the same. 0 for
            no intervals.
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
    return compute_agreement(
        pair_up(scores, human, groups=groups, systems=systems, level=level),
        level,
        bootstrap=bootstrap,
        seed=seed,
    )


def compute_agreement(
    pairs: Pairs, level: Level, *, bootstrap: int = 0, seed: int = 0
) -> Agreement:
    """Return the agreement of rows that are paired already; arguments as for `correlate`."""
    if bootstrap < 0:
        raise ConfigurationError(f"a bootstrap needs at least 1 resample, not {bootstrap}")
    groups, skipped, per_group = _count(pairs.groups, pairs.has_groups), 0, None
    if level == "group":
        per_group = group_coefficients(pairs)
        coefficients = average_coefficients(per_group)
        # a constant side leaves all three coefficients undefined, so any of them can be counted
        skipped = int(np.isnan(per_group["pearson"]).sum())
        groups = len(per_group["pearson"]) - skipped
    else:
        coefficients = dataset_level(pairs) if level == "dataset" else system_level(pairs)
    spans, ci = Intervals(), dict[Coefficient, Estimate]()
    if bootstrap:
        spans = intervals_at(
            pairs, level, coefficients, per_group=per_group, resamples=bootstrap, seed=seed
        )
        ci = {name: Estimate(value) for name, value in coefficients.items()} | spans.ci
    return Agreement(
        level=level, n=len(pairs.scores), coverage=pairs.coverage, groups=groups,
        groups_skipped=skipped, systems=_count(pairs.systems, pairs.has_systems), **coefficients,
        ci=ci, note=spans.note,
    )  # fmt: skip


def _count(codes: Codes, is_given: bool) -> int | None:
    return int(codes.max(initial=-1)) + 1 if is_given else None


@dataclass(frozen=True, slots=True)
class WilliamsTest:
    """Williams' test of two Pearson correlations that share a variable."""

    t: float
    """Statistic; above 0 if the first correlation is higher."""
    df: int
    """Degrees of freedom, n - 3."""
    p: float
    """Two-sided probability of a difference at least this large if the correlations are equal."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of one coefficient between two sets of scores."""

    a: float | None
    """Coefficient of the first; `None` if undefined."""
    b: float | None
    """Coefficient of the second; `None` if undefined."""
    difference: Estimate
    """`a - b` with its 95 % interval; without an interval below 5 groups (10 systems)."""
    p: float | None
    """Two-sided p-value that goes with the interval, at least 2 / (resamples + 1) if resamples were
    drawn; `None` if there is no interval.
    """
    williams: WilliamsTest | None = None
    """Williams' test; `None` for rank coefficients, at group level, if several rows share a group,
    and if it is undefined."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sets of scores against the same human ratings."""

    level: Level
    """`dataset`, `group` or `system`."""
    n: int
    """Rows with a rating and both scores; all other rows are left out on both sides."""
    pearson: Difference
    """Difference of Pearson's r."""
    spearman: Difference
    """Difference of Spearman's rho."""
    kendall: Difference
    """Difference of Kendall's tau-b."""


def compare(
    a: NumbersLike,
    b: NumbersLike,
    human: NumbersLike,
    *,
    groups: RowLabels | None = None,
    systems: RowLabels | None = None,
    level: Level = "dataset",
    bootstrap: int = 1000,
    seed: int = 0,
) -> Comparison:
    """Test whether scores `a` agree better with human ratings than scores `b`.

    Args:
        a: Scores, shape (n,); `None` or NaN if unscored.
        b: Other scores of the same rows, shape (n,).
        human: Ratings of the same rows, shape (n,).
        groups: The source of each row, length n: the sampled unit. Without groups it is the row.
        systems: Who made each row, length n; needed at system level.
        level: `dataset`, `group` or `system`.
        bootstrap: Number of resamples, at least 1. If there are at most this many groups, each is
            left out in turn instead (the jackknife), except at group level.
        seed: Seed of the resamples; both sides see the same ones.

    Raises:
        UnknownName: There is no such level.
        ConfigurationError: The level needs groups or systems and there are none, or `bootstrap` is
            below 1.
        DataError: Lengths differ, a number is infinite, or rows lack the group or system that the
            level needs.
    """
    if bootstrap < 1:
        raise ConfigurationError(f"comparing needs at least 1 resample, not {bootstrap}")
    x, y = finite_array(a, "scores a"), finite_array(b, "scores b")
    if len(x) != len(y):
        raise DataError(f"the two sets of scores must be equally long, not {len(x)} and {len(y)}")
    # a row that one side left unscored is dropped on both: they are compared on the same texts
    missing = np.isnan(x) | np.isnan(y)
    first, second = (
        pair_up(np.where(missing, np.nan, side), human, groups=groups, systems=systems, level=level)
        for side in (x, y)
    )
    points = [compute_agreement(pairs, level) for pairs in (first, second)]
    # at system level a point is a system, the sampled unit
    rows, unit_level, least = len(first.scores), level, FEWEST.groups
    if level == "system":
        first, second = _system_means_as_rows(first), _system_means_as_rows(second)
        unit_level, least = "dataset", 10  # with fewer, resamples vary too little
    errors, df, least_p = _errors(first, second, unit_level, bootstrap, seed)
    enough = number_of_groups(first) >= least
    differences: dict[Coefficient, Difference] = {}
    for name in COEFFICIENTS:
        a_value, b_value = (getattr(point, name) for point in points)
        error = errors[name] if enough else None
        test = _compute_williams(first, second, unit_level) if name == "pearson" else None
        differences[name] = difference_of(a_value, b_value, error, df, least_p=least_p, test=test)
    return Comparison(level=level, n=rows, **differences)


def _errors(
    first: Pairs, second: Pairs, level: Level, resamples: int, seed: int
) -> tuple[dict[Coefficient, float | None], float, float]:
    """Return standard errors of the differences, their degrees of freedom and the least p-value."""
    if level == "dataset":
        a, b = (vary_groups(pairs, resamples, seed) for pairs in (first, second))
        df = degrees_of_freedom(first)
    else:
        count = number_of_groups(first)
        a, b = (
            Varied(resample(pairs, level, resamples=resamples, seed=seed), count, False)
            for pairs in (first, second)
        )
        df = count - 1.0
    changes = {n: without_rounding(a.values[n] - b.values[n]) for n in COEFFICIENTS}
    return {n: a.error(values) for n, values in changes.items()}, df, a.least_p


def williams(r_a: float, r_b: float, r_ab: float, n: int) -> WilliamsTest | None:
    """Test the difference of two Pearson correlations with one variable in common.

    Args:
        r_a: Correlation of the first scores with the ratings.
        r_b: Correlation of the second scores with the ratings.
        r_ab: Correlation of the two sets of scores.
        n: Number of points.

    Returns:
        `None` if n is below 4, or the statistic is undefined because the two sets of scores are
        equal.

    Raises:
        DataError: A correlation is outside -1 to 1.
    """
    if not all(-1 <= r <= 1 for r in (r_a, r_b, r_ab)):
        raise DataError(f"correlations lie between -1 and 1, not {r_a!r}, {r_b!r}, {r_ab!r}")
    if n < 4:
        return None
    determinant = max(0.0, 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab)
    # the form of Steiger (1980, eq. 7); the determinant of a correlation matrix cannot be negative
    # but rounds below 0 if two of the three are nearly equal
    below = 2 * determinant * (n - 1) / (n - 3) + (r_a + r_b) ** 2 / 4 * (1 - r_ab) ** 3
    if below <= 1e-15:
        return None
    t = (r_a - r_b) * math.sqrt((n - 1) * (1 + r_ab) / below)
    return WilliamsTest(t=t, df=n - 3, p=two_sided(t, n - 3))


def difference_between(
    a: float | None, b: float | None, resampled: Floats, groups: int, inflation: float = 1.0
) -> Difference:
    """Return the difference of two coefficients with interval and p-value.

    `inflation` is a factor of the standard error.
    """
    resampled = without_rounding(resampled)
    error = standard_error(inflation * resampled, groups) if groups >= FEWEST.groups else None
    # this number of resamples cannot show a smaller one
    return difference_of(a, b, error, groups - 1, least_p=2 / (len(resampled) + 1))


def without_rounding(differences: Floats) -> Floats:
    """Return differences with 0 in place of rounding errors."""
    return np.where(np.abs(differences) < 1e-12, 0.0, differences)


def difference_of(
    a: float | None,
    b: float | None,
    error: float | None,
    df: float,
    *,
    least_p: float,
    test: WilliamsTest | None = None,
) -> Difference:
    """Return the difference of two coefficients whose standard error is known."""
    if a is None or b is None:
        return Difference(a=a, b=b, difference=Estimate(None), p=None)
    # scores that differ only by a factor agree equally well, except for the last bits
    difference = float(without_rounding(np.array(a - b)))
    # without a spread over groups, the certainty of the difference is unknown
    if error is None or (error == 0 and difference != 0):
        return Difference(a=a, b=b, difference=Estimate(difference), p=None, williams=test)
    half = t_quantile(df, CONFIDENCE) * error
    return Difference(
        a=a, b=b, difference=Estimate(difference, difference - half, difference + half),
        p=max(least_p, two_sided(difference / error, df)) if error else 1.0, williams=test,
    )  # fmt: skip


def two_sided(t: float, df: float) -> float:
    """Return the two-sided p-value of Student's t."""
    from scipy.special import stdtr  # heavy, so on first use

    return min(1.0, 2 * float(stdtr(df, -abs(t))))


def _system_means_as_rows(pairs: Pairs) -> Pairs:
    """Return one row per system, its means."""
    scores, human = system_means(pairs)
    return pair_up(scores, human)


def _compute_williams(first: Pairs, second: Pairs, level: Level) -> WilliamsTest | None:
    # rows of one group break the test's assumption, see the module's docstring
    if level == "group" or number_of_groups(first) < len(first.scores):
        return None
    (a, human), b = (first.scores, first.human), second.scores
    defined = [r for r in (pearson(a, human), pearson(b, human), pearson(a, b)) if r is not None]
    if len(defined) < 3:
        return None
    r_a, r_b, r_ab = defined
    return williams(r_a, r_b, r_ab, len(a))
