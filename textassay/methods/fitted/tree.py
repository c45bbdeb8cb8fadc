"""Applies HD-Eval as it was aligned with people.

A model rates the tree's nodes, the aggregator puts them together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from textassay.methods.fitted.evaluator import Evaluator
from textassay.methods.fitted.node_ratings import NodeRatings
from textassay.methods.fitted.scores import EvidenceOptions, FittedScorer, chosen
from textassay.methods.hd_eval import HDEvalOptions
from textassay.methods.method import Models
from textassay.runtime.errors import ConfigurationError, option
from textassay.runtime.graph.graph import Graph, Node, each
from textassay.runtime.messages import (
    Aspect,
    Assignment,
    Example,
    Failure,
    How,
    Score,
    ScoreError,
    Usage,
)
from textassay.version import __version__


class LearnedTreeOptions(EvidenceOptions):
    """Options of a fitted HD-Eval."""

    allow_change: bool = False
    """Whether another model, or prompts that changed since, may be used than those that were
    learned from."""


class LearnedTree:
    """HD-Eval after alignment (Liu et al. 2024, section 2.4).

    1. The model rates every node of the learned tree with a prompt that names its parent.
    2. The aggregator says what people would rate, aspect by aspect, on their scale.
    3. Evidence is every node with its rating and how far it moved the score.

    A node without a usable rating counts as its mean over the training rows; one that could not be
    asked makes the scores errors, so that a resumed run asks again.
    """

    name = "hd-eval-fitted"
    how: How = "fused"
    task = None  # it is the evaluator's, not to be chosen

    def __init__(
        self,
        evaluator: Evaluator,
        models: Models,
        aspects: Iterable[str | Aspect] | None = None,
        options: LearnedTreeOptions | None = None,
    ) -> None:
        assert evaluator.tree is not None  # an evaluator of this kind has both
        assert evaluator.task is not None
        self.options = options or LearnedTreeOptions()
        self._evaluator = evaluator
        tree, judged_by = evaluator.tree, HDEvalOptions.read(evaluator.options)
        nodes = tuple(tree[id_] for id_ in evaluator.features)
        self._judge = NodeRatings(models, evaluator.task, tree, nodes, judged_by)
        self._refuse_change()
        self._verdicts = FittedScorer(evaluator, self.options)
        self.aspects = chosen(evaluator, aspects)
        judge = self._judge.scorer.signature_as("fused")
        self.signature = f"{judge}|evaluator:{evaluator.digest[:12]}|v:{__version__}"
        self.graph = Graph(
            self.name,
            input=Assignment,
            nodes=[
                Node("criteria", self._criteria, example="input.example"),
                Node("ratings", self._judge.rate, example="input.example", aspect=each("criteria")),
                Node(
                    "scores",
                    self._fuse,
                    example="input.example",
                    aspects="input.aspects",
                    ratings="ratings",
                ),
            ],
            output="scores",
        )

    def _refuse_change(self) -> None:
        changes = [
            f"{what} changed from {before!r} to {now!r}"
            for what, before, now in (
                # weights were learned for the errors of one judge; another errs in other ways
                ("the model", self._evaluator.model, self._judge.scorer.ask.model.name),
                (
                    "the prompt's digest",
                    self._evaluator.prompts,
                    self._judge.scorer.prompt_digest,
                ),
            )
            if before != now
        ]
        if changes and not self.options.allow_change:
            raise ConfigurationError(
                f"this evaluator was learned from other ratings: {'; '.join(changes)}. Weights "
                "learned for one judge may not suit another; fit again, or apply it anyway with "
                f"{option('allow_change', 'true')}"
            )

    async def _criteria(self, example: Example) -> list[Aspect]:
        """Return the nodes, which are the same for all examples."""
        return list(self._judge.aspects)

    async def _fuse(
        self, example: Example, aspects: tuple[Aspect, ...], ratings: list[Score | Failure]
    ) -> list[Score]:
        broken = next(
            (part for part in ratings if isinstance(part, Failure) or part.outcome == "error"), None
        )
        # a node that could not be asked is not the same as one without a usable rating: filling it
        # with a mean would make a failure of the network part of the score
        if broken is not None:
            scores = [self._unscored(example, aspect, broken) for aspect in aspects]
        else:
            values = [part.value for part in ratings if isinstance(part, Score)]
            features = [float("nan") if value is None else value for value in values]
            scores = await self._verdicts.scores(example, aspects, features, self.signature)
        usage = sum((part.usage for part in ratings if isinstance(part, Score)), Usage())
        # usage of the shared ratings is counted once, on the first aspect
        return [scores[0].model_copy(update={"usage": usage}), *scores[1:]]

    def _unscored(self, example: Example, aspect: Aspect, broken: Score | Failure) -> Score:
        if isinstance(broken, Failure):
            error = ScoreError(type=broken.type, message=f"{broken.node}: {broken.message}")
        else:
            assert broken.error is not None
            error = ScoreError(
                type=broken.error.type, message=f"{broken.aspect}: {broken.error.message}"
            )
        return Score(
            id=example.id,
            aspect=aspect.name,
            outcome="error",
            scale=aspect.scale,
            how="fused",
            error=error,
            signature=self.signature,
        )

    def describe(self) -> dict[str, Any]:
        """Return the evaluator's digest, the judge's set-up and options."""
        return {
            "name": self.name,
            "evaluator": self._evaluator.digest,
            "aggregator": self._verdicts.aggregator.name,
            "judge": self._judge.describe(),
            "aspects": [{"name": a.name, "scale": list(a.scale)} for a in self.aspects],
            "options": self.options.model_dump(mode="json"),
        }
