"""Writes run folders as a run leaves them, through the real run folder."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from textassay.runtime.base import Usage
from textassay.runtime.data.dataset import Examples
from textassay.runtime.labels import labels_of
from textassay.runtime.messages import Score
from textassay.runtime.storage.run_folder import RunFolder

MANIFEST = {
    "textassay": "0.1.0",
    "created": "2026-01-02T03:04:05+00:00",
    "spec": {"method": "g-eval", "task": "summarization", "models": {"": "scripted"}, "tools": []},
    "method": {"name": "g-eval", "aspects": []},
    "models": {"": {"name": "scripted"}},
    "signature": "method:g-eval",
}


def words_of(page: str) -> str:
    """The page's words without markup, as a reader without a browser has them."""
    text = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", page, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def write_data(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """Write examples; half of a surrogate pair is escaped, as JSON allows."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="ascii")
    return path


def write_run(folder: Path, scores: Iterable[Score], data: Path | None = None) -> Path:
    """Write a finished run."""
    manifest = dict(MANIFEST)
    if data is not None:
        info = Examples(data, labels=labels_of(manifest)).check()
        manifest["data"] = {"path": str(data), "digest": info.digest, "count": info.count}

    async def write() -> None:
        with_scores = RunFolder.create(folder)
        try:
            with_scores.write_manifest(manifest)
            with_scores.append(scores)
            with_scores.write_summary()
        finally:
            await with_scores.aclose()

    asyncio.run(write())
    return folder


def score(id_: str, aspect: str = "coherence", value: float | None = 3.0, **fields: Any) -> Score:
    """A score from 1 to 5, or one without a value."""
    if value is None:
        fields = {
            "outcome": "invalid",
            "error": {"type": "NoScoreFound", "message": "no number"},
        } | fields
    usage = Usage(calls=1, prompt_tokens=10, completion_tokens=2, cost=0.001)
    return Score(
        id=id_, aspect=aspect, value=value, scale=(1.0, 5.0), usage=usage,
        signature="method:g-eval", **fields
    )  # fmt: skip


def small_data(path: Path, count: int = 24) -> Path:
    """Examples of three systems on eight sources, with ratings of two aspects."""
    rows = [
        {
            "id": f"x{i}",
            "output": f"Text {i} says that it rained on day {i}.",
            "source": f"It rained in place {i // 3} on many days, and the river rose.",
            "references": [f"It rained on day {i}."],
            "system": f"M{i % 3}",
            "group": f"g{i // 3}",
            "human": {"coherence": 1 + i % 5, "fluency": 5 - i % 4},
            "annotators": {"coherence": [1 + i % 5, 1 + i % 5]},
        }
        for i in range(count)
    ]
    return write_data(path, rows)


def small_run(folder: Path, data: Path, count: int = 24, shift: float = 0.0) -> Path:
    """Scores of two aspects, with a score that has no value."""
    scores = []
    for i in range(count):
        value = min(5.0, max(1.0, 1 + (i * 7 % 9) / 2 + shift))
        told = ({"text": "is it clear?", "answer": "yes", "p_yes": 0.8, "mass": 0.99},)
        scores.append(
            score(f"x{i}", value=value, explanation=f"Because of reason {i}.", evidence=told)
        )
        scores.append(score(f"x{i}", "fluency", None if i == 5 else 1.0 + i % 5))
    return write_run(folder, scores, data)
