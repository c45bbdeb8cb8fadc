"""Explains predictions: contributions of features to each (local), and their importance (global).

Works on any function of arrays, and on a fitted `Aggregator` by `predict` and `contributions`.
Exact Shapley values come from `Aggregator.contributions`; this module has the measures that work
for any function.

References:
    Breiman, "Random forests", Machine Learning 45 (2001), section 10, for permutation importance.
    Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), section 21.8, for standard
    errors from influence. Strumbelj and Kononenko, "Explaining prediction models and individual
    predictions with feature contributions", Knowledge and Information Systems 41 (2014), for
    sampled Shapley values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from textassay.arrays import Codes, Floats, Mask
from textassay.learning.aggregators import Aggregator, Contributions
from textassay.learning.pooling import Systems
from textassay.learning.splits import group_codes
from textassay.learning.training import column_names
from textassay.runtime.errors import ConfigurationError, DataError

Predict = Callable[[Floats], Floats]
"""Predictions of shape (n, targets) for features of shape (n, features)."""


@dataclass(frozen=True, slots=True)
class Importance:
    """Growth of the squared error when features are shuffled, in variances of the ratings."""

    names: tuple[str, ...]
    """The shuffled features or groups, length m."""
    mean: Floats
    """Shape (m, targets). 0 if the predictions do not depend on it or do not improve by it, NaN if
    no rated row could exchange it with another.
    """
    sd: Floats
    """Standard deviation over the repeats, the same shape: the effect of the choice of shuffles."""
    importances: Floats
    """Every repeat, shape (m, targets, repeats)."""
    influences: Floats
    """Influence of each group of rows on `mean`, shape (m, targets, groups): the effect of the
    choice of rows.
    """

    def ranking(self) -> list[tuple[str, float]]:
        """Return names with their importance averaged over the targets, highest first, NaN last."""
        overall = self.mean.mean(axis=1)
        return [(self.names[i], float(overall[i])) for i in np.argsort(-overall, kind="stable")]

    def interval(self, confidence: float = 0.95) -> Floats:
        """Return a confidence interval of each importance, shape (m, targets, 2).

        NaN below two groups.

        It is for the predictor as fitted, and for rows like these. For a feature unrelated to the
        ratings it contains 0 as often as `confidence` says.
        """
        return t_interval(self.mean, self.influences, confidence)

    def overall_interval(self, confidence: float = 0.95) -> Floats:
        """Return the interval of the importance averaged over the targets, shape (m, 2)."""
        return t_interval(self.mean.mean(axis=1), self.influences.mean(axis=1), confidence)


def permutation_importance(
    predict: Predict,
    features: Floats,
    human: Floats,
    *,
    columns: Mapping[str, Sequence[int]] | Sequence[str] | None = None,
    groups: Iterable[Hashable] | None = None,
    repeats: int = 10,
    seed: int = 0,
) -> Importance:
    """Measure how much predictions worsen when features are shuffled over the rows.

    Several features may be shuffled together.

    Take rows that the predictor was not trained on; on training rows noise looks important. Similar
    features replace each other: shuffle them together, as one entry of `columns`, to see their
    importance. Rows exchange features only with rows that have the same gaps in them, and rows
    without a prediction are ignored. A row with unique gaps keeps its features, and counts as a row
    whose error does not grow; if every rated row is alone, the importance is NaN.

    Args:
        predict: From features (rows, features) to predictions (rows, targets) or (rows,). The rows
            are the rows of `features`, in their order, once or several times over.
        features: Shape (n, features); NaN if absent.
        human: Ratings, shape (n, targets) or (n,); NaN if absent.
        columns: What to shuffle: names of single features, or columns by name of their group.
        groups: Group (source) of each row, length n, whose rows depend on each other; each row
            is its own if absent. Intervals are over groups; the shuffles are over all rows.
        repeats: Number of shuffles.
        seed: Seed of the shuffles, the same ones for every entry.

    Raises:
        ConfigurationError: `repeats` is below 1.
        DataError: Ratings of an aspect do not vary, or the shapes do not fit.
    """
    if repeats < 1:
        raise ConfigurationError(f"permutation importance needs at least 1 repeat, not {repeats}")
    x, y = np.asarray(features, float), _columns(human)
    entries = _entries(columns, x.shape[1])
    codes = np.arange(len(x)) if groups is None else group_codes(groups)
    if not len(codes) == len(y) == len(x):
        raise DataError(
            f"features, ratings and groups must be equally long, not {len(x)}, {len(y)} and"
            f" {len(codes)}"
        )
    predicted = _columns(predict(x))
    y = np.where(np.isnan(predicted), np.nan, y)
    error = _error_function(y)
    before = error(predicted)
    rng = np.random.default_rng(seed)
    # the same shuffles for every entry, so that differences between features do not depend on the
    # draw
    orders = [rng.permutation(len(x)) for _ in range(repeats)]
    importances = np.empty((len(entries), y.shape[1], repeats))
    influences = np.empty((len(entries), y.shape[1], int(codes.max()) + 1))
    strata = [_gaps(x[:, indices]) for indices in entries.values()]
    shuffles = [[_within(gaps, order) for order in orders] for gaps in strata]
    predictions = _predict_shuffled(predict, x, list(entries.values()), shuffles)
    for row, (gaps, shuffles_of_entry, shuffled) in enumerate(
        zip(strata, shuffles, predictions, strict=True)
    ):
        growths, borrowed = np.zeros(y.shape), np.zeros(y.shape)
        for repeat, order in enumerate(shuffles_of_entry):
            growth = error(shuffled[repeat]) - before
            importances[row, :, repeat] = growth.sum(axis=0)
            growths += growth / repeats
            # a row contributes twice, by its own prediction and by giving its feature to another
            # row; ignoring the second role makes the intervals too narrow
            borrowed[order] += growth / repeats
        influences[row] = _influences(growths, borrowed, ~np.isnan(y), gaps, codes)
        stuck = ~(~np.isnan(y) & (np.bincount(gaps)[gaps] > 1)[:, None]).any(axis=0)
        importances[row, stuck], influences[row, stuck] = np.nan, np.nan
    return Importance(
        tuple(entries), importances.mean(axis=2), importances.std(axis=2), importances, influences
    )


def pool_importances(parts: Sequence[Importance]) -> Importance:
    """Return the mean of importances of the same features in parts of the rows that share no group.

    If each part's predictor learned from the other parts, 95 % intervals contained 0 in 92 to 97 %
    of trials with uninformative features: slightly too seldom for trees.

    Parts in which an importance is NaN are left out of its mean.
    """
    importances = np.concatenate([part.importances for part in parts], axis=2)
    measured = np.stack([~np.isnan(part.mean) for part in parts])
    # dividing by NaN keeps importances NaN that no part could measure
    count = np.where(measured.any(axis=0), measured.sum(axis=0), np.nan)
    mean = np.nansum([part.mean for part in parts], axis=0) / count
    sd = np.ma.masked_invalid(importances).std(axis=2).filled(np.nan)
    influences = np.concatenate(
        [np.nan_to_num(part.influences) / count[..., None] for part in parts], axis=2
    )
    return Importance(parts[0].names, mean, sd, importances, influences)


def sample_shapley(
    predict: Predict, features: Floats, background: Floats, *, samples: int = 64, seed: int = 0
) -> Contributions:
    """Estimate the Shapley values of any function; they add up to its predictions exactly.

    A sample draws an order of the features and a background row, and replaces the row's features by
    the example's one by one: each step's change is credited to its feature. Every order is used
    forwards and backwards.

    Args:
        predict: From features (n, features) to predictions (n, targets) or (n,); gaps must not make
            it NaN.
        features: Rows to explain, shape (n, features).
        background: Rows for "nothing known", such as the training rows, shape (rows,
            features).
        samples: Number of passes, at least 2; two passes share an order and a background row.
        seed: Seed of orders and rows.

    Raises:
        ConfigurationError: `samples` is below 2.
        DataError: The background is empty or has other columns.
    """
    if samples < 2:
        raise ConfigurationError(f"sampling Shapley values needs at least 2 samples, not {samples}")
    x, rows = np.asarray(features, float), np.asarray(background, float)
    if not len(rows) or rows.shape[1:] != x.shape[1:]:
        raise DataError(
            f"the background must have rows and the features' columns, not shape {rows.shape}"
        )
    width = x.shape[1]
    rng = np.random.default_rng(seed)
    credits, starts = [], []
    for _ in range((samples + 1) // 2):
        row, order = rows[rng.integers(len(rows))], rng.permutation(width)
        # an order and its reverse (antithetic sampling): an early feature in one is late in the
        # other, so that errors of the credits tend to cancel out
        passes = [_replace_in_order(predict, x, row, ordering) for ordering in (order, order[::-1])]
        credits.append((passes[0][0] + passes[1][0]) / 2)
        starts.append(passes[0][1])
    values = np.mean(credits, axis=0)
    return Contributions(values, np.mean(starts, axis=0), np.zeros(values.shape[:2]))


def global_importance(values: Floats) -> Floats:
    """Return mean magnitudes of contributions, shape (targets, features); NaN rows are left out."""
    magnitudes = np.abs(values[~np.isnan(values).any(axis=(1, 2))])
    if not len(magnitudes):
        raise DataError("no row has contributions")
    return np.asarray(magnitudes.mean(axis=0))


def explain(
    aggregator: Aggregator,
    features: Floats,
    background: Floats,
    *,
    systems: Systems | None = None,
    sources: Systems | None = None,
    samples: int = 64,
    seed: int = 0,
) -> Contributions:
    """Return Shapley values of every prediction: exact if the family allows, else sampled.

    Args:
        aggregator: A fitted aggregator.
        features: Rows to explain, shape (n, features).
        background: Training rows; used if values are sampled.
        systems: System of each row, as `Aggregator.predict` takes them.
        sources: Source of each row, as `Aggregator.predict` takes them.
        samples: Passes if values are sampled.
        seed: Seed if values are sampled.
    """
    if aggregator.explains_exactly:
        return aggregator.contributions(features, systems=systems, sources=sources)

    # an aggregator without exact contributions uses no means
    unclipped = partial(aggregator.predict, clip=False)
    return sample_shapley(unclipped, features, background, samples=samples, seed=seed)


def _replace_in_order(
    predict: Predict, x: Floats, row: Floats, order: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> tuple[Floats, Floats]:
    """Replace features by the examples' in order; return credits and the first prediction."""
    current = np.tile(row, (len(x), 1))
    before = _columns(predict(current))
    start = before[0] if len(before) else np.empty(0)
    credit = np.zeros((len(x), before.shape[1], x.shape[1]))
    for feature in order:
        current[:, feature] = x[:, feature]
        after = _columns(predict(current))
        credit[:, :, feature] = after - before
        before = after
    return credit, start


