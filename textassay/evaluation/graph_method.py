"""Makes a user's graph a method, so that it runs, resumes and reports like the built-in ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from textassay.agents.task import Task
from textassay.methods.library import tasks
from textassay.methods.method import TaskMethod
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph.graph import Graph, Node
from textassay.runtime.messages import Aspect, Assignment, How, Score
from textassay.version import __version__


class _Signed(Graph):
    """A graph with agents of the user's own, which may change texts or scores.

    Scores that carry the signature of a built-in agent get the graph's beside it, or they would
    pass for scores of that agent alone.
    """

    def __init__(self, graph: Graph, digest: str) -> None:
        super().__init__(graph.name, input=graph.input, nodes=graph.nodes, output=graph.output)
        self._digest = digest

    async def run(self, input: Any) -> Any:
        """Run the graph and sign what it yields."""
        result = await super().run(input)
        return [self._signed(one) for one in result] if isinstance(result, list) else result

    def _signed(self, yielded: object) -> object:
        if not isinstance(yielded, Score) or not yielded.signature.startswith("method:"):
            return yielded
        return yielded.model_copy(update={"signature": f"{yielded.signature}|graph:{self._digest}"})


def _is_foreign(node: Node) -> bool:
    """Return whether code outside this package takes part in a node."""
    if isinstance(node.agent, Graph):
        return any(map(_is_foreign, node.agent.nodes))
    return not str(getattr(node.agent, "__module__", "")).startswith("textassay.")


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
        if any(map(_is_foreign, graph.nodes)):
            self.graph = _Signed(graph, self._digest)

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
