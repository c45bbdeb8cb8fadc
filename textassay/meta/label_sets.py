"""How well sets of labels agree with those that people gave, if several labels may apply to a text.

Knows arrays with a column of 0 and 1 for each label, and what each row belongs to.

The distance of two sets is 1 minus their Jaccard index, or MASI's (Passonneau 2006): 1 minus the
Jaccard index times 1 if they are equal, 2/3 if one holds the other, 1/3 if they overlap, 0 if they
share nothing. Two empty sets are equal. Krippendorff's alpha is that of `krippendorff_alpha` with
MASI's distance in place of the nominal one.

Intervals are made as those of `label_agreement`: the sources get random weights, and each table of
a label half an observation more in each cell; the mean of a similarity half an observation of full
agreement and half of none.

References:
    Passonneau, "Measuring agreement on set-valued items (MASI) for semantic and pragmatic
    annotation" (LREC 2006). Krippendorff (2011).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from textassay.meta.correlation import Codes, Floats, RowLabels, pair_up
from textassay.meta.intervals import Interval, number_of_groups, too_few_groups
from textassay.meta.label_measures import (
    CELL,
    MAX_LABELS,
    Measure,
    Weighted,
    mean_of_defined,
    measures_of,
    number_or_none,
    ratio,
    rows_per_observation,
    spans_of,
    spread_of_weights,
)
from textassay.runtime.errors import DataError

_DRAWS_AT_ONCE = 200
_MOST_CONSTANTS = 100
"""Sets that are tried as the answer of a judge that always gives the same one, commonest first."""


@dataclass(frozen=True, slots=True)
class SetAgreement:
    """Agreement of a judge's sets of labels with people's.

    Attributes:
        labels: Names of the labels.
        n: Rows with both sets.
        coverage: `n` over rows with people's set; `None` if there is none.
        groups: Sources that occur; `None` without groups.
        measures: By name: `exact` (share of equal sets), `jaccard` (mean Jaccard index),
            `macro_f1`, `micro_f1`, `macro_kappa` (mean of Cohen's kappa of the labels), and
            `alpha_masi`.
        note: Why there is no interval; `None` if there is one, or none was asked for.
    """

    labels: tuple[str, ...]
    n: int
    coverage: float | None
    groups: int | None
    measures: dict[str, Measure]
    note: str | None = None


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
    # a row number stands for the set, so that rows are paired and counted in one place
    at = np.arange(len(ours), dtype=float)
    pairs = pair_up(
        np.where(np.isnan(ours).any(axis=1), np.nan, at),
        np.where(np.isnan(theirs).any(axis=1), np.nan, at),
        groups=groups,
    )
    kept = pairs.scores.astype(np.intp)
    ours, theirs = ours[kept], theirs[kept]
    if not np.isin(ours, (0, 1)).all() or not np.isin(theirs, (0, 1)).all():
        raise DataError("sets of labels hold 0 or 1 for each label")
    if not len(kept):
        nothing = "no text has a set of both"
        return SetAgreement(tuple(labels), 0, pairs.coverage, None, {}, nothing)
    sources = pairs.groups if pairs.groups is not None else np.arange(len(kept))
    number = number_of_groups(pairs)
    table = _Table(ours, theirs, sources, number)
    found = {name: values[0] for name, values in table.measures(np.ones((1, number)))}
    spans: dict[str, Interval | None] = {}
    note = too_few_groups(pairs) if bootstrap else None
    if bootstrap and note is None:
        spans = spans_of(found, _drawn(table, bootstrap, seed))
    constants = _best_constants(theirs, found)
    return SetAgreement(
        labels=tuple(labels),
        n=len(kept),
        coverage=pairs.coverage,
        groups=None if pairs.groups is None else number,
        measures={
            name: Measure(number_or_none(value), spans.get(name), constants[name])
            for name, value in found.items()
        },
        note=note,
    )


class _Table:
    """What the measures need of each source."""

    def __init__(self, ours: Floats, theirs: Floats, sources: Codes, number: int) -> None:
        self.labels = ours.shape[1]
        both = np.concatenate([ours, theirs])
        # a set as the bits of a number: sorting rows takes ten times as long
        numbers = both.astype(np.int64) @ (1 << np.arange(self.labels))
        _, first, codes = np.unique(numbers, return_index=True, return_inverse=True)
        self._sets, codes = both[first], codes.reshape(2, -1)
        self._distance = _masi(self._sets)

        def per_source(values: Floats) -> Floats:
            """Return sums over the rows of each source of an array of shape (n, columns)."""
            columns = [np.bincount(sources, weights=one, minlength=number) for one in values.T]
            return np.stack(columns, axis=1)

        shared, either = (ours * theirs).sum(axis=1), np.maximum(ours, theirs).sum(axis=1)
        jaccard = np.where(either > 0, shared / np.maximum(either, 1), 1.0)
        exact = (ours == theirs).all(axis=1).astype(float)
        apart = self._distance[codes[0], codes[1]]
        self.rows = per_source(np.ones((len(ours), 1)))[:, 0]
        # similarities from 0 to 1, whose means are measures or parts of one
        self._similar = per_source(np.stack([exact, jaccard, 1 - apart], axis=1))
        cells = (2 * theirs + ours).astype(np.intp)
        self._cells = per_source(
            (cells[:, :, None] == np.arange(4)).reshape(len(ours), -1).astype(float)
        )
        kinds = len(self._sets)
        used = np.bincount((sources * kinds + codes).ravel(), minlength=number * kinds)
        self._used = used.reshape(number, kinds).astype(float)

    def measures(
        self, weights: Floats, rng: np.random.Generator | None = None
    ) -> Iterator[tuple[str, Floats]]:
        """Yield the measures for weights of the sources, shape (b, sources)."""
        total, similar = weights @ self.rows, weights @ self._similar
        mean = ratio(similar, total[:, None])
        if rng is not None:
            for at in range(similar.shape[1]):
                size = rows_per_observation(self.rows, self.rows - self._similar[:, at])
                more = rng.gamma(CELL, size, size=(2, len(total)))
                mean[:, at] = ratio(similar[:, at] + more[0], total + more.sum(axis=0))
        yield "exact", mean[:, 0]
        yield "jaccard", mean[:, 1]
        cells = (weights @ self._cells).reshape(len(total), self.labels, 4)
        if rng is not None:
            for label in range(self.labels):
                wrong = self._cells[:, 4 * label + 1] + self._cells[:, 4 * label + 2]
                size = rows_per_observation(self.rows, wrong)
                cells[:, label] += rng.gamma(CELL, size, size=(len(total), 4))
        matrices = cells.reshape(-1, 2, 2)
        own = measures_of(matrices, ordered=False)
        shape = (len(total), self.labels)
        yield "macro_f1", mean_of_defined(own["f1"].reshape(shape))
        hits = cells[:, :, 3].sum(axis=1)
        yield "micro_f1", ratio(2 * hits, 2 * hits + cells[:, :, 1:3].sum(axis=(1, 2)))
        yield "macro_kappa", mean_of_defined(own["kappa"].reshape(shape))
        used = weights @ self._used
        values = used.sum(axis=1)
        expected = ratio(
            np.einsum("bi,bj,ij->b", used, used, self._distance), values * (values - 1)
        )
        yield "alpha_masi", 1 - ratio(1 - mean[:, 2], expected)


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


def _drawn(table: _Table, resamples: int, seed: int) -> Iterator[Weighted]:
    rng = np.random.default_rng(seed)
    number = len(table.rows)
    spread = spread_of_weights(number)
    for start in range(0, resamples, _DRAWS_AT_ONCE):
        size = min(_DRAWS_AT_ONCE, resamples - start)
        weights = rng.gamma(1 / spread, spread, size=(size, number))
        yield tuple(dict(table.measures(weights, adding)) for adding in (None, rng))


def _best_constants(theirs: Floats, found: Iterable[str]) -> dict[str, float | None]:
    """Return what the best judge that always gives one of people's sets reaches, by measure."""
    best: dict[str, float | None] = dict.fromkeys(found)
    sets, counts = np.unique(theirs, axis=0, return_counts=True)
    for constant in sets[np.argsort(-counts, kind="stable")[:_MOST_CONSTANTS]]:
        ours = np.broadcast_to(constant, theirs.shape)
        table = _Table(ours, theirs, np.zeros(len(theirs), np.intp), 1)
        for name, values in table.measures(np.ones((1, 1))):
            value, known = number_or_none(values[0]), best[name]
            if value is not None and (known is None or value > known):
                best[name] = value
    return best
