"""Asks a judge to rate one example, and turns its answers into scores.

On one aspect, the rating is read from the text that the judge writes (`Scorer`), or from the
probabilities of label tokens (`LabelScorer`). Several aspects are rated in a single answer
(`JointScorer`) or with one call each (`IndividualScorer`); aspects that a joint answer leaves out
are requested again, without the others, and have no value if they are missing again. Errors of the
model pass through: the graph that runs the agent turns them into failures.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from textassay.agents.aggregation import (
    EMPTY,
    aspect_fields,
    common_fields,
    from_samples,
    from_text,
    leave_unscored,
    rescale,
)
from textassay.agents.ask import (
    REMINDER,
    Ask,
    Parsed,
    check_not_filtered,
    never_cut,
    notes_on,
    remind_of,
    score_answer,
    truncation_note,
)
from textassay.agents.prompt_template import BoundPrompt, Prompt
from textassay.agents.reading.json_in_prose import object_schema
from textassay.agents.reading.labels import (
    Expectation,
    ScalePoint,
    dry_run_answer_of,
    expectation,
    form_for,
    is_whole,
    points_for,
    points_of,
    schema_of,
    score_schema,
)
from textassay.agents.reading.outcomes import DECLINED, MAX_QUOTED, NoRating, Rating, RatingForm
from textassay.agents.typed_questions import QuestionBatcher, QuestionScorer, unanswered_score
from textassay.runtime.base import NO_USAGE, Json, Message, Usage
from textassay.runtime.calls.logprobs_or_samples import (
    SAMPLES,
    SAMPLES_OF_THINKING,
    TOKENS_TO_SHOW,
    LogprobsOrSamples,
)
from textassay.runtime.concurrency import gather
from textassay.runtime.errors import CapabilityError, ConfigurationError
from textassay.runtime.labels import slug
from textassay.runtime.messages import Aspect, Example, How, Scale, Score
from textassay.runtime.model import Model, Sample, scoring, thought_note
from textassay.runtime.questions import Question

if TYPE_CHECKING:
    from textassay.agents.reading.joint import JointAnswer

RatingReading = Literal["text", "sampled", "logprob", "auto"]
"""One answer read as text, the mean of several, the mean over label tokens, or the last if the
model sends usable log-probabilities and otherwise the mean of several.
"""

TOP_LOGPROBS = 20
"""Number of requested alternatives, and so of ratings with distinguishable probabilities: OpenAI's
maximum.
"""


class _Constants(NamedTuple):
    """Parts of requests and scores that are equal for all examples on an aspect."""

    prompt: BoundPrompt
    """The prompt, if it has no further values."""
    request: Mapping[str, Any]
    """Fields of requests besides the prompt."""
    reminder: Mapping[str, Any]
    """Form of the reminder after an unusable answer, and the valid ratings."""
    fields: dict[str, Any]
    """Fields of scores besides the example's id."""
    read: Callable[[Sample], Rating | NoRating]