def _error_function(human: Floats) -> Callable[[Floats], Floats]:
    """Return a function for each row's part of the error, shape (n, targets), 0 if unrated."""
    variances = np.nanvar(human, axis=0)
    if not (variances > 0).all():
        raise DataError("importance needs ratings that vary, for every aspect")
    scale = variances * (~np.isnan(human)).sum(axis=0)

    def error(predicted: Floats) -> Floats:
        squared = (predicted - human) ** 2 / scale
        return np.where(np.isnan(human), 0.0, squared)

    return error


def _gaps(features: Floats) -> Codes:
    """Return a code for the gaps of each row."""
    return np.unique(np.isnan(features), axis=0, return_inverse=True)[1].ravel()


def _predict_shuffled(
    predict: Predict, x: Floats, entries: Sequence[list[int]], shuffles: Sequence[Sequence[Codes]]
) -> Iterator[Floats]:
    """Yield the predictions of all shuffles of each entry, shape (repeats, n, targets)."""
    repeats = len(shuffles[0]) if shuffles else 0
    # a predictor takes little longer for many rows than for few, so calls are large
    step = max(1, 150_000 // max(1, repeats * x.size))
    for start in range(0, len(entries), step):
        part = range(start, min(start + step, len(entries)))
        rows = np.tile(x, (len(part), repeats, 1, 1))
        for at, entry in enumerate(part):
            for repeat, order in enumerate(shuffles[entry]):
                rows[at, repeat][:, entries[entry]] = x[order][:, entries[entry]]
        predicted = _columns(predict(rows.reshape(-1, x.shape[1])))
        yield from predicted.reshape(len(part), repeats, len(x), -1)


def _within(strata: Codes, order: Codes) -> Codes:
    """Return a shuffle within strata, in the order of the given one."""
    # a row that gets a gap may lose all features, and so its prediction
    exchanged = np.empty_like(order)
    exchanged[np.argsort(strata, kind="stable")] = order[np.argsort(strata[order], kind="stable")]
    return exchanged


def _influences(
    growths: Floats, borrowed: Floats, rated: Mask, strata: Codes, codes: Codes
) -> Floats:
    """Return how far each group moves the mean growth of the error, shape (targets, groups).

    The growth is a mean over pairs of rows: one whose prediction changes and one that gives its
    feature. A row's influence is its part in both roles, minus the mean.
    """
    by_stratum = np.stack([np.bincount(strata, weights=growth) for growth in growths.T], axis=1)
    lent = (by_stratum / np.bincount(strata)[:, None])[strata]
    influence = growths + borrowed - growths.sum(axis=0) * rated / rated.sum(axis=0) - lent
    return np.stack([np.bincount(codes, weights=column) for column in influence.T])


def t_interval(mean: Floats, influences: Floats, confidence: float) -> Floats:
    """Return the ends of a mean's t interval from the groups' influences, shape (..., 2)."""
    groups = influences.shape[-1]
    if groups < 2:
        return np.full((*mean.shape, 2), np.nan)
    from scipy.special import stdtrit  # heavy, so on first use

    # infinitesimal jackknife with the small-sample factor, and t on groups less one: rows of one
    # group are not independent
    error = np.sqrt((influences**2).sum(axis=-1) * groups / (groups - 1))
    reach = float(stdtrit(groups - 1, (1 + confidence) / 2)) * error
    return np.stack([mean - reach, mean + reach], axis=-1)


def _columns(values: Floats) -> Floats:
    array = np.asarray(values, float)
    return array[:, None] if array.ndim == 1 else array


def _entries(
    columns: Mapping[str, Sequence[int]] | Sequence[str] | None, width: int
) -> dict[str, list[int]]:
    if isinstance(columns, Mapping):
        return {name: list(indices) for name, indices in columns.items()}
    return {name: [i] for i, name in enumerate(column_names(columns, width, "feature"))}
