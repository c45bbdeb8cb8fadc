"""Calls and tokens of every method.

A table in markdown, from dry runs over the bundled examples.

    python -m benchmarks.method_costs [--task summarization]

Calls made once a run (evaluation steps, chains of aspects, a plan) are separated from the calls for
each example: dry runs over the two halves of the examples count them twice, a dry run over all
examples counts them once. No model is asked.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from itertools import islice
from typing import Any

import textassay
from textassay.demo import BUNDLED_TASKS, data_file
from textassay.evaluation.api import open_evaluation
from textassay.methods import METHODS
from textassay.methods.fusion_eval import FusionEval
from textassay.runtime.base import Message
from textassay.runtime.data.dataset import Examples, PairedExamples
from textassay.runtime.messages import Example

COMMAND = "python -m benchmarks.method_costs"
TOOLS: dict[str, tuple[str, ...]] = {"fusion-eval": FusionEval.default_tools}
"""Tools by method, so that the figures do not depend on which extras are installed."""


class Cost(Message):
    """Calls and tokens; prompt tokens are estimates, completion tokens an upper bound."""

    calls: float
    prompt: float
    completion: float


class MethodCost(Message):
    """The cost of a method over some examples."""

    method: str
    examples: int
    whole: Cost
    """Over all examples."""
    once: Cost
    """The part that does not depend on their number."""
    each: Cost
    """The mean of the rest per example."""


async def dry_run(examples: Sequence[Example], method: str, task: str, **more: Any) -> Cost:
    """Return the requests of a dry run; `more` are further arguments of `evaluate`."""
    async with (
        textassay.connect("direct/any", api_base="http://127.0.0.1:9/v1") as model,
        open_evaluation(
            examples, method=method, task=task, model=model, dry=True, **more
        ) as session,
        aclosing(session.engine.scores()) as scores,
    ):
        async for _ in scores:
            pass
        asked = session.usage
    return Cost(calls=asked.calls, prompt=asked.prompt_tokens, completion=asked.completion_tokens)


def judged(method: str, task: str, limit: int | None = None) -> list[Example]:
    """Return the (first) bundled examples of a task, in pairs for methods that compare."""
    examples = Examples(data_file(task))
    return list(islice(PairedExamples(examples) if method == "pairwise" else examples, limit))


async def cost_of(method: str, task: str, limit: int | None = None) -> MethodCost:
    """Return the cost of a method over the bundled examples of a task, on all of its aspects."""
    examples = judged(method, task, limit)
    half = len(examples) // 2
    parts = (examples, examples[:half], examples[half:])
    tools = TOOLS.get(method, ())
    whole, first, second = [await dry_run(part, method, task, tools=tools) for part in parts]
    once = Cost(
        calls=first.calls + second.calls - whole.calls,
        prompt=first.prompt + second.prompt - whole.prompt,
        completion=first.completion + second.completion - whole.completion,
    )
    each = Cost(
        calls=(whole.calls - once.calls) / len(examples),
        prompt=(whole.prompt - once.prompt) / len(examples),
        completion=(whole.completion - once.completion) / len(examples),
    )
    return MethodCost(method=method, examples=len(examples), whole=whole, once=once, each=each)


def table_of(costs: Sequence[MethodCost]) -> str:
    """Return the table in markdown."""
    head = (
        "| method | calls | prompt tokens | completion tokens, at most | calls once a run |"
        " prompt tokens once |"
    )
    rows = [
        f"| `{cost.method}` | {cost.each.calls:.4g} | {cost.each.prompt:,.0f} |"
        f" {cost.each.completion:,.0f} "
        f"| {cost.once.calls:g} | {cost.once.prompt:,.0f} |"
        for cost in costs
    ]
    return "\n".join([head, "|---|---|---|---|---|---|", *rows]) + "\n"


async def all_costs(task: str) -> list[MethodCost]:
    """Return the costs of every built-in method."""
    return [await cost_of(method, task) for method in METHODS]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", choices=BUNDLED_TASKS, default="summarization")
    print(table_of(asyncio.run(all_costs(parser.parse_args().task))), end="")


if __name__ == "__main__":
    main()
