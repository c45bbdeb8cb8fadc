"""Coverage of `agreement` and of `compare` with people's ratings: coefficients and choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import NamedTuple, Protocol

import numpy as np

from benchmarks.coverage.populations import HEAVIEST, sizes, uneven
from benchmarks.coverage.tally import Design, Interval, Measure, Outcome, is_found
from textassay import agreement
from textassay.agreement.choice import choice_agreement
from textassay.arrays import Codes, Floats

TRUTH_SOURCES = 8_000


class Sample(NamedTuple):
    """Scores of one or of two equally good judges, people's ratings, and clusters of rows."""

    judges: Sequence[Floats]
    human: Floats
    groups: Codes
    systems: Codes | None = None


class Draw(Protocol):
    """Draws this number of sources."""

    def __call__(self, rng: np.random.Generator, sources: int) -> Sample: ...


@dataclass(frozen=True)
class World:
    """Documents that differ in how hard they are, and systems in how good they are."""

    systems: int = 8
    skewed: bool = True
    """Whether scores and ratings are on a five-point scale, most ratings at its top."""
    spread: float = 0.3
    """Standard deviation of the quality of systems, which all draws share."""
    alike: float = 0.5
    """How strongly the judge's errors and people's errors on a text are correlated."""
    sees_quality: bool = True
    """Whether the judge prefers the systems that people prefer."""

    def __call__(self, rng: np.random.Generator, sources: int) -> Sample:
        quality = np.random.default_rng(5).normal(size=(3, self.systems)) * self.spread
        hard = rng.normal(size=(sources, 1)) * 0.7
        error = rng.normal(size=(sources, self.systems))
        human = hard + quality[0] + error
        judges = [
            # how strongly a judge reacts to a hard document differs by document, for all its rows
            0.6 * hard * rng.normal(1, 0.3, size=hard.shape)
            + rng.normal(size=hard.shape) * 0.5
            + 0.8 * quality[0 if self.sees_quality else 1]
            + self.alike * error
            + rng.normal(size=error.shape)
            for _ in range(2)
        ]
        if self.skewed:
            human = np.clip(np.round(4.6 + human), 1, 5)
            judges = [np.clip(np.round(3.5 + judge), 1, 5) for judge in judges]
        groups = np.repeat(np.arange(sources), self.systems)
        systems = np.tile(np.arange(self.systems), sources)
        return Sample([one.ravel() for one in judges], human.ravel(), groups, systems)


@dataclass(frozen=True)
class Uneven:
    """Sources of very unequal size, a share of whose ratings is the top grade."""

    top: float | None
    """That share; `None` for continuous ratings."""
    heaviest: int | None = HEAVIEST

    def __call__(self, rng: np.random.Generator, sources: int) -> Sample:
        per_source = sizes(rng, sources, self.heaviest)
        if self.top is not None:
            scores, ratings, at = uneven(rng, per_source, self.top)
            return Sample([scores], ratings, at)
        at = np.repeat(np.arange(sources), per_source)
        quality = 0.7 * rng.normal(size=sources)[at] + 0.7 * rng.normal(size=len(at))
        judges = [
            0.8 * quality + 0.4 * rng.normal(size=sources)[at] + 0.8 * rng.normal(size=len(at))
            for _ in range(2)
        ]
        return Sample(judges, quality + 0.5 * rng.normal(size=len(at)), at)


def correlations(
    draw: Draw, sources: int, level: agreement.Level = "dataset", resamples: int = 200
) -> Measure:
    """Return the intervals of the three coefficients of one judge."""

    def found(sample: Sample, resamples: int, seed: int) -> agreement.Agreement:
        return agreement.correlate(
            sample.judges[0], sample.human, groups=sample.groups, systems=sample.systems,
            level=level, bootstrap=resamples, seed=seed,
        )  # fmt: skip

    truth = found(draw(np.random.default_rng(10**6), TRUTH_SOURCES), 0, 0)

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        one = found(draw(rng, sources), resamples, seed)
        return {
            name: Interval(span.low, span.high, getattr(truth, name), warned=one.note is not None)
            for name, span in one.ci.items()
            if span.ends
        }

    return measure


