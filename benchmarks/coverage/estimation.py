"""Coverage of `estimate`, `compare`, `calibrate`, `rank` and `alt-test`.

Simulated: sources with several texts, ratings on 1 to 5 that are skewed and alike within a source,
a judge that errs by source. Recorded: SummEval under GPT-4o, 20 of 100 sources rated, where the
truth is the mean over all of them.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import expit

from benchmarks.coverage.populations import HEAVIEST, even, sizes, uneven
from benchmarks.coverage.tally import Design, Interval, Measure, Outcome, is_found
from textassay.arrays import Codes, Floats
from textassay.estimation.alt_test import alt_test
from textassay.estimation.columns import Columns
from textassay.estimation.compare_rows import DOUBTFUL_P, FEW_SOURCES
from textassay.estimation.estimate import MeanSettings, estimate_means
from textassay.estimation.maps import MapScales, fit_cells, grid_of, learn_map
from textassay.estimation.means import (
    Linearized,
    MeanUnit,
    correct_mean,
    holm,
    mean_over_groups,
    rogan_gladen,
)
from textassay.estimation.paired import paired_difference
from textassay.estimation.ranking import Comparisons, fit_strengths
from textassay.table import Estimate

ASPECTS = ("coherence", "consistency", "fluency", "relevance")
SCALE, YES_NO = MapScales((1.0, 5.0), (1.0, 5.0)), MapScales((0.0, 1.0), (0.0, 1.0))
SOURCES, TRUTH_SOURCES = 400, 200_000
DESIGNS = ((10, 3), (10, 8), (20, 5), (30, 1), (40, 5), (60, 1), (200, 1))
"""Rated sources and texts of each: 30 to 200 ratings."""
SKEWS = (3.0, 4.3)
"""Means of the ratings before they are cut to 1 to 5."""
TOPS = {"spread": 0.3, "70 % fives": 0.7, "82 % fives": 0.82, "90 % fives": 0.9}
PREVALENCES = (
    (0.5, 0.95, 0.68), (0.6, 0.9, 0.7), (0.8, 0.9, 0.6), (0.5, 0.7, 0.7), (0.6, 0.95, 0.95),
)  # fmt: skip
"""Share of yes, sensitivity and specificity."""


def interval(
    found: Linearized | Estimate, truth: float, *, warned: bool = False, error: float | None = None
) -> Interval:
    """Return the 95 % interval of an estimate."""
    ends = found.estimate(0.95) if isinstance(found, Linearized) else found
    return Interval(ends.low, ends.high, truth, warned, error)


def columns(
    scores: Floats, ratings: Floats, groups: Codes, scales: MapScales, systems: int | None = None
) -> Columns:
    """Return the table that `estimate` reads from files; `systems` take turns within a source."""
    n = len(scores)
    return Columns(
        "a", "a", list(map(str, range(n))), scores, ratings, np.empty((n, 0)), groups, True,
        [None if systems is None else f"s{i % systems}" for i in range(n)], np.zeros(n), None,
        scales.judge, (), 0, 0,
    )  # fmt: skip


def corrected(
    scores: Floats, ratings: Floats, groups: Codes, seed: int
) -> Mapping[str, Linearized]:
    """Return the means of ratings alone and of calibrated scores, of rows as independent too."""
    rated = ~np.isnan(ratings)
    learned = learn_map(scores[rated], ratings[rated], groups[rated], scales=SCALE, seed=seed)
    calibrated = learned.predict_unseen(scores)
    calibrated[rated] = learned.cross_fitted
    both = correct_mean(calibrated, ratings, groups)
    by_row = correct_mean(calibrated, ratings, np.arange(len(ratings)))
    return {
        "labels only": both.labels_only,
        "corrected": both.corrected,
        "rows as independent": by_row.corrected,
    }


def means(rated: int, texts: int, skew: float) -> Measure:
    """Return the estimated mean of equally large sources, some of which are rated."""
    _, _, y, _ = even(np.random.default_rng(99), TRUTH_SOURCES, texts, skew)
    truth = float(y.mean())

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        a, _, y, groups = even(rng, SOURCES, texts, skew)
        found = corrected(a, np.where(groups < rated, y, np.nan), groups, seed)
        return {name: interval(found[name], truth) for name in ("labels only", "corrected")}

    return measure


def uneven_means(
    rated: int,
    *,
    heaviest: int | None = None,
    top: float = 0.3,
    falls: float = 0.0,
    weight: MeanUnit = "sources",
    whole: bool = True,
) -> Measure:
    """Return the corrected mean, with a warning or without.

    A quarter of the sources is rated as a whole, or as many rows are drawn from all of them.
    """
    rng = np.random.default_rng(99)
    _, y, groups = uneven(rng, sizes(rng, 100_000, heaviest), top, falls)
    truth = float(y.mean()) if weight == "texts" else mean_over_groups(y, groups, 100_000).value

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        many = sizes(rng, 4 * rated, heaviest)
        x, y, groups = uneven(rng, many, top, falls)
        drawn = groups < rated
        if not whole:
            count = int(many[:rated].sum())
            drawn = np.isin(np.arange(len(y)), rng.choice(len(y), count, replace=False))
        table = columns(x, np.where(drawn, y, np.nan), groups, SCALE)
        settings = MeanSettings(seed=seed, weight=weight)
        row = estimate_means(table, scales=SCALE, settings=settings).rows[0]
        return {"corrected": interval(row.corrected, truth, warned=bool(row.warnings))}

    return measure


def of_table(table: Columns, truth: float, seed: int, weight: MeanUnit = "sources") -> Interval:
    """Return the corrected mean of all rows as a user sees it, with a warning or without."""
    settings = MeanSettings(seed=seed, weight=weight)
    row = estimate_means(table, scales=SCALE, settings=settings).rows[0]
    return interval(row.corrected, truth, warned=bool(row.warnings))


JUDGES: dict[str, Callable[[np.random.Generator, Floats, Floats], Floats]] = {
    "usual": lambda rng, x, y: x,
    "constant": lambda rng, x, y: np.where(rng.random(len(x)) < 0.02, 4.0, 3.0),
    "contrary": lambda rng, x, y: 6 - x,
    "random": lambda rng, x, y: rng.integers(1, 6, len(x)).astype(float),
    "nearly perfect": lambda rng, x, y: np.where(
        rng.random(len(y)) < 0.03, np.maximum(y - 1, 1.0), y
    ),
}
"""Scores of judges, made of usual scores and the ratings."""


def judged_by(judge: str, rated: int, texts: int, skew: float) -> Measure:
    """Return the mean with one of the `JUDGES`."""
    _, _, y, _ = even(np.random.default_rng(99), TRUTH_SOURCES, texts, skew)
    truth = float(y.mean())

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        x, _, y, at = even(rng, SOURCES, texts, skew)
        scores, given = JUDGES[judge](rng, x, y), np.where(at < rated, y, np.nan)
        return {"corrected": of_table(columns(scores, given, at, SCALE), truth, seed)}

    return measure


def one_large(share: float, weight: MeanUnit, worse: float = 0.0, rated: int = 30) -> Measure:
    """Return the mean where one source of 121 has this share of the texts, and a quarter is rated.

    `worse` is how much lower the quality of the large source is.
    """

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        many = np.ones(4 * rated + 1, np.intp)
        many[rng.integers(len(many))] = round(share / (1 - share) * 4 * rated)
        at = np.repeat(np.arange(len(many)), many)
        quality = 0.7 * rng.normal(size=len(many))[at] + 0.7 * rng.normal(size=len(at))
        quality -= worse * (many[at] > 1)
        x, y = _graded(rng, quality, at)
        truth = float(y.mean()) if weight == "texts" else mean_over_groups(y, at, len(many)).value
        table = columns(x, np.where(at < rated, y, np.nan), at, SCALE)
        return {"corrected": of_table(table, truth, seed, weight)}

    return measure


def drifting(drift: float, what: str, where: str, rated: int) -> Measure:
    """Return the mean of 150 sources of two texts along which the judge's scores fall.

    `what` falls by `drift` in all: the scores alone (`judge`), or quality and scores with it.
    Rated are the `first` sources, the `last`, or some drawn at `random`.
    """

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        at = np.repeat(np.arange(150), 2)
        lost = drift * at / 150
        quality = 0.7 * rng.normal(size=150)[at] + 0.7 * rng.normal(size=300)
        of_both = lost if what == "quality" else np.zeros(300)
        x, y = _graded(rng, quality + 0.3 - of_both, at, lost - of_both)
        order = {"first": np.arange(150), "last": np.arange(150)[::-1]}
        picked = order.get(where, rng.permutation(150))[:rated]
        table = columns(x, np.where(np.isin(at, picked), y, np.nan), at, SCALE)
        return {"corrected": of_table(table, mean_over_groups(y, at, 150).value, seed)}

    return measure


def _graded(
    rng: np.random.Generator, quality: Floats, at: Codes, lost: Floats | float = 0.0
) -> tuple[Floats, Floats]:
    """Return a judge's scores, which lack `lost`, and ratings."""
    errors = 0.4 * rng.normal(size=at.max() + 1)[at] + 0.8 * rng.normal(size=len(at))
    felt = quality + 0.5 * rng.normal(size=len(at))
    graded = (np.clip(np.round(3 + o), 1, 5) for o in (0.8 * quality - lost + errors, felt))
    x, y = graded
    return x, y


