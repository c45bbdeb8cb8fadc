"""A limit of 3,000 requests a minute against a server that enforces it.

    python -m benchmarks.limit [--seconds 65]

Prints the share of the limit that was granted, the fullest window of 60 s and of 1 s, and the 429
that came back.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from bisect import bisect_left
from contextlib import suppress

from benchmarks.server import counters, server
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.calls.call import Call, Send, Wrapper
from textassay.runtime.calls.limits import LimitedModel, Limiter
from textassay.runtime.model import AnyResponse, ChatMessage, Model, Request

RPM = 3000


def fullest(times: list[float], window: float) -> int:
    """Return the most times in any half-open window of this length."""
    return max(bisect_left(times, start + window) - at for at, start in enumerate(times))


class Recorded(Wrapper):
    """Notes when each request is sent."""

    def __init__(self, wrapped: Model) -> None:
        super().__init__(wrapped)
        self.times: list[float] = []

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        """Note the time and ask."""
        self.times.append(time.monotonic())
        return await ask(call)


async def ask(url: str, seconds: float) -> list[float]:
    """Keep 200 tasks busy for this time and return when each request was sent."""
    backend = DirectModel("direct/mock", api_base=url)
    sent = Recorded(backend)
    model = LimitedModel(sent, Limiter(rpm=RPM, tpm=None, concurrency=200))

    async def work(worker: int) -> None:
        for turn in itertools.count():
            text = f"worker {worker} turn {turn}"
            await model.generate(
                Request(messages=(ChatMessage(role="user", content=text),), max_tokens=8)
            )

    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for worker in range(200):
                group.create_task(work(worker))
    await backend.aclose()
    return sent.times


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=65)
    args = parser.parse_args()
    with server(rpm=RPM) as url:
        times = asyncio.run(ask(url, args.seconds))
        seen = counters(url)
    share = len(times) / (RPM / 60 * args.seconds)
    print(f"{len(times)} requests in {args.seconds:.0f} s: {share:.1%} of the limit")
    print(
        f"fullest window of 60 s: {fullest(times, 60)} of {RPM}; of 1 s: {fullest(times, 1)};"
        f" 429: {seen['limited']}"
    )


if __name__ == "__main__":
    main()
