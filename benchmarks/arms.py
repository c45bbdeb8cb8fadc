"""One arm of a benchmark as a process: does its work once and prints its cost as one JSON line.

    python -m benchmarks.arms ARM DATA --api-base URL --concurrency 100 --out RUN [--cache DIR]

Arms: `textassay` (evaluate with cache and journal), `aiohttp` (a bare loop), `litellm` (a bare
`acompletion` loop). Time and CPU are taken around the work alone, imports left out; memory is the
peak of the whole process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from textassay.cli.exits import run_async
from textassay.runtime.garbage import hold_off_gc

MODEL = "mock"
QUESTION = "Rate the coherence of the summary from 1 to 5. Answer with the number alone.\n\n"


def prompts(data: Path) -> Iterator[str]:
    """Yield one prompt per example, about as long as the framework's prompts."""
    with data.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield f"{QUESTION}{row['source']}\n\n{row['output']}"


async def in_workers(data: Path, concurrency: int, ask: Callable[[str], Awaitable[None]]) -> int:
    """Ask every prompt with a fixed number of workers over one iterator."""
    todo, done = prompts(data), 0

    async def work() -> None:
        nonlocal done
        for prompt in todo:
            await ask(prompt)
            done += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(work())
    return done


async def bare_aiohttp(args: argparse.Namespace) -> int:
    """Post one prompt and read the answer."""
    import aiohttp

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def ask(prompt: str) -> None:
            body = {
                "model": MODEL,
                "messages": [{"role": "user", "content": prompt}],
                "temperature": 0,
            }
            async with session.post(f"{args.api_base}/chat/completions", json=body) as answer:
                await answer.json()

        return await in_workers(args.data, args.concurrency, ask)


async def bare_litellm(args: argparse.Namespace) -> int:
    """`litellm.acompletion` in a loop, its own retries off."""
    import litellm

    litellm.suppress_debug_info = True

    async def ask(prompt: str) -> None:
        await litellm.acompletion(
            f"openai/{MODEL}",
            messages=[{"role": "user", "content": prompt}],
            temperature=0,
            api_base=args.api_base,
            api_key="none",
            max_retries=0,
        )

    return await in_workers(args.data, args.concurrency, ask)


async def ours(args: argparse.Namespace) -> int:
    """A run with cache and journal, as the command line makes it."""
    import textassay
    from textassay.runtime.settings import Settings

    settings = Settings(
        api_base=args.api_base,
        concurrency=args.concurrency,
        cache=args.cache,
        api_key_env="BENCHMARK_KEY",
        rpm=args.rpm or None,
    )
    run = await textassay.evaluate(
        args.data,
        method="llm-score",
        task="summarization",
        aspects=["coherence"],
        model=args.model,
        out=args.out,
        settings=settings,
    )
    assert run.progress is not None
    unscored = {k: v for k, v in run.progress.outcomes.items() if k != "scored"}
    assert not unscored, unscored
    return run.progress.done


ARMS: dict[str, Callable[[argparse.Namespace], Awaitable[int]]] = {
    "aiohttp": bare_aiohttp,
    "litellm": bare_litellm,
    "textassay": ours,
}
IMPORTED_BY = {
    "aiohttp": ("aiohttp",),
    "litellm": ("litellm",),
    "textassay": (
        "textassay.evaluation.api",
        "textassay.methods.llm_score",
        "textassay.runtime.backends.direct",
    ),
}
"""Modules that each arm imports before the clock starts."""


async def measured(args: argparse.Namespace) -> dict[str, Any]:
    """Run the arm and return samples, seconds, CPU and peak memory."""
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    samples = await ARMS[args.arm](args)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "samples": samples,
        "seconds": round(seconds, 3),
        "per_second": round(samples / seconds, 1),
        "cpu_ms": round(1000 * cpu / samples, 3),
        "peak_mb": round(after.ru_maxrss / 1024, 1),
    }


def main() -> None:
    """Read the arguments, run the arm, print one JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("arm", choices=ARMS)
    parser.add_argument("data", type=Path)
    parser.add_argument("--api-base", required=True)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--model", default=f"direct/{MODEL}")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--rpm", type=float, default=0)
    parser.add_argument("--warm", default="", help="module to import before the clock starts")
    args = parser.parse_args()
    hold_off_gc()
    for module in (*filter(None, [args.warm]), *IMPORTED_BY[args.arm]):
        __import__(module)
    # every arm has the event loop and the garbage collection of the command line
    print(json.dumps(run_async(measured(args))))


if __name__ == "__main__":
    main()
