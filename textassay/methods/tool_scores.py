"""Runs tools (assistant evaluators) alone, as a method, so that their run is like any other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textassay.agents.prompt_template import Task
from textassay.methods.method import CheckedOptions, MethodTraits, Models
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph import Graph, Node
from textassay.runtime.messages import Aspect, Assignment, How, Score
from textassay.tools import ToolScorer
from textassay.tools.tool import Tool


class ToolScores:
    """Scores of assistant evaluators alone.

    There is no paper and no prompt (ours), and no model unless a tool has one.

    Each tool gives one score, with the tool's name and scale.
    """

    name = "tools"
    default_tools: tuple[str, ...] = ()
    traits = MethodTraits(shows_source=True)
    how: How = "tool"
    task = None
    Options = CheckedOptions

    def __init__(
        self,
        models: Models,
        task: Task,
        options: CheckedOptions | None = None,
        *,
        tools: Sequence[Tool] = (),
    ) -> None:
        if not tools:
            raise ConfigurationError(
                "no tools to score with; name them with tools=a,b (see: textassay tools list)"
            )
        scorer = ToolScorer(tools)
        self.options = options or CheckedOptions()
        # the scores of an unbounded tool have no scale; the default one here is never shown
        self.aspects = tuple(_aspect(tool) for tool in scorer.tools)
        self.signature = f"method:tools|tools:{'+'.join(tool.signature for tool in scorer.tools)}"
        self._tools = scorer.tools

        async def score(assignment: Assignment) -> list[Score]:
            labels = [aspect.label for aspect in assignment.aspects]
            if labels == list(scorer.names):
                return await scorer.score(assignment.example)
            # a resumed run may lack the scores of some tools only
            by_name = {tool.name: tool for tool in scorer.tools}
            return await ToolScorer([by_name[label] for label in labels]).score(assignment.example)

        nodes = [Node("scores", score, assignment="input")]
        self.graph = Graph(self.name, input=Assignment, nodes=nodes, output="scores")

    def describe(self) -> dict[str, Any]:
        """Return the tools' names, scales and signatures."""
        return {
            "name": self.name,
            "tools": [
                {
                    "name": tool.name,
                    "scale": list(tool.scale) if tool.scale else None,
                    "higher_is_better": tool.higher_is_better,
                    "signature": tool.signature,
                }
                for tool in self._tools
            ],
        }


def _aspect(tool: Tool) -> Aspect:
    scale = tool.scale or Aspect.model_fields["scale"].default
    better = tool.higher_is_better
    return Aspect(name=tool.name, definition=tool.description, scale=scale, higher_is_better=better)
