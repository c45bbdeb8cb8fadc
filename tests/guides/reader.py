"""A reader's folder: data, runs and settings with the names that the guides use, and a server."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

from tests.cli.harness import textassay

ASPECTS = ("coherence", "consistency", "fluency", "relevance")


def write_folder(folder: Path, url: str) -> None:
    """Write what the guides take for granted: rated texts, judged runs, a calibration."""
    rng = random.Random(7)
    rows = [_row(source, system, rng) for source in (*range(11), 17) for system in range(4)]
    unrated = [{k: row[k] for k in row if k not in ("human", "annotators")} for row in rows]
    _write(folder / "data.jsonl", rows)
    _write(folder / "all_rated.jsonl", rows)
    _write(folder / "rated.jsonl", rows[:32] + unrated[32:])
    _write(folder / "new.jsonl", unrated[:6])
    (folder / "judge.toml").write_text(
        f'method = "llm-score"\ntask = "summarization"\nmodel = "direct/judge"\n'
        f'api_base = "{url}"\n'
        'aspects = "fluency"\nset = { batch_wait = 0.05, batch_poll = 0.02 }\n',
        encoding="utf-8",
    )
    done = textassay(
        "score", folder / "data.jsonl", "--method", "g-eval", "--task", "summarization",
        "--model", "direct/judge", "--api-base", url, "--out", folder / "runs" / "first",
    )  # fmt: skip
    assert done.code == 0, done.err
    for name in ("second", "a", "new", "old"):
        shutil.copytree(folder / "runs" / "first", folder / "runs" / name)
    shutil.copy(folder / "runs" / "first" / "scores.jsonl", folder / "scores.jsonl")
    rated = (folder / "scores.jsonl", folder / "rated.jsonl")
    for name in ("cal", "calibrations/gpt-4o"):
        done = textassay("calibrate", *rated, "--out", folder / name)
        assert done.code == 0, done.err


def _row(source: int, system: int, rng: random.Random) -> dict[str, object]:
    raters = {aspect: [rng.randint(1, 5) for _ in range(3)] for aspect in ASPECTS}
    return {
        "id": f"doc-{source}-M{system}",
        "output": f"Text {source} of system {system} says that it rained on {3 + source} days.",
        "source": f"It rained in place {source} on {3 + source} days, and the river rose.",
        "references": [f"It rained on {3 + source} days."],
        "system": f"M{system}",
        "group": f"doc-{source}",
        "human": {aspect: sum(given) / 3 for aspect, given in raters.items()},
        "annotators": raters,
        "metrics": {
            **{f"gpt-4/{aspect}": rng.uniform(1, 5) for aspect in ASPECTS},
            "rouge1": rng.random(),
        },
    }


def _write(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