def yes_no(
    prevalence: float,
    sensitivity: float,
    specificity: float,
    *,
    n: int = 300,
    rated: int = 80,
    texts: int = 1,
) -> Measure:
    """Return the share of yes of `n` texts, `texts` a source, of which some are rated.

    The errors are from the share of yes among these texts.
    """
    groups = np.arange(n) // texts

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        true = (rng.random(n) < prevalence).astype(float)
        correct = rng.random(n) < np.where(true == 1, sensitivity, specificity)
        answers, share = np.where(correct, true, 1 - true), float(true.mean())
        y = np.where(np.arange(n) < rated, true, np.nan)
        table = columns(answers, y, groups, YES_NO)
        row = estimate_means(table, scales=YES_NO, settings=MeanSettings(seed=seed)).rows[0]
        other = rogan_gladen(answers, y, groups)
        values = {"labels only": row.labels_only.value, "corrected": row.corrected.value}
        if other is not None and other.usable:
            values["Rogan-Gladen"] = min(1.0, max(0.0, other.share.value))
        outcomes: dict[str, Outcome] = {
            name: Interval(None, None, prevalence, error=value - share)
            for name, value in values.items()
            if value is not None
        }
        if row.corrected.value is not None:
            error = row.corrected.value - share
            outcomes["corrected"] = interval(row.corrected, prevalence, error=error)
        return outcomes

    return measure


