"""Fusion-Eval's agents: assistant evaluators, the plan for them, the fusion of their scores.

A planner writes which assistant evaluators serve which criterion, and the steps of judging
(section 2); a plan with unknown names is requested again. Given plan and scores, a judge rates all
aspects in one answer; several answers are sampled and averaged. AVG, LLMSel and CorrW (section 3.2)
average the scores themselves, each mapped from its own scale to 0-1. With CorrW the weight of a
scorer is its Pearson correlation with people's ratings; scores that fall as ratings rise are
reversed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from pydantic import Field

from textassay.agents.aggregation import (
    EMPTY,
    UNIT,
    Average,
    as_evidence,
    common_fields,
    from_samples,
    leave_unscored,
    rescale,
    reverse,
)
from textassay.agents.ask import Ask, Parsed, check_not_filtered, remind_of, truncation_note
from textassay.agents.prompt_template import Prompt
from textassay.agents.reading.joint import JointAnswer, parse_joint
from textassay.agents.reading.outcomes import DECLINED, NoRating, Rating
from textassay.agents.reading.plans import parse_plan
from textassay.agents.scorer import whole_lines
from textassay.agents.typed_questions import QuestionScorer
from textassay.agreement.correlation import pearson
from textassay.runtime.base import NO_USAGE, Json, Message
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName
from textassay.runtime.labels import slug
from textassay.runtime.messages import Aspect, Example, Failure, How, Plan, Scale, Score
from textassay.runtime.model import Sample, thought_note
from textassay.runtime.questions import NamedText
from textassay.tools.tool import Tool


class AssistantDescription(Message):
    """The description of one tool."""

    name: str = Field(min_length=1)
    """The tool's name."""
    description: str
    """The tool's own words."""
    scale: Scale | None = None
    """Lowest and highest value; `None` if unbounded."""
    higher_is_better: bool = True
    """Whether high values are good."""
    signature: str = ""
    """The tool's signature."""

    @classmethod
    def of(cls, tool: Tool) -> Self:
        """Describe a tool."""
        return cls(**{field: getattr(tool, field) for field in cls.model_fields})

    @property
    def range(self) -> str:
        """Its range in words, such as `0 to 1, higher is better`."""
        ends = f"{self.scale[0]:g} to {self.scale[1]:g}" if self.scale else "no fixed ends"
        return f"{ends}, {'higher' if self.higher_is_better else 'lower'} is better"


def reading_of(score: Score) -> str:
    """Return a tool's score as text for a prompt, or the reason why it is missing."""
    if score.error:
        return f"missing ({score.error.type})"
    # four digits: more would suggest a precision that no tool has, and cost tokens
    return f"{score.value:.4g}"


def on_unit_scale(
    score: Score, assistant: AssistantDescription, aspect: Aspect, span: Scale | None = None
) -> Score:
    """Return a tool's score mapped to 0..1, reversed if its good end is the aspect's bad end."""
    scale = assistant.scale or span
    if score.value is None or not scale:
        return score
    # users choose the ranges of unbounded tools, so a value may be beyond them
    share = rescale(score.value, scale, UNIT)
    turned = assistant.higher_is_better != aspect.higher_is_better
    return score.model_copy(update={"value": 1.0 - share if turned else share, "scale": UNIT})


def as_assistance(score: Score, selected: bool | None) -> Json:
    """Return a tool's score as evidence of a judgment."""
    without = ("explanation", "thought")
    assistance = {key: value for key, value in as_evidence(score).items() if key not in without}
    return assistance if selected is None else assistance | {"selected": selected}


AGAIN_PROMPT = "fusion_eval_plan_again"
OVERALL = "overall"
"""Name of the aspect that summarizes the others; plans may omit evaluators for it."""
_STEPS = (
    "Read the texts from beginning to end and note all that bears on {}, for it and against it.",
    (
        "Compare them on it, and take the scores of the assistant evaluators that serve it as"
        " supplementary insights, which may support or question this first impression."
    ),
    "Assign a score for {} by its definition, and say in a sentence or two what has decided it.",
)
"""Steps for each criterion in the answer of a dry run, as long as those that a model wrote for
Fusion-Eval (appendices A.2 and A.3)."""


