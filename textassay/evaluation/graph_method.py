"""Makes a user's graph a method, so that it runs, resumes and reports like the built-in ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from textassay.agents.task import Task
from textassay.methods.library import tasks
from textassay.methods.method import TaskMethod
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph.graph import Graph
from textassay.runtime.messages import Aspect, Assignment, How
from textassay.version import __version__


class GraphMethod(TaskMethod):
    """A graph from an `Assignment` to a list of one `Score` per aspect, in the aspects' order."""

    how: How = "text"
    """What scores say that could not be obtained; the others come from the graph's own agents."""

    def __init__(self, graph: Graph, task: Task) -> None:
        """Take a graph and what it judges.

        Raises:
            ConfigurationError: The graph takes something else than an `Assignment`.
        """
        if graph.input is not Assignment:
            raise ConfigurationError(
                f"{graph!r} cannot be evaluated: it must take an Assignment (an example and"
                " aspects) and yield a list of scores, one per aspect; wire its nodes to"
                " 'input.example' and each('input.aspects')"
            )
        self.graph, self._task = graph, task

    @classmethod
    def of(
        cls, graph: Graph, task: str | None, aspects: Iterable[str | Aspect] | None
    ) -> GraphMethod:
        """Return a method for the aspects of a task; see `tasks.load`.

        Raises:
            UnknownName: There is no such task or aspect.
            ConfigurationError: The graph takes something else than an `Assignment`.
        """
        return cls(graph, tasks.load(task, aspects))

    @property
    def name(self) -> str:
        """The graph's name."""
        return self.graph.name

    @property
    def signature(self) -> str:
        """Names the graph and its shape; what its agents do is theirs to sign."""
        return f"method:{self.name}|graph:{self._digest}|task:{self._task.digest}|v:{__version__}"

    @property
    def _digest(self) -> str:
        # the drawing names every node and edge, so a graph that is wired differently has another
        # signature
        return hashlib.sha256(self.graph.to_mermaid().encode()).hexdigest()[:6]

    def describe(self) -> dict[str, Any]:
        """Return graph, task and aspects."""
        return {
            "name": self.name,
            "graph": self.graph.to_mermaid(),
            **self.described_task(),
        }
