"""Where `auto` is behind: every recorded data set, from 25 rows to half of them.

    python -m benchmarks.learning_table --data FOLDER [--on bagel newsroom ...] [--sizes 25 0.1 0.5]
        [--seeds 5]

FOLDER as for `benchmarks.learning_recorded`. A size from 1 on counts rows, a smaller one is a share
of them; rows come in whole sources, at least two, and a share of fewer than 24 rows is skipped.
Printed is Pearson's r over the held-out rows, averaged over aspects and seeds; then the rival that
is farthest ahead of `auto`, if any, by how much, and the 95 % interval of that over the seeds
(Student's t, paired): `*` if it excludes 0.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.learning_data import SETS, Floats, Recorded, read
from benchmarks.learning_recorded import Predict, agreement, best_single, learnt
from textassay.learning.splits import GroupCodes, Mask
from textassay.runtime.errors import DataError

RIVALS = ("ridge", "forest", "best single", "avg")
DISTINCT = [
    name
    for name in SETS
    if name not in ("alttest-and-older", "summeval-gpt-3.5", "summeval-metrics")
]
"""Data sets without those that are SummEval with other features."""
MIN_ROWS = 24
"""Rows below which a size is skipped: the first size, 25 rows, stands for it."""


def whole_sources(groups: GroupCodes, size: float, seed: int) -> Mask:
    """Draw about so many rows in whole sources, at least two."""
    sizes = np.bincount(groups)
    order = np.random.default_rng(seed).permutation(len(sizes))
    wanted = size if size >= 1 else size * len(groups)
    count = int(np.abs(np.cumsum(sizes[order]) - wanted).argmin()) + 1
    return np.isin(groups, order[: min(max(count, 2), len(sizes) - 1)])


def mean_r(data: Recorded, predict: Predict, size: float, seed: int) -> float:
    """Return r averaged over the aspects; NaN if this cannot be learned from these rows."""
    train = whole_sources(data.groups, size, seed)
    try:
        r: Floats = agreement(predict(train, seed), data.human[~train])[:, 0]
    except DataError:
        return float("nan")
    return float(np.nanmean(r))


def farthest_ahead(found: Mapping[str, Floats]) -> str:
    """Return which rival is farthest ahead of `auto`, with the interval over seeds."""
    ahead = []
    for name in RIVALS:
        difference = found[name] - found["auto"]
        difference = difference[~np.isnan(difference)]
        if len(difference) > 1 and difference.mean() > 0:
            half = stats.t.ppf(0.975, len(difference) - 1) * stats.sem(difference)
            ahead.append((float(difference.mean()), float(half), name))
    if not ahead:
        return "-"
    # one that is ahead beyond noise comes before one that is farther ahead by chance
    mean, half, name = max(ahead, key=lambda one: (one[0] > one[1], one[0]))
    clearly = " *" if mean > half else ""
    return f"{name} +{mean:.3f} [{mean - half:+.3f}, {mean + half:+.3f}]{clearly}"


def arguments(description: str) -> argparse.Namespace:
    """Read which cells to measure: data sets, sizes and seeds."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("TEXTASSAY_DATA"))
    parser.add_argument("--on", nargs="+", default=DISTINCT, choices=list(SETS))
    parser.add_argument("--sizes", type=float, nargs="+", default=[25, 0.05, 0.1, 0.25, 0.5])
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    if given.data is None:
        parser.error("name the data with --data FOLDER or TEXTASSAY_DATA")
    # an aspect that nobody rates differently in a small sample has no r
    warnings.filterwarnings("ignore", message="Mean of empty slice", category=RuntimeWarning)
    return given


def main() -> None:
    """Print the table."""
    given = arguments(__doc__)
    print(f"| data | rows | auto | {' | '.join(RIVALS)} | ahead of auto |")
    print("|---" * (len(RIVALS) + 4) + "|")
    for name in given.on:
        data = read(Path(given.data), SETS[name])
        arms = {one: learnt(data, one) for one in ("auto", "ridge", "forest", "avg")}
        arms["best single"] = best_single(data)
        for size in given.sizes:
            rows = int(whole_sources(data.groups, size, 0).sum())
            if rows < MIN_ROWS:
                continue
            found = {
                arm: np.array([mean_r(data, f, size, seed) for seed in range(given.seeds)])
                for arm, f in arms.items()
            }
            figures = " | ".join(f"{np.nanmean(found[arm]):.3f}" for arm in ("auto", *RIVALS))
            print(f"| {data.name} | {rows} | {figures} | {farthest_ahead(found)} |", flush=True)


if __name__ == "__main__":
    main()
