"""10,000 judgments through a batch API: round trips, seconds and memory.

`python -m benchmarks.batches [COUNT]`.
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

from tests.batch_server import batches_served
from tests.cli.harness import write_examples


def main(count: int) -> None:
    """Score `count` examples with G-Eval through batches and print what it took."""
    with tempfile.TemporaryDirectory() as folder, batches_served() as server:
        data = write_examples(Path(folder) / "data.jsonl", count)
        run = Path(folder) / "run"
        command = [
            sys.executable, "-m", "textassay", "score", str(data), "--method", "g-eval", "--task",
            "summarization",
            "--aspects", "coherence", "--model", "direct/mock", "--api-base", server.url, "--batch",
            "--progress", "none", "--out", str(run),
        ]  # fmt: skip
        began = time.monotonic()
        subprocess.run(command, check=True)
        seconds = time.monotonic() - began
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        outcomes = json.loads((run / "summary.json").read_text())["outcomes"]
        print(
            f"{count} examples: {outcomes['scored']} scored in {len(server.batches)} batches, "
            f"{seconds:.1f} s, {peak} MB"
        )
        print(f"most runs of one request: {max(server.billed.values())}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", nargs="?", type=int, default=10_000)
    main(parser.parse_args().count)