def equal_means(rated: int, heaviest: int | None) -> Measure:
    """Return whether `estimate --by system` finds a difference among five equal systems."""

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        per = np.full(4 * rated, 1) if heaviest is None else sizes(rng, 4 * rated, heaviest)
        # five systems write about each text's source alike
        x, y, groups = uneven(rng, 5 * per, TOPS["spread"])
        table = columns(x, np.where(groups < rated, y, np.nan), groups, SCALE, systems=5)
        settings = MeanSettings(seed=seed)
        found = estimate_means(table, scales=SCALE, by_system=True, settings=settings).differences
        return {"alarms": any(is_found(one.p_holm) for one in found)}

    return measure


def differences(sources: int, texts: int, skew: float) -> Measure:
    """Return the difference of two judges, and whether one is found between two draws of one."""
    a, b, _, _ = even(np.random.default_rng(99), TRUTH_SOURCES, texts, skew, skew)
    truth = float(a.mean() - b.mean())

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        a, b, _, groups = even(rng, sources, texts, skew, skew)
        _, c, _, _ = even(np.random.default_rng(seed + 10**6), sources, texts, skew, skew)
        return {
            "difference": interval(paired_difference(a, b, groups, seed=seed).difference, truth),
            "alarms": is_found(paired_difference(b, c, groups, seed=seed).p),
        }

    return measure


def equal_scores(sources: int, noise: Callable[..., Floats]) -> Measure:
    """Return whether `compare` finds a difference without a warning that is not there."""
    # as a user sees it: a p-value with a warning (`DOUBTFUL_P`) is not an alarm
    limit = DOUBTFUL_P if sources < FEW_SOURCES else 0.05

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        at = np.repeat(np.arange(sources), sizes(rng, sources, HEAVIEST))
        gap = noise(rng, size=sources)[at] + 0.5 * rng.normal(size=len(at))
        p = paired_difference(gap, np.zeros(len(gap)), at, seed=seed).p
        return {"alarms": is_found(p, limit)}

    return measure


