"""Write the files of docs/estimation.md: scores.jsonl, rated.jsonl and all_rated.jsonl.

python -m benchmarks.decisions_story FOLDER --data FOLDER_WITH_ALTTEST
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ASPECTS = ("coherence", "consistency", "fluency", "relevance")
RATED, SEED = 20, 1


def write(out: Path, recorded: Path, judge: str = "gpt-4o") -> None:
    """Write a judge's scores, all ratings, and the ratings of 20 articles drawn by chance."""
    with gzip.open(recorded, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    drawn = set(random.Random(SEED).sample(sorted({row["group"] for row in rows}), RATED))
    scores = [
        {"id": row["id"], "aspect": aspect, "value": row["metrics"][f"{judge}/{aspect}"],
         "scale": [1, 5]}
        for row in rows
        for aspect in ASPECTS
    ]  # fmt: skip
    texts = [{key: row.get(key) for key in ("id", "group", "system", "output")} for row in rows]
    rated = [
        {**text, "annotators": row["annotators"] if row["group"] in drawn else {}}
        for text, row in zip(texts, rows, strict=True)
    ]
    all_rated = [
        {**text, "annotators": row["annotators"]} for text, row in zip(texts, rows, strict=True)
    ]
    out.mkdir(parents=True, exist_ok=True)
    for name, content in (("scores", scores), ("rated", rated), ("all_rated", all_rated)):
        _write(out / f"{name}.jsonl", content)


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="with alttest/summeval.jsonl.gz")
    options = parser.parse_args()
    write(options.out, options.data / "alttest" / "summeval.jsonl.gz")
