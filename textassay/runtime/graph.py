"""Graphs of agents: nodes run as soon as their inputs are ready.

Wires are checked when the graph is built.

    graph = Graph("g-eval", input=Assignment, nodes=[
        Node("steps", write_steps, aspect=each("aspects")),
        Node("scores", scorer, example="example", aspect=each("aspects"), steps=each("steps")),
    ], output="scores")
    result = await graph.run(assignment)

A failing node yields a `Failure` in place of its message. Agents whose parameter types name it
(`Score | Failure`, `list[Score | Failure]`) receive it; the others do not run and pass it on.
Graphs do not depend on models, prompts or the content of messages.
"""

from __future__ import annotations

import asyncio
import graphlib
import logging
import operator
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, get_origin

from textassay.runtime.agent_types import (
    UNANNOTATED,
    Signature,
    classes_of,
    contents_of,
    field_of,
    fits,
    is_typed_dict,
    item_of,
    members,
    signature_of,
    type_name,
    type_of_value,
    without,
)
from textassay.runtime.concurrency import Start, gather, leading, with_branches
from textassay.runtime.errors import AgentExited, GraphError
from textassay.runtime.messages import Failure
from textassay.table import Column, Displayed, Table

Agent = Callable[..., Awaitable[Any]]
"""An async function, or an object with `async def __call__`, with annotated parameters and
result."""


class RunObserver(Protocol):
    """Watches one session of a run."""

    def example(self, example: Any) -> AbstractContextManager[object]:
        """Return a context in which an example is judged."""
        ...

    def record_score(self, score: Any, example: Any) -> None:
        """Record a score."""
        ...

    def end(self, error: BaseException | None) -> None:
        """Record the end of the session, and the error that ended it early."""
        ...


class Observer(Protocol):
    """Watches everything in this process: runs, nodes and calls."""

    def run(self, method: Any) -> RunObserver:
        """Begin to watch a session that judges with `method`."""
        ...

    async def node(
        self, name: str, agent: Callable[..., Awaitable[Any]], arguments: Mapping[str, Any]
    ) -> Any:
        """Call a node's agent and return its result."""
        ...

    def model(self, model: Any) -> Any:
        """Return the model, wrapped for observation."""
        ...


class Observers:
    """Holds the observer; `None` when off, at no cost."""

    current: Observer | None = None


OBSERVERS = Observers()


@dataclass(frozen=True, slots=True)
class Each:
    """A wire that passes its items one by one; made by `each`."""

    wire: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """A constant in place of a wire; made by `constant`."""

    value: Any


Wire = str | Each | Fixed


def each(wire: str) -> Each:
    """Fan out: run the node once per item of the list on the wire, and return a list of results.

    The list's length may be unknown until the graph runs. Several `each` of one node advance
    together and must have equal lengths.
    """
    return Each(wire)


def constant(value: Any) -> Fixed:
    """Pass a constant to a parameter."""
    return Fixed(value)


class Node:
    """An agent with a name and a wire to each of its parameters."""

    __slots__ = ("agent", "name", "wires")

    def __init__(self, name: str, agent: Agent, /, **wires: Wire) -> None:
        """Describe a node; its graph checks whether it can run.

        Args:
            name: Unique in the graph, without dots, and not `input`.
            agent: An async callable with annotations, or a `Graph`, whose parameter is called
                `input`.
            wires: The wire of each parameter; parameters with a default may be left out.
        """
        self.name, self.agent, self.wires = name, agent, wires

    def __repr__(self) -> str:
        wires = "".join(f", {parameter}={wire!r}" for parameter, wire in self.wires.items())
        return f"Node({self.name!r}, {getattr(self.agent, '__name__', self.agent)!s}{wires})"


_log = logging.getLogger(__name__)


class Input(NamedTuple):
    """The origin of a parameter's value."""

    parameter: str
    source: int
    """Index of the node (0 for the input) that provides the value."""
    fetch: Callable[[Any], Any] | None
    """Reads the field from the message; `None` for the whole message."""
    takes_failure: bool
    """Whether a `Failure` is accepted as the value, or as the item if the parameter is mapped."""
    inside: tuple[bool, ...]
    """Whether a `Failure` is accepted in its items, their items and so on; empty if all are
    accepted, so that no check is needed.
    """


