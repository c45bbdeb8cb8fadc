"""Rates chosen nodes of a tree of criteria, each for itself, as HD-Eval asks for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from textassay.agents.scorer import Scorer
from textassay.agents.task import Task
from textassay.methods import trees
from textassay.methods.hd_eval import SCALE, HDEval, HDEvalOptions
from textassay.methods.llm_score import describe
from textassay.methods.method import Models, model_for
from textassay.runtime.graph import Graph, Node, each
from textassay.runtime.messages import Aspect, AspectTree, Assignment, Example, How, Score


class NodeRatings:
    """Some nodes of a tree as a method: one rating each, with the parent in view (HD-Eval, section 2.1).

    Args:
        models: The judge has the role `scorer`.
        task: What kind of text is judged.
        tree: The whole tree as far as it has grown.
        nodes: What is rated.
        options: How the judge is asked.
    """

    name = "hd-eval"

    def __init__(
        self, models: Models, task: Task, tree: AspectTree, nodes: Iterable[Aspect], options: HDEvalOptions
    ) -> None:
        self.aspects = tuple(nodes)
        self._tree, self._task, self._options = tree, task, options
        self.scorer = scorer_of(models, task, options, self.aspects)
        wires = [Node("scores", self.rate, example="input.example", aspect=each("input.aspects"))]
        self.graph = Graph(self.name, input=Assignment, nodes=wires, output="scores")

    async def rate(self, example: Example, aspect: Aspect) -> Score:
        """Return one node's rating."""
        parent = None if aspect.parent is None else self._tree[aspect.parent]
        return await self.scorer(example, aspect, parent=parent)

    @property
    def task(self) -> str | None:
        """Name of the task."""
        return self._task.name

    @property
    def how(self) -> How:
        """`text`, or `sampled` for `n` above 1."""
        return self.scorer.how

    @property
    def signature(self) -> str:
        """The scorer's."""
        return self.scorer.signature

    def describe(self) -> dict[str, Any]:
        """Return options, task, prompt digest and nodes."""
        task = self._task.model_copy(update={"aspects": self.aspects})
        return describe(self.name, task, self._options, self.scorer.prompt_digest)


def scorer_of(models: Models, task: Task, options: HDEvalOptions, nodes: Iterable[Aspect]) -> Scorer:
    """Return HD-Eval's judge; its prompt digest changes with any word of the nodes."""
    return Scorer(
        model=model_for(models, "scorer"),
        task=task.model_copy(update={"aspects": tuple(a.model_copy(update={"scale": SCALE}) for a in task.aspects)}),
        method=HDEval.name,
        prompt=options.prompt or HDEval.prompt,
        how=options.how,
        form=options.form,
        layout=options.prompt_layout,
        n=options.n,
        temperature=options.warmth,
        seed=options.seed,
        parse_retries=options.parse_retries,
        max_tokens=options.max_tokens or HDEval.room,
        structured=False,  # a JSON answer would bring its reason first and run out of room
        variant=trees.digest(nodes),
    )
