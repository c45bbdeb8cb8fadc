"""How well aggregators learn human ratings from scores that judges gave: no model is asked.

    python benchmarks/learning_recorded.py --data FOLDER [--fractions 0.25 0.5] [--aggregators auto avg ...] [--seeds 5]

FOLDER holds `summeval/summeval.jsonl.gz` and `topical_chat/topical_chat.jsonl`, rows with `group`, `human` and recorded
`metrics` (the environment variable TEXTASSAY_DATA names it, too). Splits are by source document or dialogue. Printed
are Pearson's r and Spearman's rho over all held-out rows, averaged over the four aspects and over seeds, the lowest r
of a seed, and the single aspects; the last line is the single judge that agrees best on the training rows.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textassay.learning import AGGREGATORS, Aggregator, group_codes, split_rows
from textassay.meta import pearson, spearman

Floats = NDArray[np.float64]
Predict = Callable[[NDArray[np.bool_], int], Floats]


@dataclass(frozen=True)
class Recorded:
    """One benchmark: features (n, f), ratings (n, aspects), group codes (n,) and names."""

    name: str
    features: Floats
    human: Floats
    groups: NDArray[np.intp]
    feature_names: list[str]
    aspects: list[str]

    def only(self, prefix: str) -> Recorded:
        """Return the benchmark with the features whose names start so."""
        kept = [i for i, name in enumerate(self.feature_names) if name.startswith(prefix)]
        names = [self.feature_names[i] for i in kept]
        label = f"{self.name}, {prefix} only"
        return Recorded(label, self.features[:, kept], self.human, self.groups, names, self.aspects)


def read(path: Path, name: str, prefixes: tuple[str, ...], aspects: list[str], needed: str | None = None) -> Recorded:
    """Read one benchmark, leaving out rows without the metric `needed`."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    if needed:
        rows = [row for row in rows if row["metrics"].get(needed) is not None]
    names = sorted({metric for row in rows for metric in row["metrics"] if metric.startswith(prefixes)})
    return Recorded(
        name,
        np.array([[row["metrics"].get(metric) for metric in names] for row in rows], float),
        np.array([[row["human"][aspect] for aspect in aspects] for row in rows], float),
        group_codes(row["group"] for row in rows),
        names,
        aspects,
    )


def agreement(predicted: Floats, human: Floats) -> Floats:
    """Return r and rho of each aspect, shape (aspects, 2), a gap counting as the mean."""
    filled = np.where(np.isnan(predicted), np.nanmean(predicted, axis=0), predicted)
    return np.array([[pearson(p, h), spearman(p, h)] for p, h in zip(filled.T, human.T, strict=True)], float)


def learnt(data: Recorded, name: str) -> Predict:
    """Return predictions of the held-out rows by one aggregator."""

    def predict(train: NDArray[np.bool_], seed: int) -> Floats:
        aggregator = Aggregator(name, seed=seed).fit(
            data.features[train],
            data.human[train],
            groups=data.groups[train].tolist(),
            feature_names=data.feature_names,
            target_names=data.aspects,
        )
        return aggregator.predict(data.features[~train])

    return predict


def best_single(data: Recorded) -> Predict:
    """Return the feature that bears the aspect's name and agrees best with people on the training rows."""

    def predict(train: NDArray[np.bool_], seed: int) -> Floats:
        columns = []
        for number, aspect in enumerate(data.aspects):
            own = [i for i, name in enumerate(data.feature_names) if name.split("/")[-1] == aspect]
            r = [agreement(data.features[train][:, [i]], data.human[train][:, [number]])[0, 0] for i in own]
            columns.append(own[int(np.argmax(r))])
        return data.features[~train][:, columns]

    return predict


def report(data: Recorded, label: str, predict: Predict, fraction: float, seeds: int) -> None:
    """Print one line."""
    start, found = time.perf_counter(), []
    for seed in range(seeds):
        train = split_rows(data.groups, fraction, seed=seed)
        found.append(agreement(predict(train, seed), data.human[~train]))
    values = np.array(found)
    r, rho = values.mean(axis=(0, 1))
    aspects = "  ".join(
        f"{name[:12]} {a:.3f}/{b:.3f}" for name, (a, b) in zip(data.aspects, values.mean(axis=0), strict=True)
    )
    lowest = values.mean(axis=1)[:, 0].min()
    seconds = (time.perf_counter() - start) / seeds
    print(f"  {label:12s} {r:.3f}/{rho:.3f}  lowest {lowest:.3f}  {aspects}  {seconds:.1f} s", flush=True)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("TEXTASSAY_DATA"))
    parser.add_argument("--fractions", type=float, nargs="+", default=[0.25, 0.5])
    parser.add_argument("--aggregators", nargs="+", default=list(AGGREGATORS), choices=list(AGGREGATORS))
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("name the data with --data FOLDER or TEXTASSAY_DATA")
    summeval = read(
        arguments.data / "summeval" / "summeval.jsonl.gz",
        "SummEval, 36 judge features",
        ("gpt-", "llama-"),
        ["coherence", "consistency", "fluency", "relevance"],
        needed="gpt-4-0314/rts/coherence",
    )
    chat = read(
        arguments.data / "topical_chat" / "topical_chat.jsonl",
        "Topical-Chat, 28 gpt-3.5 features and UniEval",
        ("gpt-", "unieval/"),
        ["naturalness", "coherence", "engagingness", "groundedness"],
    )
    for data in (summeval, summeval.only("gpt-3.5"), chat):
        for fraction in arguments.fractions:
            print(f"{data.name}: {fraction:.0%} of {len(data.human)} rows for training, by group")
            for name in arguments.aggregators:
                report(data, name, learnt(data, name), fraction, arguments.seeds)
            report(data, "best single", best_single(data), fraction, arguments.seeds)


if __name__ == "__main__":
    main()
