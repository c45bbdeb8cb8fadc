"""What a span costs: a graph of ten nodes that do nothing, with and without OpenTelemetry.

    python -m benchmarks.otel_span [--runs 2000] [--rounds 5]

The tracer is OpenTelemetry's SDK with a batch processor that hands spans to an exporter in memory
when a round is over. Rounds take turns, and the best of each counts. The target is 10 us a span of
our own; what the SDK itself takes to start and end a span with two attributes stands beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from opentelemetry.sdk.trace import TracerProvider

from textassay import Graph, Node, telemetry
from textassay.runtime.messages import Message

TARGET_US = 10.0
NODES = 10


class Step(Message):
    """What passes from node to node."""

    number: int = 0


async def forward(step: Step) -> Step:
    """Pass the message on."""
    return step


def chain() -> Graph:
    """Return a graph of ten nodes in a row."""
    nodes = [Node("n0", forward, step="input")]
    nodes += [Node(f"n{at}", forward, step=f"n{at - 1}") for at in range(1, NODES)]
    return Graph("chain", input=Step, nodes=nodes, output=f"n{NODES - 1}")


async def seconds(graph: Graph, runs: int) -> float:
    """Return the CPU time of so many runs."""
    began, step = time.process_time(), Step()
    for _ in range(runs):
        await graph.run(step)
    return time.process_time() - began


def bare(provider: TracerProvider, spans: int) -> float:
    """Return the CPU time in which the SDK starts and ends so many spans."""
    tracer = provider.get_tracer("bare")
    began = time.process_time()
    for _ in range(spans):
        tracer.start_span("invoke_agent n0", attributes={"a": "invoke_agent", "b": "n0"}).end()
    return time.process_time() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    graph, provider, spans = chain(), TracerProvider(), given.runs * NODES
    off, on, sdk = [], [], []
    for _ in range(given.rounds):
        telemetry.uninstrument()
        off.append(asyncio.run(seconds(graph, given.runs)))
        telemetry.instrument(tracer_provider=provider)
        on.append(asyncio.run(seconds(graph, given.runs)))
        sdk.append(bare(provider, spans))
    whole, alone = ((min(one) - zero) / spans * 1e6 for one, zero in ((on, min(off)), (sdk, 0.0)))
    print(f"without: {min(off) / spans * 1e6:.2f} us a node")
    print(f"a span, whole: {whole:.2f} us; the SDK alone: {alone:.2f} us")
    print(
        f"ours: {whole - alone:.2f} us, target {TARGET_US:g} us:"
        f" {'met' if whole - alone < TARGET_US else 'missed'}"
    )


if __name__ == "__main__":
    main()
