"""What the embedded model's scores are worth: how they agree with people on data that it never saw.

    python -m benchmarks.embedded_judge --data FOLDER [--model embedded] [--limit N] [--only
    summeval topical-chat]

FOLDER holds `summeval/summeval.jsonl.gz` and `topical_chat/topical_chat.jsonl` (the environment
variable TEXTASSAY_DATA names it, too). Scores come from the methods as users run them. Each cell is
Pearson's r over all rows and Spearman's rho within a source, averaged over sources. Then: what the
model adds to trivial features and ROUGE where a ridge regression learns from people, split by
source.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import textassay
from textassay.agreement import correlate, pearson
from textassay.learning import Aggregator
from textassay.learning.splits import folds, group_codes
from textassay.runtime.data.dataset import Examples
from textassay.runtime.messages import Example
from textassay.runtime.model import Model

Columns = dict[str, NDArray[np.float64]]
FILES = {
    "summeval": "summeval/summeval.jsonl.gz",
    "topical-chat": "topical_chat/topical_chat.jsonl",
}
TASKS = {"summeval": "summarization", "topical-chat": "dialogue"}
TOOLS = ("length", "novelty", "coverage", "repetition", "readability")
FOLDS = 5


async def judged(
    examples: Sequence[Example], task: str, aspects: Sequence[str], model: Model
) -> Columns:
    """Return the scores of each method by a name for the column; a missing score is NaN."""
    columns: Columns = {}

    async def add(name: str, method: str, wanted: Sequence[str], **options: Any) -> None:
        began = time.perf_counter()
        run = await textassay.evaluate(
            examples, method=method, task=task, aspects=list(wanted), model=model, options=options
        )
        by_key = {(score.id, score.aspect): score.value for score in run.scores}
        for aspect in wanted:
            values = [by_key[example.id, aspect] for example in examples]
            column = f"{name} {aspect}" if len(wanted) > 1 else name
            columns[column] = np.array([np.nan if value is None else value for value in values])
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)

    await add("gptscore", "gptscore", aspects[:1])
    await add("gptscore pmi", "gptscore", aspects[:1], pmi=True)
    await add("gptscore normalized pmi", "gptscore", aspects[:1], pmi="normalized")
    return columns


async def trivial(examples: Sequence[Example], task: str) -> Columns:
    """Return what counting tells, by the project's own tools and the recorded ROUGE."""
    columns: Columns = {}
    for name in TOOLS:
        run = await textassay.evaluate(examples, method="tools", task=task, tools=[name])
        found: dict[str, dict[str, float | None]] = {}
        for score in run.scores:
            found.setdefault(score.aspect, {})[score.id] = score.value
        for aspect, values in found.items():
            column = [values.get(example.id) for example in examples]
            columns[f"{name}:{aspect}"] = np.array(
                [np.nan if value is None else value for value in column], float
            )
    for key in (
        "computed/rouge1_f",
        "computed/rouge2_f",
        "computed/rougeL_f",
        "computed/rouge1_f_multimax",
    ):
        if all(key in example.metrics for example in examples):
            columns[key] = np.array(
                [np.nan if (v := example.metrics[key]) is None else v for example in examples],
                float,
            )
    return columns


def cell(scores: NDArray[np.float64], human: Sequence[float | None], groups: Sequence[str]) -> str:
    """Return r over all rows and rho within groups."""
    values = [None if np.isnan(value) else float(value) for value in scores]
    pooled = correlate(values, human, groups=groups, level="dataset").pearson
    within = correlate(values, human, groups=groups, level="group").spearman
    return "/".join("   - " if value is None else f"{value:5.2f}" for value in (pooled, within))


def table(
    columns: Columns, human: Mapping[str, Sequence[float | None]], groups: Sequence[str]
) -> Iterable[str]:
    """Yield the lines of a table of agreement."""
    yield f"{'':34}" + "".join(f"{name[:12]:>13}" for name in human)
    for column, scores in columns.items():
        yield f"{column:34}" + "".join(
            f"  {cell(scores, ratings, groups)}" for ratings in human.values()
        )


def learnt(columns: Columns, human: NDArray[np.float64], groups: Sequence[str]) -> float:
    """Return the mean r over aspects of held-out ridge predictions, split by group."""
    features = np.column_stack(list(columns.values()))
    parts = folds(group_codes(groups), FOLDS, seed=0)
    predicted = np.full_like(human, np.nan)
    for part in range(FOLDS):
        train = parts != part
        aggregator = Aggregator("ridge").fit(
            features[train], human[train], groups=np.asarray(groups)[train].tolist()
        )
        predicted[~train] = aggregator.predict(features[~train])
    found = [pearson(p, h) for p, h in zip(predicted.T, human.T, strict=True)]
    return float(np.mean([r for r in found if r is not None]))


async def measure(name: str, path: Path, model: Model, limit: int | None) -> None:
    """Print the tables of one data set."""
    examples = list(itertools.islice(Examples(path), limit))
    groups = [example.group or example.id for example in examples]
    rated = sorted({aspect for example in examples for aspect in example.human})
    human = {aspect: [example.human.get(aspect) for example in examples] for aspect in rated}
    aspects = [aspect for aspect in rated if aspect != "overall"]
    if "overall" not in human:
        human["overall"] = [
            float(np.mean([example.human[a] for a in aspects])) for example in examples
        ]
    print(f"\n{name}: {len(examples)} rows, {len(set(groups))} sources")
    ours, counted = (
        await judged(examples, TASKS[name], aspects, model),
        await trivial(examples, TASKS[name]),
    )
    for line in table(ours | counted, human, groups):
        print(line)
    ratings = np.array(
        [[example.human.get(aspect, np.nan) for aspect in aspects] for example in examples], float
    )
    for what, columns in (
        ("trivial and ROUGE", counted),
        ("the model", ours),
        ("both", counted | ours),
    ):
        print(f"learnt from {what}: mean r {learnt(columns, ratings, groups):.3f}")


async def main() -> None:
    """Measure as told."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.embedded_judge", description=__doc__
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("TEXTASSAY_DATA"))
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--only", nargs="+", choices=FILES, default=list(FILES))
    given = parser.parse_args()
    if given.data is None:
        parser.error("say with --data where the data are")
    async with textassay.connect(given.model) as model:
        for name in given.only:
            await measure(name, Path(given.data) / FILES[name], model, given.limit)


if __name__ == "__main__":
    asyncio.run(main())
