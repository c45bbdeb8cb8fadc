"""Runs one node of a graph: fetches inputs, calls its agent once or per item, makes failures.

The one place where an agent's exception becomes a `Failure`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from textassay.observing import WATCH
from textassay.runtime.errors import AgentExited
from textassay.runtime.graph.concurrency import gather, leading
from textassay.runtime.graph.node import Agent
from textassay.runtime.messages import Failure

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Input:
    """Where a parameter's value comes from."""

    parameter: str
    source: int
    """Index of the node (0 for the input) that the value is taken from."""
    fetch: Callable[[Any], Any] | None
    """Takes the field out of the message; `None` for the whole message."""
    takes_failure: tuple[bool, ...]
    """Whether a `Failure` is taken: for the value, its items, their items, as deep as there can be
    one."""


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
            for wired in self.passed:
                value = _take(wired, values)
                if (failure := _unwanted_failure(value, wired.takes_failure)) is not None:
                    return failure
                arguments[wired.parameter] = value
            if not self.mapped:
                return await self._call(arguments)
            lists = [_take(wired, values) for wired in self.mapped]
        except Exception as error:
            return self._failure(error)
        return await self._call_each(arguments, lists)

    async def _call(self, arguments: dict[str, Any]) -> Any:
        try:
            observer = WATCH.observer
            if observer is None:
                value = await self.agent(**arguments)
            else:
                value = await observer.node(self.name, self.agent, arguments)
        except (SystemExit, KeyboardInterrupt) as error:
            # asyncio lets these end the event loop at once: no task of the run would be cleaned up
            raise AgentExited(f"the agent of {self.name!r} raised {error!r}") from error
        if isinstance(value, Failure):
            return (
                value.model_copy(update={"node": f"{self.name}/{value.node}"})
                if self.nested
                else value
            )
        if not isinstance(value, self.result_types):
            declared = " | ".join(cls.__name__ for cls in self.result_types)
            raise TypeError(
                f"the agent of {self.name!r} yielded {type(value).__name__}, but is annotated"
                f" {declared}"
            )
        return value

    async def _call_each(self, arguments: dict[str, Any], lists: Sequence[Any]) -> Any:
        for wired, items in zip(self.mapped, lists, strict=True):
            if isinstance(items, Failure):
                return items
            # Messages hold tuples; `isinstance` with an abstract class is far slower than this
            # comparison.
            if type(items) is not tuple and not _is_list(items):
                return self._failure(
                    TypeError(f"each() expects a list for {wired.parameter!r}, not {items!r:.80}")
                )
        if any(len(items) != len(lists[0]) for items in lists[1:]):
            what = (
                f"{wired.parameter} has {len(items)}"
                for wired, items in zip(self.mapped, lists, strict=True)
            )
            return self._failure(
                ValueError(f"lists gone through together differ in length: {', '.join(what)}")
            )
        if len(lists[0]) == 1:  # an aspect at a time is the commonest case
            return [await self._call_item(arguments, [items[0] for items in lists])]
        return await gather(
            [self._call_item(arguments, items) for items in zip(*lists, strict=True)]
        )

    async def _call_item(self, shared: dict[str, Any], items: Sequence[Any]) -> Any:
        arguments = shared.copy()
        for wired, item in zip(self.mapped, items, strict=True):
            if (failure := _unwanted_failure(item, wired.takes_failure)) is not None:
                return failure
            arguments[wired.parameter] = item
        try:
            return await self._call(arguments)
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


def _take(wired: Input, values: Sequence[Any]) -> Any:
    value = values[wired.source]
    return value if wired.fetch is None or isinstance(value, Failure) else wired.fetch(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _unwanted_failure(value: Any, taken: tuple[bool, ...]) -> Failure | None:
    """Return the first failure in `value` that its consumer does not take."""
    if isinstance(value, Failure):
        return None if taken[0] else value
    deeper = taken[1:]
    # Items are looked at only if one of them may be a failure that the agent does not take.
    if deeper and not all(deeper):
        for item in value:
            if (failure := _unwanted_failure(item, deeper)) is not None:
                return failure
    return None
