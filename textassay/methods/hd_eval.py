"""HD-Eval: an aspect is divided into a tree of criteria, each is rated, and ratings are averaged.

The judge sees the parent of the criterion that it rates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field

from textassay.agents.aggregation import Average, as_evidence
from textassay.agents.planning import Decomposer, GrownTree, grow
from textassay.agents.prompt_template import Task
from textassay.agents.scorer import AspectScorer
from textassay.agents.typed_questions import QuestionScorer
from textassay.methods.judging import PER_ASPECT, RatingMethod, ask_to_write
from textassay.methods.library import trees
from textassay.methods.library.trees import BY_MODEL, PUBLISHED, tree_digest
from textassay.methods.method import Models, RatingOptions
from textassay.runtime.calls.sharing import once
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph import Node, each
from textassay.runtime.messages import Aspect, AspectTree, Example, Failure, How, Scale, Score

SCALE: Scale = (1.0, 5.0)
"""Scale of all nodes, independent of people's scale."""
Ratings = list[Score | Failure] | Failure
"""The result of a `rating_node`: one failure if all criteria are one request, and it failed."""


class HDEvalOptions(RatingOptions):
    """Options of HD-Eval."""

    tree: str = PUBLISHED
    """Tree file (TOML or JSON) or name of a published tree; `published`: the task's tree, and the
    model's own decomposition of criteria without one; `model`: the model's own for all.
    """
    depth: int = Field(default=2, ge=1, le=6)
    """Layers of a tree that the model grows, with the first (the paper: 3, pruned)."""
    children: int = Field(default=4, ge=1, le=26)
    """Most parts of a criterion in a tree that the model grows."""
    output: Literal["aspects", "nodes"] = "aspects"
    """One fused score for each criterion of the first layer, or the rating of every node."""


class HDEval(RatingMethod):
    """HD-Eval (Liu et al. 2024, arXiv 2402.15754), applied without learning from people.

    1. Criteria of the first layer are the aspects that people rate; a tree below them is read from
    a file or written by the model.
    2. Every node, inner ones too, is rated on 1-5 with a prompt that names its parent: temperature
    0, top-p 1, 32 tokens, score first.
    3. A first-layer criterion's score is the average over its branch, itself included.

    Deviations: the paper learns the aggregation from human ratings and prunes by attribution; its
    ablation averages over all nodes of the tree, we over the criterion's own branch. A criterion is
    decomposed separately (equation 1), not together with its siblings as in the example of figure
    10.
    """

    name = "hd-eval"
    prompt = "hd_eval"
    ends_in_rating = True
    max_tokens = 32
    structured = False  # a JSON answer would begin with the reason and reach the token limit
    Options = HDEvalOptions
    options: HDEvalOptions

    def prepare(self) -> None:
        """Find the known branches, and the agent that grows the others."""
        self._known_branches, roots = trees.find_parts(
            "tree", self.options.tree, self._task, SCALE, _branch_below
        )
        self._known = {n.id: n for branch in self._known_branches.values() for n in branch.tree}
        self._nodes = dict(self._known)
        self._growing = tuple(root for root in roots if root.id not in self._known_branches)
        self._task = self._task.model_copy(update={"aspects": roots})
        if not self.profile.writes:
            self._check_growth()
        if self._growing:
            self._decomposer = decomposer_for(self.models, self._task, self.options)
            self.has_writer = True
        self._grow = once(self._grow_branch)
        # last, because the signature depends on the tree
        self._average = Average(signature=self.signature)

    def _check_growth(self) -> None:
        """Refuse options of growing a tree for a model whose profile says that it cannot write."""
        if self.options.tree == BY_MODEL and self.options.depth == 1:
            raise ConfigurationError(
                f"the profile {self.profile.name!r} refuses tree={BY_MODEL}: its model cannot write"
                " a tree of criteria; leave out tree=, or name another model that grows one"
                " (model={'decomposer': NAME}, options={'depth': 2})"
            )
        if not self._growing:
            added = f"a model of profile {self.profile.name!r} adds none"
            why = f"every criterion is already in a tree, and {added}"
            self.check_unset(why, "depth", "children")

    def nodes(self) -> list[Node]:
        """Rate every node of the tree, then average each branch, unless `output=nodes`."""
        if self.options.output == "nodes":
            if self._growing:
                raise ConfigurationError(
                    "output=nodes needs a tree that is known beforehand;"
                    f" {self._growing[0].name!r} is not in a tree. Give one with tree=FILE"
                    " (textassay draft tree writes one)"
                )
            return [rating_node("scores", self.scorer, self._known, "input.aspects")]
        return [
            Node("tree", self._branch, aspect=each("input.aspects")),
            Node("criteria", self._lay_out, branches="tree"),
            rating_node("ratings", self.scorer, self._nodes),
            Node("scores", self._fuse, **PER_ASPECT, branch=each("tree"), criteria="criteria",
                 ratings="ratings"),
        ]  # fmt: skip

    async def _branch(self, aspect: Aspect) -> GrownTree:
        """Return the branch of a first-layer criterion, grown once per run if no file has it."""
        return self._known_branches.get(aspect.id) or await self._grow(aspect)

    async def _grow_branch(self, aspect: Aspect) -> GrownTree:
        branch = await grow(self._decomposer, (aspect,), self.options.depth)
        self._nodes |= {node.id: node for node in branch.tree}
        return branch

    async def _lay_out(self, branches: list[GrownTree | Failure]) -> tuple[Aspect, ...]:
        """Return the nodes of all branches; a branch that failed has none."""
        there = [branch for branch in branches if isinstance(branch, GrownTree)]
        # one flat list lets the graph rate all nodes of all branches at the same time
        return tuple(node for branch in there for node in branch.tree)

    async def _fuse(
        self,
        example: Example,
        aspect: Aspect,
        branch: GrownTree,
        criteria: tuple[Aspect, ...],
        ratings: Ratings,
    ) -> Score:
        """Return the average over a branch, with every node's rating as evidence."""
        if isinstance(ratings, Failure):
            ratings = [ratings] * len(criteria)
        ids = {node.id for node in branch.tree}
        pairs = zip(criteria, ratings, strict=True)
        rated = [(node, part) for node, part in pairs if node.id in ids]
        evidence = [as_evidence(part, text=node.name, id=node.id) for node, part in rated]
        parts = [part for _, part in rated]
        return await self._average(example, aspect, parts, evidence=[*evidence, *branch.notes])

    @property
    def variant(self) -> str:
        """Digest of the given branches, and how the others are grown."""
        digest = tree_digest(self._known.values())
        grown = f"{self._decomposer.digest}|{self.options.depth}" if self._growing else ""
        return f"{digest}|{grown}"

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """Criteria of the first layer, or all nodes with `output=nodes`."""
        if self.options.output == "nodes":
            return tuple(self._known.values())
        return super().aspects

    @property
    def how(self) -> How:
        """`fused`; for single nodes `text`, or `sampled` for `n` above 1."""
        return super().how if self.options.output == "nodes" else "fused"

    def describe(self) -> dict[str, Any]:
        """Return options, task, prompt digest and the known trees with their definitions."""
        trees_ = {
            root: [node.id for node in branch.tree] for root, branch in self._known_branches.items()
        }
        criteria = {id_: node.definition for id_, node in self._known.items()}
        return super().describe() | {"trees": trees_, "criteria": criteria}


