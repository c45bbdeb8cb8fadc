"""Seconds from the start of `textassay score` to its first request.

    python -m benchmarks.start [--starts 7]

A server in this process notes when the first request arrives; the median of several starts counts,
after one that fills the caches of the file system and compiles the modules, as installing does.
In turn with it, the smallest possible client is started: Python, the import of aiohttp, and one
request. The time above that floor is the framework's own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from aiohttp import web

from benchmarks.examples_made import make
from benchmarks.server import ROOT

FLOOR = """
import asyncio, sys
import aiohttp

async def ask():
    body = {"model": "mock", "messages": [{"role": "user", "content": "Rate this."}]}
    async with aiohttp.ClientSession() as session:
        async with session.post(sys.argv[1] + "/chat/completions", json=body) as answer:
            await answer.read()

asyncio.run(ask())
"""
ANSWER = {"choices": [{"message": {"content": "4"}, "finish_reason": "stop"}], "model": "mock"}


async def first_request(command: Callable[[str], Sequence[str]], bytecode: Path) -> float:
    """Start Python once; return the seconds until its first request arrived.

    Args:
        command: Takes the address of the server; returns the arguments of Python.
        bytecode: Folder of compiled modules, in any environment: an installed package has them, a
            checkout need not.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(bytecode)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    arrived: list[float] = []

    async def answer(_: web.Request) -> web.Response:
        arrived.append(time.perf_counter())
        return web.json_response(ANSWER)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command(f"http://127.0.0.1:{runner.addresses[0][1]}/v1"),
            cwd=ROOT,
            env=environment,
            stdout=asyncio.subprocess.DEVNULL,
        )
        if await process.wait():
            raise RuntimeError(f"the process failed with status {process.returncode}")
    finally:
        await runner.cleanup()
    return arrived[0] - began


def score(data: Path, out: Path, url: str) -> tuple[str, ...]:
    """Return the arguments of a run of the command line."""
    return (
        *("-m", "textassay", "score", str(data), "--method", "llm-score"),
        *("--task", "summarization", "--aspects", "coherence", "--model", "direct/mock"),
        *("--api-base", url, "--out", str(out), "--progress", "none"),
    )


def shown(seconds: list[float]) -> str:
    """Return the median and the range."""
    return (
        f"{statistics.median(seconds):.2f} s (median of {len(seconds)} starts,"
        f" {min(seconds):.2f} to {max(seconds):.2f})"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = make(folder / "data.jsonl", 1)
        ours, floor = list[float](), list[float]()
        for at in range(args.starts + 1):
            run = partial(score, data, folder / f"run-{at}")
            ours.append(asyncio.run(first_request(run, folder / "bytecode")))
            least = asyncio.run(first_request(lambda url: ("-c", FLOOR, url), folder / "bytecode"))
            floor.append(least)
    print(f"first request after {shown(ours[1:])}")
    print(f"Python, aiohttp and one request: {shown(floor[1:])}")
    over = [one - least for one, least in zip(ours[1:], floor[1:], strict=True)]
    print(f"over that floor: {statistics.median(over):.2f} s")


if __name__ == "__main__":
    main()
