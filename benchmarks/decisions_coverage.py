"""How often 95 % intervals of `estimate`, `compare`, `calibrate` and `rank` hold the truth.

Simulated: sources with several texts, ratings on 1 to 5 that are skewed and alike within a source,
a judge that errs by source. Real: SummEval under GPT-4o, 20 of 100 sources rated, where the truth
is the mean over all of them. `benchmarks.coverage_designs` has sources of very unequal size, and
ratings that are mostly the top grade.

    python -m benchmarks.decisions_coverage [--draws 1000] [--data FOLDER]
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from textassay.agreement.correlation import Codes, Floats
from textassay.agreement.significance import compare as compare_agreement
from textassay.estimation.columns import Columns
from textassay.estimation.compare import paired_difference
from textassay.estimation.estimate import estimate_means
from textassay.estimation.maps import Scales, fit_cells, grid_of, learn_map
from textassay.estimation.means import (
    Linearized,
    Weight,
    correct_mean,
    holm,
    mean_over_groups,
    rogan_gladen,
)
from textassay.estimation.ranking import Comparisons, fit_strengths
from textassay.runtime.errors import DataError
from textassay.table import Estimate

ASPECTS = ("coherence", "consistency", "fluency", "relevance")
DESIGNS = ((10, 3), (10, 8), (20, 5), (30, 1), (40, 5), (60, 1), (200, 1))
"""Rated sources and texts of each: 30 to 200 ratings."""
SKEWS = (3.0, 4.3)
SCALE = Scales((1.0, 5.0), (1.0, 5.0))
SOURCES = 400


@dataclass
class Tally:
    """Draws whose interval held the truth, and the sum of the half-widths."""

    draws: int = 0
    held: int = 0
    widths: float = 0.0

    def add(self, found: Linearized | Estimate, truth: float) -> None:
        """Count one 95 % interval."""
        told = found.estimate(0.95) if isinstance(found, Linearized) else found
        assert told.low is not None
        assert told.high is not None
        self.draws += 1
        self.held += told.low <= truth <= told.high
        self.widths += (told.high - told.low) / 2

    @property
    def coverage(self) -> float:
        """Share of the intervals that held the truth."""
        return self.held / self.draws

    @property
    def half_width(self) -> float:
        """Mean half-width."""
        return self.widths / self.draws


def population(
    rng: np.random.Generator, sources: int, texts: int, skew: float, judged: float = 3.0
) -> tuple[Floats, Floats, Floats, Codes]:
    """Draw two judges' scores, near `judged`, ratings and sources, (sources * texts,) each."""
    source, own = rng.normal(size=(sources, 1)), rng.normal(size=(sources, texts))
    quality = 0.7 * source + 0.7 * own
    ratings = skew + quality + rng.normal(0, 0.5, quality.shape)
    errors = 0.4 * rng.normal(size=(sources, 1))
    first = judged + 0.8 * quality + errors + rng.normal(0, 0.8, quality.shape)
    second = judged - 0.2 + 0.6 * quality + errors + rng.normal(0, 0.8, quality.shape)
    graded = (np.clip(np.round(one), 1, 5).ravel() for one in (first, second, ratings))
    a, b, y = graded
    return a, b, y, np.repeat(np.arange(sources), texts)


def calibrated(scores: Floats, ratings: Floats, groups: Codes, seed: int) -> Floats:
    """Return cross-fitted calibrated scores of all rows."""
    rated = ~np.isnan(ratings)
    learned = learn_map(scores[rated], ratings[rated], groups[rated], scales=SCALE, seed=seed)
    found = learned.predict_unseen(scores)
    found[rated] = learned.cross_fitted
    return found


def estimates(draws: int, rated: int, texts: int, skew: float) -> dict[str, Tally]:
    """Return coverage of the mean with so many rated sources."""
    _, _, y, _ = population(np.random.default_rng(99), 200_000, texts, skew)
    truth = float(y.mean())
    found = {"judge only": Tally(), "labels only": Tally(), "corrected": Tally()}
    for draw in range(draws):
        a, _, y, groups = population(np.random.default_rng(draw), SOURCES, texts, skew)
        y = np.where(groups < rated, y, np.nan)
        try:
            f = calibrated(a, y, groups, draw)
        except DataError:  # equal ratings throughout: told to the user instead of an interval
            continue
        both = correct_mean(f, y, groups)
        found["judge only"].add(mean_over_groups(a, groups, SOURCES), truth)
        found["labels only"].add(both.labels_only, truth)
        found["corrected"].add(both.corrected, truth)
    return found