class RefusedPlan(Message):
    """A plan that is still unusable after all repairs."""

    problem: str = Field(min_length=1)
    """Reason in words."""
    text: str
    """The plan as the model wrote it last."""


def criteria_of(aspects: tuple[Aspect, ...]) -> tuple[Aspect, ...]:
    """Return the aspects that a plan covers: all but the overall one, unless it is the only one."""
    return tuple(aspect for aspect in aspects if not is_overall(aspect)) or aspects


def is_overall(aspect: Aspect) -> bool:
    """Return whether an aspect summarizes the others."""
    return slug(aspect.name) == OVERALL


@dataclass(frozen=True)
class Planner:
    """Asks a model for the plan of a task."""

    ask: Ask
    """Model and prompt; the prompt also gets `criteria` and `tools`."""
    tools: tuple[AssistantDescription, ...]
    """The assistant evaluators."""
    repairs: int = 1
    """How often an unusable plan is requested again, with its faults."""

    @cached_property
    def digest(self) -> str:
        """6 hex digits of everything that affects the plan, such as the model."""
        ask = self.ask
        tools = tuple((tool.name, tool.description, tool.range) for tool in self.tools)
        names = tuple(aspect.name for aspect in ask.task.aspects)
        variants = (ask.task.digest, names, tools, self.repairs, ask.seed, ask.model.name)
        return ask.digest(*variants, also=(AGAIN_PROMPT,))

    async def __call__(self) -> Plan | RefusedPlan:
        """Return the plan, or the reason why it is refused.

        A refused plan names unknown tools or omits a criterion, even in the last attempt.
        """
        aspects = self.ask.task.aspects
        criteria = criteria_of(aspects)
        names = tuple(aspect.name for aspect in criteria)
        tools = tuple(tool.name for tool in self.tools)
        check = partial(check_not_filtered, part="the plan")
        dry_run_answer = self._dry_run_answer(criteria)
        prompt = self.ask.render(criteria=criteria, tools=self.tools)
        for _ in range(self.repairs + 1):
            answer = await self.ask.answer(prompt, check, dry_run_answer=dry_run_answer)
            text = answer.text
            reading = parse_plan(text, names, tools)
            cut = ("does not come to an end",) if answer.cut else ()
            problems = (*reading.problems, *cut)
            if not problems:
                serving = {a.name: reading.assistants.get(a.name, ()) for a in aspects}
                return Plan(assistants=serving, steps=reading.steps, text=text)
            # the chat goes on with the unusable plan and its faults: the same question would mostly
            # get the same answer
            values = {"problems": problems, "criteria": names, "tools": tools}
            prompt = prompt.append_turn(text, AGAIN_PROMPT, **values)
        return RefusedPlan(problem="the plan " + "; it ".join(problems), text=text[:2_000])

    def _dry_run_answer(self, criteria: tuple[Aspect, ...]) -> str:
        first = self.tools[0].name if self.tools else "none"
        lines = [f"- {aspect.name}: {first}" for aspect in criteria]
        texts = [step.format(aspect.name) for aspect in criteria for step in _STEPS]
        steps = [f"{number}. {step}" for number, step in enumerate(texts, start=1)]
        return "\n".join(["Assistant evaluators:", *lines, "", "Steps:", *steps])


MIN_RATED = 3
"""Fewest examples with a score and a rating from which a correlation is computed: of two it is
always 1 or -1. Of three, chance alone puts |r| above .9 in 29 % of draws; of twelve, in .01 %."""


def correlate_scorers(
    aspect: str, scores: Mapping[str, Sequence[float | None]], ratings: Sequence[float | None]
) -> dict[str, float | None]:
    """Return the correlation of each scorer with the ratings of an aspect, by name.

    It is `None` for a scorer that does not vary or has too few scores.
    """
    rated = sum(rating is not None for rating in ratings)
    if rated < MIN_RATED:
        raise DataError(
            f"fusion=corrw: {rated} examples are rated on {aspect}; at least {MIN_RATED} are needed"
        )
    correlations = {name: _correlation(values, ratings) for name, values in scores.items()}
    if not any(correlations.values()):
        raise DataError(
            f"fusion=corrw: no scorer varies with the ratings of {aspect}: {', '.join(scores)};"
            " rate more examples, or use fusion=avg"
        )
    return correlations


