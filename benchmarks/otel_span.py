"""The cost of a span: a graph of ten nodes that do nothing, with and without OpenTelemetry.

    python -m benchmarks.otel_span [--runs 1000] [--rounds 7]

The tracer is OpenTelemetry's SDK with a batch processor and an exporter in memory. Beside the
graph, the SDK alone makes as many spans with the same parent, name, attributes and exporter: the
time of the graph beyond these, and beyond itself without tracing, is ours; the limit is 10 us per
span. The SDK's span without attributes, exporter or parent is the least that any library can reach.
With a sampler that drops everything, the same graph shows the cost of tracing that is not recorded.
Rounds alternate, and the best of each counts.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from textassay import Graph, Node, telemetry
from textassay.runtime.base import Message

TARGET_US = 10.0
NODES = 10


class Step(Message):
    """The message from node to node."""

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
    """Return the CPU time of this number of runs."""
    began, step = time.process_time(), Step()
    for _ in range(runs):
        await graph.run(step)
    return time.process_time() - began


def bare(provider: TracerProvider, spans: int, attributes: dict[str, str] | None) -> float:
    """Return the CPU time in which the SDK starts and ends this number of child spans."""
    tracer = provider.get_tracer("bare")
    parent = trace.set_span_in_context(tracer.start_span("run")) if attributes else None
    began = time.process_time()
    for _ in range(spans):
        tracer.start_span("invoke_agent n0", context=parent, attributes=attributes).end()
    return time.process_time() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    graph, spans = chain(), given.runs * NODES
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=2 * spans))
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "n0"}
    dropping = TracerProvider(sampler=ALWAYS_OFF)
    off, on, dropped, sdk, least = [], [], [], [], []
    for _ in range(given.rounds):
        telemetry.uninstrument()
        off.append(asyncio.run(seconds(graph, given.runs)))
        telemetry.instrument(tracer_provider=provider)
        on.append(asyncio.run(seconds(graph, given.runs)))
        telemetry.instrument(tracer_provider=dropping)
        dropped.append(asyncio.run(seconds(graph, given.runs)))
        provider.force_flush()
        sdk.append(bare(provider, spans, attributes))
        provider.force_flush()
        exporter.clear()
        least.append(bare(TracerProvider(), spans, None))
    provider.shutdown()
    without, with_spans, unkept, alone, floor = (
        min(times) / spans * 1e6 for times in (off, on, dropped, sdk, least)
    )
    whole = with_spans - without
    print(f"without tracing: {without:.2f} us a node")
    print(f"a span, whole: {whole:.2f} us; the SDK alone: {alone:.2f} us, at least {floor:.2f} us")
    print(f"a span that a sampler drops: {unkept - without:.2f} us")
    print(
        f"ours: {whole - alone:.2f} us, target {TARGET_US:g} us:"
        f" {'met' if whole - alone < TARGET_US else 'missed'}"
    )


if __name__ == "__main__":
    main()
