"""A loop over OpenAI's own client, which most frameworks call; retries off, keeps nothing.

Its fastest setting: aiohttp for the connections.
"""

from __future__ import annotations

import asyncio

from openai import AsyncOpenAI, DefaultAioHttpClient

from benchmarks.peer_arms.work import KEY, MODEL, Work, rating, work


async def run(work: Work) -> dict[str, float]:
    """Ask all prompts with a fixed number of workers over one iterator."""
    todo, scores = iter(work.prompts.items()), {}
    http = DefaultAioHttpClient()
    async with AsyncOpenAI(
        base_url=work.api_base, api_key=KEY, max_retries=0, http_client=http
    ) as client:

        async def ask() -> None:
            for name, prompt in todo:
                answer = await client.chat.completions.create(
                    model=MODEL, messages=[{"role": "user", "content": prompt}], temperature=0
                )
                scores[name] = rating(answer.choices[0].message.content or "")

        async with asyncio.TaskGroup() as group:
            for _ in range(work.concurrency):
                group.create_task(ask())
    return scores


if __name__ == "__main__":
    given = work()
    given.write(asyncio.run(run(given)))