def comparisons(draws: int, sources: int, texts: int, skew: float) -> tuple[Tally, float]:
    """Return coverage of the difference of two judges, and the share of p below .05 without one."""
    a, b, _, _ = population(np.random.default_rng(99), 200_000, texts, skew, skew)
    truth, found, alarms = float(a.mean() - b.mean()), Tally(), 0
    for draw in range(draws):
        a, b, _, groups = population(np.random.default_rng(draw), sources, texts, skew, skew)
        found.add(paired_difference(a, b, groups, seed=draw).difference, truth)
        _, c, _, _ = population(np.random.default_rng(draw + 10**6), sources, texts, skew, skew)
        same = paired_difference(b, c, groups, seed=draw)
        alarms += same.p is not None and same.p < 0.05
    return found, alarms / draws


def intervals(draws: int, rated: int, texts: int, skew: float, coverage: float = 0.95) -> Tally:
    """Return coverage of the interval of one new text, drawn from a source without ratings."""
    found = Tally()
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        a, _, y, groups = population(rng, rated + 1, texts, skew)
        # finer ratings, as means of several raters are, so that nominal coverage can be reached
        y = np.clip(np.round((y + rng.normal(0, 0.4, len(y))) * 3) / 3, 1, 5)
        train, new = groups < rated, np.flatnonzero(groups == rated)[:1]
        try:
            learned = learn_map(a[train], y[train], groups[train], scales=SCALE, seed=draw)
        except DataError:
            continue
        grid = grid_of(y[train], SCALE.raters)
        cells = fit_cells(
            a[train], y[train], learned.cross_fitted, groups[train], grid=grid, coverage=coverage
        )
        low, high = cells.around(a[new], learned.map.predict(a[new]), grid)
        found.draws += 1
        found.held += bool(low[0] - 1e-9 <= y[new][0] <= high[0] + 1e-9)
        found.widths += float(high[0] - low[0]) / 2
    return found


def rankings(draws: int, sources: int, systems: int) -> Tally:
    """Return coverage of the difference of two systems' Bradley-Terry strengths.

    Each source's systems are compared once with each other; how much better a system is differs by
    source, so comparisons of one source are alike.
    """
    first, second = np.triu_indices(systems, 1)
    strengths = np.linspace(0.9, -0.9, systems)

    def draw(rng: np.random.Generator, sources: int) -> Comparisons:
        own = strengths + 0.8 * rng.normal(size=(sources, systems))
        chance = expit(own[:, first] - own[:, second])
        values = (rng.random(chance.shape) < chance).astype(float)
        values[rng.random(chance.shape) < 0.2] = 0.5
        codes = np.repeat(np.arange(sources), len(first))
        return Comparisons(
            np.tile(first, sources), np.tile(second, sources), values.ravel(), codes, systems
        )

    found = Tally()
    whole = fit_strengths(draw(np.random.default_rng(10**6), 10_000))
    assert whole is not None
    for seed in range(draws):
        fitted = fit_strengths(draw(np.random.default_rng(seed), sources))
        if fitted is not None:  # else the user is told that strengths are not finite
            found.add(fitted[0].minus(fitted[1]), whole[0].value - whole[1].value)
    return found


def sizes(rng: np.random.Generator, sources: int, heaviest: int) -> Codes:
    """Draw how many texts each source has: most have one, few have up to `heaviest`."""
    drawn = 1 + np.floor(rng.pareto(1.0, sources))
    return np.asarray(np.minimum(drawn, heaviest), np.intp)


