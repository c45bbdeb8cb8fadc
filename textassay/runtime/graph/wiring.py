"""Checks how the nodes of a graph are wired, and plans the steps of a run in advance.

Every complaint is a `GraphError` that names the graph and both ends of the wire.
"""

from __future__ import annotations

import graphlib
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from textassay.runtime.errors import GraphError
from textassay.runtime.graph.node import Each, Fixed, Node, Wire
from textassay.runtime.graph.step import Input, Step
from textassay.runtime.graph.types import (
    UNANNOTATED,
    Signature,
    classes_of,
    contents_of,
    field_of,
    fits,
    item_of,
    members,
    signature_of,
    type_name,
    type_of_value,
    without,
)
from textassay.runtime.messages import Failure

INPUT = "input"
"""What wires call the graph's input."""


class Edge(NamedTuple):
    """A wire between two nodes, for drawing."""

    source: str
    target: str
    parameter: str
    path: str
    """Field that is taken, with dots; empty for the whole message."""
    fans_out: bool


@dataclass(frozen=True, slots=True)
class _NodeOutput:
    """What a node, or the input, passes to the nodes that use it."""

    index: int
    type: Any
    failure_depth: int = 0
    """How many lists deep a failure may lie in the value."""


class Wiring:
    """The checked wiring of a graph.

    Attributes:
        steps: The nodes in an order in which each follows those it waits for.
        edges: Every wire but the constants, in the order given.
        result: The output's index.
        signature: The graph as an agent.
    """

    def __init__(self, graph: str, input: Any, nodes: tuple[Node, ...], output: str) -> None:
        """Check all and plan.

        Raises:
            GraphError: A name, a type or the shape of the graph is wrong.
        """
        self._graph, self._nodes, self._output = graph, {node.name: node for node in nodes}, output
        self._check_names(nodes)
        order = self._order()
        self.edges = [edge for node in nodes for edge in self._edges(node)]
        self._check_use(order)
        self._outputs = {INPUT: _NodeOutput(0, input)}
        # `_plan` looks up what the sources yield, so sources must be planned first.
        self.steps = [
            self._plan(self._nodes[name], index) for index, name in enumerate(order, start=1)
        ]
        for step in self.steps:
            step.consumers = [other for other in self.steps if step.index in other.waits_for]
        end = self._outputs[output]
        self.result = end.index
        self.signature = Signature(
            {INPUT: input}, frozenset({INPUT}), None, end.type, end.failure_depth
        )

    def _error(self, text: str) -> GraphError:
        return GraphError(f"graph {self._graph!r}: {text}")

    def _check_names(self, nodes: Iterable[Node]) -> None:
        seen: set[str] = set()
        for node in nodes:
            if node.name in seen:
                raise self._error(f"two nodes are called {node.name!r}")
            if not node.name or "." in node.name or node.name == INPUT:
                raise self._error(
                    f"a node cannot be called {node.name!r}: dots and 'input' have a meaning in"
                    " wires"
                )
            seen.add(node.name)
            for parameter, wire in node.wires.items():
                if not isinstance(wire, Wire):
                    raise self._error(
                        f"node {node.name!r}: {parameter}={wire!r} is not a wire; for a constant "
                        "use fixed()"
                    )
        if self._output not in seen:
            raise self._error(
                f"unknown output {self._output!r}; nodes: {', '.join(self._nodes) or 'none'}"
            )

    def _end(self, wire: str) -> tuple[str, str]:
        """Return the node (or `input`) that a wire starts at, and the field it takes."""
        first, _, rest = wire.partition(".")
        return (first, rest) if first in self._nodes or first == INPUT else (INPUT, wire)

    def _edges(self, node: Node) -> Iterable[Edge]:
        for parameter, wire in node.wires.items():
            if not isinstance(wire, Fixed):
                source, path = self._end(wire.wire if isinstance(wire, Each) else wire)
                yield Edge(source, node.name, parameter, path, isinstance(wire, Each))

    def _order(self) -> list[str]:
        sorter: graphlib.TopologicalSorter[str] = graphlib.TopologicalSorter()
        for node in self._nodes.values():
            sorter.add(
                node.name, *(edge.source for edge in self._edges(node) if edge.source != INPUT)
            )
        try:
            return list(sorter.static_order())
        except graphlib.CycleError as error:
            raise self._error(f"nodes wait for each other: {' -> '.join(error.args[1])}") from None

    def _check_use(self, order: list[str]) -> None:
        """Refuse nodes whose result is unused, and an output that does not depend on the input."""
        used, fed = {self._output}, {INPUT}
        # In reverse topological order every consumer of a node is seen before the node itself.
        for name in reversed(order):
            if name in used:
                used.update(edge.source for edge in self.edges if edge.target == name)
        for name in order:
            if any(edge.target == name and edge.source in fed for edge in self.edges):
                fed.add(name)
        for name in self._nodes:
            if name not in used:
                raise self._error(
                    f"there is no path from {name!r} to the output {self._output!r}; wire it or "
                    "leave it out"
                )
        if self._output not in fed:
            raise self._error(
                f"unreachable output: there is no path from the input to {self._output!r}"
            )

    def _plan(self, node: Node, index: int) -> Step:
        try:
            signature = signature_of(node.agent)
        except GraphError as error:
            raise self._error(f"the agent of node {node.name!r} cannot be used: {error}") from error
        nested = isinstance(getattr(node.agent, "signature", None), Signature)
        step = Step(node.name, node.agent, index, classes_of(signature.result), nested)
        edges = {edge.parameter: edge for edge in self._edges(node)}
        for parameter, wire in node.wires.items():
            expected = self._expected(node, signature, parameter)
            if isinstance(wire, Fixed):
                self._check_fit(
                    f"the constant {wire.value!r:.60} is",
                    type_of_value(wire.value),
                    node,
                    parameter,
                    expected,
                )
                step.constants[parameter] = wire.value
                continue
            # A step waits for both kinds, but only fanned-out inputs decide how often its agent is
            # called.
            inputs = step.mapped if isinstance(wire, Each) else step.passed
            inputs.append(self._connect(node, edges[parameter], expected))
        if missing := sorted(signature.required - node.wires.keys()):
            raise self._error(f"node {node.name!r} has no wire for its parameter {missing[0]!r}")
        step.waits_for = {wired.source for wired in (*step.passed, *step.mapped)} - {0}
        result, depth = without(signature.result, Failure), signature.failure_depth
        if step.mapped:
            result, depth = list[result], depth + 1  # type: ignore[valid-type]
        self._outputs[node.name] = _NodeOutput(index, result, depth)
        return step

    def _expected(self, node: Node, signature: Signature, parameter: str) -> Any:
        annotation = signature.parameters.get(parameter, signature.others)
        if parameter not in signature.parameters and signature.others is None:
            known = ", ".join(signature.parameters) or "none"
            raise self._error(
                f"the agent of node {node.name!r} has no parameter {parameter!r}; parameters:"
                f" {known}"
            )
        if annotation is UNANNOTATED:
            raise self._error(
                f"the agent of node {node.name!r} does not annotate its parameter {parameter!r}"
            )
        return annotation

    def _connect(self, node: Node, edge: Edge, expected: Any) -> Input:
        end, given = self._outputs[edge.source], self._given(node, edge)
        # A field of a message holds no failures: a failed node yields a `Failure` and has no
        # fields.
        depth = 0 if edge.path else end.failure_depth
        where = f"{edge.source}.{edge.path}" if edge.path else edge.source
        says = f"{'node ' if edge.source != INPUT else ''}{where!r} yields"
        if edge.fans_out:
            item = item_of(given)
            if item is None:
                raise self._error(
                    f"{says} {type_name(given)}, which is not a list that each() of {node.name!r}"
                    " could go through"
                )
            given, says, depth = item, f"the items of {where!r} are", max(depth - 1, 0)
        self._check_fit(says, given, node, edge.parameter, expected)
        fetch = operator.attrgetter(edge.path) if edge.path else None
        here, *inside = _takes_failure(expected, depth)
        return Input(edge.parameter, end.index, fetch, here, () if all(inside) else tuple(inside))

    def _given(self, node: Node, edge: Edge) -> Any:
        """Return the type that comes over the wire."""
        given, so_far = self._outputs[edge.source].type, edge.source
        for name in edge.path.split(".") if edge.path else ():
            try:
                given, so_far = field_of(given, name), f"{so_far}.{name}"
            except AttributeError:
                at = f"{so_far!r} yields {type_name(given)}, which has no annotated field {name!r}"
                hint = f"; nodes: {', '.join(self._nodes)}" if so_far == INPUT else ""
                raise self._error(
                    f"wire {edge.parameter!r} of node {node.name!r}: {at}{hint}"
                ) from None
        return given

    def _check_fit(self, says: str, given: Any, node: Node, parameter: str, expected: Any) -> None:
        if not fits(given, expected):
            wants = f"{node.name!r} expects {type_name(expected)} for its parameter {parameter!r}"
            raise self._error(f"{says} {type_name(given)}, but {wants}")


def _takes_failure(expected: Any, depth: int) -> tuple[bool, ...]:
    taken = []
    for _ in range(depth + 1):
        taken.append(Failure in members(expected))
        expected = contents_of(expected)
    return tuple(taken)
