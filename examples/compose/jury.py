"""A jury: three models rate each text, and the score is their median unless they are far apart.

Run it with `python -m examples.compose.jury`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from statistics import median

import textassay
from examples.compose.scripts import SUMMARIES, counting_judge
from textassay import Aspect, Assignment, Example, Failure, Graph, Node, Score, ScoreError, each
from textassay.agents import Ask, Scorer
from textassay.methods import tasks
from textassay.runtime import Model

TASK = tasks.load("summarization", ["consistency"])
FARTHEST = 1.0
"""The jury abstains if its ratings are further apart than this."""


async def verdict(
    example: Example,
    aspect: Aspect,
    first: Score | Failure,
    second: Score | Failure,
    third: Score | Failure,
) -> Score:
    """Return the median, or abstain; a juror without a rating is never counted as a number."""
    jurors = [juror for juror in (first, second, third) if isinstance(juror, Score)]
    values = [juror.value for juror in jurors if juror.value is not None]
    evidence = tuple({"text": juror.signature, "value": juror.value} for juror in jurors)
    found = {
        "id": example.id,
        "aspect": aspect.label,
        "scale": aspect.scale,
        "how": "fused",
        "evidence": evidence,
    }
    if len(values) < 2:
        problem = ScoreError(type="NoQuorum", message=f"{len(values)} of 3 jurors gave a rating")
        return Score(**found, outcome="abstained", error=problem)
    if max(values) - min(values) > FARTHEST:
        problem = ScoreError(type="JuryDisagrees", message=f"the jurors say {values}")
        return Score(**found, outcome="abstained", error=problem)
    return Score(**found, value=median(values))


def jury(models: Sequence[Model]) -> Graph:
    """Wire three jurors, which run concurrently, to the verdict."""
    names = ("first", "second", "third")
    jurors = [
        Node(
            name,
            Scorer(Ask(model, "llm_score", TASK)),
            example="input.example",
            aspect=each("input.aspects"),
        )
        for name, model in zip(names, models, strict=True)
    ]
    wires = {name: each(name) for name in names}
    last = Node("verdict", verdict, example="input.example", aspect=each("input.aspects"), **wires)
    return Graph("jury", input=Assignment, nodes=[*jurors, last], output="verdict")


async def main() -> None:
    """Judge the bundled summaries with jurors of different strictness."""
    models = [
        counting_judge("mild", power=0.5),
        counting_judge("fair"),
        counting_judge("strict", power=2),
    ]
    run = await textassay.evaluate(
        SUMMARIES, method=jury(models), task="summarization", aspects=["consistency"]
    )
    for score in sorted(run, key=lambda score: score.id):
        shown = (
            f"{score.value:g}" if score.error is None else f"{score.outcome}: {score.error.message}"
        )
        print(f"{score.id:20} {shown}")


if __name__ == "__main__":
    asyncio.run(main())
