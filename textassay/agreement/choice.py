"""How often the text that a score puts first in its group is the one that people find best.

Works on arrays and groups. A group is a question with several answers, or a pair of texts. The
measure of a group is the share of people's best texts among the texts with the highest score: 1 if
the score chooses right, 1/2 if the right text ties with another one, as in RewardBench 2 (Malik et
al. 2025, arXiv 2506.01937). If ties count as wrong instead (`strict`), the order of judges changes:
a judge that says "equal" loses to a judge that guesses.

Unrated texts are ignored. A group is left out and counted if one of its rated texts has no score,
or if people find all of its texts equally good, so that no text is the best.

Intervals are Student's t over groups, or over the sources of the groups. If fewer than ten groups
are chosen right, or fewer than ten wrong, the interval is widened to contain Jeffreys' interval:
ten right choices out of ten do not show how rare wrong ones are. `benchmarks/coverage/` shows their
coverage.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from textassay.agreement.correlation import NumbersLike, RowLabels, finite_array
from textassay.agreement.intervals import (
    CONFIDENCE,
    FEWEST,
    beta_interval,
    effective_number,
    t_quantile,
)
from textassay.agreement.labels import Measure
from textassay.agreement.significance import Difference, two_sided
from textassay.arrays import Codes, Floats, Mask
from textassay.runtime.errors import DataError
from textassay.table import Estimate, column


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Texts to choose from, one row per text."""

    rows: Codes
    """Index of each row's example."""
    second: Mask
    """Whether the row is the second text of a pair, whose score is 1 minus the score of the
    first.
    """
    groups: Sequence[Hashable | None]
    """The group of texts from which each row is chosen; `None` for rows that are left out."""
    units: Sequence[Hashable | None]
    """The source of each row's group; `None` for groups without a source."""
    sided: bool
    """Whether the groups are pairs."""

    def column(self, values: NumbersLike) -> Floats:
        """Return the value of each row, given the values of the examples."""
        numbers = finite_array(values, "scores")[self.rows]
        return np.where(self.second, 1 - numbers, numbers)


def alternatives(
    paired: Sequence[bool], groups: RowLabels | None, *, by_group: bool = True
) -> Iterator[Alternatives]:
    """Yield the pairs among the examples, and the groups of the other examples.

    Args:
        paired: Whether each example is a pair of texts, length n.
        groups: The source of each example, length n; `None` if it is unknown.
        by_group: Whether texts that are not pairs are compared within their groups.
    """
    is_pair = np.asarray(paired, bool)
    units = [None] * len(is_pair) if groups is None else list(groups)
    if is_pair.any():
        rows = np.repeat(np.flatnonzero(is_pair), 2)
        second = np.arange(len(rows)) % 2 == 1
        yield Alternatives(rows, second, rows.tolist(), [units[at] for at in rows], sided=True)
    if by_group and groups is not None and not is_pair.all():
        rows = np.flatnonzero(~is_pair)
        sources = [units[at] for at in rows]
        yield Alternatives(rows, np.zeros(len(rows), bool), sources, sources, sided=False)


@dataclass(frozen=True, slots=True)
class ChoiceAgreement:
    """How often a score chooses the text that people find best."""

    n: int = field(metadata=column("groups", "count"))
    """Groups that were compared."""
    texts: int = field(metadata=column("texts", "count"))
    """Texts in them."""
    choice: Measure = field(
        metadata=column("choice", "interval", cell="choice.estimate")
        | column("best constant", "number", name="constant", cell="choice.constant")
    )
    """Mean share of people's best texts among the texts that the score puts first; `constant` is
    the share that a score reaches if it is equal for all texts, or always prefers the same side of
    a pair.
    """
    strict: Measure = field(metadata=column("strict", "interval", cell="strict.estimate"))
    """Share of the groups in which all texts that the score puts first are among people's best."""
    tied: float | None = field(metadata=column("tied", "share", 1))
    """Share of the groups in which the score puts several texts first; `None` without groups."""
    unscored: int = 0
    """Groups left out because a rated text has no score."""
    undecided: int = 0
    """Groups left out because people find all their texts equally good."""
    note: str | None = None
    """The reason why there is no interval; `None` if there is one."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Groups in which every judge scored all rated texts."""

    shares: list[Floats]
    """Share of people's best among the texts put first, shape (groups,) for each judge."""
    strict: list[Floats]
    """Whether all texts put first are among people's best, shape (groups,) for each judge."""
    tied: list[Floats]
    """Whether several texts are put first, shape (groups,) for each judge."""
    chance: float | None
    """Mean share that the best constant reaches; `None` without groups."""
    units: Codes
    """Code of each group's source, shape (groups,)."""
    texts: int
    """Texts in the groups."""
    unscored: int
    """Groups left out because a rated text has no score."""
    undecided: int
    """Groups left out because people find all their texts equally good."""