def single_texts(
    draw: Callable[[np.random.Generator, int], tuple[Floats, Floats, Codes]],
    rated: int,
    coverage: float,
) -> Measure:
    """Return the interval of one text of a source without ratings."""

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        x, y, groups = draw(rng, rated + 1)
        train, new = groups < rated, np.flatnonzero(groups == rated)[:1]
        learned = learn_map(x[train], y[train], groups[train], scales=SCALE, seed=seed)
        grid = grid_of(y[train], SCALE.raters)
        cells = fit_cells(
            x[train], y[train], learned.cross_fitted, groups[train], grid=grid, coverage=coverage
        )
        low, high = cells.around(x[new], learned.map.predict(x[new]), grid)
        return {"rating": Interval(low[0] - 1e-9, high[0] + 1e-9, y[new][0])}

    return measure


def fine(
    rng: np.random.Generator, sources: int, texts: int, skew: float
) -> tuple[Floats, Floats, Codes]:
    """Draw thirds of grades, as means of raters are, so that nominal coverage can be reached."""
    a, _, y, groups = even(rng, sources, texts, skew)
    return a, np.clip(np.round((y + rng.normal(0, 0.4, len(y))) * 3) / 3, 1, 5), groups


def whole(rng: np.random.Generator, sources: int, top: float) -> tuple[Floats, Floats, Codes]:
    """Draw whole grades, many of them the highest."""
    return uneven(rng, sizes(rng, sources, None), top)


def strengths(sources: int, systems: int = 5, heaviest: int = 1, best: float = 0.0) -> Measure:
    """Return the difference of the first two systems' Bradley-Terry strengths.

    Strengths fall from `best` to its opposite; 0 has any difference found among equal ones. How
    much better a system is differs by source. A source has up to `heaviest` rounds in which all
    systems are compared with each other.
    """
    first, second = np.triu_indices(systems, 1)
    true = np.linspace(best, -best, systems)

    def draw(rng: np.random.Generator, sources: int) -> Comparisons:
        rounds = np.repeat(np.arange(sources), sizes(rng, sources, heaviest))
        own = (true + 0.8 * rng.normal(size=(sources, systems)))[rounds]
        chance = expit(own[:, first] - own[:, second])
        values = (rng.random(chance.shape) < chance).astype(float)
        values[rng.random(chance.shape) < 0.2] = 0.5
        return Comparisons(
            np.tile(first, len(rounds)), np.tile(second, len(rounds)), values.ravel(),
            np.repeat(rounds, len(first)), systems,
        )  # fmt: skip

    truth = 0.0
    if best:
        large = fit_strengths(draw(np.random.default_rng(10**6), 10_000))
        assert large is not None
        truth = large[0].value - large[1].value

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        fitted = fit_strengths(draw(rng, sources))
        if fitted is None:  # the command reports that strengths are not finite
            return {}
        outcomes: dict[str, Outcome] = {"difference": interval(fitted[0].minus(fitted[1]), truth)}
        if not best:
            deltas = [fitted[a].minus(fitted[b]) for a, b in zip(first, second, strict=True)]
            outcomes["alarms"] = any(map(is_found, holm([one.p_value() for one in deltas])))
        return outcomes

    return measure


def stand_ins(sources: int, raters: int, heaviest: int | None) -> Measure:
    """Return whether a judge that is as good as the raters passes `alt-test` without a reward."""

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        at = np.repeat(np.arange(sources), sizes(rng, sources, heaviest))
        quality = 0.7 * rng.normal(size=sources)[at] + 0.7 * rng.normal(size=len(at))
        # raters and judge err by source, too
        own = 0.3 * rng.normal(size=(sources, raters + 1))[at]
        given = quality[:, None] + own + 0.8 * rng.normal(size=own.shape)
        found = alt_test(given[:, -1], given[:, :-1], at, epsilon=0.0, seed=seed)
        return {"alarms": found.judge.passes}

    return measure


Recorded = tuple[Floats, Floats, Codes]
"""Scores, mean ratings and sources."""


