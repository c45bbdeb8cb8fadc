"""Tools as a dry run has them: they say the same of themselves, and measure nothing."""

from __future__ import annotations

from textassay.runtime.messages import Example, Scale, Score
from textassay.tools.lm_prob import LMProb
from textassay.tools.tool import Need, Tool


class DryRunTool:
    """Gives the middle of another tool's scale, without loading or asking anything."""

    def __init__(self, tool: Tool) -> None:
        """Stand in for a tool, which stays its owner's to close."""
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
