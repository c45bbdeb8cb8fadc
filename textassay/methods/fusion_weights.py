"""Learns what Fusion-Eval's CorrW weighs its scorers with, from a file of rated examples.

Every assistant evaluator measures the rated examples once per run, and so does the direct evaluator
if it takes part: the weights are the correlations of both with people.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from textassay.agents.tool_average import DIRECT
from textassay.agents.tool_descriptions import Assistant, on_unit_scale
from textassay.agents.tool_weights import ScorerWeights, weights_from
from textassay.runtime.calls.single_flight import once
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, DataError, parameter
from textassay.runtime.graph.concurrency import gather
from textassay.runtime.messages import Aspect, Example, Failure, Scale, Score
from textassay.tools import Tool, ToolScorer
from textassay.tools.scorer import DryRunTool

AT_ONCE = 64
"""Rated examples that are measured at the same time."""

DirectJudge = Callable[[Example], Awaitable[list[Score | Failure]]]
"""Judges an example directly, on all aspects in order."""


class RatedWeights:
    """Weights by aspect, learned at the first use.

    Attributes:
        digest: Of the rated examples.
    """

    def __init__(
        self,
        ratings: str,
        aspects: Sequence[Aspect],
        assistants: Sequence[Assistant],
        tools: Sequence[Tool],
        ranges: dict[str, Scale],
        direct: DirectJudge | None,
    ) -> None:
        """Check the file.

        Args:
            ratings: File of examples with human ratings.
            aspects: What is judged; each must be rated there.
            assistants: Descriptions of the tools, in the order of the tools.
            tools: The assistant evaluators.
            ranges: Values that count as 0 and 1, by tool.
            direct: The direct evaluator; `None` if it takes no part.

        Raises:
            ConfigurationError: The file rates none of an aspect.
            DataError: The file cannot be read.
        """
        self._path, self._aspects, self._assistants = ratings, tuple(aspects), tuple(assistants)
        self._tools, self._ranges, self._direct = tuple(tools), ranges, direct
        info = Examples(ratings).check()
        self.digest = info.digest
        # checked when the method is built, so that a missing rating costs no call
        names = {name.casefold(): name for name in info.human}
        for aspect in self._aspects:
            if aspect.name.casefold() not in names:
                known = ", ".join(info.human) or "nothing"
                raise ConfigurationError(
                    f"fusion=corrw needs ratings of {aspect.name!r}; {ratings} rates {known}."
                    f" Choose aspects with {parameter('aspects')}, or add the ratings (field "
                    f"'human')"
                )
        self._human = {aspect.id: names[aspect.name.casefold()] for aspect in self._aspects}
        self._learn = once(self._learned)
        self.weights: dict[str, ScorerWeights] = {}

    async def __call__(self, aspect: Aspect) -> ScorerWeights:
        """Return the weights for an aspect.

        Raises:
            DataError: The ratings do not allow to learn them.
        """
        # `once`: examples that are judged at the same time wait for the same learning
        await self._learn()
        return self.weights[aspect.id]

    def as_json(self) -> str:
        """Return what was learned, as a file for the run folder."""
        content: dict[str, Any] = {"format": 1, "ratings": self._path, "digest": self.digest}
        weights = {
            one.aspect: {"rated": one.rated, "correlations": one.correlations}
            for one in self.weights.values()
        }
        return json.dumps({**content, "aspects": weights}, indent=2, ensure_ascii=False) + "\n"

    async def _learned(self) -> None:
        names = self._human.values()
        rated = [
            example
            for example in Examples(self._path)
            if any(example.human.get(name) is not None for name in names)
        ]
        if any(isinstance(tool, DryRunTool) for tool in self._tools):
            # nothing measures in a dry run; the direct evaluator's calls are counted all the same
            await gather([self._judged(example) for example in rated], limit=AT_ONCE)
            # any weights will do: a dry run counts calls, and its values are thrown away
            equal = {assistant.name: 1.0 for assistant in self._assistants}
            equal |= {} if self._direct is None else {DIRECT: 1.0}
            self.weights = {
                aspect.id: ScorerWeights(aspect=aspect.name, correlations=equal, rated=len(rated))
                for aspect in self._aspects
            }
            return
        scorer = ToolScorer(self._tools)
        measured = await gather([scorer.score(example) for example in rated], limit=AT_ONCE)
        judged = await gather([self._judged(example) for example in rated], limit=AT_ONCE)
        for at, aspect in enumerate(self._aspects):
            values: dict[str, list[float | None]] = {
                assistant.name: [self._on_unit(row[place], assistant, aspect) for row in measured]
                for place, assistant in enumerate(self._assistants)
            }
            if self._direct is not None:
                values[DIRECT] = [_direct_value(row[at]) for row in judged]
            ratings = [example.human.get(self._human[aspect.id]) for example in rated]
            self.weights[aspect.id] = weights_from(aspect.name, values, ratings)

    async def _judged(self, example: Example) -> list[Score | Failure]:
        return [] if self._direct is None else await self._direct(example)

    def _on_unit(self, score: Score, assistant: Assistant, aspect: Aspect) -> float | None:
        if score.outcome == "error" and score.error is not None:
            raise DataError(
                f"fusion=corrw: {assistant.name} failed on the rated example {score.id!r}:"
                f" {score.error.message}"
            )
        return on_unit_scale(score, assistant, aspect, self._ranges.get(assistant.name)).value


def _direct_value(score: Score | Failure) -> float | None:
    if isinstance(score, Failure):
        raise DataError(
            f"fusion=corrw: the direct evaluator failed on a rated example: {score.type}:"
            f" {score.message}"
        )
    if score.outcome == "error" and score.error is not None:
        raise DataError(
            f"fusion=corrw: the direct evaluator failed on the rated example {score.id!r}:"
            f" {score.error.message}"
        )
    return score.unit_value
