"""How often `fit`'s report of few ratings holds the agreement that its evaluator has on new texts.

    python -m benchmarks.few_ratings [--aggregator ridge] [--draws 100] [--sizes 20 50 100 300]

Each draw has ratings of one aspect and ten features, good ones (each correlates with the ratings at
.55) or weak ones (.25). The truth is Pearson's r of the shipped evaluator on 20,000 new rows; of
`--train-fraction 0.5` that of what learned from this half. Printed are the share of draws whose
95 % interval holds it, the mean difference of report and truth, and the zero point, which the
report shows as that of shuffled ratings.
"""

from __future__ import annotations

import argparse

import numpy as np

from textassay.agreement.correlation import Floats, pearson
from textassay.fitting.api import fit_sync
from textassay.learning.aggregators import Aggregator

FEATURES, NEW = 10, 20_000
NOISES = {"good": 1.5, "weak": 3.9}


def draw(rng: np.random.Generator, n: int, noise: float) -> tuple[Floats, Floats]:
    """Draw features, shape (n, 10), and ratings, shape (n,)."""
    quality = rng.normal(size=n)
    shared = 0.5 * rng.normal(size=n)
    features = (quality + noise * shared)[:, None] + noise * 0.87 * rng.normal(size=(n, FEATURES))
    return features, np.clip(np.round(3 + quality), 1, 5)


def report(rng: np.random.Generator, n: int, noise: float, arguments: dict[str, object]) -> Floats:
    """Return whether the interval holds the truth, report less truth, and the zero point."""
    features, ratings = draw(rng, n, noise)
    rows = [
        {"id": f"r{at}", "human": {"a": float(rating)},
         "metrics": {f"m{k}": float(value) for k, value in enumerate(own)}}
        for at, (own, rating) in enumerate(zip(features, ratings, strict=True))
    ]  # fmt: skip
    found = fit_sync(rows, features="m*", scales={"a": (1, 5)}, **arguments)  # type: ignore[arg-type]
    new, truth = draw(rng, NEW, noise)
    predicted = Aggregator.from_dict(found.evaluator.aggregator).predict(new)[:, 0]
    r = pearson(predicted, truth)
    assert r is not None
    aspect = found.report["held_out"]["aspects"]["a"]
    own = aspect["agreement"]["evaluator"]
    low, high = own["ci"]["pearson"] or (np.nan, np.nan)
    zero = aspect.get("shuffled", {}).get("pearson", np.nan)
    return np.array([low <= r <= high, own["pearson"] - r, zero])


def main() -> None:
    """Print a line for each design."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--aggregator", default="ridge")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 50, 100, 300])
    options = parser.parse_args()
    for kind, noise in NOISES.items():
        for n in options.sizes:
            for fraction in (None, 0.5):
                arguments = {"aggregator": options.aggregator, "train_fraction": fraction}
                drawn = np.array(
                    [
                        report(np.random.default_rng(seed), n, noise, arguments)
                        for seed in range(options.draws)
                    ]
                )
                held, low, zero = np.nanmean(drawn, axis=0)
                way = "cross-fitted" if fraction is None else "half held out"
                print(f"{kind} features, {n} ratings, {way}: holds {held:.2f}, report less truth"
                      f" {low:+.3f}, shuffled {zero:+.3f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
