"""A loop over aiohttp: posts, reads, and keeps nothing."""

from __future__ import annotations

import asyncio

import aiohttp

from benchmarks.peer_arms.work import MODEL, Work, rating, work


async def run(work: Work) -> dict[str, float]:
    """Ask all prompts with a fixed number of workers over one iterator."""
    todo, scores = iter(work.prompts.items()), {}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def ask() -> None:
            for name, prompt in todo:
                messages = [{"role": "user", "content": prompt}]
                body = {"model": MODEL, "messages": messages, "temperature": 0}
                async with session.post(f"{work.api_base}/chat/completions", json=body) as answer:
                    found = await answer.json()
                scores[name] = rating(found["choices"][0]["message"]["content"])

        async with asyncio.TaskGroup() as group:
            for _ in range(work.concurrency):
                group.create_task(ask())
    return scores


if __name__ == "__main__":
    given = work()
    given.write(asyncio.run(run(given)))
