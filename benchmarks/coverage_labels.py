"""How often the intervals of `textassay.meta.label_agreement` hold the truth, simulated.

Sources differ in how often people say yes and in how often the judge errs on them. The truth is the
measure of a very large data set. Sizes run from 8 to 100 sources, and expected errors from 1 to 30.
Printed per world: the share of 95 % intervals that hold each measure, and their mean width.

    python -m benchmarks.coverage_labels [--draws 400]
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from numpy.typing import NDArray

from textassay import meta

SOURCES, SIZES, ERRORS = (8, 15, 30, 100), (1, 8), (1, 3, 10, 30)
SPREADS = (0.0, 0.2)
"""Correlation of errors, and of people's labels, within a source."""
MEASURES = ("accuracy", "tpr", "tnr", "f1", "mcc", "kappa", "ac1", "alpha_nominal")
TRUTH = 40_000
MOST_WRONG = 0.45
YES = 0.6

Codes = NDArray[np.int64]


def draw(
    sources: int, size: int, wrong: float, spread: float, rng: np.random.Generator
) -> tuple[Codes, Codes, Codes]:
    """Return the judge's labels, people's, and the sources of one data set."""

    def shares(mean: float) -> NDArray[np.float64]:
        if not spread:
            return np.full(sources, mean)
        strength = (1 - spread) / spread
        return rng.beta(mean * strength, (1 - mean) * strength, size=sources)

    groups = np.repeat(np.arange(sources), size)
    human = (rng.random(len(groups)) < shares(YES)[groups]).astype(int)
    errs = rng.random(len(groups)) < shares(wrong)[groups]
    return np.where(errs, 1 - human, human), human, groups


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    draws = parser.parse_args().draws
    print("sources rows/source errors spread  " + "  ".join(f"{name:>13}" for name in MEASURES))
    for sources, size, errors, spread in product(SOURCES, SIZES, ERRORS, SPREADS):
        wrong = errors / (sources * size)
        if wrong > MOST_WRONG or (size == 1 and spread):
            continue
        rng = np.random.default_rng(7)
        judge, human, _ = draw(TRUTH, size, wrong, spread, rng)
        truth = meta.label_agreement(judge, human).measures
        held: dict[str, list[tuple[bool, float]]] = {name: [] for name in MEASURES}
        for number in range(draws):
            judge, human, groups = draw(sources, size, wrong, spread, rng)
            found = meta.label_agreement(
                judge, human, groups=groups, bootstrap=400, seed=number
            ).measures
            for name in MEASURES:
                span, true = found[name].ci, truth[name].value
                if span is not None and true is not None:
                    held[name].append((span[0] <= true <= span[1], span[1] - span[0]))
        cells = "  ".join(
            f"{np.mean([h for h, _ in held[name]]):6.1%} {np.mean([w for _, w in held[name]]):6.3f}"
            for name in MEASURES
        )
        print(f"{sources:7} {size:11} {errors:6} {spread:6}  {cells}", flush=True)


if __name__ == "__main__":
    main()