def _correlation(values: Sequence[float | None], ratings: Sequence[float | None]) -> float | None:
    pairs = [pair for pair in zip(values, ratings, strict=True) if None not in pair]
    return pearson(*np.array(pairs, float).T) if len(pairs) >= MIN_RATED else None


DIRECT = "direct"
"""Name of the direct judgment in evidence."""


@dataclass(frozen=True)
class ToolAverage:
    """Averages the scores of all tools, or of the plan's tools, and of a direct judgment."""

    assistants: tuple[AssistantDescription, ...]
    """The tools, in the order of their scores."""
    ranges: Mapping[str, Scale] = field(default_factory=dict)
    """Values that map to 0 and 1, by tool, for tools with an unbounded scale."""
    signature: str = ""
    """Signature of the fused scores."""

    def __post_init__(self) -> None:
        for assistant in self.assistants:
            if not assistant.scale and assistant.name not in self.ranges:
                raise ConfigurationError(
                    f"the scale of {assistant.name!r} is unbounded, so it cannot be mapped to"
                    " 0-1; leave the tool out, or say which values count as 0 and 1:"
                    f" options={{'ranges': {{{assistant.name!r}: [0, 1]}}}}"
                )

    async def __call__(
        self,
        example: Example,
        aspect: Aspect,
        assistance: list[Score],
        plan: Plan | RefusedPlan | None = None,
        direct: Score | Failure | None = None,
        weights: dict[str, float | None] | None = None,
    ) -> Score:
        """Return the mean on a scale from 0 to 1.

        Args:
            example: The example to judge.
            aspect: The aspect to judge it on.
            assistance: The tools' scores, in the order of `assistants`.
            plan: The plan that selects tools (LLMSel); `None` for all tools (AVG).
            direct: A judge's own score, as one more scorer.
            weights: Correlation of each scorer with ratings (CorrW), whose size is its weight;
                `None` for equal weights.
        """
        about = common_fields(example, aspect, how="fused", signature=self.signature, scale=UNIT)
        if problem := problem_before(example, [], plan):
            return Score.unscored(**problem, **about)
        tools = plan.assistants.get(aspect.name, ()) if isinstance(plan, Plan) else None
        if tools == ():
            reason = f"the plan names no assistant evaluator for {aspect.name}"
            return Score.unscored("NoToolSelected", reason, outcome="abstained", **about)
        entries, parts = self._map_tools(aspect, assistance, tools)
        if direct:
            entries.append(as_evidence(direct, text=DIRECT))
            if isinstance(direct, Score):
                entries[-1]["mapped"] = direct.unit_value
            parts.append(direct)
        part_weights = [1.0] * len(parts)
        if weights:
            for entry in entries:
                entry["correlation"] = weights[entry["text"]]
            # scorers without a correlation are not needed
            used = [
                (part, r) for entry, part in zip(entries, parts, strict=True)
                if (r := weights[entry["text"]])
            ]  # fmt: skip
            parts = [reverse(part) if r < 0 else part for part, r in used]
            part_weights = [abs(r) for _, r in used]
        on_unit = aspect.model_copy(update={"scale": UNIT})
        return await Average(self.signature)(example, on_unit, parts, part_weights, entries)

    def _map_tools(
        self, aspect: Aspect, assistance: list[Score], selection: Sequence[str] | None
    ) -> tuple[list[Json], list[Score | Failure]]:
        """Return the evidence of every tool, and from 0 to 1 the scores of those in the plan."""
        entries: list[Json] = []
        parts: list[Score | Failure] = []
        for assistant, score in zip(self.assistants, assistance, strict=True):
            selected = None if selection is None else assistant.name in selection
            entries.append(as_assistance(score, selected))
            if selected is not False:
                mapped = on_unit_scale(score, assistant, aspect, self.ranges.get(assistant.name))
                entries[-1]["mapped"] = mapped.value
                # a tool's cost serves all aspects, so it is not on any of them
                parts.append(mapped.model_copy(update={"usage": NO_USAGE}))
        return entries, parts


