"""Asks typed questions about one example, and turns the probabilities of their options into scores.

Agents ask one question at a time. Those that are asked about the same texts in one turn of the
event loop are sent in one request (`QuestionBatcher`), so that a method whose graph has a node for
each aspect still sends one request for each text.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from textassay.agents.aggregation import EMPTY, common_fields
from textassay.agents.ask import Ask, truncation_note
from textassay.agents.prompt_template import PromptPart, Task, join_messages, material_texts
from textassay.agents.reading.labels import is_whole
from textassay.runtime.calls.deciding import (
    DecidingModel,
    LogprobsOrSamples,
    decider,
    possible_ways,
)
from textassay.runtime.calls.sharing import SharedCalls
from textassay.runtime.calls.wording import QuestionWording
from textassay.runtime.images import Image
from textassay.runtime.messages import (
    NO_USAGE,
    Aspect,
    Example,
    How,
    Score,
    Usage,
)
from textassay.runtime.model import Model
from textassay.runtime.questions import (
    DecisionRequest,
    DecisionResponse,
    NamedText,
    Question,
    QuestionAnswer,
    Way,
)

RATING_PROMPT, LABEL_PROMPT, YES_NO_PROMPT = "typed_rating", "typed_label", "typed_yes_no"


class TypedAnswer(NamedTuple):
    """The answer to one question."""

    answer: QuestionAnswer
    way: Way
    """How it was obtained."""
    usage: Usage
    """Cost of the request, on one of its questions; zero on the others."""
    truncated_tokens: int


class _QuestionMaterial(NamedTuple):
    texts: tuple[NamedText, ...]
    images: tuple[Image, ...]
    truncatable: str
    draw: int
    joint: bool


class QuestionBatcher:
    """Sends questions about the same material that are asked at the same time in one request."""

    def __init__(self, model: Model) -> None:
        self._given = model
        self._callers: dict[_QuestionMaterial, Counter[Question]] = {}
        """How many callers wait for the answer to each question about a material."""
        self._shared: SharedCalls[tuple[dict[Question, QuestionAnswer], DecisionResponse]]
        self._shared = SharedCalls()

    @cached_property
    def _model(self) -> DecidingModel:
        # at the first question: methods are made before their session puts its cache around the
        # model, and results of another session of the connection, such as a dry run, do not count
        return decider(self._given)

    async def ask(
        self,
        question: Question,
        texts: tuple[NamedText, ...],
        *,
        images: tuple[Image, ...] = (),
        truncatable: str = "",
        draw: int = 0,
        joint: bool = False,
    ) -> TypedAnswer:
        """Return the answer to a question; arguments as the fields of `DecisionRequest`.

        Raises:
            ModelError: The model could not be asked.
        """
        material = _QuestionMaterial(texts, images, truncatable, draw, joint)
        callers = self._callers.setdefault(material, Counter())
        callers[question] += 1
        try:
            while True:
                joined = await self._shared.join(material, lambda: self._send(material))
                (answers, response), is_first = joined
                # a question that comes while a request is under way waits for the next one
                if question in answers:
                    usage = response.usage if is_first else NO_USAGE
                    cut = response.truncated_tokens
                    return TypedAnswer(answers[question], response.way, usage, cut)
        finally:
            callers[question] -= 1
            if not callers[question]:
                del callers[question]
            if not callers:
                self._callers.pop(material, None)

    async def ask_in_words(
        self, wording: QuestionWording, *, may_sample: bool = True
    ) -> TypedAnswer:
        """Return the answer of a model that writes to a question in words of its asker.

        Raises:
            CapabilityError: It sends no probabilities, and written answers may not take their
                place.
            ModelError: The model could not be asked.
        """
        response = await self._model.ask(wording, may_sample=may_sample)
        [answer] = response.answers
        return TypedAnswer(answer, response.way, response.usage, response.truncated_tokens)

    @property
    def reading(self) -> LogprobsOrSamples:
        """The choice between log-probabilities and samples, for a model that is asked in words."""
        model: DecidingModel = vars(self).get("_model") or decider(self._given)
        return model.reading

    async def _send(
        self, material: _QuestionMaterial
    ) -> tuple[dict[Question, QuestionAnswer], DecisionResponse]:
        await asyncio.sleep(0)  # until all questions of this turn of the loop are there
        questions = tuple(self._callers[material])
        response = await self._model.decide(
            DecisionRequest(questions=questions, **material._asdict())
        )
        return dict(zip(questions, response.answers, strict=True)), response


class _LatestTexts:
    """Returns the material of questions: the task in words, then the texts by their names in it.

    The latest is kept, as all questions about an example are asked one after the other.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._latest: tuple[Example | None, tuple[NamedText, ...]] = (None, ())

    def __call__(self, example: Example) -> tuple[NamedText, ...]:
        if self._latest[0] is not example:
            shown = {label: text for _, label, text in material_texts(self._task, example)}
            self._latest = (example, name_texts(self._task, shown))
        return self._latest[1]


def name_texts(task: Task, texts: Mapping[str, str]) -> tuple[NamedText, ...]:
    """Return the task in words, and texts by their names."""
    named = {"Task": task.intro, **texts}
    return tuple(NamedText(name=name, text=text) for name, text in named.items())


def levels_of(aspect: Aspect) -> tuple[str, ...]:
    """Return the levels of a rating, lowest first, evenly spaced on the aspect's scale.

    All whole ratings, if there are at most 10, which is OpenAI's and TypeSafe's limit; else 5.
    """
    low, high = aspect.scale
    steps = int(high - low)
    if not is_whole(aspect.scale) or steps >= 10:
        steps = 4
    return tuple(f"{low + (high - low) * step / steps:g}" for step in range(steps + 1))


