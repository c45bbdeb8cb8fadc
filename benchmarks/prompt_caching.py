"""Prompt tokens that are paid in full, on a server that keeps prefixes of prompts as providers do.

    python -m benchmarks.prompt_caching [--texts 20]

Each text is judged on ten aspects, in prompts that have about 2,000 tokens in common. The server
keeps the beginning of a prompt once it has answered it, in blocks of 128 tokens from 1,024 tokens
on, and reports what it finds. Three ways: the papers' layout, where texts follow the aspect;
texts first, all at once, as clients without an order of their requests send them; and texts first
with `--set prompt_layout=shared-prefix`.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

import orjson
from aiohttp import web

from examples.mock_replies import Json, count_tokens
from examples.mock_server import MockServer, Options, prompt_of, serving
from textassay import Aspect, Example, Settings, connect, evaluate
from textassay.agents.ask import Ask
from textassay.agents.prompt_template import Task
from textassay.agents.scorer import Scorer
from textassay.runtime.concurrency import gather

BLOCK, LEAST = 128, 1024
WORDS = "The council met on Monday and talked about the bridge, the budget and the library. "
ASPECTS = [Aspect(name=f"aspect {i}", definition="how good it is in it") for i in range(10)]


class CachingServer(MockServer):
    """Keeps prefixes of answered prompts, and counts the tokens of a prompt that it finds."""

    def __init__(self, options: Options, *, only_marked: bool = False) -> None:
        super().__init__(options)
        self._only_marked = only_marked
        self._kept: set[int] = set()
        self.prompt_tokens = self.cached_tokens = 0

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body: Json = orjson.loads(await request.content.read())
        self.counters.requests += 1
        prompt = prompt_of(body)
        blocks = _blocks(prompt)
        found = next((i for i, block in enumerate(blocks) if block not in self._kept), len(blocks))
        cached = found * BLOCK if found * BLOCK >= LEAST else 0
        await asyncio.sleep(self.options.latency_ms / 1000)
        marked = _marked(body) if self._only_marked else None
        self._kept.update(blocks if marked is None else _blocks(marked))
        asked = count_tokens(prompt)
        self.prompt_tokens += asked
        self.cached_tokens += min(cached, asked)
        message = {"role": "assistant", "content": "Rating: 4"}
        return web.json_response(
            {
                "object": "chat.completion",
                "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {
                    "prompt_tokens": asked,
                    "completion_tokens": 3,
                    "total_tokens": asked + 3,
                    "prompt_tokens_details": {"cached_tokens": min(cached, asked)},
                },
            }
        )

    @property
    def paid_in_full(self) -> float:
        """Share of all prompt tokens that were not found."""
        return 1 - self.cached_tokens / self.prompt_tokens


def _blocks(text: str) -> list[int]:
    """Return a hash for each whole block of a prompt and all before it."""
    size = max(1, len(text) * BLOCK // count_tokens(text)) if text else 1
    return [hash(text[: end * size]) for end in range(1, len(text) // size + 1)]


def _marked(body: Json) -> str:
    """Return the text up to the last block that is marked."""
    text, marked = "", ""
    for message in body["messages"]:
        content = message["content"]
        parts = [{"text": content}] if isinstance(content, str) else content
        text += f"{message['role']}: "
        for part in parts:
            text += part["text"]
            marked = text if "cache_control" in part else marked
        text += "\n"
    return marked


def examples(texts: int) -> list[Example]:
    """Return texts whose sources have about 2,000 tokens and different beginnings."""
    return [
        Example(id=f"t{i}", source=f"Number {i}. " + WORDS * 115, output=f"They met, {i} of them.")
        for i in range(texts)
    ]


async def judged(layout: str, texts: int) -> CachingServer:
    """Judge all texts with the method's prompts in a layout."""
    server = CachingServer(Options(latency_ms=50))
    async with serving(server):
        task = Path(tempfile.mkdtemp()) / "task.toml"
        task.write_text(_task())
        await evaluate(
            examples(texts),
            method="llm-score",
            task=str(task),
            model="direct/judge",
            settings=Settings(api_base=server.url, cache=False),
            options={"prompt_layout": layout},
        )
    return server


async def at_once(texts: int) -> CachingServer:
    """Send the same prompts with texts first, in any order."""
    server = CachingServer(Options(latency_ms=50))
    task = Task(name="summaries", intro="A summary of a source.", aspects=tuple(ASPECTS))
    async with serving(server), connect("direct/judge", api_base=server.url) as model:
        scorer = Scorer(Ask(model, "llm_score", task, layout="shared-prefix", is_single=True))
        await gather([scorer(e, aspect) for e in examples(texts) for aspect in ASPECTS])
    return server


def _task() -> str:
    aspects = "".join(
        f'\n[[aspects]]\nname = "{a.name}"\ndefinition = "{a.definition}"\nscale = [1, 5]\n'
        for a in ASPECTS
    )
    return 'name = "summaries"\nintro = "A summary of a source."\n' + aspects


async def main(texts: int) -> None:
    """Print the share of prompt tokens that each way pays in full."""
    rows = {
        "texts after the aspect (paper)": await judged("paper", texts),
        "texts first, all at once": await at_once(texts),
        "texts first (shared-prefix)": await judged("shared-prefix", texts),
    }
    print(f"{texts} texts x {len(ASPECTS)} aspects; share of prompt tokens paid in full")
    for name, server in rows.items():
        print(f"  {name:<34}{server.paid_in_full:6.3f}   ({server.prompt_tokens:,} tokens)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=20)
    asyncio.run(main(parser.parse_args().texts))
