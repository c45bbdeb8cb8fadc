"""CoAScore: rates a chain of relevant aspects first, to inform the rating of the target aspect."""

from __future__ import annotations

import random
from typing import Any, Literal

from pydantic import Field

from textassay.agents.aggregation import Average, as_evidence, broken_part, common_fields
from textassay.agents.planning import Decomposer, Decomposition, GrownTree, grow, related_aspects
from textassay.agents.prompt_template import Task
from textassay.agents.reading.labels import is_whole, points_of
from textassay.agents.scorer import IndividualScorer, JointScorer, JointScores
from textassay.methods.judging import PER_ASPECT, RatingMethod, ask_to_write
from textassay.methods.library import trees
from textassay.methods.method import Models, RatingOptions
from textassay.runtime.calls.sharing import once
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph import Node, each
from textassay.runtime.messages import Aspect, AspectTree, Example, How, Scale, Score

ASPECT_SCALE: Scale = (1.0, 5.0)
"""Scale of relevant aspects that the model names, independent of the target's scale."""


class CoAScoreOptions(RatingOptions):
    """Options of CoAScore."""

    variant: Literal["full", "inter", "no-scores", "random", "average"] = "full"
    """`full` is CoAScore, the others are the paper's ablations (its tables 5 and 6 and figure 2):
    `inter`: the task's other aspects as the chain; `no-scores`: definitions only; `random`: ratings
    of the chain drawn from `seed`; `average`: the mean of the chain's ratings as the target's."""
    n_aspects: int = Field(default=10, ge=1, le=50)
    """Number of relevant aspects (the paper: 5, 10 and 20)."""
    aspects_file: str | None = None
    """Tree file with the chains: each target a root, its relevant aspects below it."""


class CoAScore(RatingMethod):
    """CoAScore (Gong and Mao 2023, arXiv 2312.10355).

    1. For each target aspect the model names `n_aspects` relevant aspects with definitions (once a
    run).
    2. All of them are rated for the example in one answer.
    3. The target aspect is rated with these definitions and ratings as knowledge.
    All at temperature 0, with one sample.

    Deviations: the words of all three prompts are ours, since the paper's tables 8 to 11 are not in
    any public copy; relevant aspects are rated on 1-5. Ratings that the joint answer omits are
    asked for again. Those that are omitted again are shown to the last stage as not rated; if all
    are, there is no score.
    """

    name = "coascore"
    prompt = "coascore"
    Options = CoAScoreOptions
    options: CoAScoreOptions

    def prepare(self) -> None:
        if self.options.variant == "inter":
            self.check_unset(
                "variant=inter takes the task's own aspects", "aspects_file", "n_aspects"
            )
            # a file that a profile names is not used
            self.options = self.options.model_copy(update={"aspects_file": None})
        elif file := self.options.aspects_file:
            self.check_unset(f"the chains of {file} have the aspects that it lists", "n_aspects")
        self._chains: dict[str, Decomposition] = {}
        self._chains_digest = self._find_chains()
        self.joint = self._rater_of_chains()
        self._average = Average(signature=self.signature)

    @property
    def variant(self) -> str:
        """The variant, the origin of the chains and their rating."""
        return "|".join((self.options.variant, self._chains_digest, self.joint.digest))

    def nodes(self) -> list[Node]:
        """Write an aspect's chain once, rate it per example, and show it to the judge."""
        chain = Node("chain", self._chain, aspect=each("input.aspects"))
        wires = {**PER_ASPECT, "chain": each("chain")}
        if self.options.variant == "no-scores":
            return [chain, Node("scores", self._judge, **wires)]
        raters = self._draw_ratings if self.options.variant == "random" else self._rate
        judge = self._take_mean if self.options.variant == "average" else self._judge
        return [
            chain,
            Node("ratings", raters, example="input.example", chain=each("chain")),
            Node("scores", judge, **wires, ratings=each("ratings")),
        ]

    def _find_chains(self) -> str:
        """Read the known chains, or make the agent that names them; return a digest."""
        if self.options.variant == "inter":
            # the digest enters the signature: scores from other chains are not comparable
            self._chains = _other_aspects(self._task)
            return self._task.digest
        if self.options.aspects_file:
            tree = trees.load(self.options.aspects_file, self._task)
            self._chains = _from_file(tree, self._task, self.options.aspects_file)
            return trees.tree_digest(a for chain in self._chains.values() for a in chain.aspects)
        namer = chain_namer(self.models, self._task, self.options)
        # named once per run: with a chain per example the scores of an aspect would not be
        # comparable
        self._name = once(namer)
        self.has_writer = True
        return namer.digest

    async def _chain(self, aspect: Aspect) -> Decomposition:
        return self._chains.get(aspect.id) or await self._name(aspect)

    def _rater_of_chains(self) -> JointScorer | IndividualScorer:
        """Return the agent of stage II, with a call per aspect if probabilities are read."""
        options = self.options
        if not self.decides and self.profile.ratings == "written":
            ask = self.ask("coascore_ratings")
            return JointScorer(ask, options.form, options.parse_retries)
        # the probabilities of labels can be read for only one rating per prompt
        prompt = "" if self.decides else "llm_score"
        return IndividualScorer(self.scorer_for(self.models, self._task, options, prompt=prompt))

    async def _rate(self, example: Example, chain: Decomposition) -> JointScores:
        return await self.joint(example, chain.aspects)

    async def _draw_ratings(self, example: Example, chain: Decomposition) -> JointScores:
        """Draw ratings that depend on the seed, the example and the aspect alone."""
        seed = self.options.seed or 0
        scores = (_draw_aspects(example, aspect, seed) for aspect in chain.aspects)
        return JointScores(scores=tuple(scores))

    async def _judge(
        self,
        example: Example,
        aspect: Aspect,
        chain: Decomposition,
        ratings: JointScores | None = None,
    ) -> Score:
        ratings = ratings or JointScores(scores=())  # definitions alone are shown
        evidence = (*_as_evidence(chain, ratings), *chain.notes, *ratings.notes)
        if error := broken_part(ratings.scores):
            about = common_fields(example, aspect, how=self.how, signature=self.signature)
            about |= {"usage": ratings.usage, "evidence": evidence}
            return Score.unscored(error.type, error.message, outcome="error", **about)
        # without any rating the last prompt, and so the score, would be LLMScore's
        is_unknown = ratings.scores and all(score.error for score in ratings.scores)
        if is_unknown and example.output.strip():
            score = self._without_knowledge(example, aspect, ratings)
            return score.model_copy(update={"evidence": evidence})
        score = await self.scorer(
            example, aspect, knowledge=related_aspects(chain.aspects, ratings.scores)
        )
        return score.model_copy(
            update={"evidence": (*evidence, *score.evidence), "usage": ratings.usage + score.usage}
        )

    async def _take_mean(
        self, example: Example, aspect: Aspect, chain: Decomposition, ratings: JointScores
    ) -> Score:
        evidence = (*_as_evidence(chain, ratings), *chain.notes, *ratings.notes)
        score = await self._average(example, aspect, ratings.scores, evidence=evidence)
        return score.model_copy(update={"usage": ratings.usage})

    def _without_knowledge(self, example: Example, aspect: Aspect, ratings: JointScores) -> Score:
        declined = all(score.outcome == "abstained" for score in ratings.scores)
        messages = (score.error.message for score in ratings.scores if score.error)
        reasons = "; ".join(dict.fromkeys(messages))
        return Score.unscored(
            "Declined" if declined else "NoScoreFound",
            f"none of the {len(ratings.scores)} relevant aspects was rated: {reasons}",
            usage=ratings.usage,
            **common_fields(example, aspect, how=self.how, signature=self.signature),
        )

    @property
    def how(self) -> How:
        """`text`, `sampled` for `n` above 1, or `fused` for the plain average."""
        return "fused" if self.options.variant == "average" else super().how


