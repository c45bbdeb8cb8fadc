"""Size of a large report, and the time from starting a browser to a list that can be used.

python -m benchmarks.report_large [--scores 100000]

Explanations have 200 characters and are as formulaic as judges' are; outputs have 40 words, and
each score has five label probabilities as evidence. The target is 100,000 scores under 12 MB and 6
s.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import tempfile
import time
from itertools import accumulate
from pathlib import Path

from textassay.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update",
         "--disable-sync")  # fmt: skip
FINDINGS = ("supports", "does not mention", "contradicts", "states in other words")
QUALITIES = ("clear", "vague", "repetitive", "well ordered", "hard to follow", "to the point")
ASPECTS = ("coherence", "consistency", "fluency", "relevance")


def write_run(folder: Path, scores: int) -> Path:
    """Write a data set and a run folder of so many scores, with ratings, words and evidence."""
    chance = random.Random(0)
    words = ["".join(chance.choices("etaoinshrdlu", k=chance.randint(2, 9))) for _ in range(3000)]
    weights = list(
        accumulate(1 / rank for rank in range(1, 3001))
    )  # Zipf's law, as in any language

    def text(count: int) -> str:
        return " ".join(chance.choices(words, cum_weights=weights, k=count))

    def explanation(aspect: str) -> str:
        opinion = chance.choice(("clearly", "partly", "hardly", "not at all"))
        return (
            f"The text says that {text(3)}, which the source {chance.choice(FINDINGS)}. In"
            " terms of "
            f"{aspect} it holds together {opinion}; its account of {text(2)} is "
            f"{chance.choice(QUALITIES)} and {chance.choice(QUALITIES)}."
        ).ljust(200, ".")[:200]

    data, run = folder / "data.jsonl", folder / "run"
    run.mkdir()
    manifest = {
        "format": 1, "spec": {"method": "g-eval", "task": "summarization", "models": {"": "x"}},
        "method": {"name": "g-eval"}, "models": {"": {"name": "x"}}, "data": {"path": str(data)},
    }  # fmt: skip
    (run / "manifest.json").write_text(json.dumps(manifest))
    count = scores // len(ASPECTS)
    with data.open("w") as rows, (run / "scores.jsonl").open("w") as lines:
        for i in range(count):
            if i % 16 == 0:
                source = text(250)
            human = {aspect: chance.choice([1, 2, 3, 4, 5]) for aspect in ASPECTS}
            row = {"id": f"x{i:06}", "output": text(40), "source": source, "system": f"M{i % 16}",
                   "group": f"g{i // 16}", "human": human}  # fmt: skip
            rows.write(json.dumps(row) + "\n")
            for aspect in ASPECTS:
                shares = [chance.random() for _ in range(5)]
                evidence = [
                    {"text": str(label + 1), "probability": round(share / sum(shares), 6)}
                    for label, share in enumerate(shares)
                ]
                value = sum((label + 1) * share for label, share in enumerate(shares)) / sum(shares)
                line = {
                    "id": row["id"], "aspect": aspect, "value": value, "outcome": "scored",
                    "scale": [1, 5],
                    "how": "logprob", "mass": 0.99, "explanation": explanation(aspect),
                    "evidence": evidence,
                    "signature": "s",
                }  # fmt: skip
                lines.write(json.dumps(line) + "\n")
    return run


def main() -> None:
    """Make the page, open it, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scores", type=int, default=100_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = write_run(folder, args.scores)
        page = folder / "report.html"
        began = time.perf_counter()
        write_report([run], page, human=folder / "data.jsonl")
        made = time.perf_counter() - began
        size = page.stat().st_size / 1e6
        print(f"{args.scores:,} scores: {size:.2f} MB, made in {made:.1f} s")
        if CHROMIUM is None:
            return
        profile = f"--user-data-dir={folder / 'profile'}"
        began = time.perf_counter()
        shown = subprocess.run(
            [CHROMIUM, *FLAGS, profile, "--virtual-time-budget=5000", "--dump-dom", page.as_uri()],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        seconds = time.perf_counter() - began
        ready = 'data-ready="true"' in shown[:200_000] and f"{args.scores:,} scores" in shown
        print(
            f"from starting the browser to the list: {seconds:.1f} s,"
            f" {'ready' if ready else 'NOT READY'}"
        )


if __name__ == "__main__":
    main()
