"""How well aggregators learn human ratings from scores that judges and metrics gave.

No model is asked.

    python -m benchmarks.learning_recorded --data FOLDER [--on summeval topical-chat ...]
    [--fractions 0.25 0.5]
        [--aggregators auto avg ...] [--seeds 5] [--known-systems] [--known-sources]

FOLDER holds `summeval/summeval.jsonl.gz` and the like, rows with `group`, `human` and recorded
`metrics` (the environment variable TEXTASSAY_DATA names it, too). Splits are by source document or
dialogue. Printed are Pearson's r and Spearman's rho over all held-out rows, averaged over the
aspects and over seeds; the lowest r of a seed; how far r lies above that of the first aggregator on
the same split, on average, and the lowest and highest of a seed; and the single aspects. The last
line is the single feature that agrees best on the training rows, of those that bear the aspect's
name where some do. Beside textassay's aggregators there are those of `benchmarks/learning_arms.py`.

With known systems or sources, the means of the features over all rows of a row's system or source
may take part; each aggregator then has a line without them, and one for each further kind.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from functools import cache
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.learning_arms import ARMS
from benchmarks.learning_data import SETS, Floats, Recorded, read
from textassay.agreement import pearson, spearman
from textassay.learning import AGGREGATORS, Aggregator, Pool, split_rows
from textassay.runtime.errors import DataError

Predict = Callable[[NDArray[np.bool_], int], Floats]


def agreement(predicted: Floats, human: Floats) -> Floats:
    """Return r and rho of each aspect over its rated rows, shape (aspects, 2); means for gaps."""
    filled = np.where(np.isnan(predicted), np.nanmean(predicted, axis=0), predicted)
    there = ~np.isnan(human)
    return np.array(
        [
            [f(p[t], h[t]) for f in (pearson, spearman)]
            for p, h, t in zip(filled.T, human.T, there.T, strict=True)
        ],
        float,
    )


def learnt(data: Recorded, name: str, known: Sequence[str] = ()) -> Predict:
    """Return predictions of the held-out rows by one aggregator.

    Args:
        data: What to learn from.
        name: Name of the aggregator.
        known: Whose means may take part: `systems`, `sources`, or both.
    """
    return predictions(data, name, known)[-1]


def predictions(data: Recorded, name: str, known: Sequence[str]) -> list[Predict]:
    """Return predictions without means, and with each further kind of them, from the same fits."""
    labels: dict[str, list[str | None]] = {
        "systems": data.systems,
        "sources": data.groups.astype(str).tolist(),
    }
    nobody: list[str | None] = [None] * len(data.systems)
    pool = Pool(data.features, *(labels[k] if k in known else nobody for k in labels))

    def of(kind: str, kinds: Sequence[str], rows: NDArray[np.bool_]) -> list[str | None] | None:
        return list(compress(labels[kind], rows)) if kind in kinds else None

    @cache
    def fitted(train: bytes, seed: int) -> Aggregator:
        rows = np.frombuffer(train, bool)
        return Aggregator(name, seed=seed).fit(
            data.features[rows],
            data.human[rows],
            groups=data.groups[rows].tolist(),
            feature_names=data.feature_names,
            target_names=data.aspects,
            aspect_names=data.rated,
            systems=of("systems", known, rows),
            sources=of("sources", known, rows),
            pool=pool,
        )

    def with_means_of(kinds: Sequence[str]) -> Predict:
        def predict(train: NDArray[np.bool_], seed: int) -> Floats:
            aggregator = fitted(train.tobytes(), seed)
            return aggregator.predict(
                data.features[~train],
                systems=of("systems", kinds, ~train),
                sources=of("sources", kinds, ~train),
            )

        return predict

    return [with_means_of(known[:count]) for count in range(len(known) + 1)]


def best_single(data: Recorded) -> Predict:
    """Return the feature that agrees best with people on the training rows, or its reverse."""

    def predict(train: NDArray[np.bool_], seed: int) -> Floats:
        columns = []
        for number, aspect in enumerate(data.aspects):
            own = [i for i, name in enumerate(data.feature_names) if name.split("/")[-1] == aspect]
            ratings = data.human[train][:, [number]]
            r = {
                i: agreement(data.features[train][:, [i]], ratings)[0, 0]
                for i in own or range(len(data.feature_names))
                if np.nanstd(data.features[train][:, i]) > 0
            }
            best = max(r, key=lambda i: abs(r[i]))
            columns.append(np.sign(r[best]) * data.features[~train][:, best])
        return np.stack(columns, axis=1)

    return predict


def measured(data: Recorded, predict: Predict, fraction: float, seeds: int) -> Floats:
    """Return r and rho by seed and aspect, shape (seeds, aspects, 2)."""
    found = []
    for seed in range(seeds):
        train = split_rows(data.groups, fraction, seed=seed)
        found.append(agreement(predict(train, seed), data.human[~train]))
    return np.array(found)


def told(data: Recorded, label: str, values: Floats, first: Floats | None, seconds: float) -> str:
    """Return one line."""
    r, rho = values.mean(axis=(0, 1))
    by_seed = values.mean(axis=1)[:, 0]
    line = f"  {label:24s} {r:.3f}/{rho:.3f}  lowest {by_seed.min():.3f}"
    if first is not None:
        above = by_seed - first.mean(axis=1)[:, 0]
        line += f"  {above.mean():+.3f} ({above.min():+.3f} to {above.max():+.3f})"
    aspects = zip(data.aspects, values.mean(axis=0), strict=True)
    return (
        line
        + "".join(f"  {name[:12]} {a:.3f}/{b:.3f}" for name, (a, b) in aspects)
        + f"  {seconds:.1f} s"
    )


def report(
    data: Recorded, names: list[str], fraction: float, seeds: int, known: Sequence[str]
) -> None:
    """Print a block of lines: one for each aggregator, then the best single feature."""
    sizes = [int(split_rows(data.groups, fraction, seed=seed).sum()) for seed in range(seeds)]
    print(
        f"{data.name}: {fraction:.0%} of {len(data.human)} rows for training, by group"
        f" ({min(sizes)}-{max(sizes)})"
    )
    first: Floats | None = None
    labels = ["".join(f" + {kind}" for kind in known[:count]) for count in range(len(known) + 1)]
    arms = {
        name + label: predict
        for name in names
        for label, predict in zip(labels, predictions(data, name, known), strict=True)
    }
    arms |= {"best single": best_single(data)}
    for label, predict in arms.items():
        start = time.perf_counter()
        try:
            values = measured(data, predict, fraction, seeds)
        except DataError as error:
            print(f"  {label:24s} {error}", flush=True)
            continue
        print(told(data, label, values, first, (time.perf_counter() - start) / seeds), flush=True)
        first = values if first is None and label == names[0] else first


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("TEXTASSAY_DATA"))
    parser.add_argument(
        "--on",
        nargs="+",
        default=["summeval", "summeval-gpt-3.5", "topical-chat"],
        choices=list(SETS),
    )
    parser.add_argument("--fractions", type=float, nargs="+", default=[0.25, 0.5])
    parser.add_argument(
        "--aggregators", nargs="+", default=list(AGGREGATORS), choices=[*AGGREGATORS, *ARMS]
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--known-systems", action="store_true", help="the means of systems may take part"
    )
    parser.add_argument(
        "--known-sources", action="store_true", help="the means of sources may take part"
    )
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("name the data with --data FOLDER or TEXTASSAY_DATA")
    AGGREGATORS.update(ARMS)
    flags = {"systems": arguments.known_systems, "sources": arguments.known_sources}
    known = [kind for kind, given in flags.items() if given]
    for name in arguments.on:
        data = read(Path(arguments.data), SETS[name])
        for fraction in arguments.fractions:
            report(data, arguments.aggregators, fraction, arguments.seeds, known)


if __name__ == "__main__":
    main()