@dataclass(frozen=True)
class Scorer:
    """Rates one example on one aspect."""

    ask: Ask
    """Model and prompt; the prompt also gets `aspect`, `points`, `whole`, `form` and `structured`.
    """
    method: str = "llm-score"
    """Name for signatures."""
    how: RatingReading = "text"
    """How the value is obtained; `sampled` needs `ask.n` above 1, the others 1. With `auto`, the
    scores record which of the two ways was used.
    """
    form: RatingForm = "number"
    """How the rating is requested."""
    parse_retries: int = 1
    """How often an unusable answer is requested again; each of several samples at most once."""
    structured: bool = True
    """Whether to request JSON by a schema, if the model is known to follow schemas and `how` is
    `text`.
    """
    labels_prompt: str = ""
    """Prompt for aspects with labels; empty for the prompt of `ask`."""
    variant: str = ""
    """Further facts that distinguish scores, such as the origin of the steps; goes into the prompt
    digest."""

    def __post_init__(self) -> None:
        # here rather than in __call__, so that a run fails before the first request
        self._check_reading()
        for aspect in self.ask.task.aspects:
            self._check_labels(aspect, self._points(aspect))

    def _check_reading(self) -> None:
        if (self.ask.n > 1) != (self.how == "sampled"):
            several = f"how={self.how} cannot be combined with n={self.ask.n}"
            raise ConfigurationError(f"{several}: several samples need how=sampled")
        if self.how == "logprob" and self.ask.model.capabilities.logprobs is False:
            raise CapabilityError(_no_logprobs(self.ask.model))

    def _check_labels(self, aspect: Aspect, points: tuple[ScalePoint, ...]) -> None:
        if self.how in ("logprob", "auto") and not self._has_labels(aspect, points):
            low, high = aspect.scale
            raise ConfigurationError(
                f"aspect {aspect.name!r}: token probabilities need at most {TOP_LOGPROBS} whole"
                f" ratings that are not negative, which the scale {low:g} to {high:g} does not"
                " have; use n=20"
            )

    def _points(self, aspect: Aspect) -> tuple[ScalePoint, ...]:
        """Return the ratings that the prompt offers."""
        if aspect.labels:
            return points_for(aspect, self.form)
        return points_of(self._asked_scale(aspect), self.form)

    def _asked_scale(self, aspect: Aspect) -> Scale:
        """Return the scale in the prompt."""
        return aspect.scale

    @cached_property
    def signature(self) -> str:
        """Signature of the scores: method, model, words, sampling and version."""
        return self.signature_as(self.how)

    @property
    def how_now(self) -> How:
        """How values are obtained, if known."""
        return self._choice.how if self.how == "auto" else self.how

    @property
    def signatures(self) -> tuple[str, ...]:
        """The signatures that scores can carry."""
        if self.how != "auto":
            return (self.signature,)
        counts = (SAMPLES, SAMPLES_OF_THINKING)
        sampled = (self._by_samples(n).signature for n in counts)
        return (self.signature_as("logprob"), *sampled)

    def signature_as(self, how: How | RatingReading) -> str:
        """Return the signature of scores that combine this scorer's, such as `fused`."""
        facts = {"form": self.form, "how": how, **self.ask.sampling}
        return self.ask.signature(self.method, self.prompt_digest, **facts)

    @cached_property
    def prompt_digest(self) -> str:
        """6 hex digits of the prompt's words, without the example's texts."""
        task = self.ask.task
        labeled = any(aspect.labels for aspect in task.aspects)
        also = (self.labels_prompt,) if labeled and self.labels_prompt else ()
        variants = (self.ask.layout, self.form, self.asks_for_json, task.digest, self.variant)
        return self.ask.digest(*variants, also=also)

    @cached_property
    def asks_for_json(self) -> bool:
        """Whether answers are requested as JSON by a schema."""
        able = self.ask.model.capabilities.json_schema is True
        return able and self.structured and self.how == "text"

    async def __call__(self, example: Example, aspect: Aspect, **values: Any) -> Score:
        """Return the score.

        It has no value if the output is empty or the judge gives no usable rating.

        Args:
            example: The example to judge.
            aspect: The aspect to judge it on.
            values: Further values for the prompt, such as `steps`; `None` is left out.

        Raises:
            CapabilityError: Token probabilities are required and the server sends none.
        """
        if self.how == "auto":
            return await self._rate_either_way(example, aspect, values)
        # before the test for an empty text, since the prepared text may be empty
        example = self.ask.prepare(example)
        constants = self._constants(aspect)
        about: dict[str, Any] = {"id": example.id, **constants.fields}
        if not example.output.strip():
            return Score.unscored(EMPTY.type, EMPTY.message, **about)
        values = {name: value for name, value in values.items() if value is not None}
        bound = self._bind_prompt(aspect, **values) if values else constants.prompt
        prompt = bound.render(example)
        if self.how == "sampled":
            return await self._from_samples(prompt, aspect, about)
        return await self._from_one(prompt, aspect, about)

    async def _rate_either_way(
        self, example: Example, aspect: Aspect, values: dict[str, Any]
    ) -> Score:
        """Return the score from log-probabilities, or from samples if the model sends none."""
        score = await self._choice.first(
            lambda: self._by_logprobs(example, aspect, **values), lambda score: score.error != EMPTY
        )
        if score:
            return score
        n = await self._choice.samples(lambda: self._by_one_sample(example, aspect, **values))
        return await self._by_samples(n)(example, aspect, **values)

    @cached_property
    def _choice(self) -> LogprobsOrSamples:
        return LogprobsOrSamples(self.ask.model, "logprobs")

    @property
    def probabilities(self) -> LogprobsOrSamples | None:
        """The choice between log-probabilities and samples, if the first answer decides it."""
        return self._choice if self.how == "auto" else None

    @cached_property
    def _by_logprobs(self) -> Scorer:
        return replace(self, how="logprob")

    @cached_property
    def _by_one_sample(self) -> Scorer:
        ask = replace(self.ask.with_samples(1), max_tokens=TOKENS_TO_SHOW)
        return replace(self, how="text", ask=ask, parse_retries=0)

    @cached_property
    def _by_samples(self) -> Callable[[int], Scorer]:
        return lru_cache(lambda n: replace(self, how="sampled", ask=self.ask.with_samples(n)))

    @cached_property
    def _constants(self) -> Callable[[Aspect], _Constants]:
        """Returns the constants of an aspect, made once for each."""
        return lru_cache(maxsize=256)(self._constants_of)

    def _constants_of(self, aspect: Aspect) -> _Constants:
        scale, form, as_json = aspect.scale, form_for(aspect, self.form), self.asks_for_json
        reasoned = self.how == "text"
        request = {
            "logprobs": TOP_LOGPROBS if self.how == "logprob" else None,
            "json_schema": schema_of(scale, form) if as_json else None,
            "dry_run_answer": dry_run_answer_of(scale, form, reasoned=reasoned, as_json=as_json),
        }
        return _Constants(
            self._bind_prompt(aspect),
            request,
            {
                "form": "json" if as_json else form,
                "labels": tuple(point.label for point in points_for(aspect, self.form)),
            },
            aspect_fields(aspect, how=self.how_now, signature=self.signature),
            partial(self._read, aspect=aspect),
        )

    def _bind_prompt(self, aspect: Aspect, **optional: Any) -> BoundPrompt:
        """Return the prompt for an aspect, with further values for it."""
        ask = self._ask_for_labels if aspect.labels else self.ask
        return ask.template.bind(
            aspect=aspect,
            points=self._points(aspect),
            whole=is_whole(self._asked_scale(aspect)),
            form=form_for(aspect, self.form),
            structured=self.asks_for_json,
            **optional,
        )

    @cached_property
    def _ask_for_labels(self) -> Ask:
        return replace(self.ask, prompt=self.labels_prompt or self.ask.prompt)

    async def _from_one(self, prompt: Prompt, aspect: Aspect, about: dict[str, Any]) -> Score:
        constants = self._constants(aspect)
        answer = await self.ask.until_usable(
            prompt,
            constants.read,
            remind_of(**constants.reminder),
            retries=self.parse_retries,
            is_cut=self._is_cut,
            **constants.request,
        )
        rating = answer.result
        if isinstance(rating, NoRating):
            return score_answer(answer, **about)
        about |= {"usage": answer.usage, "evidence": notes_on(answer)}
        if self.how == "logprob":
            return self._from_labels(answer.samples[0], rating, aspect, about)
        if aspect.labels:
            label = list(aspect.labels)[int(rating.value)]
            about["evidence"] = ({"text": label}, *about["evidence"])
        return from_text(answer.samples[0], rating, **about)

    def _read(self, sample: Sample, aspect: Aspect) -> Rating | NoRating:
        rating = self._rating(sample, aspect)
        if isinstance(rating, NoRating):
            check_not_filtered(sample, "the answer before its rating")
        elif _ends_at(sample, rating):  # "1" may have become "10"
            check_not_filtered(sample, "the answer at its rating")
        return rating

    def _rating(self, sample: Sample, aspect: Aspect) -> Rating | NoRating:
        form, labels = form_for(aspect, self.form), tuple(aspect.labels)
        return self._parse(
            sample.text, scale=aspect.scale, form=form, aspect=aspect.name, labels=labels
        )

    @cached_property
    def _parse(self) -> Callable[..., Rating | NoRating]:
        # takes time to import, and no answer is read before the first one has arrived
        from textassay.agents.reading.ratings import parse_rating

        return parse_rating

    def _read_whole(self, sample: Sample, aspect: Aspect) -> Rating | NoRating:
        """Read one of several samples; a rating at the place of a cut may be incomplete."""
        rating = self._rating(sample, aspect)
        if isinstance(rating, Rating) and (
            self._is_cut(sample, rating)
            or (sample.finish_reason == "filtered" and _ends_at(sample, rating))
        ):
            return NoRating("NoScoreFound", "the answer was cut at its rating")
        return rating

    def _is_cut(self, sample: Sample, rating: Rating | NoRating) -> bool:
        if sample.finish_reason != "length":
            return False
        if isinstance(rating, NoRating):
            return True
        # "4" may have become "4.5"
        return self.how != "logprob" and _ends_at(sample, rating)

    def _from_labels(
        self, sample: Sample, rating: Rating, aspect: Aspect, about: dict[str, Any]
    ) -> Score:
        if sample.logprobs is None:
            raise CapabilityError(_no_logprobs(self.ask.model))
        points = points_for(aspect, self.form)
        if rating.value not in {point.value for point in points}:
            message = f"the judge said {rating.value:g}, which is not one of the labels; use n=20"
            return Score.unscored("NotALabel", message, **about)
        answer = sample.text[slice(*rating.span)]
        if aspect.labels and len(answer) > 1:  # "AB" may begin with the token A, another's letter
            message = f"the judge wrote {answer!r} in place of its letter; use n=20"
            return Score.unscored("NotALabel", message, **about)
        expected = expectation(sample, rating.span[0], points)
        if not isinstance(expected, Expectation):
            return Score.unscored(expected.type, expected.message, **about)
        shares = list(expected.probabilities.values())
        named = zip(aspect.labels or expected.probabilities, shares, strict=True)
        about["evidence"] += tuple({"text": name, "probability": share} for name, share in named)
        # the numbers of labels without an order have no mean
        value = float(shares.index(max(shares))) if aspect.is_nominal else expected.value
        return Score(value=value, mass=expected.mass, **about)

    async def _from_samples(self, prompt: Prompt, aspect: Aspect, about: dict[str, Any]) -> Score:
        constants = self._constants(aspect)
        read_whole, ask = partial(self._read_whole, aspect=aspect), self.ask.answer
        request = {"is_cut": never_cut, **constants.request}
        answer = await ask(prompt, read_whole, n=self.ask.n, **request)
        if all(sample.finish_reason == "filtered" for sample in answer.samples) and not any(
            isinstance(rating, Rating) for rating in answer.readings
        ):
            check_not_filtered(answer.samples[0], "every sample before its rating")
        samples, ratings = list(answer.samples), list(answer.readings)
        usage, notes = answer.usage, list[Json]()
        # unreadable samples differ from the rest: leaving them out would bias the mean
        unread = [
            at
            for at, rating in enumerate(ratings)
            if self.parse_retries and isinstance(rating, NoRating) and rating.reason != DECLINED
        ]
        texts = [samples[at].text.strip() for at in unread]
        chats = [prompt.append_turn(text, REMINDER, **constants.reminder) for text in texts]
        # equal samples are requested again one by one, so that a cache does not answer both
        pairs = zip(chats, unread, strict=True)
        calls = [ask(chat, read_whole, draw=at, **request) for chat, at in pairs]
        for at, text, again in zip(unread, texts, await gather(calls), strict=True):
            usage += again.usage
            notes.append(
                {"text": text[:MAX_QUOTED], "problem": "unreadable; the judge was asked again"}
            )
            samples[at], ratings[at] = again.samples[0], again.readings[0]
        voted = tuple(aspect.labels) if aspect.is_nominal else ()
        score = from_samples(samples, ratings, labels=voted, usage=usage, **about)
        notes += (*truncation_note(answer.truncated_tokens), *thought_note(samples))
        return score.model_copy(update={"evidence": (*score.evidence, *notes)}) if notes else score

    def _has_labels(self, aspect: Aspect, points: tuple[ScalePoint, ...]) -> bool:
        is_plain = aspect.scale[0] >= 0 or form_for(aspect, self.form) == "letters"
        return is_plain and is_whole(aspect.scale) and len(points) <= TOP_LOGPROBS


