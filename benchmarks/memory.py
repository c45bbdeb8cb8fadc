"""Peak memory of a run of 100,000 samples, after the first 10,000 and at the end.

Linux only: reads /proc.

python -m benchmarks.memory [--samples 100000]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.examples_made import make
from benchmarks.server import ROOT, server


def peak_mb(process: int) -> float:
    """Return the most memory a process has had so far, in MB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def main() -> None:
    """Run, watch, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=100_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, server() as url:
        folder = Path(name)
        data = make(folder / "data.jsonl", args.samples, source_words=60)
        arm = [sys.executable, "-m", "benchmarks.arms", "textassay", str(data), "--api-base", url]
        began = time.monotonic()
        process = subprocess.Popen(
            [*arm, "--out", str(folder / "run")],
            cwd=ROOT,
            env={**os.environ, "BENCHMARK_KEY": "none"},
        )
        scores, early, peak = folder / "run" / "scores.jsonl", 0.0, 0.0
        while process.poll() is None:
            time.sleep(0.2)
            try:
                peak = max(peak, peak_mb(process.pid))
                lines = (
                    scores.stat().st_size / 900
                )  # about the length of a line; only places the early mark
            except (FileNotFoundError, ProcessLookupError):
                continue
            if not early and lines >= 10_000:
                early = peak
    seconds = time.monotonic() - began
    print(
        f"{args.samples} samples in {seconds:.0f} s: {early:.0f} MB after about 10,000,"
        f" {peak:.0f} MB at the end"
    )


if __name__ == "__main__":
    main()
