"""kill -9 at random moments of a run, then resume: lost scores, repeated calls and differences.

    python -m benchmarks.kill [--kills 10] [--samples 400]

Each trial starts a new run, kills it at a random moment, and resumes it to the end. The result is
compared with an undisturbed run: same id, aspect, value and outcome, each exactly once; finished
scores still there; no more calls repeated than were in flight.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.examples_made import make
from benchmarks.server import ROOT, counters, server

CONCURRENCY = 50
Key = tuple[str, str, float | None, str]


def command(*arguments: object) -> list[str]:
    """Return the command line of textassay in this interpreter."""
    return [
        sys.executable,
        "-c",
        "from textassay.cli import main; main()",
        *(str(a) for a in arguments),
    ]


def score(data: Path, url: str, out: Path) -> list[str]:
    """Return the command that starts the run."""
    return command(
        "score", data, "--method", "llm-score", "--task", "summarization", "--model",
        "direct/mock", "--api-base", url,
        "--concurrency", CONCURRENCY, "--out", out, "--progress", "none",
    )  # fmt: skip


def rows(folder: Path) -> list[Key]:
    """Return the scores in the run's complete lines."""
    path = folder / "scores.jsonl"
    text = path.read_bytes() if path.exists() else b""
    lines = text[: text.rfind(b"\n") + 1].splitlines()
    return [(r["id"], r["aspect"], r["value"], r["outcome"]) for r in map(json.loads, lines)]


def begun(data: Path, url: str, folder: Path) -> tuple[subprocess.Popen[bytes], float]:
    """Start the run and wait for its first request; return the process and the time."""
    process = subprocess.Popen(score(data, url, folder), cwd=ROOT, stdout=subprocess.DEVNULL)
    while not (folder / "scores.jsonl").exists():
        assert process.poll() is None, "the run ended before it began"
        time.sleep(0.01)
    return process, time.monotonic()


def trial(folder: Path, data: Path, wanted: Counter[Key], seconds: float) -> tuple[int, int]:
    """Kill once, resume, check.

    Return how many scores were finished and how many calls were repeated.

    Raises:
        AssertionError: Something was lost, doubled or changed.
    """
    with server(latency_ms=40, latency_max_ms=80) as url:
        process, _ = begun(data, url, folder)
        time.sleep(seconds)
        process.kill()
        process.wait()
        before = rows(folder)
        if (folder / "manifest.json").exists():
            again = command("resume", folder, "--progress", "none", "--api-base", url)
        else:
            again = score(data, url, folder)
        subprocess.run(again, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        after, seen = rows(folder), counters(url)
    assert after[: len(before)] == before, "a finished score was lost or changed"
    assert Counter(after) == wanted, "the resumed run differs from an undisturbed one"
    repeated = int(seen["requests"]) - int(seen["distinct_bodies"])
    assert repeated <= CONCURRENCY, f"{repeated} calls were repeated, {CONCURRENCY} were in flight"
    return len(before), repeated


def main() -> None:
    """Run the trials and print one line each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = make(folder / "data.jsonl", args.samples)
        with server(latency_ms=40, latency_max_ms=80) as url:
            process, began = begun(data, url, folder / "whole")
            assert process.wait() == 0
            length = time.monotonic() - began
        wanted = Counter(rows(folder / "whole"))
        print(f"undisturbed: {sum(wanted.values())} scores in {length:.1f} s")
        for at in range(args.kills):
            seconds = rng.uniform(0, 0.9 * length)
            finished, repeated = trial(folder / f"trial-{at}", data, wanted, seconds)
            print(
                f"killed after {seconds:4.1f} s: {finished:5} scores kept, {repeated:3} calls"
                " repeated"
            )
    print(f"nothing lost, nothing doubled, at most {CONCURRENCY} calls repeated")


if __name__ == "__main__":
    main()
