"""Has a judge fuse the scores of assistant evaluators into ratings: Fusion-Eval's prompt execution (section 2).

All aspects are rated in one answer, with an explanation each; several answers are sampled and
averaged. Knows how answers become scores; errors of the model pass through.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from textassay.agents.asking import chat, material, prompt_digest, truncation_note
from textassay.agents.planner import OVERALL, RefusedPlan, criteria_of, is_overall
from textassay.agents.profile import NO_PROFILE, Profile
from textassay.agents.reading.joint import JointAnswer, parse_joint
from textassay.agents.reading.rating import NoRating, Rating
from textassay.agents.scorer import Layout, mean_of
from textassay.agents.task import Task
from textassay.agents.tool_descriptions import Assistant, as_assistance, reading_of
from textassay.runtime.errors import ContentRefused, UnknownName
from textassay.runtime.messages import Aspect, Example, How, Outcome, Plan, Score, ScoreError
from textassay.runtime.model import Json, Model, Request, Sample
from textassay.version import __version__

TOKENS_PER_ASPECT, TOKENS_BESIDE = 160, 128
"""Room for an answer: a rating with an explanation of a few sentences for each aspect, and some
words around them."""
MORE_ROOM = 4
_VOLUNTEERED = Aspect(
    name=OVERALL, definition="an overall rating that nobody asked for", scale=(-1e6, 1e6)
)
"""So that an overall rating is not taken for that of the aspect before it."""
_EXPLANATION = "The text does well in most respects and fails in some, as the assistant evaluators' scores suggest too."


@dataclass(frozen=True)
class LLMFuser:
    """Rates one example on several aspects at once, told what assistant evaluators say.

    Attributes:
        model: The judge.
        task: What kind of text is judged, and on which aspects; every answer rates all of them.
        assistants: The tools, in the order of their scores.
        method: Name for signatures.
        prompt: Prompt file; it is given `task`, `criteria`, `overall`, `assistants`, `plan`,
            `material` and `layout`.
        layout: Order of the prompt.
        n: Number of samples.
        temperature: Sampling temperature.
        seed: Seed of the sampling.
        parse_retries: How often a single sample that leaves something out is asked for again; with
            several samples the others stand in.
        max_tokens: Longest answer in tokens; `None` for what the number of aspects needs.
        variant: What else tells scores apart, such as where the plan comes from; goes into the
            prompt digest.
        profile: How this model is asked, where it does not follow the papers' prompts.
    """

    model: Model
    task: Task
    assistants: tuple[Assistant, ...]
    method: str = "fusion-eval"
    prompt: str = "fusion_eval"
    layout: Layout = "paper"
    n: int = 8
    temperature: float = 0.1
    seed: int | None = None
    parse_retries: int = 1
    max_tokens: int | None = None
    variant: str = ""
    profile: Profile = NO_PROFILE

    @property
    def how(self) -> How:
        """`sampled`, or `text` for a single sample."""
        return "text" if self.n == 1 else "sampled"

    @cached_property
    def prompt_digest(self) -> str:
        """6 hex digits for the words that are sent apart from the example's own."""
        told = tuple((a.name, a.description, a.range, a.signature) for a in self.assistants)
        names = tuple(aspect.name for aspect in self.task.aspects)
        variants = (self.layout, self.task.digest, names, told, self.variant)
        return prompt_digest((self.prompt,), *variants, *self.profile.marks)

    @cached_property
    def signature(self) -> str:
        """What makes scores comparable: method, model, words, tools, plan, sampling and version."""
        seed = "-" if self.seed is None else self.seed
        return (
            f"method:{self.method}|model:{self.model.name}|prompt:{self.prompt_digest}|layout:{self.layout}"
            f"|how:{self.how}|n:{self.n}|temp:{self.temperature:g}|seed:{seed}|v:{__version__}"
        )

    async def __call__(
        self,
        example: Example,
        aspects: tuple[Aspect, ...],
        assistance: list[Score],
        plan: Plan | RefusedPlan | None = None,
    ) -> list[Score]:
        """Return a score for each of `aspects`, in order; one without a value where no sample has a usable rating.

        The judge is always asked about all aspects of the task, so that a score does not depend on
        which of them are wanted. What the calls cost stands on no score.

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
        example = self.profile.prepared(example, self.task)
        if not example.output.strip():
            return self._unscored(
                example, aspects, "abstained", "EmptyOutput", "there is no text to judge"
            )
        if isinstance(plan, RefusedPlan):
            return self._unscored(
                example, aspects, "invalid", "PlanRefused", plan.problem, {"text": plan.text}
            )
        failed = next((score for score in assistance if score.outcome == "error"), None)
        if failed is not None:
            assert failed.error is not None
            reason = f"the assistant evaluator {failed.aspect} failed: {failed.error.message}"
            told = [as_assistance(score, None) for score in assistance]
            return self._unscored(example, aspects, "error", failed.error.type, reason, *told)
        samples, cut = await self._samples(self._request(example, assistance, plan))
        answers = [parse_joint(_whole_lines(sample), self._rated) for sample in samples]
        for sample, answer in zip(samples, answers, strict=True):
            if sample.finish_reason == "filtered" and any(
                isinstance(r, NoRating) for r in answer.ratings
            ):
                raise ContentRefused(
                    "the provider's content filter cut the answer off before its last rating"
                )
        scores = [
            self._score(example, aspect, samples, answers, assistance, plan) for aspect in aspects
        ]
        invented = [note for answer in answers for note in answer.invented]
        first = scores[0].model_copy(
            update={"evidence": (*scores[0].evidence, *_counted(invented))}
        )
        notes = truncation_note(cut)
        return [
            score.model_copy(update={"evidence": (*score.evidence, *notes)})
            for score in (first, *scores[1:])
        ]

    @cached_property
    def _rated(self) -> tuple[Aspect, ...]:
        """What answers are searched for: the task's aspects first, and an overall rating, which judges volunteer."""
        aspects = self.task.aspects
        return (
            aspects if any(is_overall(aspect) for aspect in aspects) else (*aspects, _VOLUNTEERED)
        )

    @cached_property
    def _criteria(self) -> tuple[Aspect, ...]:
        return criteria_of(self.task.aspects)

    @cached_property
    def _overall(self) -> Aspect | None:
        return next((aspect for aspect in self.task.aspects if aspect not in self._criteria), None)

    def _request(self, example: Example, assistance: list[Score], plan: Plan | None) -> Request:
        readings = [
            {"label": f"{score.aspect} Score", "text": reading_of(score)} for score in assistance
        ]
        told = self.profile.bare(example)
        messages = chat(
            self.prompt,
            lasting=not told,
            task=self.task,
            criteria=self._criteria,
            overall=self._overall,
            assistants=self.assistants,
            plan=plan,
            layout=self.layout,
            material=[*material(self.task, example), *readings],
            **told,
        )
        room = self.max_tokens or TOKENS_BESIDE + TOKENS_PER_ASPECT * len(self.task.aspects)
        return Request(
            **self.profile.asked(messages),
            shorten=example.source,
            n=self.n,
            temperature=self.temperature,
            max_tokens=room,
            seed=self.seed,
            specimen=self._specimen,
        )

    @cached_property
    def _specimen(self) -> str:
        lines = [f"{a.name.capitalize()}\n{_specimen_of(a)}" for a in self._criteria]
        if self._overall is not None:
            lines.append(f"Evaluation Summary:\nOverall {_specimen_of(self._overall)}")
        return "\n\n".join(lines)

    async def _samples(self, request: Request) -> tuple[list[Sample], int]:
        """Return `n` samples, drawn anew with more room where every one was cut; or one, and others in its place.

        With them, how many tokens of the source did not fit.
        """
        samples, cut = await self._draw(request)
        if all(sample.finish_reason == "length" for sample in samples):
            assert request.max_tokens is not None
            request = request.model_copy(update={"max_tokens": MORE_ROOM * request.max_tokens})
            samples, cut = await self._draw(request)
        if self.n > 1:
            return samples, cut
        for draw in range(1, self.parse_retries + 1):
            ratings = parse_joint(_whole_lines(samples[-1]), self.task.aspects).ratings
            problems = {rating.reason for rating in ratings if isinstance(rating, NoRating)}
            if not problems or problems == {"Declined"}:
                break
            more, cut_again = await self._draw(request.model_copy(update={"draw": draw}))
            samples, cut = samples + more, max(cut, cut_again)
        return samples, cut

    async def _draw(self, request: Request) -> tuple[list[Sample], int]:
        samples: list[Sample] = []
        cut = 0
        while len(samples) < request.n:  # some servers give fewer than they are asked for
            rest = request.model_copy(
                update={"n": request.n - len(samples), "draw": request.draw + len(samples)}
            )
            response = await self.model.generate(rest)
            samples += response.samples[: rest.n]
            cut = max(cut, response.truncated_tokens)
        return samples, cut

    def _score(
        self,
        example: Example,
        aspect: Aspect,
        samples: list[Sample],
        answers: list[JointAnswer],
        assistance: list[Score],
        plan: Plan | None,
    ) -> Score:
        at = self._place(aspect)
        read = [_as_rating(answer.ratings[at]) for answer in answers]
        usable = [index for index, found in enumerate(read) if isinstance(found, Rating)]
        if (
            self.n == 1 and usable
        ):  # the first answer that rates this aspect counts; earlier ones are kept as unusable
            read, samples = read[: usable[0] + 1], samples[: usable[0] + 1]
        fields = mean_of(samples, read)
        if self.n == 1:
            fields |= {"samples": None, "spread": None}
        selected = None if plan is None else plan.assistants.get(aspect.name, ())
        told = [
            as_assistance(score, None if selected is None else score.aspect in selected)
            for score in assistance
        ]
        said = (_explanation(answers[index].texts[at]) for index in usable)
        return Score(
            id=example.id,
            aspect=aspect.label,
            scale=aspect.scale,
            how=self.how,
            signature=self.signature,
            explanation=next((text for text in said if text), None),
            **{**fields, "evidence": (*told, *fields["evidence"])},
        )

    def _place(self, aspect: Aspect) -> int:
        names = [known.label for known in self.task.aspects]
        if aspect.label not in names:
            raise UnknownName(f"aspect of task {self.task.name!r}", aspect.label, names)
        return names.index(aspect.label)

    def _unscored(
        self,
        example: Example,
        aspects: tuple[Aspect, ...],
        outcome: Outcome,
        kind: str,
        message: str,
        *evidence: Json,
    ) -> list[Score]:
        return [
            Score(
                id=example.id,
                aspect=aspect.label,
                outcome=outcome,
                scale=aspect.scale,
                how=self.how,
                error=ScoreError(type=kind, message=message),
                evidence=evidence,
                signature=self.signature,
            )
            for aspect in aspects
        ]


