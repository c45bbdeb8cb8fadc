"""Asks a judge for the rating of one example on one aspect, and turns what it says into a score.

Knows how an answer becomes a value, an abstention or an invalid score. Errors of the model pass
through: whoever runs the agent turns them into failures.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from textassay.agents.answer_form import Point, is_whole, points_of, schema_of, specimen_of
from textassay.agents.asking import chat, material, prompt_digest, truncation_note
from textassay.agents.profile import NO_PROFILE, Profile
from textassay.agents.reading.labels import Expectation, expected_rating
from textassay.agents.reading.rating import NoRating, Rating, parse_rating
from textassay.agents.reading.wording import Form
from textassay.agents.related_aspects import RelatedAspects
from textassay.agents.steps import Steps
from textassay.agents.task import Task
from textassay.runtime.errors import CapabilityError, ConfigurationError, ContentRefused
from textassay.runtime.messages import (
    NO_USAGE,
    Aspect,
    Example,
    How,
    Outcome,
    Scale,
    Score,
    ScoreError,
    Usage,
)
from textassay.runtime.model import ChatMessage, Json, Model, Request, Response, Sample
from textassay.version import __version__

Reading = Literal["text", "sampled", "logprob"]
"""One answer read as text, the mean of several, or the mean over label tokens."""
Layout = Literal["paper", "shared-prefix"]
"""The order of a paper's prompt, or texts first and aspect last, which lets servers reuse the
beginning."""

TOP_LOGPROBS = 20
MAX_LABELS = 20
"""Ratings that are told apart by the probabilities of their labels."""
MORE_ROOM = 4
"""A cut answer is asked for again with this many times the tokens."""
QUOTED = 200
"""Characters of an unusable answer that a score keeps."""
QUOTED_SAMPLES = 3
"""Unusable ones among several samples that a score keeps; the rest are counted."""


@dataclass(frozen=True)
class Scorer:
    """Rates one example on one aspect.

    Attributes:
        model: The judge.
        task: What kind of text is judged.
        method: Name for signatures.
        prompt: Prompt file, as `prompts.render` takes it.
        how: How the value is obtained; `sampled` wants `n` above 1, the others `n` of 1.
        form: How the rating is asked for.
        layout: Order of the prompt.
        n: Number of samples.
        temperature: Sampling temperature.
        seed: Seed of the sampling.
        parse_retries: How often an unusable answer is asked for again (not for `sampled`, where
            others stand in).
        max_tokens: Longest answer in tokens.
        variant: What else tells scores apart, such as how the steps came about; goes into the
            prompt digest.
        structured: Whether to ask for JSON by a schema; `None` where the model is known to be able
            and `how` is `text`.
        profile: How this model is asked, where it does not follow the papers' prompts.
    """

    model: Model
    task: Task
    method: str = "llm-score"
    prompt: str = "llm_score"
    how: Reading = "text"
    form: Form = "number"
    layout: Layout = "paper"
    n: int = 1
    temperature: float = 0.0
    seed: int | None = None
    parse_retries: int = 1
    max_tokens: int = 512
    structured: bool | None = None
    variant: str = ""
    profile: Profile = NO_PROFILE

    def __post_init__(self) -> None:
        self._check_reading()
        for aspect in self.task.aspects:
            self._check_labels(aspect, points_of(self._asked_scale(aspect), self.form))

    def _check_reading(self) -> None:
        if (self.n > 1) != (self.how == "sampled"):
            raise ConfigurationError(
                f"how={self.how} does not go with n={self.n}: several samples are how=sampled"
            )
        if self.how == "logprob" and self.model.capabilities.logprobs is False:
            raise CapabilityError(_no_logprobs(self.model))
        if self.structured and self.how != "text":
            raise ConfigurationError(
                f"JSON answers do not go with how={self.how}; use n=1 and how=text"
            )

    def _check_labels(self, aspect: Aspect, points: tuple[Point, ...]) -> None:
        if self.how == "logprob" and not self._has_labels(aspect, points):
            low, high = aspect.scale
            raise ConfigurationError(
                f"aspect {aspect.name!r}: token probabilities need at most {MAX_LABELS} whole ratings that are "
                f"not negative, which the scale {low:g} to {high:g} has not; use --n 20"
            )

    def _asked_scale(self, aspect: Aspect) -> Scale:
        """Return the scale on which the rating is asked for."""
        return aspect.scale

    @cached_property
    def signature(self) -> str:
        """What makes scores comparable: method, model, words, sampling and version."""
        return self.signature_as(self.how)

    def signature_as(self, how: How) -> str:
        """Return the signature of scores that are made of this scorer's in another way, such as `fused`."""
        seed = "-" if self.seed is None else self.seed
        return (
            f"method:{self.method}|model:{self.model.name}|prompt:{self.prompt_digest}|layout:{self.layout}|form:{self.form}"
            f"|how:{how}|n:{self.n}|temp:{self.temperature:g}|seed:{seed}|v:{__version__}"
        )

    @cached_property
    def prompt_digest(self) -> str:
        """6 hex digits for the words that are sent apart from the example's own."""
        variants = (self.layout, self.form, self.asks_for_json, self.task.digest, self.variant)
        return prompt_digest((self.prompt,), *variants, *self.profile.marks)

    @cached_property
    def asks_for_json(self) -> bool:
        """Whether answers are asked for as JSON by a schema."""
        if self.structured is None:
            return self.how == "text" and self.model.capabilities.json_schema is True
        return self.structured

    async def __call__(
        self,
        example: Example,
        aspect: Aspect,
        steps: Steps | None = None,
        knowledge: RelatedAspects | None = None,
        parent: Aspect | None = None,
    ) -> Score:
        """Return the score; without a value where the output is empty or the judge gives no usable rating.

        Args:
            example: What is judged.
            aspect: On what.
            steps: How to judge, for prompts that have `steps`.
            knowledge: What is known of relevant aspects, for prompts that have `knowledge`.
            parent: The aspect that `aspect` is part of, for prompts that have `parent`.

        Raises:
            PromptError: The prompt file does not render, as where it wants steps and there are
                none.
            CapabilityError: Token probabilities are wanted and the server sends none.
            ContentRefused: The provider's filter cut the answer off.
            ModelError: The model could not be asked.
        """
        example = self.profile.prepared(example, self.task)
        if not example.output.strip():
            return self._score(
                example, aspect, **no_value("EmptyOutput", "there is no text to judge")
            )
        told = {
            "steps": steps and steps.text,
            "knowledge": knowledge and knowledge.aspects,
            "parent": parent,
        }
        messages = self._messages(
            example, aspect, {name: value for name, value in told.items() if value is not None}
        )
        if self.how == "sampled":
            return await self._from_samples(example, aspect, messages)
        return await self._from_one(example, aspect, messages)

    def _messages(
        self, example: Example, aspect: Aspect, told: dict[str, Any]
    ) -> tuple[ChatMessage, ...]:
        told |= self.profile.bare(example)
        scale = self._asked_scale(aspect)
        return chat(
            self.prompt,
            task=self.task,
            aspect=aspect,
            points=points_of(scale, self.form),
            whole=is_whole(scale),
            material=material(self.task, example),
            form=self.form,
            layout=self.layout,
            structured=self.asks_for_json,
            lasting="knowledge" not in told
            and "bare" not in told,  # which are those of one example
            **told,
        )

    def _request(
        self,
        example: Example,
        messages: tuple[ChatMessage, ...],
        aspect: Aspect,
        n: int = 1,
        draw: int = 0,
    ) -> Request:
        as_json = self.asks_for_json
        return Request(
            **self.profile.asked(messages),
            shorten=example.source,
            n=n,
            draw=draw,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            seed=self.seed,
            logprobs=TOP_LOGPROBS if self.how == "logprob" else None,
            json_schema=schema_of(aspect.scale, self.form) if as_json else None,
            specimen=specimen_of(
                aspect.scale, self.form, reasoned=self.how == "text", as_json=as_json
            ),
        )

    async def _from_one(
        self, example: Example, aspect: Aspect, messages: tuple[ChatMessage, ...]
    ) -> Score:
        usage = NO_USAGE
        unusable: list[Json] = []
        for draw in range(self.parse_retries + 1):
            request = self._request(example, messages, aspect, draw=draw)
            response, found, cost = await self._attempt(request, aspect)
            sample = response.samples[0]
            usage += cost
            if isinstance(found, Rating):
                fields = (
                    self._from_labels(sample, found, aspect)
                    if self.how == "logprob"
                    else _as_said(sample, found)
                )
                fields["evidence"] = (
                    *unusable,
                    *truncation_note(response.truncated_tokens),
                    *fields.get("evidence", ()),
                )
                return self._score(example, aspect, usage=usage, **fields)
            problem = found
            unusable.append({"text": sample.text.strip()[:QUOTED], "problem": problem.reason})
            if problem.reason == "Declined":
                break
        said = sample.text.strip()
        fields = no_value(problem.reason, f"{problem.message}; the judge said: {said[:QUOTED]!r}")
        return self._score(
            example,
            aspect,
            usage=usage,
            evidence=tuple(unusable),
            explanation=said or None,
            **fields,
        )

    async def _attempt(
        self, request: Request, aspect: Aspect
    ) -> tuple[Response, Rating | NoRating, Usage]:
        """Ask, and once more with more room where the answer was cut before its rating was complete."""
        usage = NO_USAGE
        for room in (self.max_tokens, MORE_ROOM * self.max_tokens):
            if room != request.max_tokens:
                request = request.model_copy(update={"max_tokens": room})
            response = await self.model.generate(request)
            usage += response.usage
            sample = response.samples[0]
            found = self._read(sample, aspect)
            if not self._is_cut(sample, found):
                return response, found, usage
        limit = f"the answer was cut after {room} tokens, before its rating; raise --set max_tokens"
        return response, NoRating("NoScoreFound", limit), usage

    def _read(self, sample: Sample, aspect: Aspect) -> Rating | NoRating:
        found = parse_rating(sample.text, scale=aspect.scale, form=self.form, aspect=aspect.name)
        if isinstance(found, NoRating) and sample.finish_reason == "filtered":
            raise ContentRefused(
                "the provider's content filter cut the answer off before its rating"
            )
        return found

    def _is_cut(self, sample: Sample, found: Rating | NoRating) -> bool:
        if sample.finish_reason != "length":
            return False
        if isinstance(found, NoRating):
            return True
        return (
            self.how == "text" and not sample.text[found.span[1] :].strip()
        )  # "4" may have become "4.5"

    def _from_labels(self, sample: Sample, rating: Rating, aspect: Aspect) -> dict[str, Any]:
        if sample.logprobs is None:
            raise CapabilityError(_no_logprobs(self.model))
        points = points_of(aspect.scale, self.form)
        if rating.value not in {point.value for point in points}:
            return no_value(
                "NotALabel",
                f"the judge said {rating.value:g}, which is none of the labels; use --n 20",
            )
        found = expected_rating(sample, rating.span[0], points)
        if not isinstance(found, Expectation):
            return no_value(found.reason, found.message)
        shares = tuple(
            {"text": label, "probability": share} for label, share in found.probabilities.items()
        )
        return {"value": found.value, "mass": found.mass, "evidence": shares}

    async def _from_samples(
        self, example: Example, aspect: Aspect, messages: tuple[ChatMessage, ...]
    ) -> Score:
        samples: list[Sample] = []
        usage = NO_USAGE
        while (
            len(samples) < self.n
        ):  # a response holds at least one sample, and some servers give no more
            request = self._request(
                example, messages, aspect, n=self.n - len(samples), draw=len(samples)
            )
            response = await self.model.generate(request)
            samples += response.samples[: request.n]
            usage += response.usage
        fields = mean_of(samples, [self._read(s, aspect) for s in samples])
        fields["evidence"] = (*fields["evidence"], *truncation_note(response.truncated_tokens))
        return self._score(example, aspect, usage=usage, **fields)

    def _score(self, example: Example, aspect: Aspect, **fields: Any) -> Score:
        return Score(
            id=example.id,
            aspect=aspect.label,
            scale=aspect.scale,
            how=self.how,
            signature=self.signature,
            **fields,
        )

    def _has_labels(self, aspect: Aspect, points: tuple[Point, ...]) -> bool:
        return (
            is_whole(aspect.scale)
            and len(points) <= MAX_LABELS
            and (aspect.scale[0] >= 0 or self.form == "letters")
        )


