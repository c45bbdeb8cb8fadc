"""Splits rows at random by a seed, and keeps a group's rows together.

Texts about one source are never on both sides.

Works on labels only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

from textassay.arrays import Codes, Mask
from textassay.runtime.errors import ConfigurationError, DataError


def group_codes(groups: Iterable[Hashable]) -> Codes:
    """Number groups from 0 in order of appearance.

    A row whose group is `None` or NaN, as tables have it for gaps, is a group of its own.

    Args:
        groups: Group of each row.

    Returns:
        Shape (n,).
    """
    codes: dict[Hashable, int] = {}
    numbered = [
        # tuples keep a row without a group apart from any label in the data
        codes.setdefault(("no group", row) if is_gap(group) else (group,), len(codes))
        for row, group in enumerate(groups)
    ]
    return np.array(numbered, np.intp)


def is_gap(label: object) -> bool:
    """Return whether a label is missing: `None`, or NaN as tables have it."""
    return label is None or (isinstance(label, float) and label != label)


def split_rows(groups: Codes, fraction: float, *, seed: int) -> Mask:
    """Draw groups at random until they contain about this fraction of the rows.

    A smaller fraction under the same seed gives a subset of a larger one, so a curve over fractions
    adds data.

    Args:
        groups: Code of each row's group, shape (n,), as from `group_codes`.
        fraction: Share of the rows to draw, above 0 and below 1.
        seed: Seed of the draw.

    Returns:
        Whether each row is drawn, shape (n,); at least one group is, and at least one is not.

    Raises:
        ConfigurationError: The fraction is not between 0 and 1.
        DataError: There are fewer than two groups.
    """
    _require_share("train on", fraction)
    count = int(groups.max(initial=-1)) + 1
    if count < 2:
        raise DataError(
            f"splitting by group needs at least 2 groups, not {count}; check the field 'group'"
        )
    train_groups = _first_groups(groups, fraction, np.random.default_rng(seed).permutation(count))
    # at least one group stays on the other side, or nothing could be measured
    return np.isin(groups, train_groups[: count - 1])


def hold_out(groups: Codes, fraction: float, train: Mask, *, seed: int) -> Mask:
    """Draw the groups to hold out if they are not simply all groups that are not trained on.

    They are drawn from the other end of the order in which `split_rows` draws, so that under one
    seed the same rows are held out for every share of training rows.

    Args:
        groups: Code of each row's group, shape (n,).
        fraction: Share of the rows to hold out, above 0 and below 1.
        train: Which rows are trained on, shape (n,), as from `split_rows` with the same seed.
        seed: Seed of the draw.

    Returns:
        Whether each row is held out, shape (n,).

    Raises:
        ConfigurationError: The fraction is not between 0 and 1, or the rows do not suffice for
            both.
    """
    _require_share("hold out", fraction)
    order = np.random.default_rng(seed).permutation(int(groups.max()) + 1)[::-1]
    in_test = np.isin(groups, _first_groups(groups, fraction, order))
    if (in_test & train).any():
        raise ConfigurationError(
            f"{train.mean():.0%} of the rows to learn from and {fraction:.0%} to hold out are more "
            "than all rows; make one of the fractions smaller"
        )
    return in_test


def _require_share(use: str, fraction: float) -> None:
    if not 0 < fraction < 1:
        raise ConfigurationError(f"a fraction to {use} must be between 0 and 1, not {fraction!r}")


def _first_groups(groups: Codes, fraction: float, order: Codes) -> Codes:
    """Return the groups, the first of this order, that hold about the wanted share of rows."""
    filled = np.cumsum(np.bincount(groups)[order])
    return order[: int(np.abs(filled - fraction * len(groups)).argmin()) + 1]


def folds(groups: Codes, count: int, *, seed: int) -> Codes:
    """Deal groups into folds of about equal numbers of rows.

    Args:
        groups: Code of each row's group, shape (n,).
        count: Number of folds; fewer if there are fewer groups.
        seed: Seed of the deal.

    Returns:
        Fold of each row, from 0, shape (n,).

    Raises:
        ConfigurationError: `count` is below 2.
        DataError: There are fewer than two groups.
    """
    if count < 2:
        raise ConfigurationError(f"cross-validation needs at least 2 folds, not {count}")
    present, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(present) < 2:
        raise DataError(
            f"cross-validation by group needs at least 2 groups, not {len(present)}; check the "
            "groups, or use an aggregator that needs none, such as 'corrw'"
        )
    count = min(count, len(present))
    order = np.random.default_rng(seed).permutation(len(present))
    # largest first into the smallest fold (greedy balancing); the stable sort keeps the seeded
    # order among groups of equal size
    order = order[np.argsort(-sizes[order], kind="stable")]
    fold_of, rows = np.empty(len(present), np.intp), np.zeros(count)
    for group in order:
        smallest = int(rows.argmin())
        fold_of[group] = smallest
        rows[smallest] += sizes[group]
    return fold_of[codes]


def fold_masks(groups: Codes, count: int, *, seed: int) -> list[Mask]:
    """Return the rows of each fold, dealt as by `folds`."""
    fold = folds(groups, count, seed=seed)
    return [fold == number for number in range(int(fold.max()) + 1)]


def draw_groups(groups: Codes, rows: int, *, seed: int) -> Mask:
    """Draw whole groups, at least two, with about `rows` rows; all if there are not more."""
    if len(groups) <= rows:
        return np.ones(len(groups), bool)
    present, sizes = np.unique(groups, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(present))
    # whole groups, as everywhere: a group cut in two would leak between folds
    count = max(2, int(np.searchsorted(np.cumsum(sizes[order]), rows, side="right")))
    return np.isin(groups, present[order[:count]])
