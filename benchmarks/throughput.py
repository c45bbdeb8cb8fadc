"""Judged samples a second against bare loops, through `direct/` and litellm, and from a full cache.

    python -m benchmarks.throughput [--samples 12000] [--rounds 3]

Every arm is a process of its own against a server process with 100 ms latency, with uvloop if that
is installed, as the command line runs; arms alternate within a round, so that a change of the
machine's speed affects all of them. The start and the end of a run, some 0.2 s, count as well: a
short run shows a lower ratio than a long one. Prints medians and the ratios of the design's
targets.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.examples_made import make
from benchmarks.server import ROOT, server

Row = dict[str, Any]


def arm(name: str, data: Path, url: str, *flags: str) -> Row:
    """Run one arm in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.arms", name, str(data), "--api-base", url, *flags],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "BENCHMARK_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    )
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def median(rows: list[Row], key: str) -> float:
    """Return the median of one figure."""
    return statistics.median(float(row[key]) for row in rows)


def rounds(folder: Path, samples: int, count: int) -> dict[str, list[Row]]:
    """Run all arms `count` times, in turn."""
    big, small = (
        make(folder / "big.jsonl", samples),
        make(folder / "small.jsonl", max(500, samples // 4)),
    )
    found: dict[str, list[Row]] = {}
    with server(latency_ms=100) as url:
        for at in range(count):
            out, cache = folder / f"round-{at}", str(folder / f"cache-{at}")
            arms: dict[str, tuple[str, Path, list[str]]] = {
                "bare aiohttp": ("aiohttp", big, []),
                "textassay direct/": ("textassay", big, ["--out", f"{out}-d", "--cache", cache]),
                "textassay, all cached": (
                    "textassay",
                    big,
                    ["--out", f"{out}-c", "--cache", cache],
                ),
                "bare litellm": ("litellm", small, ["--warm", "litellm"]),
                "textassay litellm": (
                    "textassay",
                    small,
                    ["--out", f"{out}-l", "--model", "openai/mock", "--warm", "litellm"],
                ),
            }
            for label, (name, data, flags) in arms.items():
                found.setdefault(label, []).append(arm(name, data, url, *flags))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=12_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = rounds(Path(folder), args.samples, args.rounds)
    print(f"{'100 ms judge, 100 in flight':28} samples/s  CPU ms/sample  peak MB")
    for label, rows in found.items():
        print(
            f"{label:28} {median(rows, 'per_second'):9.0f} {median(rows, 'cpu_ms'):14.3f} "
            f"{median(rows, 'peak_mb'):8.0f}"
        )
    ratio = median(found["textassay litellm"], "per_second") / median(
        found["bare litellm"], "per_second"
    )
    direct = median(found["textassay direct/"], "per_second") / median(
        found["bare aiohttp"], "per_second"
    )
    print(
        f"direct/ over bare aiohttp: {direct:.2f};  litellm over a bare litellm loop: {ratio:.2f}"
    )


if __name__ == "__main__":
    main()
