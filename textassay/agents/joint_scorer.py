"""Asks a judge for the ratings of one example on several aspects in a single answer.

What the answer leaves out is asked for again, and for itself alone; what stays out has no value.
Knows how an answer becomes scores; errors of the model pass through.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from textassay.agents.answer_form import is_whole, points_of
from textassay.agents.asking import chat, material, prompt_digest, truncation_note
from textassay.agents.profile import NO_PROFILE, Profile
from textassay.agents.reading.joint import parse_joint
from textassay.agents.reading.rating import NoRating
from textassay.agents.reading.wording import Form
from textassay.agents.scorer import Layout
from textassay.agents.task import Task
from textassay.runtime.errors import ContentRefused
from textassay.runtime.messages import Aspect, Example, Message, Score, ScoreError, Usage, slug
from textassay.runtime.model import ChatMessage, Json, Model, Request, Sample

TOKENS_PER_RATING, TOKENS_BESIDE = 24, 64
MORE_ROOM = 4
QUOTED = 200
"""Characters of an answer with something unusable that a note keeps."""


class Ratings(Message):
    """The ratings of one example on several aspects."""

    scores: tuple[Score, ...]
    """One for each aspect, in order; their usage is zero."""
    notes: tuple[dict[str, Any], ...] = ()
    """`{text, problem}` for answers that left something out and for aspects that nobody asked
    for."""
    usage: Usage = Usage()
    """Cost of all of them."""


@dataclass(frozen=True)
class JointScorer:
    """Rates one example on several aspects at once, at temperature 0.

    Attributes:
        model: The judge.
        task: What kind of text is judged.
        prompt: Prompt file; it is given `task`, `aspects` (`key`, `name`, `definition`, `lowest`,
            `highest` each), `material`, `form`, `layout` and `structured`.
        form: How the ratings are asked for.
        layout: Order of the prompt.
        seed: Seed of the sampling.
        parse_retries: How often aspects that an answer leaves out are asked for again.
        max_tokens: Longest answer in tokens; `None` for what the number of aspects needs.
        structured: Whether to ask for JSON by a schema; `None` where the model is known to be able.
        profile: How this model is asked, where it does not follow the papers' prompts.
    """

    model: Model
    task: Task
    prompt: str
    form: Form = "number"
    layout: Layout = "paper"
    seed: int | None = None
    parse_retries: int = 1
    max_tokens: int | None = None
    structured: bool | None = None
    profile: Profile = NO_PROFILE

    @cached_property
    def digest(self) -> str:
        """6 hex digits for the words that are sent and who is asked."""
        variants = (self.layout, self.form, self.asks_for_json, self.task.digest, self.model.name)
        return prompt_digest((self.prompt,), *variants, *self.profile.marks)

    @cached_property
    def asks_for_json(self) -> bool:
        """Whether answers are asked for as JSON by a schema."""
        return (
            self.model.capabilities.json_schema is True
            if self.structured is None
            else self.structured
        )

    async def __call__(self, example: Example, aspects: tuple[Aspect, ...]) -> Ratings:
        """Return a score for each aspect, in order; one without a value where the judge gives no usable rating.

        Raises:
            PromptError: The prompt file does not render.
            ContentRefused: The provider's filter cut the answer off.
            ModelError: The model could not be asked.
        """
        example = self.profile.prepared(example, self.task)
        if not example.output.strip():
            nothing = NoRating("NoScoreFound", "there is no text to judge")
            return Ratings(
                scores=tuple(_score(example, aspect, nothing, empty=True) for aspect in aspects)
            )
        found: dict[str, float | NoRating] = {}
        notes: list[Json] = []
        usage, left, longest_cut = Usage(), aspects, 0
        for draw in range(self.parse_retries + 1):
            sample, cost, cut = await self._ask(example, left, draw)
            usage += cost
            longest_cut = max(longest_cut, cut)
            answer = parse_joint(sample.text, left, self.form)
            found |= {
                aspect.id: rating for aspect, rating in zip(left, answer.ratings, strict=True)
            }
            notes += answer.invented
            left = tuple(aspect for aspect in aspects if isinstance(found[aspect.id], NoRating))
            if not left:
                break
            names = ", ".join(aspect.name for aspect in left)
            notes.append(
                {"text": sample.text.strip()[:QUOTED], "problem": f"no usable rating for {names}"}
            )
            if all(getattr(found[aspect.id], "reason", None) == "Declined" for aspect in left):
                break
        scores = tuple(_score(example, aspect, found[aspect.id]) for aspect in aspects)
        return Ratings(scores=scores, notes=(*notes, *truncation_note(longest_cut)), usage=usage)

    async def _ask(
        self, example: Example, aspects: tuple[Aspect, ...], draw: int
    ) -> tuple[Sample, Usage, int]:
        """Ask, and once more with more room where the answer was cut; tell how many tokens of the source were, too."""
        usage = Usage()
        messages = self._messages(example, aspects)
        room = self.max_tokens or TOKENS_BESIDE + TOKENS_PER_RATING * len(aspects)
        for tokens in (room, MORE_ROOM * room):
            response = await self.model.generate(
                Request(
                    **self.profile.asked(messages),
                    shorten=example.source,
                    draw=draw,
                    max_tokens=tokens,
                    seed=self.seed,
                    json_schema=self._schema(aspects) if self.asks_for_json else None,
                    specimen=self._specimen(aspects),
                )
            )
            usage += response.usage
            sample = response.samples[0]
            if sample.finish_reason == "filtered":
                raise ContentRefused("the provider's content filter cut the answer off")
            if sample.finish_reason != "length":
                return sample, usage, response.truncated_tokens
        whole, _, _ = sample.text.rpartition("\n")  # "Fluency: 4" may have become "Fluency: 4.5"
        return sample.model_copy(update={"text": whole}), usage, response.truncated_tokens

    def _messages(self, example: Example, aspects: tuple[Aspect, ...]) -> tuple[ChatMessage, ...]:
        told = self.profile.bare(example)
        return chat(
            self.prompt,
            lasting=not told,
            task=self.task,
            aspects=_shown(aspects, self.form),
            material=material(self.task, example),
            form=self.form,
            layout=self.layout,
            structured=self.asks_for_json,
            **told,
        )

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

    def _specimen(self, aspects: tuple[Aspect, ...]) -> str:
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


@lru_cache(maxsize=256)
def _shown(aspects: tuple[Aspect, ...], form: Form) -> tuple[dict[str, str], ...]:
    """Return what a prompt tells of the aspects; the same object for the same chain, so that its prompt is reused."""
    ends = [
        (points[0].label, points[-1].label)
        for points in (points_of(aspect.scale, form) for aspect in aspects)
    ]
    return tuple(
        {
            "key": _key(a),
            "name": a.name,
            "definition": a.definition,
            "lowest": lowest,
            "highest": highest,
        }
        for a, (lowest, highest) in zip(aspects, ends, strict=True)
    )


def _key(aspect: Aspect) -> str:
    return slug(aspect.name).replace("-", "_")


def _score(
    example: Example, aspect: Aspect, rating: float | NoRating, *, empty: bool = False
) -> Score:
    common: dict[str, Any] = {
        "id": example.id,
        "aspect": aspect.label,
        "scale": aspect.scale,
        "how": "text",
    }
    if not isinstance(rating, NoRating):
        return Score(**common, value=rating)
    kind = "EmptyOutput" if empty else rating.reason
    outcome = "abstained" if kind in ("EmptyOutput", "Declined") else "invalid"
    return Score(**common, outcome=outcome, error=ScoreError(type=kind, message=rating.message))