def read_summeval(path: Path, aspect: str, judge: str = "gpt-4o") -> Recorded:
    """Read recorded judgments."""
    scores, ratings, groups = [], [], []
    codes: dict[str, int] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            scores.append(row["metrics"][f"{judge}/{aspect}"])
            ratings.append(math.fsum(row["annotators"][aspect]) / len(row["annotators"][aspect]))
            groups.append(codes.setdefault(row["group"], len(codes)))
    return np.array(scores, float), np.array(ratings), np.array(groups, np.intp)


def recorded_means(recorded: Recorded) -> Measure:
    """Return the mean, with 20 rated sources of 100."""
    scores, ratings, groups = recorded
    truth, count = float(ratings.mean()), int(groups.max()) + 1
    judge_only = interval(mean_over_groups(scores, groups, count), truth)

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        picked = rng.choice(count, 20, replace=False)
        y = np.where(np.isin(groups, picked), ratings, np.nan)
        found = corrected(scores, y, groups, seed)
        return {"judge only": judge_only} | {
            name: interval(one, truth) for name, one in found.items()
        }

    return measure


def recorded_texts(recorded: Recorded, coverage: float = 0.9) -> Measure:
    """Return the intervals of the texts of 60 sources, after 40 others taught map and intervals.

    `raw` are the scores themselves, with intervals that contain as many of the taught ratings.
    """
    scores, ratings, groups = recorded

    def measure(rng: np.random.Generator, seed: int) -> Mapping[str, Outcome]:
        train = np.isin(groups, rng.choice(int(groups.max()) + 1, 40, replace=False))
        x, y, at = scores[train], ratings[train], groups[train]
        learned, grid = learn_map(x, y, at, scales=SCALE, seed=seed), grid_of(y, SCALE.raters)
        cells = fit_cells(x, y, learned.cross_fitted, at, grid=grid, coverage=coverage)
        new, truth = scores[~train], ratings[~train]
        half = float(np.quantile(np.abs(y - x), coverage))
        both = {
            "calibrated": cells.around(new, learned.map.predict(new), grid),
            "raw": grid.outward(new - half, new + half),
        }
        return {
            name: [
                Interval(low - 1e-9, high + 1e-9, one)
                for low, high, one in zip(*ends, truth, strict=True)
            ]
            for name, ends in both.items()
        }

    return measure


