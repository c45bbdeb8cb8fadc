"""Tools in a run: several as one scorer, and stand-ins for a dry run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from textassay.runtime.errors import ConfigurationError, TextassayError
from textassay.runtime.messages import Example, Scale, Score, ScoreError
from textassay.runtime.resource import AsyncResource
from textassay.tools.lm_prob import LMProb
from textassay.tools.tool import Need, Tool


class ToolScorer(AsyncResource):
    """Runs a set of tools side by side; `async with` closes them."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        """Keep the tools.

        Args:
            tools: At least one, with different names.

        Raises:
            ConfigurationError: There is none, or two share a name.
        """
        if not tools:
            raise ConfigurationError("no tools to score with; name at least one")
        self.tools = tuple(tools)
        self.names = tuple(tool.name for tool in tools)
        if len(set(self.names)) < len(self.names):
            raise ConfigurationError(f"two tools share a name: {', '.join(self.names)}")

    @property
    def signature(self) -> str:
        """The tools' signatures, one a line."""
        return "\n".join(tool.signature for tool in self.tools)

    async def score(self, example: Example) -> list[Score]:
        """Score with every tool; the scores are in the order of the tools.

        A tool that fails on this example gives a score with the outcome `error`, and the others
        continue.

        Raises:
            TextassayError: A failure that would hit every example, such as a missing extra.
        """
        # No task group for one tool, the common case in a graph.
        if len(self.tools) == 1:
            return [await self._one(self.tools[0], example)]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._one(tool, example)) for tool in self.tools]
        except* TextassayError as several:
            raise several.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _one(self, tool: Tool, example: Example) -> Score:
        try:
            return await tool.score(example)
        except Exception as error:  # the one place where a tool's failure becomes a value
            if isinstance(error, TextassayError) and error.stops_run:
                raise
            return Score(
                id=example.id,
                aspect=tool.name,
                outcome="error",
                scale=tool.scale,
                how="tool",
                error=ScoreError(type=type(error).__name__, message=str(error) or repr(error)),
                signature=tool.signature,
            )

    async def aclose(self) -> None:
        """Close every tool."""
        for tool in self.tools:
            await tool.aclose()


class DryRunTool:
    """Gives the middle of another tool's scale, without loading or asking anything."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    @property
    def name(self) -> str:
        """The tool's name."""
        return self._tool.name

    @property
    def description(self) -> str:
        """The tool's own words."""
        return self._tool.description

    @property
    def scale(self) -> Scale | None:
        """The tool's scale."""
        return self._tool.scale

    @property
    def higher_is_better(self) -> bool:
        """As the tool says."""
        return self._tool.higher_is_better

    @property
    def needs(self) -> tuple[Need, ...]:
        """The tool's needs."""
        return self._tool.needs

    @property
    def signature(self) -> str:
        """The tool's signature."""
        return self._tool.signature

    async def score(self, example: Example) -> Score:
        """Return the middle of the scale, or 1/2 if it has no ends."""
        middle = 0.5 if self.scale is None else (self.scale[0] + self.scale[1]) / 2
        return Score(
            id=example.id,
            aspect=self.name,
            value=middle,
            scale=self.scale,
            how="tool",
            signature=self.signature,
        )

    async def aclose(self) -> None:
        """Nothing is open."""


def dry_run_tool(tool: Tool) -> Tool:
    """Return a stand-in for a tool in a dry run.

    A tool that asks a model which is itself a stand-in is returned as it is.
    """
    return tool if isinstance(tool, LMProb) and tool.connected is not None else DryRunTool(tool)
