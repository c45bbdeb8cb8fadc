"""Limits that four processes share through Redis, against a server that enforces them.

    python -m benchmarks.shared_limits [--seconds 10] [--processes 4]

Prints, for 50 and 500 requests a second, with nothing disturbed, Redis restarted in the middle, and
one of the processes killed there: the share of the limit that was granted, by the server's count;
the fullest second by the clocks of the processes that live; the 429 that came back; the scripts
that Redis ran; and the CPU time of the limiters. Needs Debian's redis-server.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress

from redis import Redis

from benchmarks.limit import fullest
from benchmarks.server import ROOT, counters, server
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.calls.redis_limits import RedisQuota, SharedLimiter
from textassay.runtime.errors import ModelError
from textassay.runtime.model import ChatMessage, Request

ASKERS = 50
TOKENS = 8
"""Tokens of each request and its answer, as the server counts them."""


async def ask(redis: str, url: str, rate: float, seconds: float) -> None:
    """Ask as fast as the limits allow; print when each request was sent, and the CPU time."""
    rpm, tpm = rate * 60, rate * 60 * TOKENS
    quota = RedisQuota(redis, url, rpm=rpm, tpm=tpm, concurrency=1000)
    limiter = SharedLimiter(quota, rpm=rpm, tpm=tpm, concurrency=1000, adaptive=False)
    await limiter.open()
    backend = DirectModel("direct/mock", api_base=url)
    sent: list[float] = []

    async def work(number: int) -> None:
        for turn in itertools.count():
            message = ChatMessage(role="user", content=f"worker {number:02} turn {turn:06}")
            async with limiter.admit(TOKENS) as permit:
                sent.append(time.time())
                with suppress(ModelError):
                    await backend.generate(Request(messages=(message,), max_tokens=1))
                permit.settle(TOKENS)

    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    before = time.process_time()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for number in range(ASKERS):
                group.create_task(work(number))
    print(json.dumps([sent, time.process_time() - before]), flush=True)
    await limiter.aclose()
    await backend.aclose()


def start_redis(port: int, folder: str) -> subprocess.Popen[bytes]:
    """Start Redis, and return once it takes connections."""
    found = shutil.which("redis-server")
    if found is None:
        raise SystemExit("there is no redis-server (Debian: apt install redis-server)")
    process = subprocess.Popen(
        [found, "--port", str(port), "--bind", "127.0.0.1", "--save", ""],
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return process
        time.sleep(0.01)


def measure(rate: int, disturbed: str, processes: int, seconds: float) -> str:
    """Run one row of the table; `disturbed` names what is stopped in the middle, if anything."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"redis://127.0.0.1:{port}/0"
    with (
        tempfile.TemporaryDirectory() as folder,
        server(rpm=rate * 60, tpm=rate * 60 * TOKENS) as url,
    ):
        redis = [start_redis(port, folder)]
        command = [sys.executable, "-m", "benchmarks.shared_limits", "--ask", address, url]
        command += [str(rate), str(seconds)]
        asking = [
            subprocess.Popen(
                command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            for _ in range(processes)
        ]
        for each in asking:
            assert each.stdout is not None
            each.stdout.readline()
        for each in asking:
            assert each.stdin is not None
            each.stdin.write("\n")
            each.stdin.flush()

        def disturb() -> None:
            if disturbed == "process":
                asking[0].kill()
            elif disturbed == "Redis":
                redis[0].kill()
                redis[0].wait()
                redis[0] = start_redis(port, folder)

        timer = threading.Timer(seconds / 2, disturb)
        timer.start()
        printed = [each.communicate(timeout=seconds + 30)[0] for each in asking]
        told = [json.loads(lines) for lines in printed if lines]  # one that is killed tells nothing
        timer.join()
        client = Redis.from_url(address)
        scripts = client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0)
        client.close()
        redis[0].kill()
        redis[0].wait()
        counted = counters(url)
    times = sorted(itertools.chain(*(sent for sent, _ in told)))
    cpu = sum(used for _, used in told)
    return (
        f"{rate:>6} {disturbed:>9} {counted['requests'] / rate / seconds:>8.1%}"
        f" {fullest(times, 1.0):>13} {counted['limited']:>4} {scripts:>8} {cpu:>6.2f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--ask", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ask:
        redis, url, rate, seconds = args.ask
        asyncio.run(ask(redis, url, float(rate), float(seconds)))
        return
    print(
        f"{'rate':>6} {'disturbed':>9} {'granted':>8} {'worst second':>13} {'429':>4}"
        f" {'scripts':>8} {'CPU s':>6}"
    )
    for rate in (50, 500):
        for disturbed in ("nothing", "Redis", "process"):
            print(measure(rate, disturbed, args.processes, args.seconds), flush=True)


if __name__ == "__main__":
    main()
