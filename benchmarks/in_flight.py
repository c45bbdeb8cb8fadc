"""1,000 calls in flight against a judge that takes 1 s: samples per second, and peak memory.

    python -m benchmarks.in_flight [--samples 30000] [--concurrency 1000]

Prints a bare aiohttp loop beside `direct/`, each in a process of its own. The ideal is that each
slot makes one call after the other: as many samples per second as there are slots. Runs of
different lengths are not comparable: a short run shows less than a long one. An unknown server gets
20 calls at once, then 1,000, which costs the time of 980 calls: 0.91 of ideal is the most that
10,000 samples can show, 0.97 the most of 30,000. So the rate between a tenth and nine tenths of the
samples is printed as well: it has neither this slow start, nor the check of the data before it, nor
the end.
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import orjson

from benchmarks.examples_made import make
from benchmarks.server import server
from benchmarks.throughput import arm


def middle_rate(run: Path) -> float:
    """Return the samples per second between a tenth and nine tenths of a run's scores."""
    ends = []
    with (run / "scores.jsonl").open("rb") as lines:
        for line in lines:
            score = orjson.loads(line)
            began = datetime.fromisoformat(score["started"])
            ends.append(began + timedelta(seconds=score["seconds"]))
    ends.sort()
    first, last = len(ends) // 10, len(ends) * 9 // 10
    return (last - first) / (ends[last] - ends[first]).total_seconds()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=30_000)
    parser.add_argument("--concurrency", type=int, default=1000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, server(latency_ms=1000) as url:
        folder = Path(name)
        data = make(folder / "data.jsonl", args.samples)
        kept = ["--out", str(folder / "run"), "--cache", str(folder / "cache")]
        for label, kind, flags in (
            ("bare aiohttp", "aiohttp", []),
            ("textassay direct/", "textassay", kept),
        ):
            row = arm(kind, data, url, "--concurrency", str(args.concurrency), *flags)
            print(
                f"{label:20} {row['per_second']:.0f} samples/s"
                f" ({row['per_second'] / args.concurrency:.2f} of ideal),"
                f" CPU {row['cpu_ms']:.3f} ms a sample, peak {row['peak_mb']:.0f} MB",
                flush=True,
            )
        rate = middle_rate(folder / "run")
        print(f"{'  its middle':20} {rate:.0f} samples/s ({rate / args.concurrency:.2f} of ideal)")


if __name__ == "__main__":
    main()
