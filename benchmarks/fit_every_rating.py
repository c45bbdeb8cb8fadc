"""What learning from all of the given ratings is worth over holding half of them out.

No model is asked.

    python -m benchmarks.fit_every_rating --data FOLDER [--on summeval-metrics topical-chat]
        [--aggregator ridge] [--seeds 5]

Half of the sources are given to `textassay fit`, once as it is (all of their ratings are learned
from, the report is cross-fitted) and once with `--train-fraction 0.5` (half of the given ratings);
both evaluators score the other half of the sources. Printed are Pearson's r and Spearman's rho over
these, averaged over the aspects, by seed; the r that the report of each fit promises; and in how
many aspects and seeds the report's 95 % interval holds the r of the test.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learning_data import SETS, Wanted, read_rows
from textassay import evaluate_sync
from textassay.agreement import pearson, spearman
from textassay.learning import group_codes, split_rows

ARMS: dict[str, tuple[str, ...]] = {"all": (), "half": ("--train-fraction", "0.5")}
Rows = list[dict[str, Any]]


def write(path: Path, rows: Rows) -> Path:
    """Write rows as JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows_of(folder: Path, wanted: Wanted) -> Rows:
    """Return the rows of a data set with the metrics and ratings that are wanted."""
    rows = read_rows(folder / wanted.path)
    kept = [row for row in rows if not wanted.needed or row["metrics"].get(wanted.needed)]
    for row in kept:
        row["metrics"] = {k: v for k, v in row["metrics"].items() if k.startswith(wanted.prefixes)}
    return kept


def fitted(data: Path, out: Path, wanted: Wanted, flags: Sequence[str]) -> dict[str, Any]:
    """Run `textassay fit` and return its report."""
    command = [sys.executable, "-m", "textassay", "fit", str(data), "--out", str(out)]
    command += ["--features", "*", "--aspects", ",".join(wanted.aspects), *flags]
    subprocess.run(command, check=True, capture_output=True)
    report: dict[str, Any] = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return report


def tested(out: Path, test: Rows, aspects: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return r and rho of each aspect over the rows that nothing was learned from."""
    values = {(one.id, one.aspect): one.value for one in evaluate_sync(test, method=str(out))}
    found = {}
    for aspect in aspects:
        pairs = [
            (values[row["id"], aspect], row["human"][aspect])
            for row in test
            if values[row["id"], aspect] is not None
        ]
        scores, human = np.array(pairs, float).T
        found[aspect] = (pearson(scores, human) or 0.0, spearman(scores, human) or 0.0)
    return found


def measure(wanted: Wanted, folder: Path, aggregator: str, seeds: int) -> None:
    """Print the figures of one data set."""
    rows, held, gains = rows_of(folder, wanted), dict.fromkeys(ARMS, 0), []
    groups = group_codes(row["group"] for row in rows)
    print(f"{wanted.name}, {aggregator}")
    for seed in range(seeds):
        given = split_rows(groups, 0.5, seed=seed)
        means = {}
        with tempfile.TemporaryDirectory() as place:
            learn = [row for row, is_given in zip(rows, given, strict=True) if is_given]
            test = [row for row, is_given in zip(rows, given, strict=True) if not is_given]
            data = write(Path(place) / "given.jsonl", learn)
            for name, flags in ARMS.items():
                out = Path(place) / name
                report = fitted(data, out, wanted, ("--aggregator", aggregator, *flags))
                found = tested(out, test, wanted.aspects)
                for aspect, (r, _) in found.items():
                    one = report["held_out"]["aspects"][aspect]["agreement"]["evaluator"]
                    held[name] += one["ci"]["pearson"][0] <= r <= one["ci"]["pearson"][1]
                promised = report["held_out"]["mean"]["evaluator"]["pearson"]
                means[name] = (*np.mean(list(found.values()), axis=0).tolist(), promised)
        told = "  ".join(
            f"{name} {r:.3f}/{rho:.3f} (report {promised:.3f})"
            for name, (r, rho, promised) in means.items()
        )
        print(f"  seed {seed}  {told}", flush=True)
        gains.append(np.subtract(means["all"][:2], means["half"][:2]))
    r, rho = np.mean(gains, axis=0)
    print(f"  gain {r:+.3f}/{rho:+.3f}, r from {np.min(gains, axis=0)[0]:+.3f}"
          f" to {np.max(gains, axis=0)[0]:+.3f}")  # fmt: skip
    count = seeds * len(wanted.aspects)
    print("  test within the report's interval: "
          + ", ".join(f"{name} {inside} of {count}" for name, inside in held.items()))  # fmt: skip


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("TEXTASSAY_DATA"))
    parser.add_argument("--on", nargs="+", default=["summeval-metrics", "topical-chat"])
    parser.add_argument("--aggregator", default="ridge")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    if given.data is None:
        parser.error("--data FOLDER is needed, or TEXTASSAY_DATA")
    for name in given.on:
        measure(SETS[name], Path(given.data), given.aggregator, given.seeds)


if __name__ == "__main__":
    main()
