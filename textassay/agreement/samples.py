"""How agreement with people changes with the number of samples per text.

Works on arrays. If a judge rated a text K times, k ratings are drawn without replacement, and their
mean is the score of k samples. Every figure is the mean over `DRAWS` such draws of all texts; a
larger number of samples contains the ratings of every smaller number, so that the gain varies less
with the draws. Intervals are over groups, of the figure averaged over the draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from textassay.agreement.choice import choices_of, share_difference, share_interval
from textassay.agreement.correlation import (
    COEFFICIENTS,
    NumbersLike,
    Pairs,
    RowLabels,
    dataset_level,
    pair_up,
)
from textassay.agreement.intervals import (
    FEWEST,
    Varied,
    degrees_of_freedom,
    interval_around,
    number_of_groups,
    to_z,
    vary_groups,
)
from textassay.agreement.significance import difference_of, without_rounding
from textassay.arrays import Floats
from textassay.table import Estimate, column

DRAWS = 20
"""Draws of samples. With them, the choices of one of eight samples on RewardBench 2 vary by .001
from seed to seed, a tenth of their interval."""


@dataclass(frozen=True, slots=True)
class SampleAgreement:
    """One measure of agreement at one number of samples per text."""

    measure: str = field(metadata=column("measure"))
    """A coefficient at dataset level, or `choice`, `strict` or `tied` within groups."""
    samples: int = field(metadata=column("samples", "count"))
    """Ratings per text; a text with fewer ratings uses all of them."""
    n: int = field(metadata=column("n", "count"))
    """Number of texts, or of groups."""
    value: Estimate = field(metadata=column("value", "interval"))
    """The measure with its 95 % interval."""
    gain: Estimate = field(metadata=column("gain", "interval"))
    """Gain over the fewest samples, with its 95 % interval; undefined for the fewest samples."""


def draw_scores(
    samples: Sequence[Sequence[float]], counts: Sequence[int], seed: int
) -> list[list[Floats]]:
    """Draw ratings of each text and average them.

    Args:
        samples: Ratings of each text, length n; empty for a text without any.
        counts: Numbers of ratings to draw.
        seed: Seed of the draws.

    Returns:
        For each of `counts`, the scores of each draw, shape (n,), NaN for a text without ratings.
    """
    table = np.full((len(samples), max(map(len, samples), default=0)), np.nan)
    for row, ratings in enumerate(samples):
        table[row, : len(ratings)] = ratings
    rng, scores = np.random.default_rng(seed), [list[Floats]() for _ in counts]
    for _ in range(DRAWS):
        order = np.where(np.isnan(table), 2.0, rng.random(table.shape)).argsort(axis=1)
        permuted = np.take_along_axis(table, order, axis=1)
        for count, means in zip(counts, scores, strict=True):
            # sorted, since sums in another order may differ by rounding
            first = np.sort(permuted[:, :count], axis=1)
            number = (~np.isnan(first)).sum(axis=1)
            empty = np.full(len(number), np.nan)
            means.append(np.divide(np.nansum(first, axis=1), number, out=empty, where=number > 0))
    return scores


def correlations_by_samples(
    samples: Sequence[Sequence[float]],
    human: NumbersLike,
    counts: Sequence[int],
    *,
    groups: RowLabels | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
) -> Iterator[SampleAgreement]:
    """Yield each coefficient at dataset level at each number of samples.

    Args:
        samples: Ratings of each text by the judge, length n; empty for a text without any.
        human: Ratings by people, shape (n,); `None` or NaN if a text is unrated.
        counts: Numbers of samples, in ascending order.
        groups: The source of each text, length n; without groups each text is one.
        bootstrap: Number of resamples behind the intervals; 0 for no intervals.
        seed: Seed of draws and resamples.
    """
    by_count = [
        [pair_up(scores, human, groups=groups) for scores in draws]
        for draws in draw_scores(samples, counts, seed)
    ]
    first, least = by_count[0][0], counts[0]
    values = [_mean(np.array([_coefficients(draw) for draw in draws])) for draws in by_count]
    varied: list[list[Varied]] = []
    if bootstrap and number_of_groups(first) >= FEWEST.groups:
        varied = [[vary_groups(draw, bootstrap, seed) for draw in draws] for draws in by_count]
    for at, name in enumerate(COEFFICIENTS):
        # the draws are averaged first, so that only the variation between groups is left
        spread = [np.mean([draw.values[name] for draw in draws], axis=0) for draws in varied]
        for place, (count, value) in enumerate(zip(counts, values, strict=True)):
            error, change = None, None
            if spread:
                error = varied[0][0].error(to_z(spread[place]))
                change = varied[0][0].error(without_rounding(spread[place] - spread[0]))
            df = degrees_of_freedom(first)
            gain = difference_of(value[at], values[0][at], change, df, least_p=0.0)
            yield SampleAgreement(
                name, count, len(first.scores), interval_around(value[at], error, df),
                Estimate(None) if count == least else gain.difference,
            )  # fmt: skip


def choices_by_samples(
    samples: Sequence[Floats | list[Floats]],
    human: Floats,
    counts: Sequence[int],
    groups: RowLabels,
    *,
    units: RowLabels | None = None,
) -> Iterator[SampleAgreement]:
    """Yield the rates at which scores choose people's best text, at each number of samples.

    Args:
        samples: For each of `counts`, the scores of each draw, shape (n,).
        human: Ratings by people, shape (n,); NaN if a text is unrated.
        counts: Numbers of samples, in ascending order.
        groups: The group from which each row is chosen, as in `choice_agreement`.
        units: The source of each row's group, as in `choice_agreement`.
    """
    choices = choices_of([draw for draws in samples for draw in draws], human, groups, units=units)
    number = len(choices.units)
    if not number:
        return
    kinds = {"choice": choices.shares, "strict": choices.strict, "tied": choices.tied}
    for name, columns in kinds.items():
        by_count = np.mean(np.reshape(columns, (len(counts), -1, number)), axis=1)
        for count, shares in zip(counts, by_count, strict=True):
            gain = share_difference(shares, by_count[0], choices.units)
            yield SampleAgreement(
                name, count, number, share_interval(shares, choices.units),
                Estimate(None) if count == counts[0] else gain.difference,
            )  # fmt: skip


def _coefficients(pairs: Pairs) -> list[float]:
    coefficients = dataset_level(pairs)
    return [np.nan if (value := coefficients[name]) is None else value for name in COEFFICIENTS]


def _mean(values: Floats) -> list[float | None]:
    """Return the mean of each column; `None` if it is undefined in a draw."""
    return [None if np.isnan(mean) else float(mean) for mean in values.mean(axis=0)]
