"""Calls a second of a graph of ten nodes an example, against one call an example.

    python -m benchmarks.graph_ten_nodes [--examples 4000] [--rounds 3]

The graph: a plan written once, a tool's score, five criteria judged side by side, gathered, fused
and reported: five calls an example where the plain method has one. Both ask a server process with
100 ms latency with 100 calls in flight and journal their scores; each arm is a process of its own,
and the arms take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import textassay
from benchmarks.examples_made import make
from benchmarks.server import ROOT, server
from textassay import Aspect, Assignment, Example, Failure, Graph, Node, Score, each
from textassay.agents.aggregation import Average
from textassay.agents.ask import Ask
from textassay.agents.scorer import Scorer
from textassay.methods import build
from textassay.methods.library import tasks
from textassay.methods.method import Method
from textassay.runtime.calls.sharing import once
from textassay.runtime.messages import Message
from textassay.runtime.model import ChatMessage, Model, Request
from textassay.runtime.settings import Settings
from textassay.tools import ToolScorer
from textassay.tools import build as build_tools

TARGET = 0.8
CRITERIA = ("coherence", "consistency", "fluency", "relevance")


class Planned(Message):
    """What a planner wrote."""

    text: str


class Considered(Message):
    """The criteria's scores with what the tools measured."""

    scores: tuple[Score, ...]
    measured: tuple[Score, ...]


def graph_of_ten(model: Model) -> Graph:
    """Return the graph: plan, tools, five criteria, gathering, fusing and reporting."""
    task = tasks.load("summarization", CRITERIA)
    fifth = Aspect(name="brevity", definition="whether the summary says it in few words.")
    aspects = (*task.aspects, fifth)
    scorer = Scorer(Ask(model, "llm_score", task.model_copy(update={"aspects": aspects})))
    tools = ToolScorer(build_tools(["length"]))
    average = Average(signature="benchmark")

    async def ask_for_plan() -> Planned:
        words = (ChatMessage(role="user", content="Plan how to judge a summary."),)
        response = await model.generate(Request(messages=words, max_tokens=64))
        return Planned(text=response.samples[0].text)

    planned = once(ask_for_plan)

    async def plan() -> Planned:
        return await planned()

    def judge_of(aspect: Aspect) -> object:
        async def judge(example: Example, plan: Planned) -> Score:
            return await scorer(example, aspect)

        return judge

    async def gather(
        a: Score, b: Score, c: Score, d: Score, e: Score, measured: list[Score]
    ) -> Considered:
        return Considered(scores=(a, b, c, d, e), measured=tuple(measured))

    async def fuse(example: Example, aspect: Aspect, considered: Considered) -> Score:
        parts: list[Score | Failure] = list(considered.scores)
        return await average(example, aspect, parts)

    async def report(score: Score, considered: Considered) -> Score:
        told = tuple({"text": tool.aspect, "value": tool.value} for tool in considered.measured)
        return score.model_copy(update={"evidence": (*score.evidence, *told)})

    judges = [
        Node(f"judge-{name}", judge_of(aspect), example="input.example", plan="plan")  # type: ignore[arg-type]
        for name, aspect in zip("abcde", aspects, strict=True)
    ]
    wires = {name: f"judge-{name}" for name in "abcde"}
    nodes = [
        Node("plan", plan),
        Node("tools", tools.score, example="input.example"),
        *judges,
        Node("gathered", gather, **wires, measured="tools"),
        Node(
            "fused",
            fuse,
            example="input.example",
            aspect=each("input.aspects"),
            considered="gathered",
        ),
        Node("report", report, score=each("fused"), considered="gathered"),
    ]
    return Graph("ten-nodes", input=Assignment, nodes=nodes, output="report")


async def arm(name: str, data: Path, url: str, out: Path) -> None:
    """Run one arm and print its calls a second."""
    async with textassay.connect("direct/mock", api_base=url, concurrency=100) as model:
        method: Method | Graph = build(
            "llm-score", model, task="summarization", aspects=["coherence"]
        )
        if name == "graph":
            method = graph_of_ten(model)
            assert len(method.nodes) == 10
        began = time.perf_counter()
        chosen = {"task": "summarization", "aspects": ["coherence"]} if name == "graph" else {}
        run = await textassay.evaluate(
            data,
            method=method,
            out=out,
            settings=Settings(concurrency=100),
            **chosen,  # type: ignore[arg-type]
        )
        seconds = time.perf_counter() - began
    summary = run.summary()
    assert summary["outcomes"]["scored"] == sum(summary["outcomes"].values()), summary
    print(json.dumps({"calls": summary["usage"]["calls"], "seconds": seconds}))


def measured(name: str, data: Path, url: str, out: Path) -> float:
    """Return the calls a second of an arm in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.graph_ten_nodes",
        "--arm",
        name,
        str(data),
        url,
        str(out),
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    row = json.loads(done.stdout.splitlines()[-1])
    return float(row["calls"] / row["seconds"])


def main() -> None:
    """Measure both arms in turn and print the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--arm", nargs=4, metavar=("ARM", "DATA", "URL", "OUT"), help=argparse.SUPPRESS
    )
    args = parser.parse_args()
    if args.arm:
        name, data, url, out = args.arm
        asyncio.run(arm(name, Path(data), url, Path(out)))
        return
    found: dict[str, list[float]] = {"single": [], "graph": []}
    with tempfile.TemporaryDirectory() as folder, server(latency_ms=100) as url:
        sizes = {
            "single": args.examples,
            "graph": args.examples // 5,
        }  # about as many calls in both
        files = {name: make(Path(folder) / f"{name}.jsonl", size) for name, size in sizes.items()}
        for number in range(args.rounds):
            for name, rates in found.items():
                rates.append(measured(name, files[name], url, Path(folder) / f"{name}-{number}"))
    single, graph = statistics.median(found["single"]), statistics.median(found["graph"])
    print("100 ms judge, 100 in flight   calls/s")
    print(f"one call an example          {single:8.0f}")
    print(f"graph of ten nodes           {graph:8.0f}")
    print(f"ratio {graph / single:.2f} (target: at least {TARGET})")


if __name__ == "__main__":
    main()
