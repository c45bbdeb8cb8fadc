"""Coverage of the agreement of labels, sets of labels, thresholds and Brier scores.

Sources differ in how often people say yes and in how often the judge errs on them. Sizes run from 8
to 100 sources of 1 or 8 rows, and expected errors from 1 to 30.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.coverage.tally import Design, Interval, Measure, Outcome
from textassay import agreement
from textassay.agreement.labels import (
    MIN_SOURCES,
    agreement_at,
    compare_labels,
    mean_interval,
    set_agreement,
)
from textassay.table import Estimate

TRUTH = 40_000
MOST_WRONG = 0.45
YES = 0.6
SET_SIZE = 3
RESAMPLES = 400

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
Sample = tuple[Any, ...]
Values = Mapping[str, Estimate]
"""Value and interval of each measure."""


class World(NamedTuple):
    """The distribution from which data sets are drawn."""

    sources: int
    size: int
    """Rows of each source."""
    wrong: float
    """Share of the rows on which the judge errs."""
    spread: float
    """Correlation of errors, and of people's labels, within a source."""


def shares(mean: float, sources: int, spread: float, rng: np.random.Generator) -> Floats:
    """Return a probability for each source, with this mean and correlation."""
    if not spread:
        return np.full(sources, mean)
    strength = (1 - spread) / spread
    return rng.beta(mean * strength, (1 - mean) * strength, size=sources)


def draw(world: World, rng: np.random.Generator) -> tuple[Codes, Codes, Codes]:
    """Return the judge's labels, people's, and the sources of one data set."""
    sources, size, wrong, spread = world
    groups = np.repeat(np.arange(sources), size)
    human = (rng.random(len(groups)) < shares(YES, sources, spread, rng)[groups]).astype(int)
    errs = rng.random(len(groups)) < shares(wrong, sources, spread, rng)[groups]
    return np.where(errs, 1 - human, human), human, groups


def draw_categories(world: World, rng: np.random.Generator) -> Sample:
    """Return the same of four labels, the first of which is half of all."""
    judge, human, groups = draw(world, rng)
    label = rng.choice(4, p=[0.5, 0.25, 0.15, 0.1], size=len(human))
    other = (label + rng.integers(1, 4, size=len(human))) % 4
    return np.where(judge == human, label, other), label, groups


def draw_two(world: World, rng: np.random.Generator) -> Sample:
    """Return the labels of two judges, the second with 1.5 times the errors, and people's."""
    first, human, groups = draw(world, rng)
    more = min(MOST_WRONG, 1.5 * world.wrong)
    errs = rng.random(len(groups)) < shares(more, world.sources, world.spread, rng)[groups]
    return first, np.where(errs, 1 - human, human), human, groups


def draw_sets(world: World, rng: np.random.Generator) -> Sample:
    """Return the judge's sets of three labels of which several may apply, and people's."""
    each = world._replace(wrong=world.wrong / SET_SIZE)
    parts = [draw(each, rng) for _ in range(SET_SIZE)]
    judge, human = (np.stack([part[at] for part in parts], axis=1) for at in (0, 1))
    return judge, human, parts[0][2]


def draw_scores(world: World, rng: np.random.Generator) -> Sample:
    """Return scores that err this often if they are cut in the middle, and labels."""
    _, human, groups = draw(world, rng)
    noise = np.sqrt(1 - world.spread) * rng.normal(size=len(human))
    noise += np.sqrt(world.spread) * rng.normal(size=world.sources)[groups]
    return human * -2 * NormalDist().inv_cdf(world.wrong) + noise, human, groups


def draw_errors(world: World, rng: np.random.Generator) -> Sample:
    """Return squared errors of a probability near 0 or 1, and the sources."""
    judge, human, groups = draw(world, rng)
    sure = rng.uniform(0.9, 1.0, size=len(human))
    return (np.where(judge == 1, sure, 1 - sure) - human) ** 2, groups


def of_labels(
    sample: Sample, seed: int, bootstrap: int = RESAMPLES, labels: Sequence[str] = ("no", "yes")
) -> Values:
    """Return the measures of labels."""
    judge, human, groups = sample
    found = agreement.label_agreement(
        judge, human, labels=labels, groups=groups, bootstrap=bootstrap, seed=seed
    )
    return {name: one.estimate for name, one in found.measures.items()}


