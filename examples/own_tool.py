"""A custom tool: one function, used beside the built-in tools.

Run it with `python examples/own_tool.py`; nothing is fetched and no model is asked.
"""

from __future__ import annotations

import asyncio
import re

from textassay.runtime import Example
from textassay.tools import ToolScorer, build, premise, tool


@tool(
    description=(
        "Share of the numbers in the output that also appear in the source, 0 to 1;"
        " low: numbers made up."
    ),
    scale=(0, 1),
    needs=("premise",),
)
def numbers_kept(example: Example) -> float:
    """Compare the numbers of output and source; an output without numbers invents none."""
    numbers = re.findall(r"\d+", example.output)
    known = set(re.findall(r"\d+", premise(example) or ""))
    return sum(number in known for number in numbers) / len(numbers) if numbers else 1.0


EXAMPLES = [
    Example(
        id="faithful",
        output="It rose 12 percent in 2024.",
        source="In 2024 sales rose by 12 percent.",
    ),
    Example(
        id="invented",
        output="It rose 15 percent in 2024.",
        source="In 2024 sales rose by 12 percent.",
    ),
    Example(id="sourceless", output="It rose 12 percent."),
]


async def main() -> None:
    """Score three examples with our tool and two others."""
    async with ToolScorer(build([numbers_kept, "novelty?n=1", "length"])) as scorer:
        for example in EXAMPLES:
            for score in await scorer.score(example):
                shown = (
                    f"{score.value:.2f}"
                    if score.error is None
                    else f"{score.outcome}: {score.error.type}"
                )
                print(f"{example.id:11} {score.aspect:13} {shown}")


if __name__ == "__main__":
    asyncio.run(main())
