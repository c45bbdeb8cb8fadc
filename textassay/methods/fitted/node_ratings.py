"""Rates chosen nodes of a tree of criteria, each in a prompt of its own, as HD-Eval does."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from textassay.agents.scorer import Scorer
from textassay.agents.task import Task
from textassay.methods.hd_eval import SCALE, HDEval, HDEvalOptions
from textassay.methods.judging import PER_ASPECT, RatingMethod
from textassay.methods.library import trees
from textassay.methods.method import Models
from textassay.runtime.graph.graph import Node
from textassay.runtime.messages import Aspect, AspectTree, Example, Score


class NodeRatings(RatingMethod):
    """Some nodes of a tree as a method.

    One rating each, with the parent in view (HD-Eval, section 2.1).

    Args:
        models: The judge has the role `scorer`.
        task: What kind of text is judged.
        tree: The whole tree as far as it has grown.
        nodes: What is rated.
        options: How the judge is asked.
    """

    name = HDEval.name
    prompt = HDEval.prompt
    Options = HDEvalOptions

    def __init__(
        self,
        models: Models,
        task: Task,
        tree: AspectTree,
        nodes: Iterable[Aspect],
        options: HDEvalOptions,
    ) -> None:
        rated = tuple(nodes)
        self._tree, self._as_given = tree, options
        self._scorer = scorer_of(models, task, options, rated)  # by the task's own aspects
        super().__init__(models, task.model_copy(update={"aspects": rated}), options)

    def prepare(self) -> None:
        """Keep the options as they are: they come from a fit, not from a profile's defaults."""
        self.options = self._as_given

    @cached_property
    def scorer(self) -> Scorer:
        """The judge of the whole tree."""
        return self._scorer

    def nodes(self) -> list[Node]:
        """Rate every node that is wanted."""
        return [Node("scores", self.rate, **PER_ASPECT)]

    async def rate(self, example: Example, aspect: Aspect) -> Score:
        """Return one node's rating."""
        parent = None if aspect.parent is None else self._tree[aspect.parent]
        return await self.scorer(example, aspect, parent=parent)


def scorer_of(
    models: Models, task: Task, options: HDEvalOptions, nodes: Iterable[Aspect]
) -> Scorer:
    """Return HD-Eval's judge; its prompt digest changes with any word of the nodes."""
    rated = task.model_copy(
        update={"aspects": tuple(a.model_copy(update={"scale": SCALE}) for a in task.aspects)}
    )
    return HDEval.scorer_for(models, rated, options, variant=trees.tree_digest(nodes))
