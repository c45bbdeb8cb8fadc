"""Runs one node of a graph: fetches inputs, calls its agent once or per item, makes failures.

The one place where an agent's exception becomes a `Failure`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from textassay.observing import WATCH
from textassay.runtime.errors import AgentExited
from textassay.runtime.graph.concurrency import gather, leading
from textassay.runtime.graph.node import Agent
from textassay.runtime.messages import Failure

_log = logging.getLogger(__name__)


class Input(NamedTuple):
    """Where a parameter's value comes from."""

    parameter: str
    source: int
    """Index of the node (0 for the input) that the value is taken from."""
    fetch: Callable[[Any], Any] | None
    """Takes the field out of the message; `None` for the whole message."""
    takes_failure: bool
    """Whether a `Failure` is taken for the value, or for the item if the parameter is mapped."""
    inside: tuple[bool, ...]
    """Whether one is taken for its items, their items, as deep as there can be one; empty if all
    are taken, so that nobody need look."""


@dataclass(slots=True)
class Step:
    """A node, planned."""

    name: str
    agent: Agent
    index: int
    """Where the values of a run hold its value; 0 is the input."""
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
    """Steps that wait for this one."""

    async def run(self, values: Sequence[Any]) -> Any:
        """Return the node's value, or the `Failure` that stands for it.

        Args:
            values: What has run so far, by index.

        Raises:
            TextassayError: An error that stops the run, as the agent raised it.
        """
        arguments = self.constants.copy()
        try:
            for parameter, source, fetch, takes_failure, inside in self.passed:
                value = values[source]
                if isinstance(value, Failure):
                    if not takes_failure:
                        return value
                elif fetch is not None:
                    value = fetch(value)
                elif inside and (failure := _unwanted_failure(value, inside)) is not None:
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
            what = (
                f"{wired.parameter} has {len(items)}"
                for wired, items in zip(self.mapped, lists, strict=True)
            )
            raise ValueError(f"lists gone through together differ in length: {', '.join(what)}")

    async def _call(self, arguments: dict[str, Any], items: Sequence[Any] = ()) -> Any:
        """Return what the agent yields, or the failure in place of its arguments or its result.

        Args:
            arguments: Arguments that all calls share; added to.
            items: The item of each mapped parameter.
        """
        try:
            for (parameter, _, _, takes_failure, inside), item in zip(
                self.mapped, items, strict=True
            ):
                if isinstance(item, Failure):
                    if not takes_failure:
                        return item
                elif inside and (failure := _unwanted_failure(item, inside)) is not None:
                    return failure
                arguments[parameter] = item
            observer = WATCH.observer
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
            # asyncio lets these end the event loop at once: no task of the run would be cleaned up
            raise AgentExited(f"the agent of {self.name!r} raised {error!r}") from error
        except Exception as error:
            return self._failure(error)

    def _failure(self, caught: Exception) -> Failure:
        error = leading(caught)
        # Some errors (the budget is reached, the disk is full) concern every example: as a
        # `Failure` of one item they would be repeated for each of the others.
        if getattr(error, "stops_run", False) or not isinstance(error, Exception):
            raise error
        _log.debug("node %r failed", self.name, exc_info=error)
        return Failure(node=self.name, type=type(error).__name__, message=str(error))


def _list_for(parameter: str, items: Any) -> Any:
    if isinstance(items, Sequence) and not isinstance(items, str | bytes):
        return items
    raise TypeError(f"each() expects a list for {parameter!r}, not {items!r:.80}")


def _unwanted_failure(items: Iterable[Any], taken: tuple[bool, ...]) -> Failure | None:
    """Return the first failure among items, or inside of them, that their consumer does not take.

    Args:
        items: The items.
        taken: Whether a failure is taken in place of an item, of an item of an item, ...
    """
    here, *deeper = taken
    for item in items:
        if isinstance(item, Failure):
            if not here:
                return item
        elif deeper and (failure := _unwanted_failure(item, tuple(deeper))) is not None:
            return failure
    return None
