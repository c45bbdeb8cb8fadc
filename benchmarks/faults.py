"""A bad server: 20 % 429 in all styles, 5 % 500, 2 % broken bodies, 1 % dropped, 1 % hanging.

    python -m benchmarks.faults [--samples 3000]

Every sample must be scored, or have a reason why not, exactly once, and no call may be tried more
often than configured.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.examples_made import make
from benchmarks.kill import command, rows
from benchmarks.server import ROOT, counters, server

ATTEMPTS = 6


def main() -> None:
    """Run against the bad server, check, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=3000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, server(
        latency_ms=20, p429=0.2, retry_after=0.2, retry_after_style="random", p500=0.05,
        p_broken=0.02, p_drop=0.01,
        p_hang=0.01, hang_s=30,
    ) as url:  # fmt: skip
        folder = Path(name)
        data = make(folder / "data.jsonl", args.samples)
        done = subprocess.run(
            command(
                "score", data, "--method", "llm-score", "--task", "summarization", "--aspects",
                "coherence",
                "--model", "direct/mock", "--api-base", url, "--out", folder / "run",
                "--progress", "plain",
                "--set", f"attempts={ATTEMPTS}", "--set", "timeout=2", "--set", "total_timeout=120",
                # if the last call fails in all its attempts, this counts as an outage, and it is
                # asked again
                "--set", "outage_wait=0",
            ),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        found, seen = rows(folder / "run"), counters(url)
    ids = Counter(row[0] for row in found)
    outcomes = Counter(row[3] for row in found)
    assert len(ids) == args.samples, "every example has a line"
    assert set(ids.values()) == {1}, "every example has exactly one line"
    assert all((value is None) == (outcome != "scored") for _, _, value, outcome in found)
    assert seen["max_repeats"] <= ATTEMPTS, f"one call was tried {seen['max_repeats']} times"
    assert done.returncode == (0 if outcomes["scored"] == args.samples else 1), done.returncode
    print(
        f"{args.samples} samples: {dict(outcomes)}; {seen['requests']} requests, faults"
        f" {seen['faults']}"
    )
    print(
        f"most tries of one call: {seen['max_repeats']} of {ATTEMPTS}; exit status"
        f" {done.returncode}"
    )


if __name__ == "__main__":
    main()