def _ends_at(sample: Sample, rating: Rating) -> bool:
    """Return whether an answer ends with its rating."""
    return not sample.text[rating.span[1] :].strip()


def _no_logprobs(model: Model) -> str:
    return (
        f"model {model.name!r} sends no log-probabilities of its tokens, which this method reads; "
        "ask for samples instead (n=20), or use a model that sends them"
    )


@dataclass(frozen=True)
class LabelScorer(Scorer):
    """Rates one example on one aspect in one call, on the profile's scale."""

    def _check_reading(self) -> None:
        profile = self.ask.profile
        if self.ask.n > 1:
            raise ConfigurationError(
                f"profile {profile.name!r} reads ratings from probabilities, so n={self.ask.n}"
                " samples add nothing; leave out n=, or use another profile "
                "(options={'profile': 'none'})"
            )
        if profile.scale and self.form != "number":
            raise ConfigurationError(
                f"profile {profile.name!r} asks for numbers; leave out form={self.form}, or "
                "options={'profile': 'none'}"
            )
        scoring(self.ask.model, "choices")

    def _asked_scale(self, aspect: Aspect) -> Scale:
        return self.ask.profile.scale or aspect.scale

    def _check_labels(self, aspect: Aspect, points: tuple[ScalePoint, ...]) -> None:
        if not is_whole(self._asked_scale(aspect)) or len(points) > TOP_LOGPROBS:
            low, high = aspect.scale
            raise ConfigurationError(
                f"aspect {aspect.name!r}: profile {self.ask.profile.name!r} reads ratings from"
                f" probabilities of labels, at most {TOP_LOGPROBS} whole numbers, which the scale"
                f" {low:g} to {high:g} does not have; give the profile a scale"
            )

    async def _from_one(self, prompt: Prompt, aspect: Aspect, about: dict[str, Any]) -> Score:
        points = points_of(self._asked_scale(aspect), self.form)
        labels = [point.label for point in points]
        # with and without a leading space: it depends on tokenizer and prompt which one is a token
        forms = {label: (f" {label}", label) for label in labels}
        wording = self.ask.wording(Question.rating(aspect.name, labels), prompt, forms)
        result = await self._batcher.ask_in_words(wording, may_sample=False)
        answer, about["usage"] = result.answer, result.usage
        about["evidence"] = truncation_note(result.truncated_tokens)
        if answer.problem:
            return unanswered_score(answer, mass=answer.mass, **about)
        least, mass = self.ask.profile.least_mass, answer.mass or 0.0
        if mass < least:
            message = f"all labels together have probability {mass:.3g}, less than {least:g}"
            return Score.unscored("NoLabelMass", message, mass=mass, **about)
        reported = {n: p for n, p in answer.shares.items() if n not in answer.unreported}
        about["evidence"] += tuple(
            {"text": label, "probability": round(p, 6)} for label, p in reported.items()
        )
        rating = math.fsum(point.value * answer.shares[point.label] for point in points)
        value = rescale(rating, (points[0].value, points[-1].value), aspect.scale)
        return Score(value=value, mass=mass, **about)

    @cached_property
    def _batcher(self) -> QuestionBatcher:
        return QuestionBatcher(self.ask.model)