def choices_of(
    judges: list[Floats],
    human: Floats,
    groups: RowLabels,
    *,
    units: RowLabels | None = None,
    sided: bool = False,
) -> Choices:
    """Return each judge's choices in groups of rated texts.

    Args:
        judges: Scores, shape (n,) each; NaN if unscored.
        human: Ratings, shape (n,); NaN if unrated.
        groups: The group of texts that each row is chosen from, length n; rows with `None` are
            left out.
        units: The source of each row's group, length n; by default each group is a unit.
        sided: Whether the first row of a group is one side, as the `output` of pairs is.
    """
    at: dict[object, list[int]] = {}
    for row, group in enumerate(groups):
        if group is not None and not np.isnan(human[row]):
            at.setdefault(group, []).append(row)
    decided: list[tuple[list[int], Mask]] = []
    unscored = undecided = 0
    for rows in at.values():
        if len(rows) < 2:
            continue
        best = _highest(human[rows])
        if best.all():
            undecided += 1
        elif any(np.isnan(scores[rows]).any() for scores in judges):
            unscored += 1
        else:
            decided.append((rows, best))
    shares, tied = list[Floats](), list[Floats]()
    for scores in judges:
        first = [_highest(scores[rows]) for rows, _ in decided]
        hits = (best[top].mean() for top, (_, best) in zip(first, decided, strict=True))
        shares.append(np.array(list(hits), float))
        tied.append(np.array([top.sum() > 1 for top in first], float))
    keys = [rows[0] if units is None else units[rows[0]] for rows, _ in decided]
    numbers = {key: code for code, key in enumerate(dict.fromkeys(keys))}
    # a group without a source is a unit of its own
    codes = [len(keys) + i if key is None else numbers[key] for i, key in enumerate(keys)]
    constants = [np.mean([best.mean() for _, best in decided])] if decided else []
    if sided and decided:
        constants += [np.mean([best[side] for _, best in decided]) for side in (0, 1)]
    return Choices(
        shares=shares, strict=[(hits == 1).astype(float) for hits in shares], tied=tied,
        chance=float(max(constants)) if constants else None,
        units=np.unique(codes, return_inverse=True)[1], texts=sum(len(rows) for rows, _ in decided),
        unscored=unscored, undecided=undecided,
    )  # fmt: skip


def _highest(values: Floats) -> Mask:
    # smaller differences, such as between two weighted means, are rounding errors
    return np.asarray(values >= values.max() - 1e-9, bool)


def choice_agreement(
    scores: NumbersLike,
    human: NumbersLike,
    groups: RowLabels,
    *,
    units: RowLabels | None = None,
    sided: bool = False,
) -> ChoiceAgreement:
    """Return how often a score chooses the text that people find best.

    Args:
        scores: Shape (n,); `None` or NaN if a row is unscored.
        human: Shape (n,); `None` or NaN if a row is unrated.
        groups: The group of texts that each row is chosen from, length n; rows with `None` are
            left out.
        units: The source of each row's group, length n; by default each group is a unit.
        sided: Whether the first row of a group is one side, as the `output` of pairs is.

    Raises:
        DataError: Lengths differ, or a number is infinite.

    Example:
        >>> found = choice_agreement([1, 2, 2, 1], [0, 1, 1, 0], ["a", "a", "b", "b"])
        >>> found.choice.value, found.choice.constant
        (1.0, 0.5)
    """
    x, y = _columns([scores], human, groups)
    choices = choices_of(x, y, groups, units=units, sided=sided)
    n = len(choices.units)
    note = None
    if n and (units_seen := _count(choices.units)) < FEWEST.defined:
        note = f"no interval of choices: needs at least {FEWEST.defined} groups, found {units_seen}"
    return ChoiceAgreement(
        n=n, texts=choices.texts,
        choice=Measure(share_interval(choices.shares[0], choices.units), choices.chance),
        # a constant ties everywhere, and `strict` counts ties as wrong
        strict=Measure(share_interval(choices.strict[0], choices.units)),
        tied=_mean(choices.tied[0]), unscored=choices.unscored,
        undecided=choices.undecided, note=note,
    )  # fmt: skip