def chain_namer(models: Models, task: Task, options: CoAScoreOptions) -> Decomposer:
    """Return the agent of stage I, which names the aspects that are relevant to a target."""
    ask = ask_to_write(
        models, "decomposer", "coascore_aspects", task, options, seed=options.seed,
        what="chains of aspects",
        instead="give them with options={'aspects_file': 'FILE'}, or take the task's other aspects"
        " (variant=inter)",
    )  # fmt: skip
    is_same = all(aspect.scale == ASPECT_SCALE for aspect in task.aspects)
    return Decomposer(
        ask,
        count=options.n_aspects,
        exact=True,
        # `None` means the target's own scale: the same scale in numbers would change the digest,
        # and so the cached chains
        scale=None if is_same else ASPECT_SCALE,
        repairs=options.parse_retries,
    )


async def name_chains(
    models: Models, task: Task, options: CoAScoreOptions | None = None
) -> GrownTree:
    """Write the chains of all aspects of a task, as a tree that `trees.save` can store."""
    return await grow(chain_namer(models, task, options or CoAScoreOptions()), task.aspects, 2)


def _other_aspects(task: Task) -> dict[str, Decomposition]:
    family = task.family or task.aspects
    if len(family) < 2:
        raise ConfigurationError(
            f"variant=inter needs a task with several aspects; {task.name!r} has one"
        )
    return {
        target.id: Decomposition(of=target, aspects=tuple(a for a in family if a.id != target.id))
        for target in task.aspects
    }


def _from_file(tree: AspectTree, task: Task, path: str) -> dict[str, Decomposition]:
    chains = {target.id: tree.children(target.id) for target in task.aspects}
    for target in task.aspects:
        if not chains[target.id]:
            names = ", ".join(root.name for root in tree.roots if tree.children(root.id))
            raise ConfigurationError(
                f"{path} has no relevant aspects below {target.name!r}; it has some for: {names}"
            )
    return {t.id: Decomposition(of=t, aspects=chains[t.id]) for t in task.aspects}


def _draw_aspects(example: Example, aspect: Aspect, seed: int) -> Score:
    # drawn from the ids, so that order and resuming do not change the ratings
    draw = random.Random(f"{seed}\x1f{example.id}\x1f{aspect.id}")
    low, high = aspect.scale
    points = [point.value for point in points_of(aspect.scale, "number")]
    value = draw.choice(points) if is_whole(aspect.scale) else draw.uniform(low, high)
    return Score(id=example.id, aspect=aspect.label, value=value, scale=aspect.scale)


def _as_evidence(chain: Decomposition, ratings: JointScores) -> list[dict[str, Any]]:
    words = [{"text": part.name, "definition": part.definition} for part in chain.aspects]
    pairs = zip(ratings.scores, words, strict=bool(ratings.scores))
    return [as_evidence(score, **word) for score, word in pairs] or words
