"""A cascade: a cheap model is asked five times, and a strong one only if the cheap one is unsure.

Run it with `python -m examples.compose.cascade`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import textassay
from examples.compose.scripts import SUMMARIES, counting_judge
from textassay import Aspect, Assignment, Example, Graph, Node, Score, each
from textassay.agents import Ask, Scorer
from textassay.methods import tasks
from textassay.runtime import Model

TASK = tasks.load("summarization", ["consistency"])


@dataclass(frozen=True)
class SecondOpinion:
    """Keeps the cheap judge's score if its samples agree, and asks the strong judge otherwise."""

    strong: Scorer
    widest: float = 0.4
    """Standard deviation of the cheap judge's samples above which it counts as unsure."""

    async def __call__(self, example: Example, aspect: Aspect, cheap: Score) -> Score:
        """Return one of the scores; the cheap one stays as evidence, and its cost in the usage."""
        if cheap.value is not None and cheap.spread is not None and cheap.spread <= self.widest:
            return cheap
        score = await self.strong(example, aspect)
        reason = "the cheap judge was unsure"
        unsure = {"text": reason, "value": cheap.value, "spread": cheap.spread}
        return score.model_copy(
            update={"evidence": (unsure, *score.evidence), "usage": cheap.usage + score.usage}
        )


def cascade(cheap: Model, strong: Model) -> Graph:
    """Wire the cheap judge before the second opinion."""
    sampling = Scorer(Ask(cheap, "llm_score", TASK, n=5, temperature=1.0), how="sampled")
    again = SecondOpinion(Scorer(Ask(strong, "llm_score", TASK)))
    wires: dict[str, Any] = {"example": "input.example", "aspect": each("input.aspects")}
    return Graph(
        "cascade",
        input=Assignment,
        nodes=[
            Node("cheap", sampling, **wires),
            Node("scores", again, **wires, cheap=each("cheap")),
        ],
        output="scores",
    )


async def main() -> None:
    """Judge the bundled summaries and count the requests to each judge."""
    cheap, strong = counting_judge("cheap", shaky=True), counting_judge("strong")
    run = await textassay.evaluate(
        SUMMARIES, method=cascade(cheap, strong), task="summarization", aspects=["consistency"]
    )
    few, many = len(strong.requests), len(cheap.requests)
    asked = f"{many} requests to the cheap judge, {few} to the strong one"
    print(f"{len(run.scores)} scores: {asked}")


if __name__ == "__main__":
    asyncio.run(main())
