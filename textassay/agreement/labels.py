"""How well labels agree with people's labels: pass or fail, categories, sets of labels.

Works on arrays of label numbers, or on a column of 0 and 1 for each label of a set, and on the
source of each row; knows nothing of examples or files.

The measures of single labels follow from the confusion matrix, whose rows are people's labels and
whose columns are the judge's. With two labels, the second is the positive one.

An interval holds the middle 95 % of the measure in random weightings of the sources (the Bayesian
bootstrap). Half an observation is added to each cell of the matrix, as in Jeffreys' prior: a judge
that made no error among few rows may make one among many, and a bootstrap of rows without errors
would show no uncertainty. The errors show how many rows make one observation: one row if errors are
independent, all rows of a source if they come together. Since a few errors show little of this, the
size of a source counts as one more error. The interval also contains the interval of the resamples
without the added observations. A mean over more than two labels has an interval only if people gave
each label at least 5 times: rarer labels are missing from some data sets, whose means are then over
other labels. `benchmarks/coverage/` shows the coverage.

Two judges are compared under the same random weighting of the sources, so that a source's
difficulty for both cancels out. Since errors are few, and errors of one judge alone even fewer,
four observations in total are added to the cells of the table of people's label by both judges'
labels.

A score is cut into labels at a threshold. A threshold that is chosen and measured on the same rows
looks better than it is, so it is chosen on one half of the sources and measured on the other half,
unless the caller gives it.

If several labels may apply to a text, the distance of two sets is 1 minus their Jaccard index, or
MASI's (Passonneau 2006): 1 minus the Jaccard index times 1 if they are equal, 2/3 if one contains
the other, 1/3 if they overlap, 0 if they share nothing. Two empty sets are equal. Krippendorff's
alpha is computed as in `krippendorff_alpha`, with MASI's distance in place of the nominal one. Half
an observation is added to each cell of each label's table; half an observation of full agreement
and half of no agreement are added to the mean of a similarity.

References:
    Cohen (1960, 1968). Gwet, "Computing inter-rater reliability and its variance in the presence of
    high agreement" (2008), for AC1. Krippendorff (2011). Gorodkin, "Comparing two K-category
    assignments by a K-category correlation coefficient" (2004), for MCC. Rubin, "The Bayesian
    bootstrap" (1981). Passonneau, "Measuring agreement on set-valued items (MASI) for semantic and
    pragmatic annotation" (LREC 2006).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textassay.agreement.correlation import (
    NumbersLike,
    Pairs,
    RowLabels,
    finite_array,
    number_or_none,
    pair_up,
)
from textassay.agreement.intervals import (
    CONFIDENCE,
    FEWEST,
    number_of_groups,
    t_quantile,
    too_few_groups,
)
from textassay.arrays import Codes, Floats
from textassay.runtime.errors import DataError
from textassay.runtime.labels import YES_NO
from textassay.table import Estimate, ResultRow

if TYPE_CHECKING:
    from textassay.agreement.significance import Difference

MAX_LABELS = 50
"""Most labels of one aspect."""
_CELL = 0.5
"""Observations added to each cell of a matrix."""
_NUMBERS_AT_ONCE = 2_000_000
"""Most numbers in a temporary array."""
MIN_SOURCES = 10
"""Fewest sources that can be divided into halves to choose a threshold."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of agreement."""

    estimate: Estimate
    """The measure with its 95 % interval; without one if it is undefined, was not requested, or if
    there are too few sources."""
    constant: float | None = None
    """The measure of the best judge that always gives the same answer; `None` if undefined."""

    @property
    def value(self) -> float | None:
        """The measure; `None` if undefined."""
        return self.estimate.value

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values; of the interval the ends."""
        return {"value": self.value, "ci": self.estimate.ends or None, "constant": self.constant}


@dataclass(frozen=True, slots=True)
class LabelAgreement(ResultRow):
    """Agreement of a judge's labels with people's."""

    labels: tuple[str, ...]
    """Names of the labels; of two, the second is the positive one."""
    ordered: bool
    """Whether the labels are ordered, lowest first."""
    n: int
    """Rows with both labels."""
    coverage: float | None
    """Share of the rows with a human label that have both; `None` without human labels."""
    groups: int | None
    """Sources that occur; `None` without groups."""
    confusion: tuple[tuple[int | float, ...], ...]
    """Rows by people's label, then by the judge's; a row whose score is a tie counts half for
    either label."""
    measures: dict[str, Measure]
    """Measures of agreement by name."""
    note: str | None = None
    """Why there is no interval; `None` if there is one, or none was asked for."""


def label_agreement(
    judge: NumbersLike,
    human: NumbersLike,
    *,
    labels: Sequence[str] = ("no", "yes"),
    ordered: bool = False,
    groups: RowLabels | None = None,
    bootstrap: int = 0,
    seed: int = 0,
) -> LabelAgreement:
    """Return how well a judge's labels agree with people's.

    Args:
        judge: Number of each row's label, from 0 in the order of `labels`, shape (n,); `None` or
            NaN if unscored.
        human: Number of the label that people gave, shape (n,); `None` or NaN if there is none.
        labels: Names of the labels; of two, the second is the positive one.
        ordered: Whether the labels are ordered, so that some errors are larger than others.
        groups: The source of each row, such as its document, length n: the sampled unit. Without
            groups each row is a source.
        bootstrap: Number of random weightings behind the intervals; 0 for no intervals.
        seed: Seed of the weightings.

    Raises:
        DataError: Lengths differ, or a number is not the number of a label.

    Example:
        >>> found = label_agreement([1, 1, 0, 0], [1, 0, 0, 0])
        >>> found.confusion, found.measures["accuracy"].value
        (((2, 1), (0, 1)), 0.75)
    """
    count = len(labels)
    pairs = pair_up(judge, human, groups=groups)
    _check_label_numbers({"judge's labels": pairs.scores, "human labels": pairs.human}, count)
    tables = _tables(pairs.human * count + pairs.scores, pairs.groups, count**2)
    return _agreement_of(
        pairs, tables, labels=labels, ordered=ordered, bootstrap=bootstrap, seed=seed
    )


def _agreement_of(
    pairs: Pairs, tables: Floats, *, labels: Sequence[str], ordered: bool, bootstrap: int, seed: int
) -> LabelAgreement:
    """Return the agreement of rows, given their cells and sources."""
    count, rows = len(labels), len(pairs.scores)
    whole = tables.sum(axis=0).reshape(count, count)
    measures = measures_of(whole[None], ordered=ordered)
    spans: Mapping[str, Estimate] = {}
    note = too_few_groups(pairs) if bootstrap and rows else ""
    if bootstrap and rows and not note:
        resampled = _weigh_tables(
            tables, count, bootstrap, np.random.default_rng(seed), ordered=ordered
        )
        spans = _with_intervals(measures, resampled)
        if count > 2 and whole.sum(axis=1).min() < 5:
            # the mean would be over the labels that happen to occur
            means = "balanced_accuracy", "macro_f1"
            spans = {name: span for name, span in spans.items() if name not in means}
            note = (
                "no interval of balanced_accuracy and macro_f1: people gave some labels fewer than"
                " 5 times"
            )
    return LabelAgreement(
        labels=tuple(labels), ordered=ordered, n=rows, coverage=pairs.coverage,
        groups=len(tables) if pairs.has_groups else None,
        confusion=tuple(tuple(map(_whole_if_possible, row)) for row in whole.tolist()),
        measures=_measures(measures, spans, _best_constants(whole, ordered=ordered)),
        note=note or None,
    )  # fmt: skip


def _whole_if_possible(count: float) -> int | float:
    return int(count) if count.is_integer() else count


def _tables(cells: Floats, sources: Codes, width: int, weights: Floats | float = 1.0) -> Floats:
    """Return how often each cell occurs in each source, shape (sources, cells)."""
    number = int(sources.max(initial=-1)) + 1
    at, of_rows = sources * width + cells.astype(np.intp), np.broadcast_to(weights, cells.shape)
    counts: Floats = np.bincount(at, of_rows, minlength=number * width).astype(float)
    return counts.reshape(number, width)


def _measures(
    values_by_name: Mapping[str, Floats],
    spans: Mapping[str, Estimate],
    constants: Mapping[str, float | None],
) -> dict[str, Measure]:
    return {
        name: Measure(spans.get(name, Estimate(number_or_none(values[0]))), constants[name])
        for name, values in values_by_name.items()
    }


def _check_label_numbers(sides: Mapping[str, Floats], count: int) -> None:
    """Raise unless all numbers are numbers of labels, and the number of labels is allowed."""
    if not 2 <= count <= MAX_LABELS:
        raise DataError(f"there must be 2 to {MAX_LABELS} labels, not {count}")
    for side, values in sides.items():
        if len(wrong := values[~np.isin(values, np.arange(count))]):
            raise DataError(f"{side} must be whole numbers from 0 to {count - 1}, not {wrong[0]:g}")


Weighted = tuple[Mapping[str, Floats], ...]
"""Measures in some random weightings: of the tables unchanged, and with the added observations."""


def _parts(weighted: Iterable[Weighted]) -> dict[str, list[Floats]]:
    """Return each measure in all weightings, without and with the added observations."""
    chunks = list(weighted)
    return {
        name: [np.concatenate([c[name] for c in ways]) for ways in zip(*chunks, strict=True)]
        for name in chunks[0][0]
    }


def _with_intervals(
    measures: Mapping[str, Floats], weighted: Iterable[Weighted]
) -> dict[str, Estimate]:
    """Return the measures that are defined, with their intervals."""
    parts = _parts(weighted)
    return {
        name: with_interval(values[0], parts[name])
        for name, values in measures.items()
        if not np.isnan(values[0])
    }


def with_interval(value: float, parts: Iterable[Floats]) -> Estimate:
    """Return a value with an interval around it that holds the middle 95 % of each part."""
    ends = [float(value)]
    for part in parts:
        defined = part[~np.isnan(part)]
        if len(defined):
            tails = 50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)
            ends += np.percentile(defined, tails).tolist()
    return Estimate(ends[0], min(ends), max(ends))


def _weigh_tables(
    tables: Floats, count: int, resamples: int, rng: np.random.Generator, *, ordered: bool
) -> Iterator[Weighted]:
    # the sum of gamma variables is a gamma variable with the sum of their shapes, so equal sources
    # are drawn at once
    distinct, times = np.unique(tables, axis=0, return_counts=True)
    rows = tables.sum(axis=1)
    per_observation = _rows_per_observation(rows, rows - tables[:, :: count + 1].sum(axis=1))
    step = max(1, _NUMBERS_AT_ONCE // (len(distinct) + count * count))
    for weights in _random_weights(times, resamples, step, rng):
        shape = (len(weights), count, count)
        plain = (weights @ distinct).reshape(shape)
        more = rng.gamma(_CELL, per_observation, size=(len(weights), count * count)).reshape(shape)
        yield tuple(measures_of(matrices, ordered=ordered) for matrices in (plain, plain + more))


def _random_weights(
    times: NDArray[Any], resamples: int, step: int, rng: np.random.Generator
) -> Iterator[Floats]:
    """Yield `step` random weights of mean 1 at a time; a source is `times` equal ones."""
    number = int(times.sum())
    # few sources estimate their variance poorly, so Student's t replaces the normal distribution
    spread = number / (number - 1) * (t_quantile(number - 1, CONFIDENCE) / 1.959963984540054) ** 2
    for start in range(0, resamples, step):
        size = (min(step, resamples - start), len(times))
        yield rng.gamma(times / spread, spread, size=size)


def _rows_per_observation(rows: Floats, wrong: Floats) -> float:
    """Return how many rows are worth one independent row: between 1 and the size of a source."""
    number, total = len(rows), float(rows.sum())
    share = float(wrong.sum()) / total
    size = total / number
    if share in (0.0, 1.0):
        return size
    clustered = float(np.sum((wrong - share * rows) ** 2)) / total * number / (number - 1)
    seen = float(np.clip(clustered / (share * (1 - share)), 1.0, size))
    with_errors = np.count_nonzero(wrong)
    return (seen * with_errors + size) / (with_errors + 1)


def mean_interval(
    values: Floats, groups: Codes, *, resamples: int = 1000, seed: int = 0
) -> Estimate:
    """Return the mean of numbers from 0 to 1, such as squared errors, with its 95 % interval.

    Computed as in `label_agreement`, with half an observation of 0 and half of 1 more.
    """
    codes = np.unique(groups, return_inverse=True)[1]
    rows = np.bincount(codes).astype(float)
    if len(rows) < FEWEST.groups:
        return Estimate(float(values.mean()))
    sums, rng = np.bincount(codes, weights=values).astype(float), np.random.default_rng(seed)
    weights = next(_random_weights(np.ones(len(rows)), resamples, resamples, rng))
    total, part = weights @ rows, weights @ sums
    more = rng.gamma(_CELL, _rows_per_observation(rows, sums), size=(2, resamples))
    means = part / total, (part + more[0]) / (total + more.sum(axis=0))
    return with_interval(values.mean(), means)


def measures_of(matrices: Floats, *, ordered: bool) -> dict[str, Floats]:
    """Return the measures of each matrix, NaN if undefined; shape (b,) each, of (b, k, k)."""
    count = matrices.shape[-1]
    total = matrices.sum(axis=(1, 2))
    right = np.trace(matrices, axis1=1, axis2=2)
    people, judge = matrices.sum(axis=2), matrices.sum(axis=1)
    hits = np.einsum("bii->bi", matrices)
    recall, precision = _ratio(hits, people), _ratio(hits, judge)
    accuracy = _ratio(right, total)
    measures = {"accuracy": accuracy, "balanced_accuracy": mean_of_defined(recall)}
    if count == 2:
        # of two labels the second is the positive one
        measures |= {
            "tpr": recall[:, 1],
            "tnr": recall[:, 0],
            "precision": precision[:, 1],
            "f1": _ratio(2 * hits[:, 1], people[:, 1] + judge[:, 1]),
        }
    else:
        # a label that neither side used has no F1
        measures["macro_f1"] = mean_of_defined(_ratio(2 * hits, people + judge))
    measures["mcc"] = _mcc(total, right, people, judge)
    measures["kappa"] = _kappa(matrices, total, people, judge, 1 - np.eye(count))
    if ordered and count > 2:
        steps = np.subtract.outer(np.arange(count), np.arange(count))
        measures["kappa_linear"] = _kappa(matrices, total, people, judge, np.abs(steps))
        measures["kappa_quadratic"] = _kappa(matrices, total, people, judge, steps**2)
    both = _ratio(people + judge, 2 * total[:, None])
    chance = np.sum(both * (1 - both), axis=1) / (count - 1)
    measures["ac1"] = _ratio(accuracy - chance, 1 - chance)
    measures["alpha_nominal"] = _alpha(matrices, people + judge, ordinal=False)
    if ordered and count > 2:
        measures["alpha_ordinal"] = _alpha(matrices, people + judge, ordinal=True)
    return measures


def _mcc(total: Floats, right: Floats, people: Floats, judge: Floats) -> Floats:
    shared = np.sum(people * judge, axis=1)
    spread = (total**2 - np.sum(people**2, axis=1)) * (total**2 - np.sum(judge**2, axis=1))
    return _ratio(right * total - shared, np.sqrt(np.maximum(spread, 0.0)))


def _kappa(
    matrices: Floats, total: Floats, people: Floats, judge: Floats, distance: NDArray[Any]
) -> Floats:
    seen = np.einsum("bij,ij->b", matrices, distance)
    expected = _ratio(np.einsum("bi,bj,ij->b", people, judge, distance), total)
    return 1 - _ratio(seen, expected)


def _alpha(matrices: Floats, totals: Floats, *, ordinal: bool) -> Floats:
    """Return Krippendorff's alpha of two raters, see `krippendorff_alpha`."""
    count = matrices.shape[-1]
    if ordinal:
        middle = np.cumsum(totals, axis=1) - totals / 2
        distance = (middle[:, :, None] - middle[:, None, :]) ** 2
    else:
        distance = np.broadcast_to(1 - np.eye(count), matrices.shape)
    seen = 2 * np.sum(matrices * distance, axis=(1, 2))
    expected = np.einsum("bi,bj,bij->b", totals, totals, distance) / (totals.sum(axis=1) - 1)
    return 1 - _ratio(seen, expected)


