"""A built-in method with a custom tool: Fusion-Eval learns which numbers were made up.

Run it with `python -m examples.compose.with_tool`. The judge is the project's mock server, which
rates without reading.
"""

from __future__ import annotations

import asyncio

import textassay
from examples.compose.scripts import SUMMARIES
from examples.mock_server import Options, serve
from examples.own_tool import numbers_kept


async def main() -> None:
    """Judge the bundled summaries and print the part of a prompt with the tools' scores."""
    async with (
        serve(Options()) as server,
        textassay.connect("direct/mock", api_base=server.url) as model,
    ):
        run = await textassay.evaluate(
            SUMMARIES,
            method="fusion-eval",
            task="summarization",
            aspects=["consistency"],
            tools=[numbers_kept, "coverage"],
            options={"plan": "none", "n": 2},
            model=model,
        )
    score = next(score for score in run if score.id == "bridge-wrong")
    print(f"{len(run.scores)} scores; the judge was shown these measures of {score.id}:")
    for piece in score.evidence:
        print("  ", piece)


if __name__ == "__main__":
    asyncio.run(main())
