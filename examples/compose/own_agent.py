"""A custom agent between two built-in ones: it shortens the steps that the judge reads.

Run it with `python -m examples.compose.own_agent`.
"""

from __future__ import annotations

import asyncio
import re

import textassay
from examples.compose.scripts import SUMMARIES, counting_judge
from textassay import Assignment, Graph, Node, each
from textassay.agents import Ask, Scorer, StepsWriter
from textassay.methods import tasks
from textassay.runtime import Model, ScriptedModel, once

TASK = tasks.load("data-to-text", ["naturalness"]).model_copy(update={"name": "short-steps"})
MOST = 2


async def cut(steps: str) -> str:
    """Keep the first steps: any async function with annotations is an agent."""
    lines = [line for line in steps.splitlines() if re.match(r"\s*\d+\.", line)]
    return "\n".join(lines[:MOST]) if lines else steps


def short_steps(writer: Model, judge: Model) -> Graph:
    """Wire writer, cutter and judge; `once` has the steps written once for all examples."""
    write = once(StepsWriter(Ask(writer, "g_eval_steps", TASK)))

    async def written(aspect: textassay.Aspect) -> str:
        return await write(aspect)

    return Graph(
        "short-steps",
        input=Assignment,
        nodes=[
            Node("steps", written, aspect=each("input.aspects")),
            Node("cut", cut, steps=each("steps")),
            Node(
                "scores",
                Scorer(Ask(judge, "g_eval", TASK), method="short-steps"),
                example="input.example",
                aspect=each("input.aspects"),
                steps=each("cut"),
            ),
        ],
        output="scores",
    )


async def main() -> None:
    """Judge the bundled summaries; print a prompt and the graph."""
    writer = ScriptedModel(
        ["1. Read the text.\n2. Say it aloud.\n3. Wait a day.\n4. Rate it."], name="writer"
    )
    judge = counting_judge("judge")
    graph = short_steps(writer, judge)
    run = await textassay.evaluate(
        SUMMARIES, method=graph, task="data-to-text", aspects=["naturalness"]
    )
    shown = [line for line in judge.requests[0].text.splitlines() if re.match(r"\d\. ", line)]
    print(
        f"{len(run.scores)} scores; steps written {len(writer.requests)} time;"
        f" the judge saw {shown}"
    )
    print(graph.to_mermaid())


if __name__ == "__main__":
    asyncio.run(main())