@dataclass(frozen=True)
class QuestionScorer:
    """Scores one example on one aspect by a typed question.

    A rating is the mean of its levels, a label the likeliest one, or the mean of their numbers if
    they are ordered.
    """

    ask: Ask
    """Model, task and profile; the prompt asks for a rating."""
    method: str
    """Name for signatures."""
    label_prompt: str = LABEL_PROMPT
    """Prompt of the question about an aspect with labels."""
    variant: str = ""
    """Further facts that distinguish scores; goes into the prompt digest."""

    async def __call__(
        self,
        example: Example,
        aspect: Aspect,
        beside: tuple[NamedText, ...] = (),
        **shown: Any,
    ) -> Score:
        """Return the score; it has no value if the output is empty or the model gives no answer.

        Args:
            example: The example to judge.
            aspect: The aspect to judge it on.
            beside: Further texts of the material, such as scores of tools.
            shown: Further values for the question, such as `steps`; `None` is left out.
        """
        example = self.ask.prepare(example)
        about = common_fields(example, aspect, how="decision", signature=self.signature)
        if not example.output.strip():
            return Score.unscored(EMPTY.type, EMPTY.message, **about)
        texts = self._latest_texts(example)
        result = await self._batcher.ask(
            self.question(aspect, **{k: v for k, v in shown.items() if v is not None}),
            (*texts, *beside) if beside else texts,
            images=example.images,
            truncatable=self.ask.task.source_name if example.source else "",
        )
        return to_score(result, aspect, about)

    def question(self, aspect: Aspect, **shown: Any) -> Question:
        """Return the question about an aspect."""
        return self._question(aspect, tuple(shown.items()))

    @cached_property
    def _question(self) -> Callable[[Aspect, tuple[tuple[str, Any], ...]], Question]:
        return lru_cache(maxsize=1024)(self._make_question)

    def _make_question(self, aspect: Aspect, shown: tuple[tuple[str, Any], ...]) -> Question:
        values = {
            name: value.in_prompts if isinstance(value, PromptPart) else value
            for name, value in shown
        }
        if aspect.labels:
            template = self._label_ask.template
            text = join_messages(template.render(aspect=aspect, **values).messages)
            return Question.choice(text, aspect.labels)
        text = join_messages(self.ask.template.render(aspect=aspect, **values).messages)
        return Question.rating(text, levels_of(aspect))

    @cached_property
    def _latest_texts(self) -> _LatestTexts:
        return _LatestTexts(self.ask.task)

    @cached_property
    def _label_ask(self) -> Ask:
        return replace(self.ask, prompt=self.label_prompt)

    @cached_property
    def _batcher(self) -> QuestionBatcher:
        return QuestionBatcher(self.ask.model)

    @property
    def how_now(self) -> How:
        """How values are obtained, as far as it is known."""
        return self.probabilities.how if self.probabilities else "decision"

    @property
    def probabilities(self) -> LogprobsOrSamples | None:
        """The choice between log-probabilities and samples; `None` for a decision model."""
        return None if self.ask.model.capabilities.decide else self._batcher.reading

    @cached_property
    def prompt_digest(self) -> str:
        """6 hex digits for the words that are sent apart from the example's own."""
        return self.ask.digest(self.ask.task.digest, self.variant, also=(self.label_prompt,))

    @cached_property
    def signature(self) -> str:
        """The signature of the scores, with `how:auto` until an answer shows how it is obtained."""
        return self.signature_as("auto")

    @property
    def signatures(self) -> tuple[str, ...]:
        """The signatures that scores can carry."""
        return tuple(way.sign(self.signature) for way in possible_ways(self.ask.model))

    def signature_as(self, how: str) -> str:
        """Return the signature of scores that combine this scorer's, such as `fused`."""
        ways = possible_ways(self.ask.model)
        joint = how != "auto" and all(way.joint for way in ways)
        return self.ask.signature(self.method, self.prompt_digest, how=how, joint=joint)


def unanswered(answer: QuestionAnswer, **about: Any) -> Score:
    """Return the score of a question without an answer."""
    return Score(outcome=answer.outcome, error=answer.problem, **about)


def to_score(result: TypedAnswer, aspect: Aspect, about: dict[str, Any]) -> Score:
    """Return the score of an answer."""
    answer, way = result.answer, result.way
    notes = (*answer.notes, *truncation_note(result.truncated_tokens))
    about = {
        **about,
        "how": way.how,
        "signature": way.sign(about["signature"]),
        "usage": result.usage,
        "samples": answer.usable or None,
        "mass": answer.mass,
    }
    if answer.problem:
        return unanswered(answer, evidence=notes, **about)
    shares = answer.shares
    pieces = ({"text": name, "probability": p} for name, p in answer.probabilities.items())
    about["evidence"] = (*pieces, *notes)
    if aspect.is_nominal:  # their numbers have no mean
        return Score(value=float(list(shares).index(answer.likeliest)), **about)
    if aspect.labels:
        mean = math.fsum(number * p for number, p in enumerate(shares.values()))
        return Score(value=mean, **about)
    low, high = aspect.scale
    value = min(max(answer.mean_on(aspect.scale), low), high)
    spread = answer.spread * (high - low) / (len(shares) - 1)
    return Score(value=value, spread=spread, **about)
