"""Seconds from the start of `textassay score` to its first request.

    python -m benchmarks.start [--starts 7]

A server in this process notes when the first request arrives; the median of several starts counts,
after one that fills the caches of the file system and compiles the modules, as installing does.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from aiohttp import web

from benchmarks.examples_made import make
from benchmarks.server import ROOT

ANSWER = {"choices": [{"message": {"content": "4"}, "finish_reason": "stop"}], "model": "mock"}


async def first_request(data: Path, out: Path, bytecode: Path) -> float:
    """Start the command once; return the seconds until its first request arrived.

    Args:
        data: Examples.
        out: Where the run goes.
        bytecode: Where compiled modules are kept, whatever the environment says: an installed
            package has them, a checkout need not.
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
            *(sys.executable, "-m", "textassay", "score", str(data), "--method", "llm-score"),
            *("--task", "summarization", "--aspects", "coherence", "--model", "direct/mock"),
            *("--api-base", f"http://127.0.0.1:{runner.addresses[0][1]}/v1"),
            *("--out", str(out), "--progress", "none"),
            cwd=ROOT,
            env=environment,
            stdout=asyncio.subprocess.DEVNULL,
        )
        if await process.wait():
            raise RuntimeError(f"the run failed with status {process.returncode}")
    finally:
        await runner.cleanup()
    return arrived[0] - began


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
        seconds = [
            asyncio.run(first_request(data, folder / f"run-{at}", folder / "bytecode"))
            for at in range(args.starts + 1)
        ][1:]
    print(
        f"first request after {statistics.median(seconds):.2f} s (median of {len(seconds)} starts,"
        f" {min(seconds):.2f} to {max(seconds):.2f})"
    )


if __name__ == "__main__":
    main()
