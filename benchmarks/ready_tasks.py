"""Agreement with people on ready tasks: the figures in their files and in docs/tasks.md.

    python -m benchmarks.ready_tasks [--limit PAIRS]

`rag-reference`: the 196 pairs of answers of RAGChecker (Ru et al. 2024, arXiv 2408.08067) that two
people compared for correctness and completeness, from -2 to 2, against measures of each answer: the
difference of the two is correlated with the mean of the people, with intervals over pairs.
`conversation-turn` and `conversation`: the turns and conversations of FED (Mehri and Eskenazi
2020), on the aspects that its five raters rated under another name.
`agent`: the 100 conversations of tau-bench's airline (Yao et al. 2024, arXiv 2406.12045), which
succeeded or not, against what can be counted.

Data: the folder named by `TEXTASSAY_DATA`. No judge: none that runs offline is good enough.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
from pathlib import Path
from typing import Any

import textassay
from textassay import agreement

DATA = Path(os.environ.get("TEXTASSAY_DATA", "../shared/data"))
TOOLS = ("length", "rougeL", "rouge1", "chrf")
ASPECTS = ("correctness", "completeness")
FED = (
    ("fed_turn", "conversation-turn", "relevant"),
    ("fed_dialog", "conversation", "consistent"),
)


def rows_of(name: str) -> list[dict[str, Any]]:
    """Return the rows of a file of the data folder."""
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def shown(name: str, aspect: str, found: agreement.Agreement) -> None:
    """Print one line: Spearman's and Pearson's coefficients with their intervals."""
    ends = [found.estimate(one).ends or (float("nan"),) * 2 for one in ("spearman", "pearson")]
    pairs = zip((found.spearman, found.pearson), ends, strict=True)
    cells = [f"{value or 0:.2f} [{low:.2f}, {high:.2f}]" for value, (low, high) in pairs]
    print(f"{name:32}{aspect:14}n {found.n:4}  spearman {cells[0]}  pearson {cells[1]}")


def answers_of(pairs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each answer of the pairs as a row of its own."""
    return [
        {
            "id": f"{pair['id']}/{which}",
            "group": pair["id"],
            "source": pair["query"],
            "references": [pair["reference"]],
            "output": pair[which]["response"],
        }
        for pair in pairs
        for which in ("model1", "model2")
    ]


def correlated(
    pairs: list[dict[str, Any]], scores: dict[str, float | None], aspect: str
) -> agreement.Agreement:
    """Correlate differences of scores with the mean of the two people."""
    differences: list[float | None] = []
    for pair in pairs:
        first, second = (scores.get(f"{pair['id']}/{which}") for which in ("model1", "model2"))
        differences.append(None if first is None or second is None else second - first)
    people = [sum(label[aspect] for label in pair["labels"]) / 2 for pair in pairs]
    return agreement.correlate(differences, people, groups=[p["id"] for p in pairs], bootstrap=1000)


async def rag(limit: int | None) -> None:
    """Compare trivial measures with people's ratings of pairs of answers."""
    pairs = rows_of("ragchecker/pairs.jsonl.gz")[:limit]
    for aspect in ASPECTS:
        first, second = ([pair["labels"][at][aspect] for pair in pairs] for at in (0, 1))
        groups = [pair["id"] for pair in pairs]
        shown("one person, other", aspect, agreement.correlate(first, second, groups=groups))
    run = await textassay.evaluate(answers_of(pairs), method="tools", tools=TOOLS)
    for tool in TOOLS:
        scores = {score.id: score.value for score in run.scores if score.aspect == tool}
        for aspect in ASPECTS:
            shown(tool, aspect, correlated(pairs, scores, aspect))


async def conversations() -> None:
    """Measure agreement on the aspects that FED's raters judged, too."""
    for name, task, human in FED:
        data = DATA / name / f"{name}.jsonl"
        lengths = await textassay.evaluate(data, method="tools", tools=["length"])
        table = agreement.agreement_table(
            lengths, data, aspect_map={"length": human}, bootstrap=1000, raters=True
        )
        shown(f"{task}, length", human, table.rows[0].agreement)
        assert table.raters is not None
        ceiling = table.raters[0].agreement.ceiling
        print(f"{'one rater, the others':32}{human:14}spearman {ceiling and ceiling.spearman:.2f}")


def agent() -> None:
    """Compare counts of tau-bench's conversations with their success."""
    rows = rows_of("tau_airline/conversations.jsonl.gz")
    success = [float(row["human"]["success"]) for row in rows]
    groups = [row["group"] for row in rows]
    print(f"{'best constant':32}{'success':14}n {len(rows):4}  {1 - sum(success) / len(rows):.2f}")
    counted = {
        "messages": [float(len(row["messages"])) for row in rows],
        "calls": [
            float(sum(len(m.get("tool_calls") or ()) for m in row["messages"])) for row in rows
        ],
    }
    for name, values in counted.items():
        shown(name, "success", agreement.correlate(values, success, groups=groups, bootstrap=1000))


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, help="pairs to measure on; all by default")
    asyncio.run(rag(parser.parse_args().limit))
    asyncio.run(conversations())
    agent()


if __name__ == "__main__":
    main()