def problem_before(
    example: Example, assistance: list[Score], plan: Plan | RefusedPlan | None
) -> dict[str, Any]:
    """Return why there is no score, as arguments of `Score.unscored`; empty if there is one."""
    if not example.output.strip():
        return EMPTY.model_dump()
    if isinstance(plan, RefusedPlan):
        evidence = ({"text": plan.text},)
        return {"type": "PlanRefused", "message": plan.problem, "evidence": evidence}
    for failed in assistance:
        if failed.outcome == "error" and failed.error:
            message = f"the assistant evaluator {failed.aspect} failed: {failed.error.message}"
            shown = tuple(as_assistance(score, None) for score in assistance)
            problem = {"type": failed.error.type, "message": message, "outcome": "error"}
            return problem | {"evidence": shown}
    return {}


@dataclass(frozen=True)
class LLMFuser:
    """Rates one example on several aspects at once, given the assistant evaluators' scores."""

    ask: Ask
    """Model and prompt; the prompt also gets `criteria`, `overall`, `assistants` and `plan`. Every
    answer rates all aspects of its task.
    """
    assistants: tuple[AssistantDescription, ...]
    """The tools, in the order of their scores."""
    method: str = "fusion-eval"
    """Name for signatures."""
    parse_retries: int = 1
    """How often a single sample that omits an aspect is requested again; if there are several
    samples, the others are used.
    """
    max_tokens: int | None = None
    """Longest answer in tokens; `None` to derive it from the number of aspects."""
    variant: str = ""
    """Further facts that distinguish scores, such as the origin of the plan; goes into the prompt
    digest."""

    @property
    def how(self) -> How:
        """`sampled`, or `text` for a single sample."""
        return "text" if self.ask.n == 1 else "sampled"

    @cached_property
    def prompt_digest(self) -> str:
        """6 hex digits of the prompt's words, without the example's texts."""
        task = self.ask.task
        tools = tuple((a.name, a.description, a.range, a.signature) for a in self.assistants)
        names = tuple(aspect.name for aspect in task.aspects)
        return self.ask.digest(self.ask.layout, task.digest, names, tools, self.variant)

    @cached_property
    def signature(self) -> str:
        """Signature of the scores: method, model, words, tools, plan, sampling and version."""
        facts = {"how": self.how, **self.ask.sampling}
        return self.ask.signature(self.method, self.prompt_digest, **facts)

    async def __call__(
        self,
        example: Example,
        aspects: tuple[Aspect, ...],
        assistance: list[Score],
        plan: Plan | RefusedPlan | None = None,
    ) -> list[Score]:
        """Return a score for each of `aspects`, in order.

        If no sample has a usable rating, the score has no value.

        Every request is about all aspects of the task, so that a score does not depend on the
        requested aspects. The scores do not include the cost of the calls.

        Args:
            example: The example to judge.
            aspects: The requested aspects of the task.
            assistance: The tools' scores, in the order of `assistants`.
            plan: How to judge; `None` for no plan.
        """
        example = self.ask.prepare(example)
        shared: Json = {"how": self.how, "signature": self.signature}
        # before the judge is called, whose answer would be wasted
        if problem := problem_before(example, assistance, plan):
            return leave_unscored(example, aspects, problem, **shared)
        assert not isinstance(plan, RefusedPlan)
        answer = await self._ask(self._prompt(example, assistance, plan))
        answers = (*answer.earlier, answer)
        samples = [sample for answer in answers for sample in answer.samples]
        joint_answers = [joint for answer in answers for joint in answer.readings]
        scores = []
        for aspect in aspects:
            about = common_fields(example, aspect, **shared)
            about["evidence"] = assistance_on(aspect, assistance, plan)
            scores.append(self._score(self._place(aspect), samples, joint_answers, about))
        invented = _count_notes([note for joint in joint_answers for note in joint.invented])
        notes = truncation_note(max(answer.truncated_tokens for answer in answers))
        # notes on the whole answer are attached to the first score
        extra = [[*invented, *notes, *thought_note(samples)], *[notes] * (len(scores) - 1)]
        return [
            score.model_copy(update={"evidence": (*score.evidence, *more)})
            for score, more in zip(scores, extra, strict=True)
        ]

    @cached_property
    def _rated(self) -> tuple[Aspect, ...]:
        """The aspects whose ratings are read, including an overall one, which judges often add."""
        aspects = self.ask.task.aspects
        if any(map(is_overall, aspects)):
            return aspects
        # otherwise it would be read as the rating of the preceding aspect
        definition = "an overall rating that was not requested"
        return (*aspects, Aspect(name=OVERALL, definition=definition, scale=(-1e6, 1e6)))

    @cached_property
    def _criteria(self) -> tuple[Aspect, ...]:
        return criteria_of(self.ask.task.aspects)

    @cached_property
    def _overall(self) -> Aspect | None:
        aspects = self.ask.task.aspects
        return next((aspect for aspect in aspects if aspect not in self._criteria), None)

    def _prompt(self, example: Example, assistance: list[Score], plan: Plan | None) -> Prompt:
        readings = [{"label": f"{s.aspect} Score", "text": reading_of(s)} for s in assistance]
        return self.ask.render(
            example,
            readings=readings,
            criteria=self._criteria,
            overall=self._overall,
            assistants=self.assistants,
            plan=plan,
        )

    @cached_property
    def _dry_run_answer(self) -> str:
        lines = [f"{a.name.capitalize()}\n{_dry_run_rating(a)}" for a in self._criteria]
        if self._overall:
            lines.append(f"Evaluation Summary:\nOverall {_dry_run_rating(self._overall)}")
        return "\n\n".join(lines)

    async def _ask(self, prompt: Prompt) -> Parsed[JointAnswer]:
        """Ask for `n` samples; a single incomplete sample is requested again."""
        request: dict[str, Any] = {
            # a rating with a few sentences for each aspect, and some words around them
            "max_tokens": self.max_tokens or 128 + 160 * len(self.ask.task.aspects),
            "dry_run_answer": self._dry_run_answer,
        }
        if self.ask.n > 1:
            return await self.ask.answer(prompt, self._read, n=self.ask.n, **request)
        request |= {"retries": self.parse_retries, "problem": self._problem}
        return await self.ask.until_usable(prompt, self._read, remind_of("ratings"), **request)

    def _problem(self, answer: Parsed[JointAnswer]) -> str | None:
        """Return the problem of an answer; "declined" only if no other rating is missing."""
        ratings = answer.readings[0].ratings[: len(self.ask.task.aspects)]
        problems = [rating.reason for rating in ratings if isinstance(rating, NoRating)]
        # only for omissions another call may help
        return next((r for r in problems if r != DECLINED), DECLINED if problems else None)

    def _read(self, sample: Sample) -> JointAnswer:
        joint = parse_joint(whole_lines(sample), self._rated)
        if any(isinstance(rating, NoRating) for rating in joint.ratings):
            check_not_filtered(sample, "the answer before its last rating")
        return joint

    def _score(
        self, place: int, samples: list[Sample], answers: list[JointAnswer], about: dict[str, Any]
    ) -> Score:
        """Return the score for the aspect at a position in the task."""
        values = (joint.ratings[place] for joint in answers)
        ratings = [item if isinstance(item, NoRating) else Rating(item, (0, 0)) for item in values]
        usable = [at for at, rating in enumerate(ratings) if isinstance(rating, Rating)]
        single: dict[str, Any] = {}
        if self.ask.n == 1:
            single = {"samples": None, "spread": None, "required": 0.0}
            # the first answer that rates this aspect counts; earlier ones are quoted as unusable
            if usable:
                ratings, samples = ratings[: usable[0] + 1], samples[: usable[0] + 1]
        explained = [
            (at, text) for at in usable if (text := _explanation(answers[at].texts[place]))
        ]
        # a mean of several samples has all their explanations as evidence
        if len(usable) > 1:
            entries = [{"text": text, "explains_sample": at} for at, text in explained]
            about["evidence"] += tuple(entries)
        about["explanation"] = explained[0][1] if explained else None
        return from_samples(samples, ratings, **about, **single)

    def _place(self, aspect: Aspect) -> int:
        task = self.ask.task
        names = [other.label for other in task.aspects]
        if aspect.label not in names:
            raise UnknownName(f"aspect of task {task.name!r}", aspect.label, names)
        return names.index(aspect.label)


