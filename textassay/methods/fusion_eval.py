"""Fusion-Eval: a judge rates with the scores of assistant evaluators and a plan of their use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from textassay.agents.aggregation import UNIT
from textassay.agents.fusion import (
    DIRECT,
    OVERALL,
    AssistantDescription,
    LLMFuser,
    Planner,
    RefusedPlan,
    ToolAverage,
    TypedFuser,
    correlate_scorers,
    is_overall,
)
from textassay.agents.prompt_template import Task
from textassay.agents.typed_questions import QuestionScorer
from textassay.methods.g_eval import GEval, GEvalOptions, with_published_words
from textassay.methods.judging import ALL_ASPECTS, PER_ASPECT, PromptMethod, ask_to_write
from textassay.methods.library import plans
from textassay.methods.method import Models, SamplingOptions, model_for
from textassay.prompts import PLANS
from textassay.runtime.base import Json
from textassay.runtime.calls.sharing import once
from textassay.runtime.concurrency import gather
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.graph import Graph, Node, each
from textassay.runtime.messages import Aspect, Assignment, Example, How, Plan, Scale, Score
from textassay.tools import Tool, ToolScorer
from textassay.tools.tool import DryRunTool
from textassay.version import __version__

Fusion = Literal["llm", "avg", "llmsel", "corrw"]
"""Fusion by the judge (the paper's Fusion-Eval), or by one of its aggregation functions AVG, LLMSel
and CorrW."""


class FusionEvalOptions(SamplingOptions):
    """Options of Fusion-Eval."""

    n: int = Field(default=8, ge=1, le=1000)
    """Number of sampled answers, whose ratings are averaged (the paper: 8)."""
    fusion: Fusion = "llm"
    """`llm`: the judge rates; `avg`: the mean of all scorers; `llmsel`: the mean of the scorers
    that the plan names for the aspect; `corrw`: the mean weighted by each scorer's correlation with
    `ratings`.
    """
    ratings: str | None = None
    """File of examples with human ratings from which `corrw` learns its weights: all tools, and the
    direct evaluator if `direct`, judge them once per run. Leave out the examples to be judged, or
    agreement looks better than it is."""
    plan: str = "auto"
    """`auto`: the model writes it (role `planner`); `none` (FE-NoPlan); a published plan; or a plan
    file's path."""
    direct: bool = False
    """Whether `avg`, `llmsel` and `corrw` include a direct judgment by G-Eval, with `n` samples."""
    overall: bool | Literal["auto"] = "auto"
    """Whether to add an overall score if the task has none; `auto`: if all its aspects are judged.
    """
    ranges: dict[str, Scale] = {}
    """Values that map to 0 and 1 for `avg`, `llmsel` and `corrw`, by tool, for tools with an
    unbounded scale.
    """

    @property
    def effective_temperature(self) -> float:
        """The temperature that is used: by default the paper's for GPT-4 (0.5 for PaLM 2)."""
        return 0.1 if self.temperature is None else self.temperature


class FusionEval(PromptMethod):
    """Fusion-Eval (Shu et al. 2023, arXiv 2311.09204).

    1. The planning model is given task, criteria and assistant evaluators, and writes which of them
    serve which
       criterion, and the steps of judging (once per run). FE-NoPlan leaves this out.
    2. The assistant evaluators score the example.
    3. The judge is given the criteria, descriptions of the evaluators, the plan and the scores, and
    rates all criteria and the text as a whole in one answer, with explanations.
    4. `n` = 8 answers are sampled and their ratings averaged.
    Baselines (section 3.2): AVG, LLMSel and CorrW average the evaluators' scores, each mapped to
    0-1, with or without the score of a direct evaluator; the value is then on 0-1.

    Deviations: the words of the planning prompt are ours, since the paper shows them only in a
    picture; descriptions of evaluators and criteria always precede the plan, since plans may be
    edited; texts are between delimiters. A plan that names something unknown or leaves a
    criterion out is asked for again (`parse_retries`), and then refused: its scores are
    `invalid`. An evaluator that abstains is shown as missing; one that fails makes the scores
    errors.
    """

    name = "fusion-eval"
    prompt = "fusion_eval"
    default_tools = ("rougeL", "chrf", "coverage", "repetition")
    """Default tools: four that need no model, two with references and two without."""
    optional_tools: ClassVar[Mapping[str, str]] = {"embedding?engine=static&per=sentence": "static"}
    """Further default tool if the extra is installed: the model-based one that needs no download.
    """
    Options = FusionEvalOptions
    options: FusionEvalOptions

    def prepare(self) -> None:
        self.assistants = tuple(map(AssistantDescription.of, self.tools))
        # first, because plan, prompt and digest depend on the aspects
        self._task = _with_overall(self._task, self.options)
        if self.options.direct and self.profile.printed:
            # for the direct evaluator; averages have no prompt
            self._task = with_published_words(self._task)
        self._check_judge()
        self._check_fusion()
        self._check_tools()
        self.plan: Plan | RefusedPlan | None = None
        self._write_plan: Callable[[], Awaitable[Plan | RefusedPlan]] | None = None
        self._plan_digest = self._find_plan()
        self.weights: RatedWeights | None = None

    def nodes(self) -> list[Node]:
        """Write the plan once, measure every example with the tools, and fuse the scores."""
        tools = Node("tools", ToolScorer(self.tools).score, example="input.example")
        is_llm = self.options.fusion == "llm"
        fused, self.signature, self.prompt_digest = (
            self._fusing_nodes() if is_llm else self._averaging_nodes(tools)
        )
        plan = [Node("plan", self._plan)] if self._plan_wire else []
        return [*plan, tools, *fused]

    def _check_judge(self) -> None:
        """Refuse a judge that cannot write ratings of several aspects."""
        options = self.options
        if self.decides:
            return
        if options.fusion == "llm":
            self.require_writing(
                "ratings of several aspects in one answer", "use fusion=avg or llmsel"
            )
        if self.profile.printed and options.fusion == "llm" and options.plan not in PLANS:
            raise ConfigurationError(
                f"profile={self.profile.name} has the whole prompts of appendices A.2 and A.3; take"
                f" one by plan={' or plan='.join(PLANS)}"
            )

    def _check_fusion(self) -> None:
        """Refuse options without effect on the fusion."""
        options = self.options
        if options.fusion == "llm" and options.direct:
            why = "with fusion=llm the judge rates directly anyway; it is for avg, llmsel and corrw"
            self.check_unset(why, "direct")
        if options.fusion == "llmsel" and options.plan == "none":
            raise ConfigurationError(
                "fusion=llmsel averages the tools that a plan names; it cannot be combined with "
                "plan=none"
            )
        if options.fusion == "corrw" and not options.ratings:
            raise ConfigurationError(
                "fusion=corrw weighs each scorer by its correlation with people, so it needs rated"
                " examples: options={'ratings': 'FILE'} (JSONL with the field 'human'). "
                "Without ratings use fusion=avg"
            )
        if options.fusion in ("avg", "corrw"):
            why = f"fusion={options.fusion} averages all tools, and llmsel those of a plan"
            self.check_unset(why, "plan")
        if options.fusion != "corrw":
            self.check_unset("only fusion=corrw learns from ratings", "ratings")

    def _check_tools(self) -> None:
        """Refuse a fusion without tools, and ranges of tools that are not used."""
        if not self.tools:
            raise ConfigurationError(
                "fusion-eval fuses assistant evaluators; name some, such as tools=nli,bleurt"
            )
        strange = self.options.ranges.keys() - {tool.name for tool in self.tools}
        if strange:
            raise ConfigurationError(
                f"ranges names the tool {min(strange)!r}, which is not among tools="
            )

    def _find_plan(self) -> str:
        """Read the plan, or make the agent that writes it; return a digest, or ""."""
        if self.options.plan == "none" or self.options.fusion in ("avg", "corrw"):
            return ""
        if self.options.plan != "auto":
            tools = [tool.name for tool in self.tools]
            self.plan = plans.load(self.options.plan, self._task, tools)
            words = plans.as_toml(self.plan).encode("utf-8", "surrogatepass")
            return hashlib.sha256(words).hexdigest()[:6]
        planner = planner_of(self.models, self._task, self.tools, self.options)
        self._write_plan = once(planner)
        self.has_writer = True
        return planner.digest

    async def _plan(self) -> Plan | RefusedPlan:
        """Return the plan, written once per run if it is not given."""
        if self._write_plan:
            self.plan = await self._write_plan()
        assert self.plan  # a graph without a plan has no such node
        return self.plan

    def _fusing_nodes(self) -> tuple[list[Node], str, str]:
        """Return the node in which the judge fuses, the scores' signature and the digest."""
        options = self.options
        judge: QuestionScorer | LLMFuser
        if self.decides:
            tools = [(a.name, a.description, a.range, a.signature) for a in self.assistants]
            variant = f"{tools}|{self._plan_digest}"
            judge = QuestionScorer(self.ask("typed_rating"), self.name, variant=variant)
            fuser: TypedFuser | LLMFuser = TypedFuser(judge, self.assistants)
        else:
            fuser = judge = LLMFuser(
                self.ask(n=options.n, temperature=options.effective_temperature),
                self.assistants,
                method=self.name,
                parse_retries=options.parse_retries,
                max_tokens=options.max_tokens,
                variant=self._plan_digest,
            )
        node = Node("scores", fuser, **ALL_ASPECTS, **self._plan_wire, assistance="tools")
        return [node], judge.signature, judge.prompt_digest

    def _averaging_nodes(self, tools: Node) -> tuple[list[Node], str, str]:
        """Return the nodes that average numbers, the scores' signature and the prompts' digest."""
        wires: dict[str, Any] = {**PER_ASPECT, "assistance": "tools"}
        direct = self._direct() if self.options.direct else None
        nodes = [Node("direct", direct.graph, input="input")] if direct else []
        wires |= {"direct": each("direct")} if direct else {}
        average = ToolAverage(self.assistants, self.options.ranges)
        parts = [*(a.signature for a in self.assistants), repr(self.options.ranges)]
        if self.options.ratings:  # for CorrW only
            unweighted = [*nodes, tools, Node("scores", average, **wires)]
            self.weights = RatedWeights(
                self.options.ratings,
                self._task.aspects,
                [*(a.name for a in self.assistants), DIRECT][: None if direct else -1],
                Graph(self.name, input=Assignment, nodes=unweighted, output="scores"),
                any(isinstance(tool, DryRunTool) for tool in self.tools),
            )
            nodes.append(Node("weights", self.weights, aspect=each("input.aspects")))
            wires["weights"] = each("weights")
            parts.append(self.weights.digest)
        recipe = "\n".join([self._plan_digest, *parts, direct.signature if direct else ""])
        digest = hashlib.sha256(recipe.encode()).hexdigest()[:6]
        scorer = model_for(self.models, "scorer").name if direct else "-"
        fusing = f"fusion:{self.options.fusion}|parts:{digest}"
        signature = f"method:{self.name}|model:{scorer}|{fusing}|v:{__version__}"
        # the signature needs the digest of all parts, which are known only now
        average = replace(average, signature=signature)
        return [*nodes, Node("scores", average, **wires, **self._plan_wire)], signature, digest

    def _direct(self) -> GEval:
        if self.decides:
            options = GEvalOptions(profile=self.options.profile)
        else:
            # the user's temperature, not the 0.1 of fusing: G-Eval has a default of its own
            names = {"n", "temperature", "seed", "parse_retries", "prompt_layout", "profile"}
            # the fused signature cannot record which of two ways was used
            reading = "logprob" if self.options.n == 1 else "auto"
            options = GEvalOptions(**self.options.model_dump(include=names), reading=reading)
        return GEval(self.models, self._task, options)

    @property
    def _plan_wire(self) -> dict[str, str]:
        return {"plan": "plan"} if self._plan_digest else {}

    @property
    def how(self) -> How:
        """`sampled`, `text` for `n` of 1, or `fused` for the averages."""
        if self.options.fusion != "llm":
            return "fused"
        if self.decides:
            return super().how
        return "text" if self.options.n == 1 else "sampled"

    def describe(self) -> dict[str, Any]:
        """Return options, task, tools, and the digests of prompts and plan."""
        description = super().describe()
        if self.options.fusion != "llm":
            description["aspects"] = [
                {**aspect, "scale": list(UNIT)} for aspect in description["aspects"]
            ]
        return {**description, "plan": self._plan_digest or None}

    def artifacts(self) -> dict[str, str]:
        """Return the written plan, or the learned weights, as files for the run folder."""
        if self.weights:
            return {"weights.json": self.weights.as_json()} if self.weights.learned else {}
        # a refused plan names something that does not exist
        if not self._write_plan or not isinstance(self.plan, Plan):
            return {}
        return {"plan.toml": plans.as_toml(self.plan, source=f"written for the task {self.task}")}


def planner_of(
    models: Models, task: Task, tools: Sequence[Tool], options: FusionEvalOptions | None = None
) -> Planner:
    """Return the agent that writes the plan; save the plan with `plans.save` for `plan=FILE`."""
    options = options or FusionEvalOptions()
    ask = ask_to_write(
        models, "planner", "fusion_eval_plan", task, options, seed=options.seed,
        max_tokens=1024, what="a plan",
        instead="give one with options={'plan': 'FILE'}, or use fusion=avg",
    )  # fmt: skip
    assistants = tuple(map(AssistantDescription.of, tools))
    return Planner(ask, assistants, repairs=options.parse_retries)


def _with_overall(task: Task, options: FusionEvalOptions) -> Task:
    """Return the task with an overall aspect last, if one is wanted and the task has none."""
    rate_overall = options.overall
    if rate_overall == "auto":
        # an overall score of only some aspects would be misleading
        whole = len(task.aspects) >= max(2, len(task.family))
        rate_overall = options.fusion == "llm" and whole
    if not rate_overall or any(is_overall(aspect) for aspect in task.aspects):
        return task
    scales = {aspect.scale for aspect in task.aspects}
    overall = Aspect(
        name=OVERALL,
        definition=(
            f"the quality of the {task.output_name.lower()} as a whole, by all metrics and their"
            " importance."
        ),
        # aspects on different scales have no common one for the text as a whole
        scale=scales.pop() if len(scales) == 1 else Aspect.model_fields["scale"].default,
    )
    return task.model_copy(update={"aspects": (*task.aspects, overall)})


class RatedWeights:
    """Weights by aspect, learned at the first use.

    Args:
        ratings: File of the rated examples.
        aspects: The aspects.
        scorers: Names of the scorers.
        average: Averages the scorers with equal weights; its evidence has the value of each.
        is_dry: Whether this is a dry run.
    """

    def __init__(
        self,
        ratings: str,
        aspects: tuple[Aspect, ...],
        scorers: Sequence[str],
        average: Graph,
        is_dry: bool,
    ) -> None:
        info = Examples(ratings).check()
        self.ratings, self.digest = ratings, info.digest
        self._aspects, self._scorers, self._average = aspects, scorers, average
        self._is_dry = is_dry
        # checked when the method is built, so that a missing rating costs no call
        names = {name.casefold(): name for name in info.human}
        for aspect in aspects:
            if aspect.name.casefold() not in names:
                rated = ", ".join(info.human) or "nothing"
                raise ConfigurationError(
                    f"fusion=corrw needs ratings of {aspect.name!r}; {ratings} rates {rated}."
                    f" Choose aspects with aspects=, or add the ratings (field 'human')"
                )
        self._human = {aspect.id: names[aspect.name.casefold()] for aspect in aspects}
        self._learn = once(self._learn_weights)
        self.learned: dict[str, Json] = {}
        """Correlations and number of rated examples by id of the aspect, once they are learned."""

    async def __call__(self, aspect: Aspect) -> dict[str, float | None]:
        """Return the correlation of each scorer with the ratings of an aspect."""
        # `once`: concurrent examples share one learning
        await self._learn()
        correlations: dict[str, float | None] = self.learned[aspect.id]["correlations"]
        return correlations

    def as_json(self) -> str:
        """Return the learned weights, as a file for the run folder."""
        content: Json = {"format": 1, "ratings": self.ratings, "digest": self.digest}
        content["aspects"] = {aspect.name: self.learned[aspect.id] for aspect in self._aspects}
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"

    async def _learn_weights(self) -> None:
        names = self._human.values()
        rated = [
            example
            for example in Examples(self.ratings)
            if any(example.human.get(name) is not None for name in names)
        ]
        work = [Assignment(example=example, aspects=self._aspects) for example in rated]
        scored = await gather(map(self._average.run, work), limit=64)
        rows = [_read_values(*pair) for pair in zip(rated, scored, strict=True)]
        # arbitrary weights in a dry run, which only counts calls
        equal, learned = dict.fromkeys(self._scorers, 1.0), dict[str, Json]()
        for at, aspect in enumerate(self._aspects):
            values = {name: [row[at].get(name) for row in rows] for name in self._scorers}
            ratings = [example.human.get(self._human[aspect.id]) for example in rated]
            correlations = (
                equal if self._is_dry else correlate_scorers(aspect.name, values, ratings)
            )
            count = len(ratings) - ratings.count(None)
            learned[aspect.id] = {"rated": count, "correlations": correlations}
        self.learned = learned


def _read_values(example: Example, scores: list[Score]) -> list[dict[str, float | None]]:
    """Return the value of each scorer from 0 to 1, for each aspect of a rated example."""
    for score in scores:
        if score.error and score.outcome == "error":
            failed = next(entry["text"] for entry in score.evidence if entry["outcome"] == "error")
            who = "the direct evaluator" if failed == DIRECT else failed
            raise DataError(
                f"fusion=corrw: {who} failed on the rated example {example.id!r}:"
                f" {score.error.type}: {score.error.message}"
            )
    return [{entry["text"]: entry.get("mapped") for entry in score.evidence} for score in scores]
