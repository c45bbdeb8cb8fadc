"""Rates chosen nodes of a tree of criteria, each for itself, as HD-Eval asks for them."""

from __future__ import annotations

from collections.abc import Iterable

from textassay.agents.scorer import Scorer
from textassay.agents.task import Task
from textassay.methods.hd_eval import SCALE, HDEval, HDEvalOptions
from textassay.methods.judging import RatingMethod
from textassay.methods.library import trees
from textassay.methods.method import Models
from textassay.runtime.graph.graph import Graph, Node, each
from textassay.runtime.messages import Aspect, AspectTree, Assignment, Example, Score


class NodeRatings(RatingMethod):
    """Some nodes of a tree as a method: one rating each, with the parent in view (HD-Eval, section 2.1).

    Args:
        models: The judge has the role `scorer`.
        task: What kind of text is judged.
        tree: The whole tree as far as it has grown.
        nodes: What is rated.
        options: How the judge is asked.
    """

    name = HDEval.name

    def __init__(
        self,
        models: Models,
        task: Task,
        tree: AspectTree,
        nodes: Iterable[Aspect],
        options: HDEvalOptions,
    ) -> None:
        rated = tuple(nodes)
        self._tree, self._task, self.options = (
            tree,
            task.model_copy(update={"aspects": rated}),
            options,
        )
        self.scorer = scorer_of(models, task, options, rated)
        self.profile = self.scorer.ask.profile
        wires = [Node("scores", self.rate, example="input.example", aspect=each("input.aspects"))]
        self.graph = Graph(self.name, input=Assignment, nodes=wires, output="scores")

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
    return HDEval.scorer_for(models, rated, options, variant=trees.digest(nodes))
