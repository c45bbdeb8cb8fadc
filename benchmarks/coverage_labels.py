"""How often the intervals of agreement between labels hold the truth, simulated.

Sources differ in how often people say yes and in how often the judge errs on them. The truth is the
measure of a very large data set. Sizes run from 8 to 100 sources, and expected errors from 1 to 30.
Printed per world: the share of 95 % intervals that hold each measure, and their mean width.

- `labels`: `meta.label_agreement`, of yes and no.
- `categories`: the same of four labels without an order.
- `difference`: `compare_labels`, of two judges, one of which errs half as often again.
- `sets`: `set_agreement`, of three labels of which several may apply.
- `threshold`: `agreement_at`, of a score whose threshold is chosen on half of the sources.
- `brier`: `mean_interval` of the squared errors of a probability.

    python -m benchmarks.coverage_labels [labels difference ...] [--draws 400]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from textassay import agreement
from textassay.agreement.labels import (
    MIN_SOURCES,
    agreement_at,
    compare_labels,
    mean_interval,
    set_agreement,
)
from textassay.runtime.errors import DataError

SOURCES, SIZES, ERRORS = (8, 15, 30, 100), (1, 8), (1, 3, 10, 30)
SPREADS = (0.0, 0.2)
"""Correlation of errors, and of people's labels, within a source."""
TRUTH = 40_000
MOST_WRONG = 0.45
YES = 0.6
SET_SIZE = 3
WEIGHTINGS = 400

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
Ends = tuple[float, float] | None
Sample = tuple[Any, ...]
Values = Mapping[str, tuple[float | None, Ends]]


def shares(mean: float, sources: int, spread: float, rng: np.random.Generator) -> Floats:
    """Return a probability for each source, with this mean and correlation."""
    if not spread:
        return np.full(sources, mean)
    strength = (1 - spread) / spread
    return rng.beta(mean * strength, (1 - mean) * strength, size=sources)


def draw(
    sources: int, size: int, wrong: float, spread: float, rng: np.random.Generator
) -> tuple[Codes, Codes, Codes]:
    """Return the judge's labels, people's, and the sources of one data set."""
    groups = np.repeat(np.arange(sources), size)
    human = (rng.random(len(groups)) < shares(YES, sources, spread, rng)[groups]).astype(int)
    errs = rng.random(len(groups)) < shares(wrong, sources, spread, rng)[groups]
    return np.where(errs, 1 - human, human), human, groups


def draw_categories(*world: Any) -> Sample:
    """Return the same of four labels, the first of which is half of all."""
    *_, rng = world
    judge, human, groups = draw(*world)
    label = rng.choice(4, p=[0.5, 0.25, 0.15, 0.1], size=len(human))
    other = (label + rng.integers(1, 4, size=len(human))) % 4
    return np.where(judge == human, label, other), label, groups


def draw_two(sources: int, size: int, wrong: float, spread: float, rng: Any) -> Sample:
    """Return the labels of two judges, people's, and the sources."""
    first, human, groups = draw(sources, size, wrong, spread, rng)
    more = min(MOST_WRONG, 1.5 * wrong)
    errs = rng.random(len(groups)) < shares(more, sources, spread, rng)[groups]
    return first, np.where(errs, 1 - human, human), human, groups


def draw_sets(sources: int, size: int, wrong: float, spread: float, rng: Any) -> Sample:
    """Return the judge's sets, people's, and the sources."""
    parts = [draw(sources, size, wrong / SET_SIZE, spread, rng) for _ in range(SET_SIZE)]
    judge, human = (np.stack([part[at] for part in parts], axis=1) for at in (0, 1))
    return judge, human, parts[0][2]


def draw_scores(sources: int, size: int, wrong: float, spread: float, rng: Any) -> Sample:
    """Return scores that err this often if they are cut in the middle, labels, and the sources."""
    _, human, groups = draw(sources, size, wrong, spread, rng)
    noise = np.sqrt(1 - spread) * rng.normal(size=len(human))
    noise += np.sqrt(spread) * rng.normal(size=sources)[groups]
    return human * -2 * NormalDist().inv_cdf(wrong) + noise, human, groups


def draw_probabilities(*world: Any) -> Sample:
    """Return squared errors of a probability near 0 or 1, and the sources."""
    *_, rng = world
    judge, human, groups = draw(*world)
    sure = rng.uniform(0.9, 1.0, size=len(human))
    return (np.where(judge == 1, sure, 1 - sure) - human) ** 2, groups


def of_labels(
    sample: Sample, seed: int, bootstrap: int = WEIGHTINGS, labels: Sequence[str] = ("no", "yes")
) -> Values:
    """Return value and interval of each measure of labels."""
    judge, human, groups = sample
    found = agreement.label_agreement(
        judge, human, labels=labels, groups=groups, bootstrap=bootstrap, seed=seed
    )
    return {name: (one.value, one.ci) for name, one in found.measures.items()}