def assistance_on(aspect: Aspect, assistance: list[Score], plan: Plan | None) -> tuple[Json, ...]:
    """Return the assistant evaluators' scores as evidence."""
    if not plan:
        return tuple(as_assistance(score, None) for score in assistance)
    selected = plan.assistants.get(aspect.name, ())
    return tuple(as_assistance(score, score.aspect in selected) for score in assistance)


@dataclass(frozen=True)
class TypedFuser:
    """Rates one example on several aspects at once, by one rating question for each.

    The assistant evaluators' scores are further texts of the material, and the questions contain
    the steps of the plan.
    """

    scorer: QuestionScorer
    """Asks the questions about all aspects in one request."""
    assistants: tuple[AssistantDescription, ...]
    """The tools, in the order of their scores."""

    async def __call__(
        self,
        example: Example,
        aspects: tuple[Aspect, ...],
        assistance: list[Score],
        plan: Plan | RefusedPlan | None = None,
    ) -> list[Score]:
        """Return a score for each of `aspects`, in order.

        Args:
            example: The example to judge.
            aspects: The requested aspects of the task.
            assistance: The tools' scores, in the order of `assistants`.
            plan: How to judge; `None` for no plan.
        """
        if problem := problem_before(self.scorer.ask.prepare(example), assistance, plan):
            how, signature = self.scorer.how_now, self.scorer.signature
            return leave_unscored(example, aspects, problem, how=how, signature=signature)
        assert not isinstance(plan, RefusedPlan)
        measured = {
            f"{tool.name} score": f"{reading_of(score)} ({tool.description}; {tool.range})"
            for tool, score in zip(self.assistants, assistance, strict=True)
        }
        beside = tuple(NamedText(name=name, text=text) for name, text in measured.items())
        steps = tuple(_steps_of(aspect, plan) for aspect in aspects)
        scores = await self.scorer.score_all(example, aspects, beside, steps=steps)
        evidence = [assistance_on(aspect, assistance, plan) for aspect in aspects]
        return [
            score.model_copy(update={"evidence": (*more, *score.evidence)})
            for score, more in zip(scores, evidence, strict=True)
        ]


