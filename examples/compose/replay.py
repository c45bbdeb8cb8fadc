"""The same graph without any call: from a recorded run, and from a folder of answers.

Run it with `python -m examples.compose.replay`.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import textassay
from examples.compose.jury import jury
from examples.compose.scripts import SUMMARIES
from examples.mock_server import MockServer, Options, serve
from textassay.methods import build

ASPECTS = ["consistency"]


async def again_from_run(folder: Path, server: MockServer) -> bool:
    """Record a run of a method, then run its graph on the run's answers, without the server."""
    async with textassay.connect("direct/mock", api_base=server.url) as model:
        first = await textassay.evaluate(
            SUMMARIES,
            method="llm-score",
            task="summarization",
            aspects=ASPECTS,
            model=model,
            out=folder,
        )
    async with textassay.connect(f"replay/{folder}") as recorded:
        method = build("llm-score", recorded, task="summarization", aspects=ASPECTS)
        second = await textassay.evaluate(
            SUMMARIES, method=method.graph, task="summarization", aspects=ASPECTS
        )
    return values(first) == values(second)


async def again_from_answers(answers: Path, server: MockServer) -> bool:
    """Run a custom graph twice with one folder of answers; only the first run sends requests."""
    found = []
    for _ in range(2):
        async with textassay.connect("direct/mock", api_base=server.url, cache=answers) as model:
            graph = jury([model, model, model])
            run = await textassay.evaluate(
                SUMMARIES, method=graph, task="summarization", aspects=ASPECTS
            )
            found.append(values(run))
    return found[0] == found[1]


def values(run: textassay.Run) -> dict[str, float | None]:
    """Return the values by example."""
    return {score.id: score.value for score in run}


async def main() -> None:
    """Do both, and count the requests that reached the server."""
    with tempfile.TemporaryDirectory() as folder:
        for again in (again_from_run, again_from_answers):
            async with serve(Options()) as server:
                same = await again(Path(folder) / again.__name__, server)
            print(
                f"{again.__name__}: same values: {same};"
                f" requests in both runs together: {server.counters.requests}"
            )
            if not same:
                sys.exit("the second run differs from the first")


if __name__ == "__main__":
    asyncio.run(main())