_BEFORE_WORDS = re.compile(
    r"(?i)\A[\s*_#>`|-]{0,12}(?:(?:score|rating)\b[\s*_]{0,4}[:：=]?)?"
    r"[\s*_\[(]{0,6}[\d.,/½]{0,12}(?:\s?out of \d{1,4})?[\s*_\])|.,;]{0,8}"
    r"(?:[–—-]\s)?(?:[\s*_]{0,6}(?:explanation|reason|justification|comments?)\b[\s*_]{0,4}[:：][\s*_]{0,4})?"
)
_NEXT_HEADING = re.compile(r"(?i)\n[\s*_#>|-]{0,12}evaluation summary\W{0,12}\Z")


def _explanation(text: str) -> str:
    """Return what a judge said of one aspect without `Score: 4 Explanation:`."""
    return _NEXT_HEADING.sub("", _BEFORE_WORDS.sub("", text, count=1)).strip(" \t\n*_|")


def _whole_lines(sample: Sample) -> str:
    """Return an answer without the line at which it was cut: "Score: 4" may have become "Score: 4.5"."""
    return sample.text.rpartition("\n")[0] if sample.finish_reason == "length" else sample.text


def _as_rating(found: float | NoRating) -> Rating | NoRating:
    return found if isinstance(found, NoRating) else Rating(found, (0, 0))


def _counted(notes: list[Json]) -> list[Json]:
    """Return notes on several samples, each once with how often it came."""
    counts = Counter((note["text"], note["problem"]) for note in notes)
    return [
        {"text": text, "problem": problem, "samples": count}
        for (text, problem), count in counts.items()
    ]


def _specimen_of(aspect: Aspect) -> str:
    low, high = aspect.scale
    return f"Score: {(low + high) / 2:g} Explanation: {_EXPLANATION}"
