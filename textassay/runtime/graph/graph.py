"""Graphs of agents: nodes run as soon as their inputs are there.

Wires are checked when the graph is built.

    graph = Graph("g-eval", input=Assignment, nodes=[
        Node("steps", write_steps, aspect=each("aspects")),
        Node("scores", scorer, example="example", aspect=each("aspects"), steps=each("steps")),
    ], output="scores")
    result = await graph.run(assignment)

A failing node yields a `Failure` in place of its message. Agents whose parameter types name it
(`Score | Failure`, `list[Score | Failure]`) receive it; the others do not run and pass it on. Knows
nothing of models or prompts, nor what the messages mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from textassay.display import Displayed
from textassay.runtime.errors import GraphError
from textassay.runtime.graph.concurrency import Start, with_branches
from textassay.runtime.graph.node import Agent, Node, each, fixed
from textassay.runtime.graph.step import Step
from textassay.runtime.graph.types import Signature, classes_of, type_name
from textassay.runtime.graph.wiring import INPUT, Edge, Wiring
from textassay.table import Column, Table

__all__ = ["Agent", "Graph", "Node", "each", "fixed"]


class Graph(Displayed):
    """Agents wired together.

    A graph is itself an agent from its input's type to its output's, so graphs nest.

    Attributes:
        name: Its name, for errors and drawings.
        input: Type of the message a run is given.
        nodes: The nodes as given.
        output: Name of the node whose value is the result.
    """

    def __init__(self, name: str, *, input: Any, nodes: Iterable[Node], output: str) -> None:
        """Check the wires and plan the run.

        Args:
            name: Its name, for errors and drawings.
            input: Type of the message a run is given.
            nodes: In any order; all of them must lead to the output.
            output: Name of the node whose value is the result.

        Raises:
            GraphError: A name, a type or the shape of the graph is wrong; the message names both
                ends.
        """
        self.name, self.input, self.nodes, self.output = name, input, tuple(nodes), output
        self._wiring = Wiring(name, input, self.nodes, output)
        self._classes = classes_of(input)
        self._roots = [step for step in self._wiring.steps if not step.waits_for]
        # Index 0 is the input; each step has its index in topological order, from 1.
        self._waiting = [0, *(len(step.waits_for) for step in self._wiring.steps)]
        self._chain = self._wiring.steps if self._is_chain() else ()

    def _is_chain(self) -> bool:
        """Return whether each step has one consumer, so that no two could run at once."""
        steps = self._wiring.steps
        return len(self._roots) == 1 and all(
            len(step.waits_for) <= 1 and len(step.consumers) <= 1 for step in steps
        )

    @property
    def signature(self) -> Signature:
        """What it takes and yields as an agent, apart from `Failure`."""
        return self._wiring.signature

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Every wire between nodes, for drawing."""
        return tuple(self._wiring.edges)

    def __repr__(self) -> str:
        nodes = ", ".join(node.name for node in self.nodes)
        return (
            f"<Graph {self.name!r}: {type_name(self.input)} -> {type_name(self.signature.result)},"
            f" nodes: {nodes}>"
        )

    def tables(self) -> list[Table]:
        """Return every wire between nodes."""
        rows = [
            (
                edge.source,
                edge.target,
                edge.parameter,
                ("each " if edge.fans_out else "") + edge.path,
            )
            for edge in self._wiring.edges
        ]
        title = f"graph {self.name}: {type_name(self.input)} to {type_name(self.signature.result)}"
        headings = ("from", "to", "parameter", "field")
        return [Table(tuple(Column(one, one) for one in headings), rows, title=title)]

    def _repr_markdown_(self) -> str:
        return f"```mermaid\n{self.to_mermaid()}```\n"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        drawn = {"text/vnd.mermaid": self.to_mermaid()}  # JupyterLab draws it
        return {**super()._repr_mimebundle_(), **drawn}

    async def run(self, input: Any) -> Any:
        """Run the graph on one message.

        Returns:
            The output's value, or a `Failure`. A fanned-out output is a list in the order of the
            items, in which a `Failure` stands for each item that failed.

        Raises:
            GraphError: The message is not of the graph's input type.
            TextassayError: An error with `stops_run` set, as an agent raised it; what else was
                running is canceled.
        """
        # The wires were checked against this type when the graph was built; a message of another
        # one would fail somewhere inside, in the name of a node that is not to blame.
        if not isinstance(input, self._classes):
            expected = type_name(self.input)
            raise GraphError(
                f"graph {self.name!r}: expects {expected} as its input, not {type(input).__name__}"
            )
        # All state of a run is in these lists, so one graph serves any number of runs at once.
        values: list[Any] = [None] * len(self._waiting)
        values[0] = input
        if self._chain:
            for step in self._chain:
                values[step.index] = await step.run(values)
        else:
            waiting = self._waiting.copy()
            await with_branches(lambda start: self._run_all(self._roots, values, waiting, start))
        return values[self._wiring.result]

    __call__ = run

    async def _run_all(
        self, ready: list[Step], values: list[Any], waiting: list[int], start: Start
    ) -> None:
        """Run the first of several steps and what follows from it here, the others in tasks."""
        for step in ready[1:]:
            start(self._run_from, step, values, waiting, start)
        await self._run_from(ready[0], values, waiting, start)

    async def _run_from(
        self, step: Step, values: list[Any], waiting: list[int], start: Start
    ) -> None:
        """Run a step, then what waited for it alone: the first step here, the others in tasks.

        Args:
            step: The step, whose inputs are there.
            values: Results of the steps, by index; added to.
            waiting: How many steps each step still waits for, by index; counted down.
            start: Starts a task.
        """
        # A loop, since recursion would be as deep as the graph is long; and a task for every step
        # would cost more than the step.
        while True:
            values[step.index] = await step.run(values)
            following: Step | None = None
            for consumer in step.consumers:
                # No await between counting down and looking: only the last of several inputs sees
                # zero, so each step starts exactly once without a lock.
                left = waiting[consumer.index] = waiting[consumer.index] - 1
                if left:
                    continue
                if following is None:
                    following = consumer
                else:
                    start(self._run_from, consumer, values, waiting, start)
            if following is None:
                return
            step = following

    def to_mermaid(self) -> str:
        """Return the graph as a mermaid flowchart; thick edges fan out.

        Equal graphs give equal text.
        """
        ids = {
            INPUT: INPUT,
            **{node.name: f"n{number}" for number, node in enumerate(self.nodes, start=1)},
        }
        lines = ["flowchart LR", f'    {INPUT}(["{_escaped(type_name(self.input))}"])']
        for node in self.nodes:
            left, right = ("[[", "]]") if isinstance(node.agent, Graph) else ("[", "]")
            lines.append(f'    {ids[node.name]}{left}"{_escaped(node.name)}"{right}')
        lines.append(f'    result(["{_escaped(type_name(self.signature.result))}"])')
        for edge in self._wiring.edges:
            label = f"{edge.parameter}: {'each ' if edge.fans_out else ''}{edge.path}".rstrip(": ")
            arrow = "==>" if edge.fans_out else "-->"
            lines.append(f'    {ids[edge.source]} {arrow}|"{_escaped(label)}"| {ids[edge.target]}')
        lines.append(f"    {ids[self.output]} --> result")
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Write what means something to mermaid or HTML as a character code."""
    return re.sub(r"[^\w \-.,:/()\[\]|]", lambda match: f"#{ord(match[0])};", text)