@dataclass(slots=True)
class Step:
    """A planned node."""

    name: str
    agent: Agent
    index: int
    """Index of its value among the values of a run; 0 is the input."""
    result_types: tuple[type, ...]
    """Classes that the result of one call may have."""
    nested: bool
    """Whether the agent is a graph, whose failures name a node of its own."""
    passed: list[Input] = field(default_factory=list)
    mapped: list[Input] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    waits_for: set[int] = field(default_factory=set)
    """Indices of the nodes that must have run, without the input's."""
    consumers: list[Step] = field(default_factory=list)
    """Steps that need this one."""

    async def run(self, values: Sequence[Any]) -> Any:
        """Return the node's value, or a `Failure` in its place."""
        arguments = self.constants.copy()
        try:
            for parameter, source, fetch, takes_failure, inside in self.passed:
                value = values[source]
                if isinstance(value, Failure):
                    if not takes_failure:
                        return value
                elif fetch is not None:
                    value = fetch(value)
                elif inside and (failure := _unwanted_failure(value, inside)):
                    return failure
                arguments[parameter] = value
            if not self.mapped:
                return await self._call(arguments)
            # messages hold tuples; `isinstance` with an abstract class is far slower than comparing
            lists: list[Any] = []
            for parameter, source, fetch, _, _ in self.mapped:
                value = values[source]
                if isinstance(value, Failure):
                    return value
                items = value if fetch is None else fetch(value)
                lists.append(items if type(items) is tuple else _list_for(parameter, items))
            if len(lists) > 1:
                self._check_lengths(lists)
            each = list(zip(*lists, strict=True))
        except Exception as error:
            return self._failure(error)
        if len(each) == 1:  # an aspect at a time is the commonest case
            return [await self._call(arguments, each[0])]
        return await gather([self._call(arguments.copy(), items) for items in each])

    def _check_lengths(self, lists: Sequence[Any]) -> None:
        if any(len(items) != len(lists[0]) for items in lists):
            lengths = (
                f"{wired.parameter} has {len(items)}"
                for wired, items in zip(self.mapped, lists, strict=True)
            )
            raise ValueError(f"lists of each() differ in length: {', '.join(lengths)}")

    async def _call(self, arguments: dict[str, Any], items: Sequence[Any] = ()) -> Any:
        """Return the agent's result, or the failure in place of its arguments or its result."""
        try:
            for (parameter, _, _, takes_failure, inside), item in zip(
                self.mapped, items, strict=True
            ):
                if isinstance(item, Failure):
                    if not takes_failure:
                        return item
                elif inside and (failure := _unwanted_failure(item, inside)):
                    return failure
                arguments[parameter] = item
            observer = OBSERVERS.current
            if observer is None:
                value = await self.agent(**arguments)
            else:
                value = await observer.node(self.name, self.agent, arguments)
            if isinstance(value, Failure):
                if not self.nested:
                    return value
                return value.model_copy(update={"node": f"{self.name}/{value.node}"})
            if isinstance(value, self.result_types):
                return value
            declared = " | ".join(cls.__name__ for cls in self.result_types)
            raise TypeError(
                f"the agent of {self.name!r} yielded {type(value).__name__}, but is annotated"
                f" {declared}"
            )
        except (SystemExit, KeyboardInterrupt) as error:
            # asyncio ends the event loop at once for these exceptions, without cleaning up the
            # run's tasks
            raise AgentExited(f"the agent of {self.name!r} raised {error!r}") from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            # Without a request to cancel this task, the caller would seem to be canceled itself.
            if task is None or task.cancelling():
                raise
            message = "a task that the agent awaited was canceled, but the run was not"
            return Failure(node=self.name, type="CancelledError", message=message)
        except Exception as error:
            return self._failure(error)

    def _failure(self, caught: Exception) -> Failure:
        error = leading(caught)
        # Some errors (budget reached, disk full) concern every example: as a `Failure` of one item
        # they would be repeated for all others.
        if getattr(error, "stops_run", False) or not isinstance(error, Exception):
            raise error
        _log.debug("node %r failed", self.name, exc_info=error)
        return Failure(node=self.name, type=type(error).__name__, message=str(error))


def _list_for(parameter: str, items: Any) -> Any:
    if isinstance(items, Sequence) and not isinstance(items, str | bytes):
        return items
    raise TypeError(f"each() expects a list for {parameter!r}, not {items!r:.80}")