def of_two(sample: Sample, seed: int, bootstrap: int = WEIGHTINGS) -> Values:
    """Return the differences of two judges."""
    *columns, groups = sample
    _, found = compare_labels(*columns, groups=groups, bootstrap=bootstrap, seed=seed)
    return {name: (one.difference, one.ci) for name, one in found.items()}


def of_sets(sample: Sample, seed: int, bootstrap: int = WEIGHTINGS) -> Values:
    """Return value and interval of each measure of sets."""
    judge, human, groups = sample
    found = set_agreement(judge, human, labels="abc", groups=groups, bootstrap=bootstrap, seed=seed)
    return {name: (one.value, one.ci) for name, one in found.measures.items()}


def of_brier(sample: Sample, seed: int, bootstrap: int = WEIGHTINGS) -> Values:
    """Return the mean squared error."""
    errors, groups = sample
    ends = mean_interval(errors, groups, resamples=bootstrap, seed=seed) if bootstrap else None
    return {"brier": (float(errors.mean()), ends)}


class Kind(NamedTuple):
    """How one kind of interval is tried."""

    draw: Callable[..., Sample]
    measure: Callable[..., Values]
    names: tuple[str, ...]


_OF_TWO = ("accuracy", "tpr", "tnr", "f1", "mcc", "kappa", "ac1", "alpha_nominal")
KINDS = {
    "labels": Kind(draw, of_labels, _OF_TWO),
    "categories": Kind(
        draw_categories,
        partial(of_labels, labels="abcd"),
        ("accuracy", "balanced_accuracy", "macro_f1", "mcc", "kappa", "ac1", "alpha_nominal"),
    ),
    "difference": Kind(draw_two, of_two, _OF_TWO),
    "sets": Kind(
        draw_sets,
        of_sets,
        ("exact", "jaccard", "macro_f1", "micro_f1", "macro_kappa", "alpha_masi"),
    ),
    "threshold": Kind(draw_scores, of_labels, _OF_TWO),
    "brier": Kind(draw_probabilities, of_brier, ("brier",)),
}


def try_once(
    kind: str, sample: Sample, large: Sample, true: Values, seed: int
) -> tuple[Values, Values]:
    """Return values and intervals of one drawn data set, and the true values."""
    if kind != "threshold":
        return KINDS[kind].measure(sample, seed), true
    scores, human, groups = sample
    try:
        found, cut = agreement_at(scores, human, groups=groups, bootstrap=WEIGHTINGS, seed=seed)
    except DataError:  # one half of the sources has one label only
        return {}, {}
    # the truth is that of the threshold that was chosen
    true = of_labels((cut.apply(large[0]), large[1], large[2]), 0, 0)
    return {name: (one.value, one.ci) for name, one in found.measures.items()}, true


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=list(KINDS), choices=[[], *KINDS])
    parser.add_argument("--draws", type=int, default=400)
    given = parser.parse_args()
    for kind in given.kinds:
        own = KINDS[kind]
        print(f"{kind}\nsources rows/source errors spread  "
              + "  ".join(f"{name:>13.13}" for name in own.names))  # fmt: skip
        covered: list[float] = []
        for sources, size, errors, spread in product(SOURCES, SIZES, ERRORS, SPREADS):
            wrong = errors / (sources * size)
            if wrong > MOST_WRONG or (size == 1 and spread):
                continue
            if kind == "threshold" and sources < MIN_SOURCES:
                continue
            rng = np.random.default_rng(7)
            world = (sources, size, wrong, spread)
            # of each threshold that was chosen the truth is computed anew
            many = TRUTH // 4 if kind == "threshold" else TRUTH
            large = own.draw(many, size, wrong, spread, rng)
            truth = {} if kind == "threshold" else own.measure(large, 0, 0)
            held: dict[str, list[tuple[bool, float]]] = {name: [] for name in own.names}
            for number in range(given.draws):
                sample = own.draw(*world, rng)
                found, actual = try_once(kind, sample, large, truth, number)
                for name in own.names if found else ():
                    (_, ends), (true, _) = found[name], actual[name]
                    if ends is not None and true is not None:
                        held[name].append((ends[0] <= true <= ends[1], ends[1] - ends[0]))
            rates = {name: float(np.mean([h for h, _ in one])) for name, one in held.items() if one}
            covered += rates.values()
            cells = "  ".join(
                f"{rates[name]:6.1%} {np.mean([w for _, w in held[name]]):6.3f}"
                if name in rates
                else " " * 13
                for name in own.names
            )
            print(f"{sources:7} {size:11} {errors:6} {spread:6}  {cells}", flush=True)
        print(f"{kind}: {min(covered):.1%} to {max(covered):.1%}, mean {np.mean(covered):.1%}\n")


if __name__ == "__main__":
    main()
