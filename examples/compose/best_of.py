"""Best of several drafts: each is scored on every aspect, and the best one is kept.

Run it with `python -m examples.compose.best_of`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import groupby

from examples.compose.scripts import SUMMARIES, counting_judge
from textassay import Aspect, Example, Failure, Graph, Node, Score, each
from textassay.agents import Ask, Scorer
from textassay.methods import tasks
from textassay.runtime import Examples, Message

TASK = tasks.load("summarization", ["consistency", "relevance"])


class Drafts(Message):
    """A source and the drafts about it. A graph may take any message."""

    drafts: tuple[Example, ...]


class Judged(Message):
    """One draft with its scores."""

    draft: Example
    scores: tuple[Score, ...]

    @property
    def total(self) -> float | None:
        """Sum over the aspects; `None` if one has no score: a missing score is never a number."""
        values = [score.value for score in self.scores]
        return None if None in values else sum(value for value in values if value is not None)


class Best(Message):
    """The draft to use; `None` if no draft has all scores."""

    draft: Example | None
    total: float | None = None
    unscored: int = 0


@dataclass(frozen=True)
class OnEveryAspect:
    """Scores one draft on all aspects concurrently."""

    scorer: Scorer
    aspects: tuple[Aspect, ...]

    async def __call__(self, draft: Example) -> Judged:
        """Return the draft with a score per aspect."""
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self.scorer(draft, aspect)) for aspect in self.aspects]
        return Judged(draft=draft, scores=tuple(task.result() for task in running))


async def best(judged: list[Judged | Failure]) -> Best:
    """Return the draft with the highest total; drafts that failed are counted, not guessed."""
    scored = [one for one in judged if isinstance(one, Judged) and one.total is not None]
    if not scored:
        return Best(draft=None, unscored=len(judged))
    top = max(scored, key=lambda one: one.total or 0.0)
    return Best(draft=top.draft, total=top.total, unscored=len(judged) - len(scored))


def best_of(scorer: Scorer) -> Graph:
    """Score all drafts concurrently, then choose."""
    return Graph(
        "best-of",
        input=Drafts,
        nodes=[
            Node("judged", OnEveryAspect(scorer, TASK.aspects), draft=each("input.drafts")),
            Node("best", best, judged="judged"),
        ],
        output="best",
    )


async def main() -> None:
    """Choose among the six bundled summaries of each article."""
    graph = best_of(Scorer(Ask(counting_judge("judge"), "llm_score", TASK)))
    examples = sorted(Examples(SUMMARIES), key=lambda one: one.group or "")
    for source, drafts in groupby(examples, key=lambda one: one.group):
        chosen = await graph.run(Drafts(drafts=tuple(drafts)))
        if isinstance(chosen, Failure):
            raise SystemExit(chosen.message)
        name = "none" if chosen.draft is None else chosen.draft.system
        print(f"{source}: {name} (total {chosen.total}, {chosen.unscored} without a score)")


if __name__ == "__main__":
    asyncio.run(main())