def _unwanted_failure(items: Iterable[Any], accepted: tuple[bool, ...]) -> Failure | None:
    """Return the first failure among items, or inside of them, that is not accepted there."""
    here, *deeper = accepted
    for item in items:
        if isinstance(item, Failure):
            if not here:
                return item
        elif deeper and (failure := _unwanted_failure(item, tuple(deeper))):
            return failure
    return None


INPUT = "input"
"""Name of the graph's input in wires."""


class Edge(NamedTuple):
    """A wire between two nodes, for drawing."""

    source: str
    target: str
    parameter: str
    path: str
    """Field that is taken, with dots; empty for the whole message."""
    fans_out: bool


class _NodeOutput(NamedTuple):
    """The output of a node, or the input, for the nodes that use it."""

    place: int
    type: Any
    failure_depth: int = 0
    """Depth of lists in the value that may contain a failure."""


class Wiring:
    """The checked wiring of a graph."""

    def __init__(self, graph: str, input: Any, nodes: tuple[Node, ...], output: str) -> None:
        self._graph, self._nodes, self._output = graph, {node.name: node for node in nodes}, output
        self._check_names(nodes)
        order = self._order()
        self.edges = [edge for node in nodes for edge in self._edges(node)]
        """Every wire but the constants, in the order given."""
        self._check_use(order)
        self._outputs = {INPUT: _NodeOutput(0, input)}
        # `_plan` looks up the types of the sources, so sources must be planned first.
        self.steps = [
            self._plan(self._nodes[name], index) for index, name in enumerate(order, start=1)
        ]
        """The nodes in topological order."""
        for step in self.steps:
            step.consumers = [other for other in self.steps if step.index in other.waits_for]
        end = self._outputs[output]
        self.result = end.place
        """The output's index."""
        self.signature = Signature(
            {INPUT: input}, frozenset({INPUT}), None, end.type, end.failure_depth
        )
        """The graph as an agent."""

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
                        "use constant()"
                    )
        if self._output not in seen:
            raise self._error(
                f"unknown output {self._output!r}; nodes: {', '.join(self._nodes) or 'none'}"
            )

    def _end(self, wire: str) -> tuple[str, str]:
        """Return the node (or `input`) at the start of a wire, and its field."""
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
            expected = self._annotation(node, signature, parameter)
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

    def _annotation(self, node: Node, signature: Signature, parameter: str) -> Any:
        annotation = signature.parameters.get(parameter, signature.others)
        if parameter not in signature.parameters and signature.others is None:
            names = ", ".join(signature.parameters) or "none"
            raise self._error(
                f"the agent of node {node.name!r} has no parameter {parameter!r}; parameters:"
                f" {names}"
            )
        if annotation is UNANNOTATED:
            raise self._error(
                f"the agent of node {node.name!r} does not annotate its parameter {parameter!r}"
            )
        return annotation

    def _connect(self, node: Node, edge: Edge, expected: Any) -> Input:
        end, (actual, steps) = self._outputs[edge.source], self._type_over(node, edge)
        # A field of a message holds no failures: a failed node yields a `Failure` and has no
        # fields.
        depth = 0 if edge.path else end.failure_depth
        where = f"{edge.source}.{edge.path}" if edge.path else edge.source
        says = f"{'node ' if edge.source != INPUT else ''}{where!r} yields"
        if edge.fans_out:
            item = item_of(actual)
            if item is None:
                raise self._error(
                    f"{says} {type_name(actual)}, which is not a list for each() of {node.name!r}"
                )
            actual, says, depth = item, f"the items of {where!r} are", max(depth - 1, 0)
        self._check_fit(says, actual, node, edge.parameter, expected)
        fetch = _fetcher(edge.path, steps)
        here, *inside = _takes_failure(expected, depth)
        return Input(edge.parameter, end.place, fetch, here, () if all(inside) else tuple(inside))

    def _type_over(self, node: Node, edge: Edge) -> tuple[Any, list[tuple[str, bool]]]:
        """Return the type of the wire, and its fields: name, whether it is a key."""
        actual, so_far = self._outputs[edge.source].type, edge.source
        steps = list[tuple[str, bool]]()
        for name in edge.path.split(".") if edge.path else ():
            try:
                owners = [get_origin(member) or member for member in members(actual)]
                actual, so_far = field_of(actual, name), f"{so_far}.{name}"
                steps.append((name, any(map(is_typed_dict, owners))))
            except AttributeError:
                at = f"{so_far!r} yields {type_name(actual)}, which has no annotated field {name!r}"
                hint = f"; nodes: {', '.join(self._nodes)}" if so_far == INPUT else ""
                raise self._error(
                    f"wire {edge.parameter!r} of node {node.name!r}: {at}{hint}"
                ) from None
        return actual, steps

    def _check_fit(self, says: str, actual: Any, node: Node, parameter: str, expected: Any) -> None:
        if not fits(actual, expected):
            wants = f"{node.name!r} expects {type_name(expected)} for its parameter {parameter!r}"
            item = item_of(actual)
            goes_through = item is not None and fits(item, expected)
            hint = "; each(...) around the wire passes its items one by one" if goes_through else ""
            raise self._error(f"{says} {type_name(actual)}, but {wants}{hint}")