def _steps_of(aspect: Aspect, plan: Plan | None) -> str | None:
    """Return the instructions of a plan for an aspect."""
    if not plan:
        return None
    names = " and ".join(plan.assistants.get(aspect.name, ()))
    serve = [f"Use the score of {names} for {aspect.name}."] if names else []
    steps = [f"{number}. {step}" for number, step in enumerate(plan.steps, start=1)]
    return "\n".join([*serve, *(steps or [plan.text])])


def _explanation(text: str) -> str:
    """Return a judge's explanation of one aspect without `Score: 4 Explanation:`."""
    # "Score: 4/5 - Explanation: The summary ..." -> "The summary ..."
    rating = (
        r"(?i)\A[\s*_#>`|-]{0,12}(?:(?:score|rating)\b[\s*_]{0,4}[:：=]?)?"
        r"[\s*_\[(]{0,6}[\d.,/½]{0,12}(?:\s?out of \d{1,4})?[\s*_\])|.,;]{0,8}"
        r"(?:[–—-]\s)?(?:[\s*_]{0,6}(?:explanation|reason|justification"
        r"|comments?)\b[\s*_]{0,4}[:：][\s*_]{0,4})?"
    )
    # the heading of the last part, which follows the explanation of the last aspect
    next_heading = r"(?i)\n[\s*_#>|-]{0,12}evaluation summary\W{0,12}\Z"
    return re.sub(next_heading, "", re.sub(rating, "", text, count=1)).strip(" \t\n*_|")


def _count_notes(notes: list[Json]) -> list[Json]:
    """Return notes on several samples, each once with its count."""
    counts = Counter((note["text"], note["problem"]) for note in notes)
    return [{"text": text, "problem": why, "samples": n} for (text, why), n in counts.items()]


def _dry_run_rating(aspect: Aspect) -> str:
    return (
        f"Score: {sum(aspect.scale) / 2:g} Explanation: The text does well in most respects and"
        " fails in some, as the assistant evaluators' scores suggest too."
    )
