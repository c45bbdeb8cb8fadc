"""The README's Python example runs as it stands, and its figures are what the commands print."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from examples.mock_server import MockServer
from tests.benchmark_data import benchmark
from tests.cli.harness import textassay
from textassay.agents.reading.rating import Rating, parse_rating

ROOT = Path(__file__).parents[1]


@pytest.mark.asyncio
async def test_python_example(
    mock_server: Callable[..., Awaitable[MockServer]], tmp_path: Path
) -> None:
    """The code block, against a server on this machine in place of the provider."""
    import asyncio

    code = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )[0]
    row = {"output": "A summary of the text.", "source": "A text that is longer than its summary."}
    (tmp_path / "data.jsonl").write_text(json.dumps(row), encoding="utf-8")
    server = await mock_server()
    known = {"OPENAI_API_KEY": "none", "OPENAI_API_BASE": server.url, "PYTHONPATH": str(ROOT)}
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, **known},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "1 scored" in done.stdout
    assert (tmp_path / "runs" / "first" / "scores.jsonl").exists()


def test_the_figures_of_gpt_4_follow_from_its_recorded_answers(tmp_path: Path) -> None:
    """Read as a run reads them; ROUGE and length are measured by `recorded_judges`."""
    answers = {
        (row["id"], row["dimension"]): row["raw"][0]
        for row in benchmark("summeval/predictions_llm_judges.jsonl.gz")
        if (row["judge"], row["prompt"]) == ("gpt-4-0314", "rts")
    }
    judged = {id_ for id_, _ in answers}
    rows = [row for row in benchmark("summeval/summeval.jsonl.gz") if row["id"] in judged]
    texts = [{**row, "metrics": {}} for row in rows]
    scores, first = [], dict[str, str]()
    for row in rows:
        # of equal texts, which some systems copied, only the first is asked about
        asked = first.setdefault(row["output"], row["id"])
        for aspect in ("coherence", "consistency", "fluency", "relevance"):
            found = parse_rating(answers[asked, aspect], scale=(1, 5), aspect=aspect)
            value = found.value if isinstance(found, Rating) else None
            scores.append({"id": row["id"], "aspect": aspect, "value": value, "scale": [1, 5]})
    for name, lines in (("scores", scores), ("data", texts)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
    files = tmp_path / "scores.jsonl", tmp_path / "data.jsonl"

    def rows_of(command: str, *flags: object) -> dict[str, dict[str, Any]]:
        done = textassay(command, *files, *flags, "--json")
        return {row["aspect" if "aspect" in row else "score"]: row
                for row in json.loads(done.out)["rows"]}  # fmt: skip

    rhos = rows_of("meta", "--level", "group", "--bootstrap", 0)
    may, means = rows_of("alt-test"), rows_of("estimate")
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(
        r"^\| (\w+) \| (\S+) \[.*?\] \| \S+ \| \S+ \| (\S+) \| (\S+) \| (\S+) \|$", page, re.M
    )
    assert shown == [
        (
            aspect,
            f"{rhos[aspect]['spearman']:.3f}",
            "**yes**" if may[aspect]["may_stand_in"] else "no",
            f"{means[aspect]['judge_only']['value']:.3f}",
            f"{means[aspect]['labels_only']['value']:.3f}",
        )
        for aspect in sorted(rhos, key=lambda one: -rhos[one]["spearman"])
    ]
    unread = sum(score["value"] is None for score in scores)
    assert f"{unread} answers contain no usable rating" in " ".join(page.split())
