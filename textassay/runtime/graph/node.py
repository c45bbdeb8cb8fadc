"""How users describe a graph: nodes, and the wires between them.

A wire is the name of a node, a field of what a node yields (`"plan.steps"`), the graph's input
(`"input"`), or a field of it (`"input.aspects"`, or short `"aspects"` if no node is called so).
Checks nothing: `wiring.py` does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

Agent = Callable[..., Awaitable[Any]]
"""An async function, or an object with `async def __call__`, with annotated parameters and
result."""


@dataclass(frozen=True, slots=True)
class Each:
    """A wire that is gone through item by item; made by `each`."""

    wire: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """A constant in place of a wire; made by `fixed`."""

    value: Any


Wire = str | Each | Fixed


def each(wire: str) -> Each:
    """Fan out: run the node once per item of the list on the wire, and return a list of results.

    How long the list is need only be known when the graph runs. Several `each` of one node advance
    together and must be equally long.
    """
    return Each(wire)


def fixed(value: Any) -> Fixed:
    """Pass a constant to a parameter."""
    return Fixed(value)


class Node:
    """An agent with a name and a wire to each of its parameters.

    Attributes:
        name: Unique in its graph.
        agent: What runs.
        wires: Where each parameter comes from, by parameter.
    """

    __slots__ = ("agent", "name", "wires")

    def __init__(self, name: str, agent: Agent, /, **wires: Wire) -> None:
        """Describe a node; whether it can run shows once it stands in a graph.

        Args:
            name: Unique in the graph, without dots, and not `input`.
            agent: An async callable with annotations, or a `Graph`, whose parameter is called
                `input`.
            wires: Where each parameter comes from; parameters with a default may be left out.
        """
        self.name, self.agent, self.wires = name, agent, wires

    def __repr__(self) -> str:
        wires = "".join(f", {parameter}={wire!r}" for parameter, wire in self.wires.items())
        return f"Node({self.name!r}, {getattr(self.agent, '__name__', self.agent)!s}{wires})"