def _best_constants(whole: Floats, *, ordered: bool) -> dict[str, float | None]:
    """Return each measure of the best judge that always gives one label."""
    people = whole.sum(axis=1)
    used = np.flatnonzero(people)
    # if people gave one label only, a judge that always gives it is the best, even where a measure
    # is undefined
    labels = used if len(used) == 1 else np.arange(len(whole))
    constants = np.zeros((len(labels), *whole.shape))
    for at, label in enumerate(labels):
        constants[at, :, label] = people
    measures = measures_of(constants, ordered=ordered)
    return {
        name: None if np.isnan(values).all() else float(np.nanmax(values))
        for name, values in measures.items()
    }


def _ratio(above: Floats, below: Floats) -> Floats:
    """Return quotients, NaN where the divisor is 0; arrays are broadcast."""
    above, below = np.broadcast_arrays(above, below)
    out = np.full(above.shape, np.nan)
    np.divide(above, below, out=out, where=below != 0)
    return out


def mean_of_defined(values: Floats) -> Floats:
    """Return the mean of each row without NaN, shape (n,) of (n, k)."""
    defined = ~np.isnan(values)
    return _ratio(np.where(defined, values, 0.0).sum(axis=1), defined.sum(axis=1).astype(float))


def compare_labels(
    a: NumbersLike,
    b: NumbersLike,
    human: NumbersLike,
    *,
    labels: Sequence[str] = ("no", "yes"),
    ordered: bool = False,
    groups: RowLabels | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
) -> tuple[int, dict[str, Difference]]:
    """Return the rows that all three labeled, and how much better `a` agrees, by measure."""
    count = len(labels)
    for side, judged in (("the first judge's", a), ("the second judge's", b)):
        rated = pair_up(judged, human, groups=groups)
        _check_label_numbers({f"{side} labels": rated.scores, "human labels": rated.human}, count)
    ours, other = finite_array(a, "labels"), finite_array(b, "labels")
    # both labels as one number, so that a row that one judge left out is left out for both
    pairs = pair_up(ours * count + other, human, groups=groups)
    tables = _tables(pairs.human * count**2 + pairs.scores, pairs.groups, count**3)
    whole = _of_both(tables.sum(axis=0)[None], count, ordered=ordered)
    resampled: dict[str, list[Floats]] = {}
    if bootstrap and not too_few_groups(pairs):
        resampled = _parts(
            _weigh_differences(tables, count, bootstrap, np.random.default_rng(seed), ordered)
        )
    return len(pairs.scores), {
        name: _difference(float(x[0]), float(y[0]), resampled.get(name, ()))
        for name, (x, y) in whole.items()
    }


