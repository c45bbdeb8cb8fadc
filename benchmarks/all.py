"""Every benchmark of the targets, one after the other: what `make bench` runs."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.server import ROOT

EACH = (
    "throughput",
    "in_flight",
    "start",
    "graph_ten_nodes",
    "limit",
    "faults",
    "kill",
    "memory",
)


def main() -> None:
    """Run each in a process of its own; stop at the first that fails."""
    for name in EACH:
        print(f"\n== {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