def uneven(
    rng: np.random.Generator, per_source: Codes, top: float, falls: float
) -> tuple[Floats, Floats, Codes]:
    """Draw scores, ratings of which a share of about `top` is 5, and sources.

    `falls` is how much worse the texts of larger sources are.
    """
    at = np.repeat(np.arange(len(per_source)), per_source)
    n, errors = len(at), 0.4 * rng.normal(size=len(per_source))[at]
    quality = 0.7 * rng.normal(size=len(per_source))[at] + 0.7 * rng.normal(size=n)
    quality -= falls * np.log(per_source)[at]
    felt = quality + rng.normal(0, 0.5, n)
    limit = float(norm.ppf(1 - top)) * math.sqrt(2 * 0.7**2 + 0.5**2)
    ratings = np.where(felt > limit, 5.0, np.clip(np.ceil(5 + (felt - limit) / 0.6) - 1, 1, 4))
    scores = 5 - 2 * (1 - top) + 0.8 * quality + errors + rng.normal(0, 0.8, n)
    return np.clip(np.round(scores), 1, 5), ratings, at


def estimates_of_uneven(
    draws: int,
    rated: int,
    *,
    heaviest: int | None = None,
    top: float = 0.3,
    falls: float = 0.0,
    weight: Weight = "sources",
    whole: bool = True,
) -> dict[str, Tally]:
    """Return coverage of the corrected interval with and without a warning.

    A quarter of the sources is rated as a whole, or as many rows are drawn from all of them. Equal
    sources have five texts.
    """

    def per_source(rng: np.random.Generator, count: int) -> Codes:
        return np.full(count, 5) if heaviest is None else sizes(rng, count, heaviest)

    rng = np.random.default_rng(99)
    _, y, groups = uneven(rng, per_source(rng, 100_000), top, falls)
    truth = float(y.mean()) if weight == "texts" else mean_over_groups(y, groups, 100_000).value
    found = {"without": Tally(), "with a warning": Tally()}
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        many = per_source(rng, 4 * rated)
        x, y, groups = uneven(rng, many, top, falls)
        count = int(many[:rated].sum())
        drawn = groups < rated
        if not whole:
            drawn = np.isin(np.arange(len(y)), rng.choice(len(y), count, replace=False))
        columns = Columns(
            "a", "a", list(map(str, range(len(y)))), x, np.where(drawn, y, np.nan),
            np.empty((len(y), 0)), groups, True, [None] * len(y), np.zeros(len(y)), None,
            SCALE.judge, (), 0, 0,
        )  # fmt: skip
        try:
            row = estimate_means(columns, scales=SCALE, seed=draw, weight=weight).rows[0]
        except DataError:  # equal ratings throughout
            continue
        if row.corrected.low is not None:
            found["with a warning" if row.warnings else "without"].add(row.corrected, truth)
    return found


def equal_systems(draws: int, sources: int, heaviest: int, systems: int = 5) -> tuple[Tally, float]:
    """Return coverage of a difference of strengths, and the share of draws with any p below .05.

    No system is better than another; sources have up to `heaviest` rounds of comparisons.
    """
    first, second = np.triu_indices(systems, 1)
    found, alarms = Tally(), 0
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        rounds = np.repeat(np.arange(sources), sizes(rng, sources, heaviest))
        own = 0.8 * rng.normal(size=(sources, systems))[rounds]
        chance = expit(own[:, first] - own[:, second])
        values = (rng.random(chance.shape) < chance).astype(float)
        values[rng.random(chance.shape) < 0.2] = 0.5
        table = Comparisons(
            np.tile(first, len(rounds)), np.tile(second, len(rounds)), values.ravel(),
            np.repeat(rounds, len(first)), systems,
        )  # fmt: skip
        fitted = fit_strengths(table)
        if fitted is None:
            continue
        deltas = [fitted[a].minus(fitted[b]) for a, b in zip(first, second, strict=True)]
        found.add(deltas[0], 0.0)
        adjusted = [p for p in holm([delta.p_value() for delta in deltas]) if p is not None]
        alarms += min(adjusted) < 0.05
    return found, alarms / found.draws


def equal_judges(draws: int, sources: int, heaviest: int) -> float:
    """Return how often two judges who agree with people alike are told apart by Pearson's r."""
    alarms = 0
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        at = np.repeat(np.arange(sources), sizes(rng, sources, heaviest))
        quality = 0.7 * rng.normal(size=sources)[at] + 0.7 * rng.normal(size=len(at))
        a, b = (
            0.8 * quality + 0.6 * rng.normal(size=sources)[at] + 0.8 * rng.normal(size=len(at))
            for _ in range(2)
        )
        ratings = quality + 0.4 * rng.normal(size=len(at))
        found = compare_agreement(a, b, ratings, groups=at.tolist(), bootstrap=200, seed=draw)
        alarms += found.pearson.p is not None and found.pearson.p < 0.05
    return alarms / draws