def decomposer_for(
    models: Models, task: Task, options: HDEvalOptions, *, instead: str | None = None
) -> Decomposer:
    """Return the agent that decomposes one criterion (HD-Eval, section 2.1)."""
    ask = ask_to_write(
        models, "decomposer", "hd_eval_decompose", task, options, seed=options.seed,
        # with one layer nothing is written, so a model that can only judge is enough
        what="a tree of criteria" if options.depth > 1 else "",
        instead=instead
        or "give one with options={'tree': 'FILE'}, or rate the first layer alone (depth=1)",
    )  # fmt: skip
    return Decomposer(ask, count=options.children, scale=SCALE, repairs=options.parse_retries)


async def decompose_task(
    models: Models, task: Task, options: HDEvalOptions | None = None
) -> GrownTree:
    """Decompose a task's aspects into a tree of `depth` layers, for `trees.save`."""
    options = options or HDEvalOptions()
    roots = trees.on_scale(task.aspects, SCALE)
    return await grow(decomposer_for(models, task, options), roots, options.depth)


def _branch_below(tree: AspectTree, root: Aspect) -> GrownTree:
    def below(aspect: Aspect) -> list[Aspect]:
        return [aspect, *(node for child in tree.children(aspect.id) for node in below(child))]

    return GrownTree(tree=AspectTree(aspects=tuple(below(root))))


class NodeRatings(RatingMethod):
    """Some nodes of a tree as a method.

    One rating each, with the parent in view (HD-Eval, section 2.1).

    Args:
        models: The judge has the role `scorer`.
        task: The kind of text.
        tree: The whole tree as far as it has grown.
        nodes: The nodes to rate.
        options: Options of the judge.
    """

    name = HDEval.name
    prompt = HDEval.prompt
    Options = HDEvalOptions
    has_writer = True  # of the tree, by the fit

    def __init__(
        self,
        models: Models,
        task: Task,
        tree: AspectTree,
        nodes: Iterable[Aspect],
        options: HDEvalOptions,
    ) -> None:
        rated = tuple(nodes)
        self.known = {node.id: node for node in tree}
        """Every node by id."""
        self._as_given = options
        # by the task's own aspects; its prompt digest changes with any word of the nodes
        scaled = task.model_copy(update={"aspects": trees.on_scale(task.aspects, SCALE)})
        self.scorer = HDEval.scorer_for(models, scaled, options, variant=tree_digest(rated))
        super().__init__(models, task.model_copy(update={"aspects": rated}), options)

    def prepare(self) -> None:
        """Leave the options unchanged: they come from a fit, without a profile's defaults."""
        self.options = self._as_given

    def nodes(self) -> list[Node]:
        return [rating_node("scores", self.scorer, self.known, "input.aspects")]


def rating_node(
    name: str, scorer: AspectScorer, known: Mapping[str, Aspect], criteria: str = "criteria"
) -> Node:
    """Return a node that rates criteria, each with its parent in view.

    Typed questions about all criteria are one call, which is faster than a call for each.

    Args:
        name: Name of the node.
        scorer: The judge.
        known: The criteria and their parents by id; more may be added until they are rated.
        criteria: The wire of the criteria.
    """

    async def rate(example: Example, criterion: Aspect) -> Score:
        return await scorer(example, criterion, parent=known.get(criterion.parent or ""))

    async def rate_all(example: Example, criteria: tuple[Aspect, ...]) -> list[Score]:
        assert isinstance(scorer, QuestionScorer)
        parents = tuple(known.get(criterion.parent or "") for criterion in criteria)
        return await scorer.score_all(example, criteria, parent=parents)

    if isinstance(scorer, QuestionScorer):
        return Node(name, rate_all, example="input.example", criteria=criteria)
    return Node(name, rate, example="input.example", criterion=each(criteria))
