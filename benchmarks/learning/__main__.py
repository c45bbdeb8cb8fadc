"""How well people's ratings are learned from scores that judges and metrics gave.

No model is asked.

    python -m benchmarks.learning --data FOLDER [--on summeval topical-chat ...] [--sizes 25 0.5]
        [--ways auto ridge ...] [--seeds 5] [--spread]

FOLDER holds `summeval/summeval.jsonl.gz` and the like, rows with `group`, `human` and recorded
`metrics` (the environment variable TEXTASSAY_DATA names it, too). A size below 1 is a share of the
rows, others are numbers of rows; fewer than 24 are skipped. Training rows are whole sources; with
`--spread`, single texts from half of the sources, one per source as long as possible.

A way is an aggregator, `best single` (the feature that agrees best on the training rows), `mean`
(of all judges), `mean:JUDGE`, AGGREGATOR+systems and AGGREGATOR+systems+sources (which may use
their means), or half:WAY, which learns from half of the training sources. Printed is Pearson's r
and Spearman's rho over the held-out rows, averaged over aspects and seeds, and how far r is behind
the first way, with the 95 % interval over the seeds (Student's t, paired), `*` if it excludes 0.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.learning.recorded import SETS, Floats, read
from benchmarks.learning.ways import measured, training_rows, way_of

DISTINCT = [
    name
    for name in SETS
    if name not in ("alttest-and-older", "summeval-gpt-3.5", "summeval-metrics")
]
"""Data sets, SummEval with other features left out."""
MIN_ROWS = 24
"""Rows below which a size is skipped: the first size, 25 rows, takes its place."""


def behind(first: Floats, other: Floats) -> str:
    """Return by how much r is lower than in the first way, with an interval over the splits."""
    difference = np.nanmean(first[:, :, 0], axis=1) - np.nanmean(other[:, :, 0], axis=1)
    difference = difference[~np.isnan(difference)]
    if len(difference) < 2:
        return ""
    mean = float(difference.mean())
    half = float(stats.t.ppf(0.975, len(difference) - 1) * stats.sem(difference))
    clearly = " *" if abs(mean) > half else ""
    return f" {mean:+.3f} [{mean - half:+.3f}, {mean + half:+.3f}]{clearly}"


def main() -> None:
    """Print a row for each data set and size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("TEXTASSAY_DATA"))
    parser.add_argument("--on", nargs="+", default=DISTINCT, choices=list(SETS))
    parser.add_argument("--sizes", type=float, nargs="+", default=[25, 0.05, 0.1, 0.25, 0.5])
    parser.add_argument(
        "--ways", nargs="+", default=["auto", "ridge", "forest", "best single", "avg"]
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--spread", action="store_true")
    given = parser.parse_args()
    if given.data is None:
        parser.error("name the data with --data FOLDER or TEXTASSAY_DATA")
    # an aspect without differing ratings in a small sample has no r
    warnings.filterwarnings("ignore", message="Mean of empty slice", category=RuntimeWarning)
    print(f"| data | rows | {' | '.join(given.ways)} |")
    print("|---" * (len(given.ways) + 2) + "|")
    for name in given.on:
        data = read(Path(given.data), SETS[name])
        for size in given.sizes:
            rows = round(size) if given.spread else int(training_rows(data.groups, size, 0).sum())
            if rows < MIN_ROWS:
                continue
            cells, first = [], None
            for way in given.ways:
                found = measured(data, way_of(data, way), size, given.seeds, spread=given.spread)
                r, rho = np.nanmean(found, axis=(0, 1))
                cells.append(f"{r:.3f}/{rho:.3f}{'' if first is None else behind(first, found)}")
                first = found if first is None else first
            print(f"| {data.name} | {rows} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