YES_NO = Scales((0.0, 1.0), (0.0, 1.0))
PREVALENCES = (
    (0.5, 0.95, 0.68), (0.6, 0.9, 0.7), (0.8, 0.9, 0.6), (0.5, 0.7, 0.7), (0.6, 0.95, 0.95),
)  # fmt: skip
"""Share of yes, sensitivity and specificity."""


@dataclass
class YesNo:
    """Root mean squared errors of the share of yes, and coverage of the corrected one."""

    labels: float
    rogan_gladen: float
    corrected: float
    held: Tally


def yes_no(
    draws: int,
    prevalence: float,
    sensitivity: float,
    specificity: float,
    *,
    n: int = 300,
    rated: int = 80,
    texts: int = 1,
) -> YesNo:
    """Estimate the share of yes of `n` texts of which some are rated, whole sources of `texts`."""
    groups, held = np.arange(n) // texts, Tally()
    errors: dict[str, list[float]] = {"labels": [], "rogan_gladen": [], "corrected": []}
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        true = (rng.random(n) < prevalence).astype(float)
        correct = rng.random(n) < np.where(true == 1, sensitivity, specificity)
        answers = np.where(correct, true, 1 - true)
        y = np.where(np.arange(n) < rated, true, np.nan)
        columns = Columns(
            "a", "a", list(map(str, range(n))), answers, y, np.empty((n, 0)), groups, True,
            [None] * n, np.zeros(n), None, YES_NO.judge, (), 0, 0,
        )  # fmt: skip
        try:
            row = estimate_means(columns, scales=YES_NO, seed=draw).rows[0]
        except DataError:  # all answers or ratings are equal
            continue
        if row.corrected.low is not None:
            held.add(row.corrected, prevalence)
        other = rogan_gladen(answers, y, groups)
        estimates = {"labels": row.labels_only.value, "corrected": row.corrected.value}
        if other is not None and other.usable:
            estimates["rogan_gladen"] = min(1.0, max(0.0, other.share.value))
        for name, value in estimates.items():
            if value is not None:
                errors[name].append(value - float(true.mean()))
    return YesNo(
        **{name: float(np.sqrt(np.mean(np.square(one)))) for name, one in errors.items()}, held=held
    )


def summeval(path: Path, aspect: str, judge: str = "gpt-4o") -> tuple[Floats, Floats, Codes]:
    """Read scores, mean ratings and sources of recorded judgements."""
    scores, ratings, groups = [], [], []
    codes: dict[str, int] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            scores.append(row["metrics"][f"{judge}/{aspect}"])
            ratings.append(math.fsum(row["annotators"][aspect]) / len(row["annotators"][aspect]))
            groups.append(codes.setdefault(row["group"], len(codes)))
    return np.array(scores, float), np.array(ratings), np.array(groups, np.intp)


def real(draws: int, scores: Floats, ratings: Floats, groups: Codes) -> dict[str, Tally]:
    """Return coverage over draws of 20 rated sources of 100."""
    names = ("judge only", "labels only", "corrected", "rows as independent")
    found, count = {name: Tally() for name in names}, int(groups.max()) + 1
    for draw in range(draws):
        picked = np.random.default_rng(draw).choice(count, 20, replace=False)
        y = np.where(np.isin(groups, picked), ratings, np.nan)
        f, truth = calibrated(scores, y, groups, draw), float(ratings.mean())
        both = correct_mean(f, y, groups)
        found["judge only"].add(mean_over_groups(scores, groups, count), truth)
        found["labels only"].add(both.labels_only, truth)
        found["corrected"].add(both.corrected, truth)
        found["rows as independent"].add(correct_mean(f, y, np.arange(len(y))).corrected, truth)
    return found