def _of_both(joint: Floats, count: int, *, ordered: bool) -> dict[str, tuple[Floats, Floats]]:
    """Return the measures of both judges, shape (b,) each, of tables of shape (b, count**3)."""
    cube = joint.reshape(-1, count, count, count)
    first = measures_of(cube.sum(axis=3), ordered=ordered)
    second = measures_of(cube.sum(axis=2), ordered=ordered)
    return {name: (values, second[name]) for name, values in first.items()}


def _weigh_differences(
    tables: Floats, count: int, resamples: int, rng: np.random.Generator, ordered: bool
) -> Iterator[Weighted]:
    number, width = tables.shape
    human, ours, other = np.unravel_index(np.arange(width), (count, count, count))
    # only rows on which one judge errs and the other does not make a difference
    apart = tables[:, (ours == human) != (other == human)].sum(axis=1)
    size = _rows_per_observation(tables.sum(axis=1), apart)
    step = max(1, _NUMBERS_AT_ONCE // (number + width))
    for weights in _random_weights(np.ones(number), resamples, step, rng):
        plain = weights @ tables
        # four observations for all cells together
        more = rng.gamma(4.0 / width, size, size=(len(weights), width))
        both = (_of_both(joint, count, ordered=ordered) for joint in (plain, plain + more))
        yield tuple({name: x - y for name, (x, y) in measures.items()} for measures in both)


def _difference(a: float, b: float, resampled: Sequence[Floats]) -> Difference:
    from textassay.agreement.significance import Difference  # which a check does not need

    first, second = number_or_none(a), number_or_none(b)
    if first is None or second is None:
        return Difference(first, second, Estimate(None), None)
    value = first - second
    if not resampled:
        return Difference(first, second, Estimate(value), None)
    p = 0.0
    for part in resampled:
        defined = part[~np.isnan(part)]
        tail = min(np.mean(defined <= 0), np.mean(defined >= 0))
        # this number of weightings cannot show a smaller one
        p = max(p, min(1.0, 2 * float(tail)), 2 / (len(defined) + 1))
    return Difference(first, second, with_interval(value, resampled), p)


@dataclass(frozen=True, slots=True)
class Threshold:
    """A score from which on a text counts as yes."""

    value: float
    yes: Literal["above", "below"]
    """Whether scores of at least `value` are yes, or scores of at most `value`."""
    chosen_on: int = 0
    """Sources it was chosen on; 0 if it was given."""
    found: float | None = None
    """Balanced accuracy on these sources, which is too high; `None` if it was given."""
    equal: int = 0
    """Labeled texts whose score is the threshold itself."""
    is_shared: bool = False
    """Whether these count half as yes and half as no, rather than as yes."""

    def apply(self, scores: Floats) -> Floats:
        """Return 1 for yes and 0 for no, shape (n,); NaN stays."""
        yes = scores >= self.value if self.yes == "above" else scores <= self.value
        return np.where(np.isnan(scores), np.nan, yes.astype(float))


def agreement_at(
    scores: NumbersLike,
    human: NumbersLike,
    *,
    threshold: float | None = None,
    labels: Sequence[str] = YES_NO.names,
    groups: RowLabels | None = None,
    bootstrap: int = 0,
    seed: int = 0,
) -> tuple[LabelAgreement, Threshold]:
    """Return how well a score that is cut at a threshold agrees with yes and no of people.

    Without a given threshold, the threshold with the best balanced accuracy on a random half of the
    sources is used, for rising or for falling scores, and the agreement is measured on the other
    half alone. A score of at least a given threshold is yes. If all scores lie within 0 (no) and 1
    (yes), a score of exactly 0.5 is neither: it counts half as yes and half as no, like ties of
    choices.
    """
    values, people = finite_array(scores, "scores"), finite_array(human, "labels")
    if threshold is not None:
        cut, confirming = Threshold(threshold, "above"), np.ones(len(values), bool)
    else:
        cut, confirming = _choose_threshold(values, people, groups, seed)
    equal = confirming & (values == cut.value) & ~np.isnan(people)
    # a score of 0.5 is as far from no (0) as from yes (1)
    between = cut.value == 0.5 and bool(np.all((values >= 0) & (values <= 1) | np.isnan(values)))
    cut = replace(cut, equal=int(equal.sum()), is_shared=between and bool(equal.any()))
    pairs = pair_up(
        np.where(confirming, cut.apply(values), np.nan),
        np.where(confirming, people, np.nan),
        groups=groups,
    )
    _check_label_numbers({"human labels": pairs.human}, len(labels))
    ties = equal[confirming & ~np.isnan(values) & ~np.isnan(people)] & cut.is_shared
    # a tie counts as a row of half weight on either side
    rows = np.concatenate([np.arange(len(ties)), np.flatnonzero(ties)])
    labels_of_rows = np.concatenate([pairs.scores, np.zeros(int(ties.sum()))])
    weights = np.where(ties[rows], 0.5, 1.0)
    cells = pairs.human[rows] * len(labels) + labels_of_rows
    tables = _tables(cells, pairs.groups[rows], len(labels) ** 2, weights)
    agreement = _agreement_of(
        pairs, tables, labels=labels, ordered=False, bootstrap=bootstrap, seed=seed
    )
    uncut = np.where(confirming, values, np.nan)
    return with_auc(agreement, uncut, people, groups=groups, bootstrap=bootstrap, seed=seed), cut


def with_auc(
    agreement: LabelAgreement,
    scores: NumbersLike,
    human: NumbersLike,
    *,
    groups: RowLabels | None = None,
    bootstrap: int = 0,
    seed: int = 0,
) -> LabelAgreement:
    """Return the agreement of two labels with the AUC of the scores that were cut to be labels.

    The AUC (area under the ROC curve) is the share of the pairs of a text with the first and a text
    with the second label in which the second has the higher score; ties count half. It does not
    depend on a threshold. Its interval is computed as for the other measures; the half observation
    added to each label is divided between below and above all scores.

    Args:
        agreement: Agreement of the labels.
        scores: Shape (n,); `None` or NaN if a row is unscored.
        human: 0 and 1 for the first and the second label, shape (n,); `None` or NaN if unrated.
        groups: The source of each row, length n.
        bootstrap: Number of random weightings behind the interval; 0 for no interval.
        seed: Seed of the weightings.
    """
    pairs = pair_up(scores, human, groups=groups)
    order = np.argsort(pairs.scores)
    yes, sources = pairs.human[order], pairs.groups[order]
    levels = np.flatnonzero(np.diff(pairs.scores[order], prepend=-np.inf))
    if not 0 < yes.sum() < len(yes):
        return replace(agreement, measures={**agreement.measures, "auc": Measure(Estimate(None))})

    def count(weights: Floats) -> list[Floats]:
        return [np.add.reduceat(weights * label, levels, axis=1) for label in (yes, 1 - yes)]

    counts = count(np.ones((1, len(yes))))
    value = float(_area(*counts)[0])
    area = Estimate(value)
    if bootstrap and not too_few_groups(pairs):
        rng, rows = np.random.default_rng(seed), np.bincount(sources).astype(float)
        wrong = np.repeat(_misplaced_shares(*counts), np.diff([*levels, len(yes)]), axis=1)
        by_source = np.bincount(sources, weights=np.where(yes, *wrong)).astype(float)
        size = _rows_per_observation(rows, by_source)
        parts: list[tuple[Floats, Floats]] = []
        step = max(1, _NUMBERS_AT_ONCE // len(yes))
        for weights in _random_weights(np.ones(len(rows)), bootstrap, step, rng):
            counted = count(weights[:, sources])
            ends = rng.gamma(_CELL / 2, size, size=(2, 2, len(weights), 1))
            more = (np.hstack([low, c, high]) for c, (low, high) in zip(counted, ends, strict=True))
            parts.append((_area(*counted), _area(*more)))
        area = with_interval(value, [np.concatenate(part) for part in zip(*parts, strict=True)])
    return replace(agreement, measures={**agreement.measures, "auc": Measure(area, 0.5)})


def _area(yes: Floats, no: Floats) -> Floats:
    """Return the AUC of texts of both labels at each score, ascending; shape (b,) of (b, k)."""
    below = np.cumsum(no, axis=1) - no / 2
    area = _ratio((yes * below).sum(axis=1), yes.sum(axis=1) * no.sum(axis=1))
    return np.minimum(area, 1.0)  # rounding can carry a perfect order past 1


def _misplaced_shares(yes: Floats, no: Floats) -> Floats:
    """Return with how many of the other label's texts a text is in the wrong order, as a share.

    Shape (2, k) of counts at each score, shape (1, k).
    """
    above_no = (np.cumsum(no, axis=1) - no / 2) / no.sum()
    above_yes = (np.cumsum(yes, axis=1) - yes / 2) / yes.sum()
    return np.concatenate([1 - above_no, above_yes])


def _choose_threshold(
    values: Floats, people: Floats, groups: RowLabels | None, seed: int
) -> tuple[Threshold, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return the best threshold on half of the sources, and the rows of the other half."""
    labeled = np.flatnonzero(~np.isnan(people))
    pairs = pair_up(people, people, groups=groups)
    sources, number = pairs.groups, number_of_groups(pairs)
    if number < MIN_SOURCES:
        raise DataError(
            f"a threshold is chosen on one half of the sources and confirmed on the other, which"
            f" takes {MIN_SOURCES} sources with labels, not {number}; give the threshold"
        )
    first = np.random.default_rng(seed).permutation(number) < number // 2
    choosing = labeled[first[sources]]
    choosing = choosing[~np.isnan(values[choosing])]
    if len(set(people[choosing].tolist())) < 2:
        raise DataError(
            "all texts of the sources on which a threshold would be chosen have the same label;"
            " give the threshold"
        )
    value, yes, accuracy = best_threshold(values[choosing], people[choosing])
    confirming = np.zeros(len(values), bool)
    confirming[labeled[~first[sources]]] = True
    return Threshold(value, yes, int(first.sum()), accuracy), confirming


def best_threshold(scores: Floats, human: Floats) -> tuple[float, Literal["above", "below"], float]:
    """Return the threshold with the best balanced accuracy, its direction, and that accuracy.

    It lies halfway between two scores that occur. If several are equally good, the middle one is
    returned.
    """
    levels, at = np.unique(scores, return_inverse=True)
    yes = np.bincount(at, weights=human)
    no = np.bincount(at, weights=1 - human)
    # shares of yes at or above each level, and of no below it
    recall = np.cumsum(yes[::-1])[::-1] / yes.sum()
    specificity = (np.cumsum(no) - no) / no.sum()
    above = (recall + specificity) / 2
    if len(levels) == 1:
        return float(levels[0]), "above", 0.5
    cuts = (levels[:-1] + levels[1:]) / 2
    rising, falling = above[1:], 1 - above[1:]
    side: Literal["above", "below"] = "above" if rising.max() >= falling.max() else "below"
    quality = rising if side == "above" else falling
    equal = np.flatnonzero(quality >= quality.max() - 1e-12)
    middle = int(equal[len(equal) // 2])
    return float(cuts[middle]), side, float(quality[middle])


@dataclass(frozen=True, slots=True)
class SetAgreement:
    """Agreement of a judge's sets of labels with people's."""

    labels: tuple[str, ...]
    """Names of the labels."""
    n: int
    """Rows with both sets."""
    coverage: float | None
    """Share of the rows with people's set that have both; `None` without people's sets."""
    groups: int | None
    """Sources that occur; `None` without groups."""
    measures: dict[str, Measure]
    """Measures by name: `exact` (share of equal sets), `jaccard` (mean Jaccard index), `macro_f1`,
    `micro_f1`, `macro_kappa` (mean of Cohen's kappa of the labels), and `alpha_masi`."""
    note: str | None = None
    """Why there is no interval; `None` if there is one, or none was asked for."""


def set_agreement(
    judge: ArrayLike,
    human: ArrayLike,
    *,
    labels: Sequence[str],
    groups: RowLabels | None = None,
    bootstrap: int = 0,
    seed: int = 0,
) -> SetAgreement:
    """Return how well a judge's sets of labels agree with people's.

    Example:
        >>> found = set_agreement([[1, 1], [0, 1]], [[1, 0], [0, 1]], labels=["a", "b"])
        >>> found.measures["jaccard"].value
        0.75
    """
    ours, theirs = np.asarray(judge, dtype=float), np.asarray(human, dtype=float)
    if len(labels) > MAX_LABELS:
        raise DataError(f"there must be at most {MAX_LABELS} labels, not {len(labels)}")
    if ours.shape != theirs.shape or ours.ndim != 2 or ours.shape[1] != len(labels):
        raise DataError(
            f"sets need a column for each of {len(labels)} labels on both sides, not shapes"
            f" {ours.shape} and {theirs.shape}"
        )
    # row numbers in place of sets, so that the same function pairs and counts rows
    at = np.arange(len(ours), dtype=float)
    pairs = pair_up(
        np.where(np.isnan(ours).any(axis=1), np.nan, at),
        np.where(np.isnan(theirs).any(axis=1), np.nan, at),
        groups=groups,
    )
    rows = pairs.scores.astype(np.intp)
    ours, theirs = ours[rows], theirs[rows]
    if not np.isin(ours, (0, 1)).all() or not np.isin(theirs, (0, 1)).all():
        raise DataError("sets of labels must have 0 or 1 for each label")
    if not len(rows):
        nothing = "no text has a set of both"
        return SetAgreement(tuple(labels), 0, pairs.coverage, None, {}, nothing)
    number = number_of_groups(pairs)
    table = _SetTable(ours, theirs, pairs.groups, number)
    measures = dict(table.measures(np.ones((1, number))))
    spans: dict[str, Estimate] = {}
    note = too_few_groups(pairs) if bootstrap else ""
    if bootstrap and not note:
        rng = np.random.default_rng(seed)
        resampled = (
            tuple(dict(table.measures(weights, adding)) for adding in (None, rng))
            for weights in _random_weights(np.ones(number), bootstrap, 200, rng)
        )
        spans = _with_intervals(measures, resampled)
    return SetAgreement(
        labels=tuple(labels), n=len(rows), coverage=pairs.coverage,
        groups=number if pairs.has_groups else None,
        measures=_measures(measures, spans, _best_constant_sets(theirs, measures)),
        note=note or None,
    )  # fmt: skip


class _SetTable:
    """The sums over each source from which the measures are computed."""

    def __init__(self, ours: Floats, theirs: Floats, sources: Codes, number: int) -> None:
        self.labels = ours.shape[1]
        both = np.concatenate([ours, theirs])
        # a set as the bits of a number: sorting numbers is ten times as fast as sorting rows
        numbers = both.astype(np.int64) @ (1 << np.arange(self.labels))
        _, first, codes = np.unique(numbers, return_index=True, return_inverse=True)
        self._sets, codes = both[first], codes.reshape(2, -1)
        self._distance = _masi(self._sets)

        def per_source(columns: Iterable[Floats]) -> Floats:
            """Return sums over the rows of each source, shape (sources, columns)."""
            sums = [np.bincount(sources, weights=column, minlength=number) for column in columns]
            return np.stack(sums, axis=1)

        shared, either = (ours * theirs).sum(axis=1), np.maximum(ours, theirs).sum(axis=1)
        jaccard = np.where(either > 0, shared / np.maximum(either, 1), 1.0)
        exact = (ours == theirs).all(axis=1).astype(float)
        apart = self._distance[codes[0], codes[1]]
        self.rows = per_source([np.ones(len(ours))])[:, 0]
        # similarities from 0 to 1, whose means are measures or parts of them
        self._similar = per_source([exact, jaccard, 1 - apart])
        cells = (2 * theirs + ours)[:, :, None] == np.arange(4)
        self._cells = per_source(cells.reshape(len(ours), -1).astype(float).T)
        kinds = len(self._sets)
        used = np.bincount((sources * kinds + codes).ravel(), minlength=number * kinds)
        self._used = used.reshape(number, kinds).astype(float)

    def measures(
        self, weights: Floats, rng: np.random.Generator | None = None
    ) -> Iterator[tuple[str, Floats]]:
        """Yield the measures for weights of the sources, shape (b, sources)."""
        total, similar = weights @ self.rows, weights @ self._similar
        mean = _ratio(similar, total[:, None])
        if rng is not None:
            for at in range(similar.shape[1]):
                size = _rows_per_observation(self.rows, self.rows - self._similar[:, at])
                more = rng.gamma(_CELL, size, size=(2, len(total)))
                mean[:, at] = _ratio(similar[:, at] + more[0], total + more.sum(axis=0))
        yield "exact", mean[:, 0]
        yield "jaccard", mean[:, 1]
        cells = (weights @ self._cells).reshape(len(total), self.labels, 4)
        if rng is not None:
            for label in range(self.labels):
                wrong = self._cells[:, 4 * label + 1] + self._cells[:, 4 * label + 2]
                size = _rows_per_observation(self.rows, wrong)
                cells[:, label] += rng.gamma(_CELL, size, size=(len(total), 4))
        matrices = cells.reshape(-1, 2, 2)
        by_measure = measures_of(matrices, ordered=False)
        shape = (len(total), self.labels)
        yield "macro_f1", mean_of_defined(by_measure["f1"].reshape(shape))
        hits = cells[:, :, 3].sum(axis=1)
        yield "micro_f1", _ratio(2 * hits, 2 * hits + cells[:, :, 1:3].sum(axis=(1, 2)))
        yield "macro_kappa", mean_of_defined(by_measure["kappa"].reshape(shape))
        used = weights @ self._used
        values = used.sum(axis=1)
        expected = _ratio(
            np.einsum("bi,bj,ij->b", used, used, self._distance), values * (values - 1)
        )
        yield "alpha_masi", 1 - _ratio(1 - mean[:, 2], expected)


def _masi(sets: Floats) -> Floats:
    """Return MASI's distance of each two sets, shape (sets, sets), of (sets, labels)."""
    sizes = sets.sum(axis=1)
    shared = sets @ sets.T
    either = sizes[:, None] + sizes[None, :] - shared
    jaccard = np.where(either > 0, shared / np.maximum(either, 1), 1.0)
    least = np.minimum(sizes[:, None], sizes[None, :])
    within = np.where(shared == least, 2 / 3, 1 / 3)
    monotone = np.where(either == shared, 1.0, np.where(shared > 0, within, 0.0))
    return np.asarray(1 - jaccard * monotone)


def _best_constant_sets(theirs: Floats, names: Iterable[str]) -> dict[str, float | None]:
    """Return each measure of the best judge that always gives one of people's sets."""
    best = dict.fromkeys(names, np.nan)
    sets, counts = np.unique(theirs, axis=0, return_counts=True)
    # only the commonest sets are tried: a rare set is not the best constant
    for constant in sets[np.argsort(-counts, kind="stable")[:100]]:
        ours = np.broadcast_to(constant, theirs.shape)
        table = _SetTable(ours, theirs, np.zeros(len(theirs), np.intp), 1)
        for name, values in table.measures(np.ones((1, 1))):
            best[name] = np.fmax(best[name], values[0])  # fmax ignores NaN
    return {name: number_or_none(value) for name, value in best.items()}
