"""Time and memory of `textassay fit --features` on many rows.

    python -m benchmarks.learning_large [--rows 100000] [--features 60] [--aspects 1] [--aggregator
    lightgbm]

Writes made-up rows, a third of whose features carry the ratings, to a temporary file; reading it is
part of the time.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def write(path: Path, rows: int, features: int, aspects: int) -> None:
    """Write rows of ten to a group."""
    rng = np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as file:
        for i in range(rows):
            quality = rng.normal(size=aspects)
            carried = np.where(
                np.arange(features) < features // 3, quality[np.arange(features) % aspects], 0.0
            )
            x = np.round(np.clip(3 + carried + rng.normal(size=features), 1, 5), 2)
            human = {
                f"a{k}": round(float(np.clip(3 + q + 0.5 * rng.normal(), 1, 5)), 2)
                for k, q in enumerate(quality)
            }
            metrics = {f"m{j}": float(value) for j, value in enumerate(x)}
            row = {
                "id": str(i),
                "output": "text",
                "group": f"g{i // 10}",
                "human": human,
                "metrics": metrics,
            }
            file.write(json.dumps(row) + "\n")


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=60)
    parser.add_argument("--aspects", type=int, default=1)
    parser.add_argument("--aggregator", default="lightgbm")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.jsonl"
        write(data, wanted.rows, wanted.features, wanted.aspects)
        command = [
            sys.executable,
            "-c",
            "from textassay.cli import main; main()",
            "fit",
            str(data),
            "--features",
            "m*",
        ]
        command += [
            "--aggregator",
            wanted.aggregator,
            "--report",
            "basic",
            "--out",
            str(Path(folder) / "ev"),
        ]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(done.stderr)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"{wanted.rows} rows x {wanted.features} features, {wanted.aspects} aspects,"
        f" {wanted.aggregator}: "
        f"{seconds:.1f} s, {peak:.0f} MB (targets: 60 s, 2,000 MB)"
    )


if __name__ == "__main__":
    main()
