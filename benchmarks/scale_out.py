"""Two processes, and two workers of a Ray cluster, against one: cached work on two cores.

    python -m benchmarks.scale_out [COUNT]

The time per example is taken from two runs of different lengths, so that starting is not counted.
Needs an idle machine: the ratio is of wall time. The arms take turns. The first two arms are loops
that share nothing, not even a file. They show how much faster two processes of this machine are
than one: less than twice if its cores share caches, memory or a power limit.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.server import ROOT, server
from tests.cli.harness import write_examples

ROUNDS = int(os.environ.get("ROUNDS", "3"))
METHOD = ("--method", "g-eval", "--task", "summarization", "--set", "steps=none", "--n", "5")
BARE = ("1 bare loop", "2 bare loops")
LOOP = """
import hashlib, json, sys
row = {"id": "x", "texts": ["It rained on day 0."] * 8, "ratings": [1.0, 2.0, 3.0, 4.0, 5.0]}
for number in range(int(sys.argv[1])):
    for _ in range(10):
        row = json.loads(json.dumps({**row, "id": str(number)}))
        hashlib.sha256(repr(row).encode()).hexdigest()
"""
"""A loop like the work on a cached example: dictionaries, JSON, digests."""
ARMS = {
    "--processes 1": ("--processes", "1"),
    "--processes 2": ("--processes", "2"),
    "--cluster ray --workers 1": ("--cluster", "ray", "--workers", "1"),
    "--cluster ray --workers 2": ("--cluster", "ray", "--workers", "2"),
}


@contextmanager
def ray_node() -> Iterator[None]:
    """Start a node with two CPUs, if Ray is installed."""
    try:
        from ray.cluster_utils import Cluster
    except ImportError:
        for name in [name for name in ARMS if "ray" in name]:
            del ARMS[name]
        print("left out: Ray, which is not installed")
        yield
        return
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    node = {"num_cpus": 2, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        os.environ["RAY_ADDRESS"] = cluster.address
        yield
    finally:
        cluster.shutdown()


def seconds(data: Path, url: str, cache: Path, *more: str) -> float:
    """Score once and return the seconds it took, start and end included."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "textassay", "score", str(data), *METHOD, "--model",
            "direct/mock",
            "--api-base", url, "--cache", str(cache), "--progress", "none",
            "--out", f"{folder}/run", *more,
        ]  # fmt: skip
        began = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - began


def bare(count: int, processes: int) -> float:
    """Return the seconds that `count` turns of a loop take, divided among processes."""
    began = time.monotonic()
    started = [
        subprocess.Popen([sys.executable, "-c", LOOP, str(count // processes)], cwd=ROOT)
        for _ in range(processes)
    ]
    for process in started:
        process.wait()
    return time.monotonic() - began


def main(count: int) -> None:
    """Print the examples per second of each arm, and the ratios of two to one."""
    with tempfile.TemporaryDirectory() as folder, ray_node(), server() as url:
        long = write_examples(Path(folder) / "long.jsonl", count)
        short = write_examples(Path(folder) / "short.jsonl", count // 5)
        cache = Path(folder) / "cache"
        seconds(long, url, cache)
        rates: dict[str, list[float]] = {name: [] for name in (*BARE, *ARMS)}
        for _ in range(ROUNDS):
            for processes, name in enumerate(BARE, start=1):
                took = bare(count, processes) - bare(count // 5, processes)
                rates[name].append((count - count // 5) / took)
            for name, flags in ARMS.items():
                took = seconds(long, url, cache, *flags) - seconds(short, url, cache, *flags)
                rates[name].append((count - count // 5) / took)
        best = {name: max(each) for name, each in rates.items()}
        for name, rate in best.items():
            print(f"{name:28} {rate:8.0f} examples/s")
        for one, two in zip(list(best)[::2], list(best)[1::2], strict=True):
            print(f"{two} against {one}: {best[two] / best[one]:.2f}")
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", nargs="?", type=int, default=4000)
    main(parser.parse_args().count)
