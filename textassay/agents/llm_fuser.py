"""Has a judge fuse the scores of assistant evaluators into ratings.

Fusion-Eval's prompt execution (section 2).

All aspects are rated in one answer, with an explanation each; several answers are sampled and
averaged. Knows how answers become scores; errors of the model pass through.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from textassay.agents.ask import (
    DECLINED,
    REMINDER,
    Ask,
    Parsed,
    never_cut,
    thought_note,
    truncation_note,
)
from textassay.agents.joint_scorer import whole_lines
from textassay.agents.planner import (
    OVERALL,
    Assistant,
    RefusedPlan,
    as_assistance,
    criteria_of,
    is_overall,
    reading_of,
)
from textassay.agents.prompt_template import Prompt
from textassay.agents.reading.joint import JointAnswer, parse_joint
from textassay.agents.reading.rating import NoRating, Rating
from textassay.agents.scores import from_samples, shared_fields
from textassay.runtime.errors import ContentRefused, UnknownName
from textassay.runtime.messages import Aspect, Example, How, Plan, Score
from textassay.runtime.model import Json, Sample

TOKENS_PER_ASPECT, TOKENS_BESIDE = 160, 128
"""Room for an answer: a rating with an explanation of a few sentences for each aspect, and some
words around them."""
_VOLUNTEERED = Aspect(
    name=OVERALL, definition="an overall rating that nobody asked for", scale=(-1e6, 1e6)
)
"""So that an overall rating is not taken for that of the aspect before it."""
_EXPLANATION = (
    "The text does well in most respects and fails in some, as the assistant evaluators' scores"
    " suggest too."
)


@dataclass(frozen=True)
class LLMFuser:
    """Rates one example on several aspects at once, given the assistant evaluators' scores.

    Attributes:
        ask: Model and prompt; the prompt is given `criteria`, `overall`, `assistants` and `plan` as
            well. Every answer rates all aspects of its task.
        assistants: The tools, in the order of their scores.
        method: Name for signatures.
        parse_retries: How often a single sample that leaves something out is asked for again; with
            several samples the others stand in.
        max_tokens: Longest answer in tokens; `None` for what the number of aspects needs.
        variant: What else distinguishes scores, such as where the plan comes from; goes into the
            prompt digest.
    """

    ask: Ask
    assistants: tuple[Assistant, ...]
    method: str = "fusion-eval"
    parse_retries: int = 1
    max_tokens: int | None = None
    variant: str = ""

    @property
    def how(self) -> How:
        """`sampled`, or `text` for a single sample."""
        return "text" if self.ask.n == 1 else "sampled"

    @cached_property
    def prompt_digest(self) -> str:
        """6 hex digits for the words that are sent apart from the example's own."""
        task = self.ask.task
        tools = tuple((a.name, a.description, a.range, a.signature) for a in self.assistants)
        names = tuple(aspect.name for aspect in task.aspects)
        return self.ask.digest(self.ask.layout, task.digest, names, tools, self.variant)

    @cached_property
    def signature(self) -> str:
        """What makes scores comparable: method, model, words, tools, plan, sampling and version."""
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

        The judge is always asked about all aspects of the task, so that a score does not depend on
        which of them are wanted. The cost of the calls is on none of the scores.

        Args:
            example: What is judged.
            aspects: Which of the task's aspects are wanted.
            assistance: The tools' scores, in the order of `assistants`.
            plan: How to judge; `None` for no plan.

        Raises:
            PromptError: The prompt file does not render.
            ContentRefused: The provider's filter cut an answer off.
            ModelError: The model could not be asked.
        """
        example = self.ask.prepare(example)
        identities = [
            shared_fields(example, aspect, how=self.how, signature=self.signature)
            for aspect in aspects
        ]
        # Before the judge is asked: its answer would be paid for and thrown away.
        problem = self._problem_before(example, assistance, plan)
        if problem is not None:
            return [Score.unscored(**problem, **identity) for identity in identities]
        assert not isinstance(plan, RefusedPlan)
        answers = await self._answers(self._prompt(example, assistance, plan))
        samples = [sample for answer in answers for sample in answer.samples]
        read = [joint for answer in answers for joint in answer.read]
        scores = [
            self._score(
                identity, self._place(aspect), samples, read, _evidence(aspect, assistance, plan)
            )
            for identity, aspect in zip(identities, aspects, strict=True)
        ]
        invented = _counted([note for joint in read for note in joint.invented])
        notes = truncation_note(max(answer.truncated_tokens for answer in answers))
        extra = [
            [*invented, *notes, *thought_note(samples)],
            *[notes] * (len(scores) - 1),
        ]  # stands once on the whole answer
        return [
            score.model_copy(update={"evidence": (*score.evidence, *more)})
            for score, more in zip(scores, extra, strict=True)
        ]

    def _problem_before(
        self, example: Example, assistance: list[Score], plan: Plan | RefusedPlan | None
    ) -> dict[str, Any] | None:
        """Return why the judge need not be asked, as arguments of `Score.unscored`."""
        if not example.output.strip():
            return {"type": "EmptyOutput", "message": "there is no text to judge"}
        if isinstance(plan, RefusedPlan):
            return {
                "type": "PlanRefused",
                "message": plan.problem,
                "evidence": ({"text": plan.text},),
            }
        failed = next((score for score in assistance if score.outcome == "error"), None)
        if failed is None:
            return None
        assert failed.error is not None
        return {
            "type": failed.error.type,
            "message": f"the assistant evaluator {failed.aspect} failed: {failed.error.message}",
            "outcome": "error",
            "evidence": tuple(as_assistance(score, None) for score in assistance),
        }

    @cached_property
    def _rated(self) -> tuple[Aspect, ...]:
        """What answers are searched for.

        The task's aspects first, and an overall rating, which judges volunteer.
        """
        aspects = self.ask.task.aspects
        return (
            aspects if any(is_overall(aspect) for aspect in aspects) else (*aspects, _VOLUNTEERED)
        )

    @cached_property
    def _criteria(self) -> tuple[Aspect, ...]:
        return criteria_of(self.ask.task.aspects)

    @cached_property
    def _overall(self) -> Aspect | None:
        aspects = self.ask.task.aspects
        return next((aspect for aspect in aspects if aspect not in self._criteria), None)

    def _prompt(self, example: Example, assistance: list[Score], plan: Plan | None) -> Prompt:
        return self.ask.render(
            example,
            readings=[
                {"label": f"{score.aspect} Score", "text": reading_of(score)}
                for score in assistance
            ],
            criteria=self._criteria,
            overall=self._overall,
            assistants=self.assistants,
            plan=plan,
        )

    @cached_property
    def _dry_run_answer(self) -> str:
        lines = [f"{a.name.capitalize()}\n{_dry_run_rating(a)}" for a in self._criteria]
        if self._overall is not None:
            lines.append(f"Evaluation Summary:\nOverall {_dry_run_rating(self._overall)}")
        return "\n\n".join(lines)

    async def _answers(self, prompt: Prompt) -> list[Parsed[JointAnswer]]:
        """Ask for `n` samples; a single incomplete one is retried."""
        aspects = len(self.ask.task.aspects)
        answers = [
            await self.ask.answer(
                prompt,
                self._read,
                n=self.ask.n,
                max_tokens=self.max_tokens or TOKENS_BESIDE + TOKENS_PER_ASPECT * aspects,
                dry_run_answer=self._dry_run_answer,
            )
        ]
        if self.ask.n > 1:
            return answers
        for _ in range(self.parse_retries):
            ratings = answers[-1].read[0].ratings[:aspects]
            problems = {rating.reason for rating in ratings if isinstance(rating, NoRating)}
            # A judge that declines has answered; only omissions are worth another call.
            if not problems or problems == {DECLINED}:
                break
            text = answers[-1].samples[0].text.strip()
            prompt = prompt.followed_by(text, REMINDER, form="ratings")
            answers.append(
                await self.ask.answer(
                    prompt,
                    self._read,
                    max_tokens=answers[-1].max_tokens,  # has shown what room an answer needs
                    is_cut=never_cut,
                    dry_run_answer=self._dry_run_answer,
                )
            )
        return answers

    def _read(self, sample: Sample) -> JointAnswer:
        read = parse_joint(whole_lines(sample), self._rated)
        if sample.finish_reason == "filtered" and any(
            isinstance(rating, NoRating) for rating in read.ratings
        ):
            raise ContentRefused(
                "the provider's content filter cut the answer off before its last rating"
            )
        return read

    def _score(
        self,
        identity: dict[str, Any],
        place: int,
        samples: Sequence[Sample],
        read: Sequence[JointAnswer],
        evidence: tuple[Json, ...],
    ) -> Score:
        """Return the score for the aspect at a place of the task's."""
        ratings = [_as_rating(joint.ratings[place]) for joint in read]
        usable = [at for at, rating in enumerate(ratings) if isinstance(rating, Rating)]
        single: dict[str, Any] = {}
        if self.ask.n == 1:
            single = {"samples": None, "spread": None}
            # The first answer that rates this aspect counts; earlier ones are quoted as unusable.
            if usable:
                ratings, samples = ratings[: usable[0] + 1], samples[: usable[0] + 1]
        explanations = [(at, _explanation(read[at].texts[place])) for at in usable]
        explained = [(at, text) for at, text in explanations if text]
        # With several samples no single explanation stands for the mean, so all of them become
        # evidence.
        if len(usable) > 1:
            entries = [{"text": text, "explains_sample": at} for at, text in explained]
            evidence = (*evidence, *entries)
        return from_samples(
            samples,
            ratings,
            evidence=evidence,
            explanation=explained[0][1] if explained else None,
            **identity,
            **single,
        )

    def _place(self, aspect: Aspect) -> int:
        task = self.ask.task
        names = [known.label for known in task.aspects]
        if aspect.label not in names:
            raise UnknownName(f"aspect of task {task.name!r}", aspect.label, names)
        return names.index(aspect.label)


