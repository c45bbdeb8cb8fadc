"""Rates one example on several aspects: in a single answer, or with one call each.

What a joint answer leaves out is asked for again, by itself; what stays out has no value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from textassay.agents.answer_form import is_whole, points_of
from textassay.agents.ask import (
    DECLINED,
    MAX_QUOTED,
    REMINDER,
    Ask,
    Parsed,
    thought_note,
    truncation_note,
)
from textassay.agents.prompt_template import Prompt
from textassay.agents.reading.joint import JointAnswer, parse_joint
from textassay.agents.reading.rating import Form, NoRating
from textassay.agents.scorer import Scorer
from textassay.agents.scores import shared_fields
from textassay.runtime.concurrency import gather
from textassay.runtime.errors import ContentRefused
from textassay.runtime.labels import slug
from textassay.runtime.messages import Aspect, Example, Message, Score, Usage
from textassay.runtime.model import Json, Sample

TOKENS_PER_RATING, TOKENS_BESIDE = 24, 64


class Ratings(Message):
    """The ratings of one example on several aspects."""

    scores: tuple[Score, ...]
    """One for each aspect, in order; their usage is zero."""
    notes: tuple[dict[str, Any], ...] = ()
    """`{text, problem}` for answers that left something out and for aspects that were not
    requested."""
    usage: Usage = Usage()
    """Cost of all of them."""


@dataclass(frozen=True)
class JointScorer:
    """Rates one example on several aspects at once.

    Attributes:
        ask: Model and prompt; the prompt is given `aspects` (`key`, `name`, `definition`, `lowest`,
            `highest` each), `form` and `structured` as well.
        form: How the ratings are asked for.
        parse_retries: How often aspects that an answer leaves out are asked for again.
        max_tokens: Longest answer in tokens; `None` for what the number of aspects needs.
        structured: Whether to ask for JSON by a schema; `None` if the model is known to be able.
    """

    ask: Ask
    form: Form = "number"
    parse_retries: int = 1
    max_tokens: int | None = None
    structured: bool | None = None

    @cached_property
    def digest(self) -> str:
        """6 hex digits for the words that are sent and the model's name."""
        ask = self.ask
        return ask.digest(
            ask.layout, self.form, self.asks_for_json, ask.task.digest, ask.model.name
        )

    @cached_property
    def asks_for_json(self) -> bool:
        """Whether answers are requested as JSON by a schema."""
        if self.structured is None:
            return self.ask.model.capabilities.json_schema is True
        return self.structured

    async def __call__(self, example: Example, aspects: tuple[Aspect, ...]) -> Ratings:
        """Return a score for each aspect, in order.

        If the judge gives no usable rating, the score has no value.

        Raises:
            PromptError: The prompt file does not render.
            ContentRefused: The provider's filter cut the answer off.
            ModelError: The model could not be asked.
        """
        example = self.ask.prepare(example)
        if not example.output.strip():
            return Ratings(
                scores=tuple(
                    Score.unscored(
                        "EmptyOutput",
                        "there is no text to judge",
                        **shared_fields(example, a, how="text"),
                    )
                    for a in aspects
                )
            )
        ratings: dict[str, float | NoRating] = {}
        notes: list[Json] = []
        usage, left, truncated = Usage(), aspects, 0
        prompt = self._prompt(example, left)
        for _ in range(self.parse_retries + 1):
            answer = await self._ask(prompt, left)
            usage += answer.usage
            truncated = max(truncated, answer.truncated_tokens)
            (joint,) = answer.read
            # Only what was missing is asked again, so nothing that was rated before is replaced.
            ratings |= {a.id: rating for a, rating in zip(left, joint.ratings, strict=True)}
            # Names that were not requested often mean that the judge renamed an aspect: worth
            # seeing.
            notes += joint.invented
            requested = left
            left = tuple(aspect for aspect in aspects if isinstance(ratings[aspect.id], NoRating))
            if not left:
                break
            notes.append(_incomplete(answer, left))
            # A refusal is an answer, and is not asked for again.
            if all(getattr(ratings[aspect.id], "reason", None) == DECLINED for aspect in left):
                break
            # Only the aspects that are left: a prompt with all of them would invite all ratings
            # again. If none was rated, it is the form that was missed.
            prompt = (
                prompt.followed_by(answer.samples[0].text.strip(), REMINDER, form=self._again)
                if left == requested
                else self._prompt(example, left)
            )
        scores = tuple(_score(example, aspect, ratings[aspect.id]) for aspect in aspects)
        notes += (*truncation_note(truncated), *thought_note(answer.samples))
        return Ratings(scores=scores, notes=tuple(notes), usage=usage)

    @property
    def _again(self) -> str:
        return "json" if self.asks_for_json else "ratings"

    def _prompt(self, example: Example, aspects: tuple[Aspect, ...]) -> Prompt:
        return self.ask.render(
            example,
            aspects=_shown(aspects, self.form),
            form=self.form,
            structured=self.asks_for_json,
        )

    async def _ask(self, prompt: Prompt, aspects: tuple[Aspect, ...]) -> Parsed[JointAnswer]:
        return await self.ask.answer(
            prompt,
            lambda sample: self._read(sample, aspects),
            max_tokens=self.max_tokens or TOKENS_BESIDE + TOKENS_PER_RATING * len(aspects),
            json_schema=self._schema(aspects) if self.asks_for_json else None,
            dry_run_answer=self._dry_run_answer(aspects),
        )

    def _read(self, sample: Sample, aspects: tuple[Aspect, ...]) -> JointAnswer:
        if sample.finish_reason == "filtered":
            raise ContentRefused("the provider's content filter cut the answer off")
        return parse_joint(whole_lines(sample), aspects, self.form)

    def _schema(self, aspects: tuple[Aspect, ...]) -> Json:
        fields = {_key(aspect): self._field(aspect) for aspect in aspects}
        return {
            "type": "object",
            "properties": fields,
            "required": [*fields],
            "additionalProperties": False,
        }

    def _field(self, aspect: Aspect) -> Json:
        points = points_of(aspect.scale, self.form)
        if self.form == "letters":
            return {"type": "string", "enum": [point.label for point in points]}
        if is_whole(aspect.scale) and len(points) > 2:
            return {"type": "integer", "enum": [int(point.value) for point in points]}
        return {"type": "integer" if is_whole(aspect.scale) else "number"}

    def _dry_run_answer(self, aspects: tuple[Aspect, ...]) -> str:
        labels = [points_of(aspect.scale, self.form) for aspect in aspects]
        middles = [points[len(points) // 2].label for points in labels]
        if self.asks_for_json:
            quote = '"' if self.form == "letters" else ""
            pairs = (
                f'"{_key(a)}": {quote}{label}{quote}'
                for a, label in zip(aspects, middles, strict=True)
            )
            return "{" + ", ".join(pairs) + "}"
        stars = " stars" if self.form == "stars" else ""
        return "\n".join(
            f"{a.name}: {label}{stars}" for a, label in zip(aspects, middles, strict=True)
        )


def whole_lines(sample: Sample) -> str:
    """Return an answer without the line at which it was cut, which may be incomplete.

    "Score: 4" may have become "Score: 4.5".
    """
    return sample.text.rpartition("\n")[0] if sample.finish_reason == "length" else sample.text


class _ShownAspect(NamedTuple):
    """An aspect as a prompt shows it."""

    key: str
    name: str
    definition: str
    lowest: str
    highest: str


@lru_cache(maxsize=256)
def _shown(aspects: tuple[Aspect, ...], form: Form) -> tuple[_ShownAspect, ...]:
    ends = [points_of(aspect.scale, form) for aspect in aspects]
    return tuple(
        _ShownAspect(_key(a), a.name, a.definition, points[0].label, points[-1].label)
        for a, points in zip(aspects, ends, strict=True)
    )


def _key(aspect: Aspect) -> str:
    return slug(aspect.name).replace("-", "_")


def _incomplete(answer: Parsed[JointAnswer], left: tuple[Aspect, ...]) -> Json:
    """Return the note on an answer that leaves ratings out."""
    names = ", ".join(aspect.name for aspect in left)
    text = whole_lines(answer.samples[0]).strip()
    return {"text": text[:MAX_QUOTED], "problem": f"no usable rating for {names}"}


def _score(example: Example, aspect: Aspect, rating: float | NoRating) -> Score:
    about = shared_fields(example, aspect, how="text")
    if isinstance(rating, NoRating):
        return Score.unscored(rating.reason, rating.message, **about)
    return Score(value=rating, **about)


@dataclass(frozen=True)
class IndividualScorer:
    """Drop-in replacement for a `JointScorer` that makes one call per aspect.

    Attributes:
        scorer: Rates one aspect.
    """

    scorer: Scorer

    @property
    def digest(self) -> str:
        """6 hex digits for the words that are sent, with the model's name."""
        return f"{self.scorer.prompt_digest}|{self.scorer.ask.model.name}"

    async def __call__(self, example: Example, aspects: tuple[Aspect, ...]) -> Ratings:
        """Return a score for each aspect, in order; only the whole has a usage.

        Raises:
            PromptError: The prompt file does not render.
            ModelError: The model could not be asked.
        """
        scores = await gather(self.scorer(example, aspect) for aspect in aspects)
        usage = sum((score.usage for score in scores), Usage())
        cut = max(
            (piece.get("truncated_tokens", 0) for score in scores for piece in score.evidence),
            default=0,
        )
        # Their cost stands on the whole; counted on each score as well, it would be paid twice in
        # the sums.
        freed = tuple(score.model_copy(update={"usage": Usage()}) for score in scores)
        return Ratings(scores=freed, notes=truncation_note(cut), usage=usage)
