"""Whether one judge's labels agree better with people's than another's on the same texts.

Both judges see the same random weighting of the sources (the Bayesian bootstrap), so that what
makes a source hard for both cancels out. As errors are few, and those of one judge alone fewer, the
cells of the table of people's label by both judges' get four observations more together; see
`textassay.meta.label_measures`, whose intervals these follow. Coverage is shown by
`benchmarks/coverage_labels.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from textassay.meta.agreement import Difference
from textassay.meta.correlation import Floats, finite_array
from textassay.meta.intervals import number_of_groups, too_few_groups
from textassay.meta.label_measures import (
    measures_of,
    number_or_none,
    refuse_other_numbers,
    rows_per_observation,
    span_of,
    spread_of_weights,
)
from textassay.meta.levels import RowLabels, pair_up

_MORE = 4.0
"""Observations that all cells together are given more."""
_NUMBERS_AT_ONCE = 4_000_000


def compare_labels(
    a: ArrayLike | Sequence[float | None],
    b: ArrayLike | Sequence[float | None],
    human: ArrayLike | Sequence[float | None],
    *,
    labels: Sequence[str] = ("no", "yes"),
    ordered: bool = False,
    groups: RowLabels | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
) -> tuple[int, dict[str, Difference]]:
    """Return the rows that all three labeled, and by measure how much better `a` agrees than `b`.

    Args:
        a: Number of each row's label by the first judge, shape (n,); `None` or NaN if unscored.
        b: The same by the second.
        human: Number of the label that people gave, shape (n,).
        labels: Names of the labels; of two, the second is the positive one.
        ordered: Whether the labels are ordered.
        groups: What each row belongs to, length n; without groups it is the rows.
        bootstrap: Number of random weightings behind the intervals; 0 for no intervals.
        seed: Seed of the weightings.

    Raises:
        DataError: Lengths differ, or a number is no label's.
    """
    count = len(labels)
    for side, judged in (("the first judge's", a), ("the second judge's", b)):
        one = pair_up(judged, human, groups=groups)
        refuse_other_numbers({f"{side} labels": one.scores, "human labels": one.human}, count)
    ours, other = finite_array(a, "labels"), finite_array(b, "labels")
    # one number for both labels, so that rows that one judge left out are left out on both sides
    pairs = pair_up(ours * count + other, human, groups=groups)
    both = pairs.scores.astype(np.intp)
    cells = pairs.human.astype(np.intp) * count**2 + both
    sources = pairs.groups if pairs.groups is not None else np.arange(len(cells))
    number, width = number_of_groups(pairs), count**3
    flat = np.bincount(sources * width + cells, minlength=number * width)
    tables = flat.reshape(number, width).astype(float)
    whole = _measured(tables.sum(axis=0)[None], count, ordered=ordered)
    drawn = (
        _drawn(tables, count, bootstrap, np.random.default_rng(seed), ordered=ordered)
        if bootstrap and too_few_groups(pairs) is None
        else {}
    )
    return len(cells), {
        name: _difference(float(x[0]), float(y[0]), drawn.get(name))
        for name, (x, y) in whole.items()
    }


def _measured(joint: Floats, count: int, *, ordered: bool) -> dict[str, tuple[Floats, Floats]]:
    """Return the measures of both judges, shape (b,) each, of tables of shape (b, count**3)."""
    cube = joint.reshape(-1, count, count, count)
    first = measures_of(cube.sum(axis=3), ordered=ordered)
    second = measures_of(cube.sum(axis=2), ordered=ordered)
    return {name: (values, second[name]) for name, values in first.items()}


def _drawn(
    tables: Floats, count: int, resamples: int, rng: np.random.Generator, *, ordered: bool
) -> dict[str, tuple[Floats, Floats]]:
    """Return differences in random weightings, as they are, and with more in each cell."""
    number, width = tables.shape
    spread = spread_of_weights(number)
    human, ours, other = np.unravel_index(np.arange(width), (count, count, count))
    # what decides is where one judge errs and the other does not
    apart = tables[:, (ours == human) != (other == human)].sum(axis=1)
    size = rows_per_observation(tables.sum(axis=1), apart)
    parts: dict[str, tuple[list[Floats], list[Floats]]] = {}
    step = max(1, _NUMBERS_AT_ONCE // (number + width))
    for start in range(0, resamples, step):
        some = min(step, resamples - start)
        weights = rng.gamma(1 / spread, spread, size=(some, number))
        plain = weights @ tables
        more = rng.gamma(_MORE / width, size, size=(some, width))
        for at, joint in enumerate((plain, plain + more)):
            for name, (x, y) in _measured(joint, count, ordered=ordered).items():
                parts.setdefault(name, ([], []))[at].append(x - y)
    return {name: (np.concatenate(p), np.concatenate(m)) for name, (p, m) in parts.items()}


def _difference(a: float, b: float, drawn: tuple[Floats, Floats] | None) -> Difference:
    first, second = number_or_none(a), number_or_none(b)
    if first is None or second is None:
        return Difference(first, second, None, None, None)
    value = first - second
    if drawn is None:
        return Difference(first, second, value, None, None)
    p = 0.0
    for part in drawn:
        defined = part[~np.isnan(part)]
        tail = min(np.mean(defined <= 0), np.mean(defined >= 0))
        # so many weightings cannot show less
        p = max(p, min(1.0, 2 * float(tail)), 2 / (len(defined) + 1))
    return Difference(first, second, value, span_of(value, drawn), p)
