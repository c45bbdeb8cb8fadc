"""Coverage of the agreement that the report of `fit` promises on new texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks.coverage.tally import Design, Interval, Measure, Outcome
from textassay import agreement
from textassay.agreement.correlation import Codes, Floats
from textassay.fitting.api import fit_sync
from textassay.learning.aggregators import Aggregator

FEATURES, NEW_ROWS, TRUTH_SOURCES = 10, 20_000, 20_000
DrawRows = Callable[[np.random.Generator, int], tuple[Floats, Floats]]


def judges(noise: float) -> DrawRows:
    """Draw features that all measure the quality, with noise of which a quarter is shared."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        quality = rng.normal(size=n)
        shared = quality + noise * 0.5 * rng.normal(size=n)
        features = shared[:, None] + noise * 0.87 * rng.normal(size=(n, FEATURES))
        return features, np.clip(np.round(3 + quality), 1, 5)

    return draw


def criteria(share: float) -> DrawRows:
    """Draw independent features that are equal parts of this share of the ratings' variance."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        features = rng.normal(size=(n, FEATURES))
        known = features.sum(axis=1) / math.sqrt(FEATURES)
        quality = math.sqrt(share) * known + math.sqrt(1 - share) * rng.normal(size=n)
        return features, np.clip(np.round(3 + quality), 1, 5)

    return draw


FEATURE_DRAWS = {
    "good": judges(1.5), "weak": judges(3.9), "good criteria as": criteria(0.6),
    "weak criteria as": criteria(0.2),
}  # fmt: skip
"""Features that correlate with the ratings at .55 and .25 each, or .77 and .45 together."""


def few_ratings(count: int, draw: DrawRows, fraction: float | None) -> Measure:
    """Return Pearson's r of a ridge regression, promised from few ratings and reached on new rows.

    `fraction` is that of `--train-fraction`; `None` for a report that is cross-fitted. The error of
    `shuffled` is what the report shows as r of shuffled ratings.
    """

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        features, ratings = draw(rng, count)
        rows = [
            {"id": f"r{at}", "human": {"a": float(rating)},
             "metrics": {f"m{k}": float(value) for k, value in enumerate(own)}}
            for at, (own, rating) in enumerate(zip(features, ratings, strict=True))
        ]  # fmt: skip
        found = fit_sync(rows, features="m*", scales={"a": (1, 5)}, aggregator="ridge",
                         train_fraction=fraction)  # fmt: skip
        new, ratings = draw(rng, NEW_ROWS)
        learned = Aggregator.from_dict(found.evaluator.aggregator)
        truth = agreement.pearson(learned.predict(new)[:, 0], ratings)
        assert truth is not None
        aspect = found.report["held_out"]["aspects"]["a"]
        promised = aspect["agreement"]["evaluator"]
        low, high = promised["ci"]["pearson"] or (None, None)
        outcomes = {"pearson": Interval(low, high, truth, error=promised["pearson"] - truth)}
        if "shuffled" in aspect:
            zero = aspect["shuffled"]["pearson"]
            outcomes["shuffled"] = Interval(None, None, 0.0, error=zero)
        return outcomes

    return measure


def by_row(sources: int, texts: int) -> Measure:
    """Return Pearson's r in the report of `--split row`, for an average: nothing is learned."""

    def draw(rng: np.random.Generator, count: int) -> tuple[Floats, Floats, Codes]:
        at = np.repeat(np.arange(count), texts)
        quality = 0.7 * rng.normal(size=count)[at] + 0.7 * rng.normal(size=len(at))
        judges = quality[:, None] + 0.6 * rng.normal(size=(count, 2))[at]
        return judges + 0.8 * rng.normal(size=judges.shape), quality, at

    judges, quality, _ = draw(np.random.default_rng(99), TRUTH_SOURCES)
    truth = agreement.pearson(judges.mean(axis=1), quality)
    assert truth is not None

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        judges, quality, at = draw(rng, sources)
        rows: list[dict[str, Any]] = [
            {"id": str(i), "output": "-", "group": str(at[i]), "human": {"q": quality[i]},
             "metrics": {"a": judges[i, 0], "b": judges[i, 1]}}
            for i in range(len(at))
        ]  # fmt: skip
        report = fit_sync(
            rows, features=("a", "b"), aggregator="avg", split="row", train_fraction=0.5, seed=seed
        ).report
        evaluator = report["held_out"]["aspects"]["q"]["agreement"]["evaluator"]
        low, high = evaluator["ci"]["pearson"]
        return {"pearson": Interval(low, high, truth)}

    return measure


def designs() -> Iterator[Design]:
    """Yield all lines."""
    for (kind, draw), count, fraction in product(
        FEATURE_DRAWS.items(), (20, 50, 100, 300), (None, 0.5)
    ):
        how = "cross-fitted" if fraction is None else "half held out"
        run = partial(few_ratings, count, draw, fraction)
        yield Design("fit", f"{kind} features, {count} ratings, {how}", run, 0.2)
    for sources, texts in ((100, 16), (40, 8)):
        run = partial(by_row, sources, texts)
        yield Design("fit --split row", f"{sources} sources of {texts}", run, 0.4)
