"""The main job offline: bundled examples, scored through a real HTTP server, held against ratings.

    python examples/demo.py [RUN]

The texts and the ratings in `examples/data/summaries.jsonl` were written for this demo. The server runs in this
process and its judge is scripted: it counts how many of the output's words stand in the source and calls that a
rating. What you see is the real pipeline at work, not a judgement of quality.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import textassay
from textassay.cli.progress import shown
from textassay.evaluation.api import finish, session_of
from textassay.evaluation.run import Run
from textassay.meta import agreement_table, read_scores
from textassay.runtime.data import Examples
from textassay.runtime.settings import Settings

HERE = Path(__file__).parent
if __package__ in (None, ""):
    sys.path.insert(0, str(HERE.parent))

from examples.mock_server import Options, serve  # noqa: E402  # found only once the path is set

DATA = HERE / "data" / "summaries.jsonl"
TEXT = re.compile(r"<(source|output)-[0-9a-f]{8}>\n(.*?)\n</\1-[0-9a-f]{8}>", re.DOTALL)


def words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return re.findall(r"[a-z0-9]+", text.lower())


def scripted_judge(body: dict[str, Any], draw: int) -> str:
    """Rate by the share of the output's words that the source has: a script, and no judge."""
    texts = dict(TEXT.findall(body["messages"][-1]["content"]))
    said, source = words(texts["output"]), set(words(texts["source"]))
    share = sum(word in source for word in said) / max(1, len(said))
    return f"A script found {share:.0%} of the words in the source.\nScore: {1 + round(4 * share)}"


async def score(out: Path) -> Run:
    """Score the bundled examples through the server, into a run folder."""
    async with (
        serve(Options(latency_ms=50, reply=scripted_judge)) as server,
        session_of(
            DATA,
            method="llm-score",
            task="summarization",
            model="direct/scripted-judge",
            settings=Settings(api_base=server.url),
            out=out,
        ) as session,
        shown(lambda: session.engine.progress, "auto"),
    ):
        return await finish(session)


def show(run: Run, console: Console) -> None:
    """Print scores, one score in full, and agreement."""
    rows: dict[str, dict[str, str]] = {}
    for found in run:
        rows.setdefault(found.id, {})[found.aspect] = "-" if found.value is None else f"{found.value:g}"
    aspects = list(next(iter(rows.values())))
    table = Table("example", *aspects, title="Scores", title_justify="left", box=None)
    for id_, values in rows.items():
        table.add_row(id_, *(values.get(aspect, "-") for aspect in aspects))
    console.print(table)
    first = next(iter(run))
    console.print(f"\nWhy {first.id} has {first.value:g} for {first.aspect}: {first.explanation!r}\n", markup=False)
    assert run.folder is not None
    people = agreement_table(read_scores(run.folder), Examples(DATA), bootstrap=500, seed=1)
    table = Table("aspect", "n", "Pearson", "95 % interval", "Spearman", box=None, title_justify="left")
    table.title = "Agreement with the ratings that we gave"
    for row in people.rows:
        found_ = row.agreement
        span = found_.ci["pearson"] if found_.ci else None
        table.add_row(
            row.aspect,
            str(found_.n),
            "-" if found_.pearson is None else f"{found_.pearson:.2f}",
            "-" if span is None else f"{span[0]:.2f} to {span[1]:.2f}",
            "-" if found_.spearman is None else f"{found_.spearman:.2f}",
        )
    console.print(table)


def main() -> None:
    """Run the demo."""
    console = Console(highlight=False)
    console.print("textassay", textassay.__version__, "- the pipeline offline.")
    console.print("The judge is SCRIPTED (word overlap): these numbers show how it works, not how good a text is.\n")
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="textassay-demo-")) / "run"
    show(asyncio.run(score(out)), console)
    shown_path = DATA.relative_to(Path.cwd()) if DATA.is_relative_to(Path.cwd()) else DATA
    console.print(f"\nThe run is in {out} (manifest.json, scores.jsonl, summary.json). With a real judge:")
    console.print(
        f"  .venv/bin/textassay score {shown_path} --method g-eval --task summarization "
        "--model openai/gpt-4.1-mini --out my-run",
        soft_wrap=True,
    )
    console.print(f"  .venv/bin/textassay meta my-run {shown_path}", soft_wrap=True)


if __name__ == "__main__":
    main()
