"""Input and output of every arm of `benchmarks.peers`; uses the standard library only."""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path

MODEL, KEY = "mock", "none"
_RATING = re.compile(r"[1-5]")


@dataclass(frozen=True)
class Work:
    """Prompts to ask, where, and how many at once."""

    prompts: dict[str, str]
    """One prompt per id, in the order of the data."""
    api_base: str
    concurrency: int
    scores: Path

    def write(self, scores: dict[str, float]) -> None:
        """Write the score of each id."""
        self.scores.write_text(json.dumps(scores), encoding="utf-8")


def work() -> Work:
    """Read the arguments of an arm."""
    parser = argparse.ArgumentParser()
    parser.add_argument("prompts", type=Path)
    parser.add_argument("scores", type=Path)
    parser.add_argument("--api-base", required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    args = parser.parse_args()
    with args.prompts.open(encoding="utf-8") as lines:
        prompts = {row["id"]: row["prompt"] for row in map(json.loads, lines)}
    return Work(prompts, args.api_base, args.concurrency, args.scores)


def rating(answer: str) -> float:
    """Return the rating in an answer; every arm reads answers in this way.

    Raises:
        ValueError: It is missing.
    """
    if (found := _RATING.search(answer)) is None:
        raise ValueError(f"no rating in {answer!r}")
    return float(found[0])
