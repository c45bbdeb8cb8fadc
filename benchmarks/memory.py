"""Peak memory of a run after 10,000 samples, 100,000, ..., and at the end.

Linux only: reads /proc. 100,000 samples take minutes, a million the better part of an hour.

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


class Lines:
    """Counts the lines of a file that grows."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0
        self.count = 0

    def look(self) -> int:
        """Return the number of lines now; 0 before the file exists."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._at)
                while chunk := file.read(2**20):
                    self.count += chunk.count(b"\n")
                    self._at += len(chunk)
        return self.count


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
        scores, mark, peak = Lines(folder / "run" / "scores.jsonl"), 10_000, 0.0
        while process.poll() is None:
            time.sleep(0.2)
            try:
                peak = max(peak, peak_mb(process.pid))
            except (FileNotFoundError, ProcessLookupError):
                continue
            if scores.look() >= mark:
                seconds = time.monotonic() - began
                print(f"{scores.count:9,} scores after {seconds:5.0f} s: {peak:.0f} MB", flush=True)
                mark *= 10
        seconds = time.monotonic() - began
        print(f"{scores.look():9,} scores after {seconds:5.0f} s: {peak:.0f} MB at the end")
        if process.returncode:
            sys.exit(f"the run ended with status {process.returncode}")


if __name__ == "__main__":
    main()