def equal_judges(draw: Draw, sources: int, level: agreement.Level = "dataset") -> Measure:
    """Return whether a difference is found between two equally good judges."""

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        one = draw(rng, sources)
        a, b = one.judges
        found = agreement.compare(
            a, b, one.human, groups=one.groups, systems=one.systems, level=level,
            bootstrap=200, seed=seed,
        )  # fmt: skip
        tests = {"pearson": found.pearson.p, "spearman": found.spearman.p}
        return {f"{name} alarms": is_found(p) for name, p in tests.items() if p is not None}

    return measure


def choices(groups: int, right: float, tied: float, of_source: int) -> Measure:
    """Return the interval of the share of groups of two texts that are chosen right.

    A share `tied` are ties; each source has `of_source` correlated groups.
    """

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        sources = np.arange(groups) // of_source
        chance = np.full(groups, right)
        if of_source > 1:  # sources differ: a beta distribution of size 4
            chance = rng.beta(4 * right, 4 * (1 - right), size=groups)[sources]
        kind = np.where(rng.random(groups) < tied, 0.5, rng.random(groups) < chance)
        scores = np.stack([kind, 1 - kind], axis=1).ravel()
        twice = np.repeat(np.arange(groups), 2)
        found = choice_agreement(
            scores.tolist(), [1.0, 0.0] * groups, twice.tolist(), units=sources[twice].tolist()
        )
        low, high = found.choice.estimate.ends or (None, None)
        return {"choice": Interval(low, high, (1 - tied) * right + tied / 2)}

    return measure


def designs() -> Iterator[Design]:
    """Yield all lines."""
    for level, documents, skewed in product(agreement.LEVELS, (5, 8, 12, 30, 100), (True, False)):
        world = World(systems=16 if level == "system" else 8, skewed=skewed)
        how = f"{level}, {documents} documents, {'skewed' if skewed else 'normal'}"
        run = partial(correlations, world, documents, level)
        yield Design("agreement", how, run, span=(0.93, 1.0 if level == "system" else 0.97))
        yield Design("compare, agreement", how, partial(equal_judges, world, documents, level))
    for alike, groups, texts in product((0.5, 3.0), (16, 20, 30, 40, 80), (2, 3, 4, 6)):
        run = partial(correlations, World(systems=texts, alike=alike), groups, "group")
        how = f"group, {groups} groups of {texts}, alike by {alike}"
        yield Design("agreement", how, run, span=(0.93, 1.0))
    for spread, (documents, systems) in product(
        (0.1, 0.15, 0.2, 0.25, 0.4), ((40, 6), (40, 8), (40, 10), (100, 16))
    ):
        run = partial(correlations, World(systems, spread=spread), documents, "system")
        how = f"system, {documents} documents, {systems} systems that differ by {spread}"
        yield Design("agreement", how, run, span=(0.93, 1.0))
    for spread, systems in product((0.15, 0.3), (6, 10, 16)):
        world = World(systems, spread=spread, alike=1.0, sees_quality=False)
        how = f"system, 40 documents, {systems} that differ by {spread}, alike on texts only"
        run = partial(correlations, world, 40, "system")
        yield Design("agreement", how, run, span=(0.93, 1.0))
    uneven = {
        "heavy sizes, 1-5": Uneven(0.3),
        "heavy sizes, continuous": Uneven(None),
        "heavy sizes, 90 % fives": Uneven(0.9),
        "equal sizes, 1-5": Uneven(0.3, None),
        "equal sizes, 90 % fives": Uneven(0.9, None),
    }
    for (how, draw), sources in product(uneven.items(), (12, 20, 40)):
        run = partial(correlations, draw, sources)
        yield Design("agreement", f"data set, {how}, {sources} sources", run)
        # a third to all of these sources have a coefficient
        run = partial(correlations, draw, 3 * sources, "group")
        yield Design("agreement", f"group, {how}, {3 * sources} sources", run, span=(0.93, 1.0))
    for sources in (12, 20, 40):
        run = partial(equal_judges, Uneven(None), sources)
        yield Design("compare, agreement", f"heavy sizes, {sources} sources", run)
    for of_source, groups, right, tied in product(
        (1, 4), (15, 30, 60, 200), (0.5, 0.85, 0.95, 0.99), (0.0, 0.1)
    ):
        how = f"{groups} groups, {of_source} a source, {right} right, {tied} tied"
        yield Design("choices", how, partial(choices, groups, right, tied, of_source),
                     span=(0.92, 1.0))  # fmt: skip