def compare_choices(
    a: NumbersLike,
    b: NumbersLike,
    human: NumbersLike,
    groups: RowLabels,
    *,
    units: RowLabels | None = None,
) -> tuple[int, dict[str, Difference]]:
    """Return the groups that both judges scored, and how much better `a` chooses in them.

    The differences are in `choice` and `strict`; the arguments are as for `choice_agreement`.
    """
    x, y = _columns([a, b], human, groups)
    choices = choices_of(x, y, groups, units=units)
    return len(choices.units), {
        name: share_difference(first, second, choices.units)
        for name, (first, second) in (("choice", choices.shares), ("strict", choices.strict))
    }


def _columns(
    judges: list[NumbersLike], human: NumbersLike, groups: RowLabels
) -> tuple[list[Floats], Floats]:
    columns, y = [finite_array(judge, "scores") for judge in judges], finite_array(human, "ratings")
    if any(len(column) != len(y) for column in (*columns, groups)):
        raise DataError("scores, ratings and groups must be equally long")
    return columns, y


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _count(units: Codes) -> int:
    return int(units.max(initial=-1)) + 1


def _error(values: Floats, units: Codes) -> tuple[float, float]:
    """Return the standard error of a mean over groups, and its degrees of freedom."""
    sizes = np.bincount(units).astype(float)
    sums = np.bincount(units, weights=values - values.mean())
    number = len(sizes)
    square = float(sums @ sums) * number / (number - 1) / len(values) ** 2
    return square**0.5, max(1.0, effective_number(sizes) - 1)


def share_interval(values: Floats, units: Codes) -> Estimate:
    """Return a mean share over groups, with an interval unless there are too few units."""
    if _count(units) < FEWEST.defined:
        return Estimate(_mean(values))
    share, (error, df) = float(values.mean()), _error(values, units)
    half = t_quantile(df, CONFIDENCE) * error
    low, high = share - half, share + half
    # the number of independent groups with the same variance, or all units if nothing varies; never
    # more than there are, since ties vary less than right and wrong choices, and a few sources may
    # be alike by chance
    spread = share * (1 - share)
    number = spread / error**2 if error > 0 and spread > 0 else df + 1
    number = min(number, float(len(values)))
    # a rule of thumb: with fewer hits, or misses, a share is not normally distributed
    if min(share, 1 - share) * number < 10:
        below, above = beta_interval(share * number + 0.5, (1 - share) * number + 0.5)
        low, high = min(low, below), max(high, above)
    return Estimate(share, max(0.0, min(low, share)), min(1.0, max(high, share)))


def share_difference(a: Floats, b: Floats, units: Codes) -> Difference:
    """Return the difference of two mean shares over the same groups."""
    if not len(units):
        return Difference(None, None, Estimate(None), None)
    first, second, delta = float(a.mean()), float(b.mean()), a - b
    value = float(delta.mean())
    if _count(units) < FEWEST.defined:
        return Difference(first, second, Estimate(value), None)
    error, df = _error(delta, units)
    # judges that differ nowhere, or equally everywhere, do not show how much other groups would
    # differ
    if error == 0:
        return Difference(first, second, Estimate(value), 1.0 if value == 0 else None)
    half = t_quantile(df, CONFIDENCE) * error
    estimate = Estimate(value, value - half, value + half)
    return Difference(first, second, estimate, two_sided(value / error, df))
