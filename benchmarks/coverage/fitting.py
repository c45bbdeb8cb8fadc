"""Coverage of the agreement on new texts that the report of `fit` predicts."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from scipy.stats import norm

from benchmarks.coverage.tally import Design, Interval, Measure, Outcome
from textassay import agreement
from textassay.arrays import Codes, Floats
from textassay.fitting.api import fit_sync
from textassay.fitting.feature_table import Split
from textassay.fitting.held_out import measure_held_out
from textassay.fitting.learn import Fitter, Unseen, choose, cross_fit
from textassay.fitting.read_table import read_table
from textassay.learning.aggregators import Aggregator
from textassay.learning.splits import split_rows
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import DataError

FEATURES, NEW_ROWS, TRUTH_SOURCES = 10, 20_000, 20_000
DrawRows = Callable[[np.random.Generator, int], tuple[Floats, Floats]]
DrawBoth = Callable[[np.random.Generator, int], Sequence[Floats]]
"""Draws features and ratings of training texts and of new texts."""


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


def one_good(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Draw one feature that measures the quality, and noise."""
    quality, features = rng.normal(size=n), rng.normal(size=(n, FEATURES))
    features[:, 0] += quality
    return features, np.clip(np.round(3 + quality), 1, 5)


def interaction(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Draw features of which one says whether another one is good or bad."""
    features = rng.normal(size=(n, FEATURES))
    quality = np.sign(features[:, 0]) * features[:, 1] + 0.7 * np.abs(features[:, 2])
    return features, np.clip(np.round(2.5 + quality + 0.7 * rng.normal(size=n)), 1, 5)


def with_gaps(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Draw features of which three in ten scores are missing."""
    features, ratings = judges(1.5)(rng, n)
    features[rng.random(features.shape) < 0.3] = np.nan
    return features, ratings


def mostly(share: float, least: float) -> DrawRows:
    """Draw ratings of which this share is 5, and none is below `least`."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        quality = rng.normal(size=n)
        below = np.ceil((quality - float(norm.ppf(1 - share))) / 0.5) + 4
        features = quality[:, None] + rng.normal(size=(n, FEATURES))
        graded = np.clip(np.round(features), -2, 2)
        return graded, np.where(below > 4, 5.0, np.clip(below, least, 4.0))

    return draw


FURTHER_DRAWS = {
    "one good feature of ten": one_good, "an interaction": interaction, "gaps": with_gaps,
    "85 % fives": mostly(0.85, 1.0), "85 % of two labels": mostly(0.85, 4.0),
}  # fmt: skip
ASPECTS = ("coherence", "consistency", "fluency", "relevance")
RECORDED = (
    ("36 judges", "summeval/summeval.jsonl.gz", ("gpt-", "llama-")),
    ("six judges", "alttest/summeval.jsonl.gz", ("gemini", "gpt-4o", "llama-31", "mistral-v03")),
)
"""Name, file, and beginnings of the names of features."""


def with_new(draw: DrawRows) -> DrawBoth:
    """Return a draw of rows to learn from and of many new ones."""
    return lambda rng, count: (*draw(rng, count), *draw(rng, NEW_ROWS))


def recorded(path: Path, judges: tuple[str, ...]) -> DrawBoth:
    """Return a draw of rated texts and of all others, of one of SummEval's aspects.

    All scores of the judges (beginnings of names) are features. As in all designs, the texts are
    drawn one by one.
    """
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row.get("annotators")]
    names = sorted(name for name in rows[0]["metrics"] if name.startswith(judges))
    features = np.array([[row["metrics"].get(name) for name in names] for row in rows], float)
    ratings = np.array([[fmean(row["annotators"][aspect]) for aspect in ASPECTS] for row in rows])

    def draw(rng: np.random.Generator, count: int) -> Sequence[Floats]:
        column = ratings[:, rng.integers(len(ASPECTS))]
        given = np.isin(np.arange(len(rows)), rng.choice(len(rows), count, replace=False))
        return features[given], column[given], features[~given], column[~given]

    return draw


def few_ratings(
    count: int, draw: DrawBoth, *, fraction: float | None = None, aggregator: str = "ridge"
) -> Measure:
    """Return the intervals in a report from few ratings, with the coefficients on new rows.

    `fraction` is `--train-fraction`; `None` for a report that is cross-fitted. The error of
    `shuffled` is what the report shows as r of shuffled ratings. `over avg` is the difference from
    the plain mean of the features; an alarm calls an evaluator better that is not.
    """

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        features, ratings, new, new_ratings = draw(rng, count)
        rows = [
            {"id": f"r{at}", "human": {"a": float(rating)},
             "metrics": {f"m{k}": float(value) for k, value in enumerate(own) if value == value}}
            for at, (own, rating) in enumerate(zip(features, ratings, strict=True))
        ]  # fmt: skip
        table = read_table(Examples(rows, needs_output=False), patterns=("m*",))
        fitter = Fitter({"a": (1, 5)}, seed=0, threads=1)
        if fraction is None:
            choice, unseen = cross_fit([aggregator], table, fitter, lambda _: None)
        else:
            train = split_rows(table.groups, fraction, seed=0)
            parts = Split(table.rows(train), table.rows(~train))
            choice = choose([aggregator], parts.train, fitter)
            unseen = Unseen.of_held_out(choice, parts)
        learned = choice.aggregator.predict(new)[:, 0]
        truth, of_mean = agreement.correlate(learned, new_ratings), None
        with suppress(DataError):  # the average of the features may not rise with the ratings
            plain = Aggregator("avg").fit(features, ratings[:, None]).predict(new)[:, 0]
            of_mean = agreement.pearson(plain, new_ratings)
        aspect = measure_held_out(choice, unseen, fitter)["aspects"]["a"]
        promised = aspect["agreement"]["evaluator"]
        outcomes: dict[str, Outcome] = {}
        for name in ("pearson", "spearman"):
            reached = getattr(truth, name)
            low, high = promised["ci"][name] or (None, None)
            if None not in (promised[name], reached):
                error = promised[name] - reached
                outcomes[name] = Interval(low, high, reached, error=error)
        delta = aspect["evaluator_minus"].get("avg", {}).get("pearson", {})
        if delta.get("ci") and truth.pearson is not None and of_mean is not None:
            (low, high), ahead = delta["ci"], truth.pearson - of_mean
            outcomes["over avg"] = Interval(low, high, ahead)
            if ahead <= 0:
                outcomes["better alarms"] = bool(delta["significant"])
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


def designs(data: Path | None) -> Iterator[Design]:
    """Yield all lines; lines of SummEval if the folder of the recorded judgments is given."""
    for (kind, draw), count, fraction in product(
        FEATURE_DRAWS.items(), (20, 50, 100, 300), (None, 0.5)
    ):
        how = "cross-fitted" if fraction is None else "half held out"
        run = partial(few_ratings, count, with_new(draw), fraction=fraction)
        # too wide rather than too narrow, since one correction serves all aggregators
        yield Design("fit", f"{kind} features, {count} ratings, {how}", run, 0.2, (0.93, 1.0))
    for kind, count in product(FEATURE_DRAWS, (20, 50, 100)):
        run = partial(few_ratings, count, with_new(FEATURE_DRAWS[kind]), aggregator="auto")
        yield Design("fit auto", f"{kind} features, {count} ratings", run, 0.2, (0.93, 1.0))
    for kind, count in product(FURTHER_DRAWS, (20, 50)):
        run = partial(few_ratings, count, with_new(FURTHER_DRAWS[kind]), aggregator="auto")
        yield Design("fit auto, further", f"{kind}, {count} ratings", run, 0.2, (0.93, 1.0))
    for sources, texts in ((100, 16), (40, 8)):
        run = partial(by_row, sources, texts)
        yield Design("fit --split row", f"{sources} sources of {texts}", run, 0.4)
    if data is None:
        return
    for (name, path, judges), count in product(RECORDED, (20, 50, 100)):
        draw_both = recorded(data / path, judges)
        for aggregator in ("ridge", "auto"):
            run = partial(few_ratings, count, draw_both, aggregator=aggregator)
            yield Design(f"fit {aggregator}, SummEval", f"{name}, {count} ratings", run, 0.2,
                         (0.93, 1.0))  # fmt: skip
