"""Every method over all of SummEval and Topical-Chat, and the outcome of each score.

    python -m benchmarks.every_method [--data FOLDER] [--methods a,b] [--limit N] [--model MODEL
    --api-base URL]

FOLDER holds `summeval/summeval.jsonl.gz` and `topical_chat/topical_chat.jsonl` (the environment
variable TEXTASSAY_DATA names it, too). Without `--model` the project's own server answers, which
rates without reading: the figures show that every text goes through every method to a score, and
how many calls that takes, not how good a text is. Stops with an error where a row, an aspect or a
reason is missing. `pairwise` compares each text with the next system's text on the same source.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.kill import command
from benchmarks.server import ROOT, server
from textassay.methods import METHODS
from textassay.runtime.data.dataset import Examples

DATA = {
    "summarization": Path("summeval", "summeval.jsonl.gz"),
    "dialogue": Path("topical_chat", "topical_chat.jsonl"),
}
FINISHED = (0, 1)
"""Exit statuses of a finished run, with and without missing scores."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run."""

    examples: int
    aspects: int
    calls: int
    outcomes: Counter[str]
    """Scores by outcome."""
    reasons: Counter[str]
    """Unscored results by type of error."""
    seconds: float

    def row(self, method: str, data: str) -> str:
        """Return a row of the table in markdown."""
        outcomes = ", ".join(f"{count} {name}" for name, count in self.outcomes.most_common())
        reasons = ", ".join(f"{name} x{count}" for name, count in self.reasons.most_common()) or "-"
        cells = (
            f"`{method}`",
            data,
            self.examples,
            self.aspects,
            self.calls,
            outcomes,
            reasons,
            f"{self.seconds:.0f}",
        )
        return "| " + " | ".join(map(str, cells)) + " |"


def run(method: str, task: str, data: Path, out: Path, flags: Sequence[object]) -> Outcome:
    """Judge a file by one method; every example must have a score, or a reason, for each aspect.

    Raises:
        RuntimeError: The run did not come to its end, or left something out.
    """
    began = time.monotonic()
    words = command(
        "score",
        data,
        "--method",
        method,
        "--task",
        task,
        "--out",
        out,
        "--progress",
        "none",
        "--no-cache",
        *flags,
    )
    process = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if process.returncode not in FINISHED:
        raise RuntimeError(
            f"{method} over {data} ended with status {process.returncode}: {process.stderr}"
        )
    seconds = time.monotonic() - began
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in (out / "scores.jsonl").read_text("utf-8").splitlines()
    ]
    examples, aspects = {row["id"] for row in rows}, {row["aspect"] for row in rows}
    if len(rows) != len({(row["id"], row["aspect"]) for row in rows}) or len(rows) != len(
        examples
    ) * len(aspects):
        raise RuntimeError(
            f"{method} over {data}: {len(rows)} scores of {len(examples)} examples on"
            f" {len(aspects)}"
        )
    if not all(_is_whole(row) for row in rows):
        raise RuntimeError(
            f"{method} over {data}: a score has neither a value nor a reason, or both"
        )
    return Outcome(
        examples=len(examples),
        aspects=len(aspects),
        calls=sum(row["usage"]["calls"] for row in rows),
        outcomes=Counter(row["outcome"] for row in rows),
        reasons=Counter(row["error"]["type"] for row in rows if row["error"]),
        seconds=seconds,
    )


def _is_whole(row: dict[str, Any]) -> bool:
    """Return whether a score has either a value or a reason for its absence."""
    is_missing, is_scored = row["value"] is None, row["outcome"] == "scored"
    return is_missing == (row["error"] is not None) and is_scored != is_missing


def write_pairs(data: Path, out: Path) -> Path:
    """Write each text of a file beside the next text on the same source; return the new file."""
    texts = sorted(Examples(data), key=lambda example: example.group or "")
    rows = [
        {
            "id": f"{first.id} {second.id}",
            "source": first.source,
            "context": first.context,
            "output": first.output,
            "output_b": second.output,
        }
        for first, second in pairwise(texts)
        if first.group == second.group
    ]
    out.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return out


def main() -> None:
    """Run every method over both files and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("TEXTASSAY_DATA"))
    parser.add_argument("--methods", default=",".join(METHODS), help="names, separated by commas")
    parser.add_argument("--limit", type=int, help="only so many rows of each file")
    parser.add_argument("--model", help="a model in place of the project's own server")
    parser.add_argument("--api-base", help="where the model is served")
    args = parser.parse_args()
    if args.data is None:
        sys.exit("name the folder of the data with --data or TEXTASSAY_DATA")
    limit = [] if args.limit is None else ["--limit", args.limit]
    print("| method | data | examples | aspects | calls | scores | reasons for none | seconds |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder, nullcontext() if args.model else server() as url:
        model = ["--model", args.model or "direct/mock"]
        base = url if args.model is None else args.api_base
        flags = [*limit, *model, *([] if base is None else ["--api-base", base])]
        for task, file in DATA.items():
            texts = args.data / file
            pairs = write_pairs(texts, Path(folder, f"{task}.jsonl"))
            for method in args.methods.split(","):
                data = pairs if method == "pairwise" else texts
                outcome = run(method, task, data, Path(folder, f"{task}-{method}"), flags)
                print(outcome.row(method, file.parent.name), flush=True)


if __name__ == "__main__":
    main()