AspectScorer = Scorer | QuestionScorer
"""Rates one example on one aspect, by a prompt or a typed question."""


class JointScores(Message, defer_build=True):
    """The ratings of one example on several aspects."""

    scores: tuple[Score, ...]
    """A score for each aspect, in order, without usage."""
    notes: tuple[dict[str, Any], ...] = ()
    """`{text, problem}` for answers that left out an aspect, and for aspects that were not
    requested."""
    usage: Usage = NO_USAGE
    """Cost of all ratings."""


@dataclass(frozen=True)
class JointScorer:
    """Rates one example on several aspects at once."""

    ask: Ask
    """Model and prompt; the prompt also gets `aspects` (`key`, `name`, `definition`, `lowest`,
    `highest` each), `form` and `structured`.
    """
    form: RatingForm = "number"
    """How the ratings are requested."""
    parse_retries: int = 1
    """How often missing aspects are requested again."""

    @cached_property
    def digest(self) -> str:
        """6 hex digits of the prompt's words and the model's name."""
        ask = self.ask
        shape = (ask.layout, self.form, self.asks_for_json)
        return ask.digest(*shape, ask.task.digest, ask.model.name)

    @property
    def asks_for_json(self) -> bool:
        """Whether answers are requested as JSON by a schema, which the model is known to follow."""
        return self.ask.model.capabilities.json_schema is True

    async def __call__(self, example: Example, aspects: tuple[Aspect, ...]) -> JointScores:
        """Return a score for each aspect, in order.

        If the judge gives no usable rating, the score has no value.
        """
        example = self.ask.prepare(example)
        if not example.output.strip():
            empty = leave_unscored(example, aspects, EMPTY.model_dump(), how="text")
            return JointScores(scores=tuple(empty))
        ratings: dict[str, float | NoRating] = {}
        notes: list[Json] = []
        usage, rest, truncated = NO_USAGE, aspects, 0
        again = "json" if self.asks_for_json else "ratings"
        prompt = self._prompt(example, rest)
        for _ in range(self.parse_retries + 1):
            answer = await self._ask(prompt, rest)
            usage += answer.usage
            truncated = max(truncated, answer.truncated_tokens)
            (joint,) = answer.readings
            # only missing ratings are requested again, so no rating is replaced
            ratings |= {a.id: rating for a, rating in zip(rest, joint.ratings, strict=True)}
            # names that were not requested often mean that the judge renamed an aspect
            notes += joint.invented
            requested = rest
            rest = tuple(aspect for aspect in aspects if isinstance(ratings[aspect.id], NoRating))
            if not rest:
                break
            notes.append(_incomplete(answer, rest))
            # A refusal is an answer, so there is no further request.
            if all(getattr(ratings[aspect.id], "reason", None) == DECLINED for aspect in rest):
                break
            # only the aspects that are left: a prompt with all of them would invite all ratings
            # again; if none was rated, the form was the problem
            if rest == requested:
                prompt = remind_of(again)(prompt, answer)
            else:
                prompt = self._prompt(example, rest)
        scores = tuple(_score(example, aspect, ratings[aspect.id]) for aspect in aspects)
        notes += (*truncation_note(truncated), *thought_note(answer.samples))
        return JointScores(scores=scores, notes=tuple(notes), usage=usage)

    def _prompt(self, example: Example, aspects: tuple[Aspect, ...]) -> Prompt:
        return self.ask.render(
            example,
            aspects=_describe_aspects(aspects, self.form),
            form=self.form,
            structured=self.asks_for_json,
        )

    async def _ask(self, prompt: Prompt, aspects: tuple[Aspect, ...]) -> Parsed[JointAnswer]:
        schema = object_schema(**{_key(a): score_schema(a.scale, self.form) for a in aspects})
        return await self.ask.answer(
            prompt,
            lambda sample: self._read(sample, aspects),
            # a name with a rating for each aspect, and some words around them
            max_tokens=64 + 24 * len(aspects),
            json_schema=schema if self.asks_for_json else None,
            dry_run_answer=self._dry_run_answer(aspects),
        )

    def _read(self, sample: Sample, aspects: tuple[Aspect, ...]) -> JointAnswer:
        from textassay.agents.reading.joint import parse_joint

        check_not_filtered(sample)
        return parse_joint(whole_lines(sample), aspects, self.form)

    def _dry_run_answer(self, aspects: tuple[Aspect, ...]) -> str:
        scales = [points_of(aspect.scale, self.form) for aspect in aspects]
        middles = [points[len(points) // 2].label for points in scales]
        rated = list(zip(aspects, middles, strict=True))
        if self.asks_for_json:
            quote = '"' if self.form == "letters" else ""
            return "{" + ", ".join(f'"{_key(a)}": {quote}{m}{quote}' for a, m in rated) + "}"
        stars = " stars" if self.form == "stars" else ""
        return "\n".join(f"{a.name}: {m}{stars}" for a, m in rated)


def whole_lines(sample: Sample) -> str:
    """Return an answer without its end if it was cut: `4` may be the beginning of `4.5`.

    The end is the last line if the answer was too long, or the last word if a filter cut it.
    """
    if sample.finish_reason == "filtered":
        return re.sub(r"[^\s:]*\s*\Z", "", sample.text)
    return sample.text.rpartition("\n")[0] if sample.finish_reason == "length" else sample.text


class _ShownAspect(NamedTuple):
    """An aspect as a prompt shows it."""

    key: str
    name: str
    definition: str
    lowest: str
    highest: str


@lru_cache(maxsize=256)
def _describe_aspects(aspects: tuple[Aspect, ...], form: RatingForm) -> tuple[_ShownAspect, ...]:
    ends = [points_of(aspect.scale, form) for aspect in aspects]
    return tuple(
        _ShownAspect(_key(a), a.name, a.definition, points[0].label, points[-1].label)
        for a, points in zip(aspects, ends, strict=True)
    )


def _key(aspect: Aspect) -> str:
    return slug(aspect.name).replace("-", "_")


def _incomplete(answer: Parsed[JointAnswer], unrated: tuple[Aspect, ...]) -> Json:
    """Return the note on an answer with missing ratings."""
    names = ", ".join(aspect.name for aspect in unrated)
    text = whole_lines(answer.samples[0]).strip()
    return {"text": text[:MAX_QUOTED], "problem": f"no usable rating for {names}"}


def _score(example: Example, aspect: Aspect, rating: float | NoRating) -> Score:
    about = common_fields(example, aspect, how="text")
    if isinstance(rating, NoRating):
        return Score.unscored(rating.reason, rating.message, **about)
    return Score(value=rating, **about)


@dataclass(frozen=True)
class IndividualScorer:
    """Replaces a `JointScorer`, with one call for each aspect."""

    scorer: AspectScorer
    """Rates one aspect."""

    @property
    def digest(self) -> str:
        """6 hex digits of the prompt's words, with the model's name."""
        return f"{self.scorer.prompt_digest}|{self.scorer.ask.model.name}"

    async def __call__(self, example: Example, aspects: tuple[Aspect, ...]) -> JointScores:
        """Return a score for each aspect, in order; only the whole has a usage."""
        scores = await gather(self.scorer(example, aspect) for aspect in aspects)
        usage = sum((score.usage for score in scores), NO_USAGE)
        pieces = (piece for score in scores for piece in score.evidence)
        cut = max((piece.get("truncated_tokens", 0) for piece in pieces), default=0)
        # only the whole has the cost, since costs of the scores would count twice in sums
        freed = tuple(score.model_copy(update={"usage": NO_USAGE}) for score in scores)
        return JointScores(scores=freed, notes=truncation_note(cut), usage=usage)
