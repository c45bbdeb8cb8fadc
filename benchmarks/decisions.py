"""Typed questions per second through `systemone/`, with and without a cache, against a bare loop.

    python -m benchmarks.decisions [--texts 6000] [--rounds 3]

A server process answers after 390 ms; every arm is a process of its own and asks 25 ratings of each
text in one request, 100 requests at a time. Arms alternate within a round. Further arms rate the 25
nodes of `hd-eval`: of a decision model, and of chat models that answer after 100 ms and after
390 ms, for a tenth of the texts and a fortieth. Prints medians and the ratio to the bare loop.

Latency bounds them all: 100 requests of 25 questions in .39 s are at most 6,410 questions a second,
100 of one question in .1 s at most 1,000.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from benchmarks.examples_made import make
from benchmarks.server import ROOT
from benchmarks.server import server as chat_server
from benchmarks.throughput import median
from textassay.cli.exits import run_async
from textassay.runtime.backends.decisions import request_fields
from textassay.runtime.garbage import hold_off_gc
from textassay.runtime.questions import DecisionRequest, NamedText, Question

NODES = tuple(  # as many as the tree of summarization has
    Question.rating(
        f"How good is part {n} of the summary?",
        {"1": "very poor", "2": "poor", "3": "fair", "4": "good", "5": "very good"},
    )
    for n in range(25)
)
IN_FLIGHT = 100
ARMS = ("server", "bare", "ours", "hd-eval", "hd-eval-chat")
LATENCY = 0.39
"""Seconds that Jev takes, for one question or for 400."""
ANSWER = {
    "type": "score",
    "score": 2.9,
    "confidence": 0.51,
    "legend": {str(level): "a level" for level in range(5)},
    "probabilities": {"0": 0.05, "1": 0.1, "2": 0.15, "3": 0.3, "4": 0.4},
}


async def serve() -> None:
    """Answer with the same probabilities until the process is ended; print the address."""
    usage = {"input_tokens": 1900, "output_tokens": 400}
    names = [f"q{number}" for number in range(1, len(NODES) + 1)]
    body = orjson.dumps({"model": "jev", "answers": dict.fromkeys(names, ANSWER), "usage": usage})

    async def answer(request: web.BaseRequest) -> web.Response:
        await request.read()
        await asyncio.sleep(LATENCY)
        return web.Response(body=body, content_type="application/json")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
    await asyncio.Event().wait()


def requests(data: Path) -> list[DecisionRequest]:
    """Return one request for each example of a file."""
    return [
        DecisionRequest(
            texts=(
                NamedText(name="article", text=row["source"]),
                NamedText(name="summary", text=row["output"]),
            ),
            questions=NODES,
        )
        for row in map(json.loads, data.read_text().splitlines())
    ]


async def bare(asked: list[DecisionRequest], url: str, cache: str | None) -> None:
    """Post bodies and read the answers as JSON."""
    left = iter(asked)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def work() -> None:
            for request in left:
                body = orjson.dumps({"model": "jev-latest", **request_fields(request, "systemone")})
                headers = {"Content-Type": "application/json"}
                async with session.post(f"{url}/systemone", data=body, headers=headers) as answer:
                    answers = orjson.loads(await answer.read())["answers"]
                    assert len(answers) == len(NODES)

        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))


async def ours(asked: list[DecisionRequest], url: str, cache: str | None) -> None:
    """Ask through a connected model."""
    import textassay

    left = iter(asked)
    async with textassay.connect(
        "systemone/jev-latest", api_base=url, concurrency=IN_FLIGHT, cache=cache
    ) as model:

        async def work() -> None:
            for request in left:
                response = await model.decide(request)
                assert len(response.answers) == len(NODES)

        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))


async def hd_eval(data: Path, url: str, name: str) -> int:
    """Rate all nodes of all texts and return the number of ratings."""
    import textassay

    async with textassay.connect(name, api_base=url, concurrency=IN_FLIGHT) as model:
        run = await textassay.evaluate(
            data, method="hd-eval", task="summarization", model=model, options={"output": "nodes"}
        )
    assert all(score.outcome == "scored" for score in run.scores)
    return len(run.scores)


def arm(name: str, data: Path, url: str, cache: str | None) -> dict[str, Any]:
    """Run one arm in a process of its own."""
    flags = ["--arm", name, "--data", str(data), "--url", url]
    flags += ["--cache", cache] if cache else []
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.decisions", *flags],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


async def measured(name: str, data: Path, url: str, cache: str | None) -> dict[str, Any]:
    """Return questions a second, CPU and memory of one arm."""
    asked = requests(data)
    import textassay.evaluation.api
    import textassay.runtime.stack  # noqa: F401  # before the clock starts

    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    count = len(asked) * len(NODES)
    if name.startswith("hd-eval"):
        judge = "direct/mock" if name == "hd-eval-chat" else "systemone/jev-latest"
        count = await hd_eval(data, url, judge)
    else:
        await (bare if name == "bare" else ours)(asked, url, cache)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "per_second": round(count / seconds),
        "cpu_ms": round(1000 * cpu / len(asked), 3),
        "peak_mb": round(after.ru_maxrss / 1024),
    }


def compare(texts: int, rounds: int) -> None:
    """Run all arms in turn and print the table."""
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.decisions", "--arm", "server"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    found: dict[str, list[dict[str, Any]]] = {}
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        with tempfile.TemporaryDirectory() as folder:
            data = make(Path(folder) / "data.jsonl", texts)
            for number in range(rounds):
                cache = f"{folder}/cache-{number}"
                for label, name, kept in (
                    ("bare aiohttp", "bare", None),
                    ("systemone/", "ours", None),
                    ("systemone/, kept in a cache", "ours", cache),
                    ("systemone/, all cached", "ours", cache),
                ):
                    found.setdefault(label, []).append(arm(name, data, url, kept))
                found.setdefault("hd-eval, systemone/", []).append(arm("hd-eval", data, url, None))
                for latency, share in ((100, 10), (round(1000 * LATENCY), 40)):
                    few = make(Path(folder) / "few.jsonl", texts // share)
                    with chat_server(latency_ms=latency) as chat:
                        row = arm("hd-eval-chat", few, chat, None)
                    found.setdefault(f"hd-eval, chat model, {latency} ms", []).append(row)
    finally:
        server.terminate()
        server.wait()
    print(f"{'25 questions a request':30} questions/s  CPU ms/request  peak MB    ratio")
    base = median(found["bare aiohttp"], "per_second")
    for label, rows in found.items():
        speed = median(rows, "per_second")
        print(
            f"{label:30} {speed:11,.0f} {median(rows, 'cpu_ms'):15.3f} "
            f"{median(rows, 'peak_mb'):8.0f} {speed / base:8.2f}"
        )


def main() -> None:
    """Measure and print, or run as one of the processes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--arm",
        choices=ARMS,
        help=argparse.SUPPRESS,
    )
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    parser.add_argument("--cache", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.arm is None:
        compare(args.texts, args.rounds)
    elif args.arm == "server":
        asyncio.run(serve())
    else:
        hold_off_gc()
        print(json.dumps(run_async(measured(args.arm, args.data, args.url, args.cache))))


if __name__ == "__main__":
    main()