def _as_said(sample: Sample, rating: Rating) -> dict[str, Any]:
    said = sample.text.strip()
    bare = said == sample.text[slice(*rating.span)]
    return {"value": rating.value, "explanation": None if bare else said}


def no_value(kind: str, message: str) -> dict[str, Any]:
    """Return the fields of a score that has no value: declined and empty ones are abstentions."""
    outcome: Outcome = "abstained" if kind in ("Declined", "EmptyOutput") else "invalid"
    return {"outcome": outcome, "error": ScoreError(type=kind, message=message)}


def mean_of(samples: list[Sample], read: list[Rating | NoRating]) -> dict[str, Any]:
    """Return a score's fields for the mean of the usable samples; the others are left out and counted.

    Args:
        samples: What the judge said.
        read: What was read in each of them.
    """
    values = [found.value for found in read if isinstance(found, Rating)]
    reasons = Counter(found.reason for found in read if isinstance(found, NoRating))
    summary: Json = {"text": f"{len(values)} of {len(samples)} samples usable", "ratings": values}
    unusable = [
        {"text": sample.text.strip()[:QUOTED], "problem": found.reason}
        for sample, found in zip(samples, read, strict=True)
        if isinstance(found, NoRating)
    ]
    evidence = (
        summary | ({"unusable": dict(reasons)} if reasons else {}),
        *unusable[:QUOTED_SAMPLES],
    )
    if not values:
        kind = "Declined" if set(reasons) == {"Declined"} else "NoScoreFound"
        said = samples[0].text.strip()[:QUOTED]
        fields = no_value(
            kind, f"none of {len(samples)} samples holds a usable rating; the first says: {said!r}"
        )
        return fields | {"samples": 0, "evidence": evidence}
    mean = min(max(math.fsum(values) / len(values), min(values)), max(values))
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return {"value": mean, "samples": len(values), "spread": spread, "evidence": evidence}


def _no_logprobs(model: Model) -> str:
    return (
        f"model {model.name!r} sends no log-probabilities of its tokens, which this method reads; "
        "ask for samples instead (--n 20), or use a model that sends them"
    )
