"""Which of two texts is better? Asked in both orders; what flips with the order is no judgement, and is counted.

Run it with `python -m examples.compose.pairwise`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from examples.compose.scripts import SUMMARIES, overlap, texts_in
from textassay import Failure, Graph, Node
from textassay.prompts import fence, nonce
from textassay.runtime import ChatMessage, Examples, Message, Model, Request, ScriptedModel, errors


class Pair(Message):
    """Two texts made from one source. A graph of one's own may take any message."""

    source: str
    left: str
    right: str


class Choice(Message):
    """Which place held the better text."""

    place: Literal["A", "B"]


class Verdict(Message):
    """The choice of both orders."""

    better: Literal["left", "right"] | None
    """`None` where the choice flipped with the order."""


@dataclass(frozen=True)
class Comparer:
    """Asks a model which of two texts is better."""

    model: Model

    async def __call__(self, source: str, a: str, b: str) -> Choice:
        """Return the better place; an answer that names neither fails, and guesses nothing."""
        number = nonce([source, a, b])
        texts = "\n\n".join(
            fence(kind, text, number) for kind, text in (("source", source), ("A", a), ("B", b))
        )
        words = f"Which summary of the source is better, A or B?\n\n{texts}\n\nAnswer with the letter alone."
        request = Request(
            messages=(ChatMessage(role="user", content=words),), max_tokens=4, dry_run_answer="A"
        )
        said = (await self.model.generate(request)).samples[0].text.strip(" .\n")
        if said not in ("A", "B"):
            raise errors.MalformedResponse(
                f"{self.model.name!r} was asked for A or B and said {said!r}"
            )
        return Choice(place=said)


async def agreed(forth: Choice, back: Choice) -> Verdict:
    """Return the text that was chosen in both orders, if it is the same."""
    if forth.place == back.place:  # the same place, so not the same text
        return Verdict(better=None)
    return Verdict(better="left" if forth.place == "A" else "right")


def both_orders(model: Model) -> Graph:
    """Compare forth and back, side by side."""
    comparer = Comparer(model)
    return Graph(
        "both-orders",
        input=Pair,
        nodes=[
            Node("forth", comparer, source="input.source", a="input.left", b="input.right"),
            Node("back", comparer, source="input.source", a="input.right", b="input.left"),
            Node("verdict", agreed, forth="forth", back="back"),
        ],
        output="verdict",
    )


async def compare_all(graph: Graph, pairs: Iterable[Pair]) -> list[Verdict | Failure]:
    """Run the graph on every pair at once; a model from `connect` keeps to its limits by itself."""
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(graph.run(pair)) for pair in pairs]
    return [task.result() for task in running]


def prefers_the_first(request: Request) -> str:
    """Take A unless B has clearly more words of the source: a script with the bias of many judges."""
    texts = texts_in(request)
    return (
        "B"
        if overlap(texts["B"], texts["source"]) > overlap(texts["A"], texts["source"]) + 0.2
        else "A"
    )


async def main() -> None:
    """Compare neighbouring summaries of the same source and report the flip rate."""
    examples = list(Examples(SUMMARIES))
    pairs = [
        Pair(source=one.source or "", left=one.output, right=other.output)
        for one, other in pairwise(examples)
        if one.group == other.group
    ]
    verdicts = await compare_all(both_orders(ScriptedModel(prefers_the_first)), pairs)
    decided = [verdict for verdict in verdicts if isinstance(verdict, Verdict)]
    flipped = sum(verdict.better is None for verdict in decided)
    print(
        f"{len(pairs)} pairs, {len(pairs) - len(decided)} failed; flip rate {flipped / len(decided):.0%}"
    )


if __name__ == "__main__":
    asyncio.run(main())