def of_two(sample: Sample, seed: int, bootstrap: int = RESAMPLES) -> Values:
    """Return the differences of two judges."""
    *columns, groups = sample
    _, found = compare_labels(*columns, groups=groups, bootstrap=bootstrap, seed=seed)
    return {name: one.difference for name, one in found.items()}


def of_sets(sample: Sample, seed: int, bootstrap: int = RESAMPLES) -> Values:
    """Return the measures of sets."""
    judge, human, groups = sample
    found = set_agreement(judge, human, labels="abc", groups=groups, bootstrap=bootstrap, seed=seed)
    return {name: one.estimate for name, one in found.measures.items()}


def of_brier(sample: Sample, seed: int, bootstrap: int = RESAMPLES) -> Values:
    """Return the mean squared error."""
    errors, groups = sample
    if not bootstrap:
        return {"brier": Estimate(float(errors.mean()))}
    return {"brier": mean_interval(errors, groups, resamples=bootstrap, seed=seed)}


class Kind(NamedTuple):
    """How the coverage of one kind of interval is measured."""

    draw: Callable[[World, np.random.Generator], Sample]
    measure: Callable[..., Values]
    names: tuple[str, ...]


_OF_TWO = ("accuracy", "tpr", "tnr", "f1", "mcc", "kappa", "ac1", "alpha_nominal")
KINDS = {
    "labels": Kind(draw, of_labels, _OF_TWO),
    "labels of four": Kind(
        draw_categories,
        partial(of_labels, labels="abcd"),
        ("accuracy", "balanced_accuracy", "macro_f1", "mcc", "kappa", "ac1", "alpha_nominal"),
    ),
    "labels, difference": Kind(draw_two, of_two, _OF_TWO),
    "labels, sets": Kind(
        draw_sets,
        of_sets,
        ("exact", "jaccard", "macro_f1", "micro_f1", "macro_kappa", "alpha_masi"),
    ),
    "labels, threshold": Kind(draw_scores, of_labels, _OF_TWO),
    "labels, brier": Kind(draw_errors, of_brier, ("brier",)),
}


def intervals(kind: str, world: World, truth_sources: int = TRUTH) -> Measure:
    """Return the intervals of a kind.

    A threshold is chosen on half of the sources, so its truth is computed for every draw.
    """
    own = KINDS[kind]
    chooses = own.draw is draw_scores
    large = own.draw(
        world._replace(sources=truth_sources // 4 if chooses else truth_sources),
        np.random.default_rng(7),
    )
    truth: Values = {} if chooses else own.measure(large, 0, 0)

    def at_threshold(sample: Sample, seed: int) -> tuple[Values, Values]:
        scores, human, groups = sample
        found, cut = agreement_at(scores, human, groups=groups, bootstrap=RESAMPLES, seed=seed)
        values = {name: one.estimate for name, one in found.measures.items()}
        return values, of_labels((cut.apply(large[0]), large[1], large[2]), 0, 0)

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        sample = own.draw(world, rng)
        found, true = at_threshold(sample, seed) if chooses else (own.measure(sample, seed), truth)
        return {
            name: Interval(one.low, one.high, actual)
            for name in own.names
            if (one := found[name]).ends and (actual := true[name].value) is not None
        }

    return measure


def designs() -> Iterator[Design]:
    """Yield all lines."""
    for kind, sources, size, errors, spread in product(
        KINDS, (8, 15, 30, 100), (1, 8), (1, 3, 10, 30), (0.0, 0.2)
    ):
        world = World(sources, size, errors / (sources * size), spread)
        if world.wrong > MOST_WRONG or (size == 1 and spread):
            continue
        if KINDS[kind].draw is draw_scores and sources < MIN_SOURCES:
            continue
        how = f"{sources} sources of {size}, {errors} errors, alike by {spread}"
        yield Design(kind, how, partial(intervals, kind, world), share=0.25, span=(0.93, 1.0))