def _evidence(aspect: Aspect, assistance: list[Score], plan: Plan | None) -> tuple[Json, ...]:
    """Return the assistant evaluators' scores as evidence."""
    selected = None if plan is None else plan.assistants.get(aspect.name, ())
    return tuple(
        as_assistance(score, None if selected is None else score.aspect in selected)
        for score in assistance
    )


# "Score: 4/5 - Explanation: The summary ..." -> "The summary ..."
_BEFORE_WORDS = re.compile(
    r"(?i)\A[\s*_#>`|-]{0,12}(?:(?:score|rating)\b[\s*_]{0,4}[:：=]?)?"
    r"[\s*_\[(]{0,6}[\d.,/½]{0,12}(?:\s?out of \d{1,4})?[\s*_\])|.,;]{0,8}"
    r"(?:[–—-]\s)?(?:[\s*_]{0,6}(?:explanation|reason|justification"
    r"|comments?)\b[\s*_]{0,4}[:：][\s*_]{0,4})?"
)
# The heading of the last part, which stands behind the explanation of the last aspect.
_NEXT_HEADING = re.compile(r"(?i)\n[\s*_#>|-]{0,12}evaluation summary\W{0,12}\Z")


def _explanation(text: str) -> str:
    """Return what a judge said of one aspect without `Score: 4 Explanation:`."""
    return _NEXT_HEADING.sub("", _BEFORE_WORDS.sub("", text, count=1)).strip(" \t\n*_|")


def _as_rating(rating: float | NoRating) -> Rating | NoRating:
    return rating if isinstance(rating, NoRating) else Rating(rating, (0, 0))


def _counted(notes: list[Json]) -> list[Json]:
    """Return notes on several samples, each once with how often it came."""
    counts = Counter((note["text"], note["problem"]) for note in notes)
    return [
        {"text": text, "problem": problem, "samples": count}
        for (text, problem), count in counts.items()
    ]


def _dry_run_rating(aspect: Aspect) -> str:
    low, high = aspect.scale
    return f"Score: {(low + high) / 2:g} Explanation: {_EXPLANATION}"