def conformal(
    draws: int, scores: Floats, ratings: Floats, groups: Codes, coverage: float = 0.9
) -> dict[str, float]:
    """Return coverage and mean width on 60 sources, after 40 others taught map and intervals."""
    held, width, raw = 0.0, 0.0, 0.0
    for draw in range(draws):
        picked = np.random.default_rng(draw).choice(int(groups.max()) + 1, 40, replace=False)
        train = np.isin(groups, picked)
        x, y, at = scores[train], ratings[train], groups[train]
        learned, grid = learn_map(x, y, at, scales=SCALE, seed=draw), grid_of(y, SCALE.raters)
        cells = fit_cells(x, y, learned.cross_fitted, at, grid=grid, coverage=coverage)
        new, truth = scores[~train], ratings[~train]
        low, high = cells.around(new, learned.map.predict(new), grid)
        half = float(np.quantile(np.abs(y - x), coverage))
        ends = grid.outward(new - half, new + half)
        held += float(np.mean((truth >= low - 1e-9) & (truth <= high + 1e-9))) / draws
        width += float(np.mean(high - low)) / draws
        raw += float(np.mean(ends[1] - ends[0])) / draws
    return {"coverage": held, "width": width, "raw width": raw}


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--data", type=Path, help="folder with alttest/summeval.jsonl.gz")
    options = parser.parse_args()
    print("estimate: coverage (half-width); 400 sources")
    for skew in SKEWS:
        for rated, texts in DESIGNS:
            found = estimates(options.draws, rated, texts, skew)
            told = "  ".join(f"{k} {v.coverage:.1%} ({v.half_width:.3f})" for k, v in found.items())
            print(f"  mean near {skew}: {rated} sources x {texts}: {told}")
    print("compare: coverage, false alarms at .05")
    for skew in SKEWS:
        for sources, texts in DESIGNS:
            tally, alarms = comparisons(options.draws, sources, texts, skew)
            print(f"  {sources} sources x {texts}: {tally.coverage:.1%}, {alarms:.1%}")
    print("calibrate: coverage of 95 % intervals of one new text (half-width)")
    for skew in SKEWS:
        for rated, texts in ((30, 1), (30, 5), (40, 5), (60, 1), (200, 1)):
            one = intervals(options.draws, rated, texts, skew)
            print(f"  {rated} sources x {texts}: {one.coverage:.1%} ({one.half_width:.2f})")
    print("rank: coverage of a difference of strengths (half-width)")
    for sources, systems in ((15, 2), (15, 4), (25, 4), (60, 6), (200, 3)):
        one = rankings(options.draws, sources, systems)
        print(f"  {sources} sources x {systems} systems: {one.coverage:.1%} ({one.half_width:.2f})")
    print("yes/no estimate: 300 texts, 80 rated; root mean squared errors, coverage (half-width)")
    for design in PREVALENCES:
        errors = yes_no(options.draws, *design)
        print(
            f"  share of yes {design[0]}, sensitivity {design[1]}, specificity {design[2]}: labels"
            f" {errors.labels:.3f}, Rogan-Gladen {errors.rogan_gladen:.3f}, corrected"
            f" {errors.corrected:.3f}; {errors.held.coverage:.1%} ({errors.held.half_width:.3f})"
        )
    print("yes/no estimate of judges that hardly err: 2,000 texts; coverage (half-width)")
    for rated, texts in ((40, 1), (160, 8)):
        for sensitivity, specificity in ((0.99, 0.99), (0.99, 0.95), (0.9, 0.85)):
            errors = yes_no(
                options.draws, 0.5, sensitivity, specificity, n=2000, rated=rated, texts=texts
            )
            print(
                f"  {rated} labels, {texts} per source, sensitivity {sensitivity}, specificity"
                f" {specificity}: {errors.held.coverage:.1%} ({errors.held.half_width:.3f})"
            )
    if options.data is not None:
        for aspect in ASPECTS:
            columns = summeval(options.data / "alttest" / "summeval.jsonl.gz", aspect)
            found = real(options.draws, *columns)
            told = "  ".join(f"{k} {v.coverage:.1%} ({v.half_width:.3f})" for k, v in found.items())
            print(f"SummEval, 20 of 100 sources, {aspect}: {told}")
            print(f"  intervals for 90 %: {conformal(min(options.draws, 50), *columns)}")


if __name__ == "__main__":
    main()