def _fetcher(path: str, steps: Sequence[tuple[str, bool]]) -> Callable[[Any], Any] | None:
    """Return the function that reads a field of a message; `None` for the whole message."""
    if not any(is_key for _, is_key in steps):
        return operator.attrgetter(path) if path else None

    def fetch(value: Any) -> Any:
        for name, is_key in steps:
            if is_key and isinstance(value, dict):
                if name not in value:
                    raise KeyError(f"the message has no key {name!r}")
                value = value[name]
            else:
                value = getattr(value, name)
        return value

    return fetch


def _takes_failure(expected: Any, depth: int) -> tuple[bool, ...]:
    accepted = []
    for _ in range(depth + 1):
        accepted.append(Failure in members(expected))
        expected = contents_of(expected)
    return tuple(accepted)


class Graph(Displayed):
    """Agents wired together.

    A graph is itself an agent from its input's type to its output's, so graphs nest.
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
        """Types of its input and output as an agent, apart from `Failure`."""
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
        return [Table(tuple(Column(heading, heading) for heading in headings), rows, title=title)]

    def _repr_markdown_(self) -> str:
        return f"```mermaid\n{self.to_mermaid()}```\n"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        diagram = {"text/vnd.mermaid": self.to_mermaid()}  # JupyterLab draws it
        return {**super()._repr_mimebundle_(), **diagram}

    async def run(self, input: Any) -> Any:
        """Run the graph on one message.

        Returns:
            The output's value, or a `Failure`. A fanned-out output is a list in the order of the
            items, with a `Failure` in place of each item that failed.

        Raises:
            GraphError: The message is not of the graph's input type.
            TextassayError: An error with `stops_run` set that an agent raised; all other tasks are
                canceled.
        """
        # The wires were checked against this type when the graph was built; a message of another
        # type would fail in an unrelated node.
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
        """Run the first of several steps and its successors here, the others in tasks."""
        for step in ready[1:]:
            start(self._run_from, step, values, waiting, start)
        await self._run_from(ready[0], values, waiting, start)

    async def _run_from(
        self, step: Step, values: list[Any], waiting: list[int], start: Start
    ) -> None:
        """Run a step, then the steps that are ready: the first one here, the others in tasks."""
        # A loop, since the depth of recursion would be the graph's length, and a task for every
        # step would cost more than the step.
        while True:
            values[step.index] = await step.run(values)
            following: Step | None = None
            for consumer in step.consumers:
                # There is no await between counting down and the test: only the last of several
                # inputs sees zero, so each step starts exactly once without a lock.
                open_inputs = waiting[consumer.index] = waiting[consumer.index] - 1
                if open_inputs:
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
        lines = ["flowchart LR", f'    {INPUT}(["{_escape(type_name(self.input))}"])']
        for node in self.nodes:
            left, right = ("[[", "]]") if isinstance(node.agent, Graph) else ("[", "]")
            lines.append(f'    {ids[node.name]}{left}"{_escape(node.name)}"{right}')
        lines.append(f'    result(["{_escape(type_name(self.signature.result))}"])')
        for edge in self._wiring.edges:
            label = f"{edge.parameter}: {'each ' if edge.fans_out else ''}{edge.path}".rstrip(": ")
            arrow = "==>" if edge.fans_out else "-->"
            lines.append(f'    {ids[edge.source]} {arrow}|"{_escape(label)}"| {ids[edge.target]}')
        lines.append(f"    {ids[self.output]} --> result")
        return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    """Replace special characters of mermaid and HTML by character codes."""
    return re.sub(r"[^\w \-.,:/()\[\]|]", lambda match: f"#{ord(match[0])};", text)