def designs(data: Path | None) -> Iterator[Design]:
    """Yield all lines; lines of SummEval if the folder of the recorded judgments is given."""
    for skew, (rated, texts) in product(SKEWS, DESIGNS):
        how = f"mean near {skew}, {rated} sources of {texts}"
        yield Design("estimate", how, partial(means, rated, texts, skew))
        yield Design("compare", how, partial(differences, rated, texts, skew))
    heavy = {"heaviest": HEAVIEST}
    for top, how, kind in (
        ("spread", "equal sizes", {}),
        ("spread", "heavy sizes", heavy),
        ("spread", "heavy sizes, rows", heavy | {"whole": False}),
        ("90 % fives", "equal sizes", {}),
        ("90 % fives", "equal sizes, rows", {"whole": False}),
        ("90 % fives", "heavy sizes", heavy),
        ("90 % fives", "heavy sizes, rows", heavy | {"whole": False}),
        ("82 % fives", "equal sizes", {}),
        ("70 % fives", "equal sizes", {}),
        ("spread", "larger is worse, of sources", heavy | {"falls": 0.4}),
        ("spread", "larger is worse, of texts", heavy | {"falls": 0.4, "weight": "texts"}),
    ):
        for rated in (20, 40, 100):
            run = partial(uneven_means, rated, top=TOPS[top], **kind)
            yield Design("estimate", f"{top}, {how}, {rated} sources", run)
    for rated, skew in product((8, 12, 16, 25), SKEWS):
        run = partial(judged_by, "usual", rated, 1, skew)
        yield Design("estimate, few", f"{rated} ratings, mean near {skew}", run)
    for judge, rated in product(JUDGES, (15, 40)):
        run = partial(judged_by, judge, rated, 2, SKEWS[0])
        yield Design("estimate, judges", f"{judge}, {rated} sources of 2", run)
    weights: tuple[MeanUnit, ...] = ("sources", "texts")
    for weight, share, worse in product(weights, (0.1, 0.3, 0.6), (0.0, 1.0)):
        how = f"{share:.0%} of the texts in one source, worse by {worse}, of {weight}"
        yield Design("estimate, one source", how, partial(one_large, share, weight, worse))
    for what, drift, where, rated in product(
        ("judge", "quality"), (0.0, 0.6, 1.2), ("first", "last", "random"), (20, 40)
    ):
        how = f"{what} falls by {drift}, {rated} rated: {where}"
        yield Design("estimate, drift", how, partial(drifting, drift, what, where, rated))
    for yes, rated in product((0.02, 0.05, 0.95, 0.98), (50, 100, 200)):
        run = partial(yes_no, yes, 0.9, 0.93, n=2000, rated=rated)
        yield Design("estimate, rare", f"{yes} yes, {rated} labels", run, span=(0.93, 1.0))
    for yes, sensitivity, specificity in PREVALENCES:
        how = f"{yes} yes, sensitivity {sensitivity}, specificity {specificity}"
        run = partial(yes_no, yes, sensitivity, specificity)
        yield Design("estimate, yes/no", how, run, span=(0.93, 0.99))
    for (labels, texts), (sensitivity, specificity) in product(
        ((40, 1), (160, 8)), ((0.99, 0.99), (0.99, 0.95), (0.9, 0.85))
    ):
        how = f"{labels} labels, {texts} a source, judge {sensitivity} and {specificity}"
        run = partial(yes_no, 0.5, sensitivity, specificity, n=2000, rated=labels, texts=texts)
        yield Design("estimate, yes/no", how, run, span=(0.93, 1.0))
    for rated, heaviest in ((12, None), (20, None), (40, None), (20, 8)):
        how = f"{'heavy' if heaviest else 'equal'} sizes, {rated} sources"
        yield Design("estimate --by system", how, partial(equal_means, rated, heaviest), 0.5)
    noises: dict[str, Callable[..., Floats]] = {
        "normal": lambda rng, size: rng.normal(size=size),
        "t3": lambda rng, size: rng.standard_t(3, size),
        # skewed, so that signs are not exchangeable though the mean is 0
        "exponential": lambda rng, size: rng.exponential(size=size) - 1,
        "lognormal": lambda rng, size: rng.lognormal(size=size) - math.exp(0.5),
    }
    for (name, noise), sources in product(noises.items(), (8, 12, 20, 40)):
        run = partial(equal_scores, sources, noise)
        yield Design("compare", f"heavy sizes, {name}, {sources} sources", run)
    for raters, sources, heaviest in (
        (3, 8, None),
        (3, 20, None),
        (3, 20, HEAVIEST),
        (5, 20, None),
    ):
        how = f"{raters} raters, {sources} sources{', heavy sizes' if heaviest else ''}"
        yield Design("alt-test", how, partial(stand_ins, sources, raters, heaviest))
    for skew, (rated, texts) in product(SKEWS, ((30, 1), (30, 5), (40, 5), (60, 1), (200, 1))):
        run = partial(single_texts, partial(fine, texts=texts, skew=skew), rated, 0.95)
        yield Design("calibrate", f"95 %, mean near {skew}, {rated} sources of {texts}", run)
    for top, rated in product(("spread", "90 % fives"), (12, 20, 40, 100)):
        run = partial(single_texts, partial(whole, top=TOPS[top]), rated, 0.9)
        # grades are few, so that an interval of whole grades holds more than 90 %
        yield Design("calibrate", f"90 %, {top}, {rated} sources", run, span=(0.88, 0.99))
    for sources, systems in ((15, 2), (15, 4), (25, 4), (60, 6), (200, 3)):
        run = partial(strengths, sources, systems, best=0.9)
        yield Design("rank", f"{systems} systems, {sources} sources", run)
    for heaviest, sources in ((5, 20), (15, 8), (15, 12), (15, 20), (15, 40), (15, 100)):
        run = partial(strengths, sources, heaviest=heaviest)
        yield Design("rank", f"equal systems, 1 to {heaviest} rounds, {sources} sources", run)
    if data is None:
        return
    for aspect in ASPECTS:
        recorded = read_summeval(data / "alttest" / "summeval.jsonl.gz", aspect)
        yield Design("estimate, SummEval", aspect, partial(recorded_means, recorded))
        yield Design("calibrate, SummEval", f"90 %, {aspect}", partial(recorded_texts, recorded),
                     0.1, (0.88, 0.99))  # fmt: skip
