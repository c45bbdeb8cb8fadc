"""Asks typed questions about one example, and turns the probabilities of their options into scores.

Agents ask one question at a time. Questions about the same texts in one turn of the event loop are
sent in one request (`QuestionBatcher`), so that a method whose graph has a node for each aspect
still sends one request for each text.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from operator import mul
from typing import Any, Literal, NamedTuple

from textassay.agents.aggregation import EMPTY, aspect_fields, leave_unscored
from textassay.agents.ask import Ask, truncation_note
from textassay.agents.prompt_template import Task, join_messages, material_texts
from textassay.agents.reading.labels import is_whole
from textassay.runtime.base import NO_USAGE, Usage
from textassay.runtime.calls.deciding import (
    DecidingModel,
    answers_in_words,
    decider,
    possible_ways,
)
from textassay.runtime.calls.logprobs_or_samples import LogprobsOrSamples
from textassay.runtime.calls.sharing import SharedCalls
from textassay.runtime.calls.wording import QuestionWording
from textassay.runtime.images import Image
from textassay.runtime.messages import Aspect, Example, How, Score
from textassay.runtime.model import Model
from textassay.runtime.questions import (
    DecisionRequest,
    DecisionResponse,
    NamedText,
    Question,
    QuestionAnswer,
    Way,
)


class TypedAnswer(NamedTuple):
    """The answer to one question."""

    answer: QuestionAnswer
    way: Way
    """How it was obtained."""
    usage: Usage
    """Cost of the requests, on the first of the questions asked together; zero on the others."""
    truncated_tokens: int


class _QuestionMaterial(NamedTuple):
    texts: tuple[NamedText, ...]
    images: tuple[Image, ...]
    truncatable: str
    example: str
    """ID of the example whose questions are sent together; empty if all examples' questions are."""


class QuestionBatcher:
    """Sends simultaneous questions about the same material in one request."""

    def __init__(self, model: Model) -> None:
        self._given = model
        self._waiting: dict[_QuestionMaterial, list[dict[Question, None]]] = {}
        """The questions about a material, by waiting caller."""
        self._shared: SharedCalls[tuple[dict[Question, QuestionAnswer], DecisionResponse]]
        self._shared = SharedCalls()

    @cached_property
    def _model(self) -> DecidingModel:
        # at the first question: methods are made before their session puts its cache around the
        # model, and results of another session of the connection, such as a dry run, do not count
        return decider(self._given)

    async def ask(
        self, question: Question, texts: tuple[NamedText, ...], **fields: Any
    ) -> TypedAnswer:
        """Return the answer to one question; see `ask_all`."""
        [answer] = await self.ask_all([question], texts, **fields)
        return answer

    async def ask_all(
        self,
        questions: Sequence[Question],
        texts: tuple[NamedText, ...],
        *,
        images: tuple[Image, ...] = (),
        truncatable: str = "",
        example: str = "",
    ) -> list[TypedAnswer]:
        """Return the answer to each question; arguments as the fields of `DecisionRequest`.

        Questions of several examples about the same texts are sent together only if the model
        promises that they do not influence each other: else a score would depend on the examples
        that are judged at the same time.

        Args:
            questions: The questions, which are sent together.
            texts: The material.
            images: Images of the material.
            truncatable: Name of the text that may be cut.
            example: ID of the example that they are asked for, if the material may be shared with
                other examples.

        Raises:
            ModelError: The model could not be asked.
        """
        if self._model.capabilities.independent_questions:
            example = ""
        material = _QuestionMaterial(texts, images, truncatable, example)
        left = dict.fromkeys(questions)
        found, paid = dict[Question, tuple[QuestionAnswer, DecisionResponse]](), NO_USAGE
        waiting = self._waiting.setdefault(material, [])
        waiting.append(left)
        try:
            while left:
                joined = await self._shared.join(material, lambda: self._send(material))
                (answers, response), is_first = joined
                if is_first:
                    paid += response.usage
                # questions during a request wait for the next request
                for question in [question for question in left if question in answers]:
                    del left[question]
                    found[question] = answers[question], response
        finally:
            waiting[:] = (other for other in waiting if other is not left)
            if not waiting:
                self._waiting.pop(material, None)
        given = [found[question] for question in questions]
        return [
            TypedAnswer(answer, one.way, NO_USAGE if at else paid, one.truncated_tokens)
            for at, (answer, one) in enumerate(given)
        ]

    async def ask_in_words(
        self, wording: QuestionWording, *, may_sample: bool = True
    ) -> TypedAnswer:
        """Return a chat model's answer to a question, in the words of the agent's prompt.

        Raises:
            CapabilityError: It sends no probabilities, and written answers are not allowed.
            ModelError: The model could not be asked.
        """
        response = await self._model.ask(wording, may_sample=may_sample)
        [answer] = response.answers
        return TypedAnswer(answer, response.way, response.usage, response.truncated_tokens)

    @property
    def reading(self) -> LogprobsOrSamples | None:
        """The choice between log-probabilities and samples; `None` for a decision model."""
        model: DecidingModel = vars(self).get("_model") or decider(self._given)
        return model.reading if answers_in_words(self._given) else None

    async def _send(
        self, material: _QuestionMaterial
    ) -> tuple[dict[Question, QuestionAnswer], DecisionResponse]:
        await asyncio.sleep(0)  # until all questions of this turn of the loop are there
        questions = dict[Question, None]()
        for left in self._waiting[material]:
            questions |= left
        texts, images, truncatable, _ = material
        request = DecisionRequest(
            texts=texts, questions=tuple(questions), images=images, truncatable=truncatable
        )
        response = await self._model.decide(request)
        return dict(zip(questions, response.answers, strict=True)), response


def name_texts(task: Task, texts: Mapping[str, str]) -> tuple[NamedText, ...]:
    """Return the description of the task, and texts by their names."""
    named = {"Task": task.intro, **texts}
    return tuple(NamedText(name=name, text=text) for name, text in named.items())


def joint_aspects(ask: Ask) -> str | Literal[False]:
    """Return the fact `joint` of signatures: which aspects' answers may depend on each other.

    Their number and a digest of their names; `False` if the model answers each question alone.
    """
    if not any(way.joint for way in possible_ways(ask.model)):
        return False
    names = [aspect.name for aspect in ask.task.aspects]
    digest = sha256("\n".join(names).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{len(names)}-{digest[:6]}"


def levels_of(aspect: Aspect) -> tuple[str, ...]:
    """Return the levels of a rating, lowest first, evenly spaced on the aspect's scale.

    They are all whole ratings, if there are at most 10 (OpenAI's and TypeSafe's limit), and 5
    otherwise.
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
    label_prompt: str = "typed_label"
    """Prompt of the question about an aspect with labels."""
    variant: str = ""
    """Further facts that distinguish scores; goes into the prompt digest."""

    async def __call__(
        self, example: Example, aspect: Aspect, beside: tuple[NamedText, ...] = (), **shown: Any
    ) -> Score:
        """Return the score; it has no value if the output is empty or the model gives no answer.

        Args:
            example: The example to judge.
            aspect: The aspect to judge it on.
            beside: Further texts of the material, such as scores of tools.
            shown: Further values for the question, such as `steps`; `None` is left out.
        """
        values = {name: (value,) for name, value in shown.items()}
        [score] = await self.score_all(example, (aspect,), beside, **values)
        return score

    async def score_all(
        self,
        example: Example,
        aspects: tuple[Aspect, ...],
        beside: tuple[NamedText, ...] = (),
        **shown: tuple[Any, ...],
    ) -> list[Score]:
        """Return a score for each aspect, in order, by one request.

        Args:
            example: The example to judge.
            aspects: The aspects to judge it on.
            beside: Further texts of the material, such as scores of tools.
            shown: Further values for the questions, such as `steps`, each for every aspect; `None`
                is left out.
        """
        example, signature = self.ask.prepare(example), self.signature
        if not example.output.strip():
            shared: dict[str, Any] = {"how": "decision", "signature": signature}
            return leave_unscored(example, aspects, EMPTY.model_dump(), **shared)
        material = {label: text for _, label, text in material_texts(self.ask.task, example)}
        texts = name_texts(self.ask.task, material)
        results = await self._batcher.ask_all(
            self._questions(aspects, tuple(shown.items())),
            (*texts, *beside),
            images=example.images,
            truncatable=self.ask.task.source_name if example.source else "",
        )
        pairs = zip(results, aspects, strict=True)
        return [self._to_score(result, example, aspect) for result, aspect in pairs]

    def question(self, aspect: Aspect, **shown: Any) -> Question:
        """Return the question about an aspect."""
        values = {name: value for name, value in shown.items() if value is not None}
        ask = self._label_ask if aspect.labels else self.ask
        text = join_messages(ask.template.render(aspect=aspect, **values).messages)
        if aspect.labels:
            return Question.choice(text, aspect.labels)
        return Question.rating(text, levels_of(aspect))

    @cached_property
    def _questions(self) -> Callable[..., tuple[Question, ...]]:
        def questions(
            aspects: tuple[Aspect, ...], shown: tuple[tuple[str, tuple[Any, ...]], ...]
        ) -> tuple[Question, ...]:
            each = ({name: all[at] for name, all in shown} for at in range(len(aspects)))
            pairs = zip(aspects, each, strict=True)
            return tuple(self.question(aspect, **values) for aspect, values in pairs)

        return lru_cache(maxsize=1024)(questions)

    def _to_score(self, result: TypedAnswer, example: Example, aspect: Aspect) -> Score:
        answer, way, usage, truncated_tokens = result
        notes = (*answer.notes, *truncation_note(truncated_tokens))
        about: dict[str, Any] = {"id": example.id, "usage": usage, "mass": answer.mass}
        about |= {"samples": answer.usable if way.samples else None, "evidence": notes}
        how, signature = way.how, way.sign(self.signature)
        if answer.problem:
            same = aspect_fields(aspect, how=how, signature=signature)
            return unanswered_score(answer, **same, **about)
        if how != "text":  # one answer has neither probabilities nor a spread
            shares = [{"text": name, "probability": p} for name, p in answer.probabilities.items()]
            about["evidence"] = (*shares, *notes)
        if not aspect.labels:
            low, high = aspect.scale
            about["value"] = min(max(answer.mean_on(aspect.scale), low), high)
            if how != "text":
                about["spread"] = answer.spread * (high - low) / (len(answer.probabilities) - 1)
        elif aspect.is_nominal:  # their numbers have no mean
            about["value"] = float(list(answer.probabilities).index(answer.likeliest))
        else:
            about["value"] = math.fsum(map(mul, range(len(aspect.labels)), answer.shares.values()))
        return self._sample_score(aspect, how, signature).model_copy(update=about)

    @cached_property
    def _sample_score(self) -> Callable[[Aspect, How, str], Score]:
        """Returns a valid score on an aspect, as a template for copies.

        Copies are not validated here, since the engine validates every score.
        """

        def sample(aspect: Aspect, how: How, signature: str) -> Score:
            fields = aspect_fields(aspect, how=how, signature=signature)
            return Score(id="-", value=aspect.scale[0], **fields)

        return lru_cache(maxsize=1024)(sample)

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
        return self._batcher.reading

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
        return tuple(way.sign(self.signature) for way in possible_ways(self.ask.model))

    def signature_as(self, how: str) -> str:
        """Return the signature of scores that combine this scorer's, such as `fused`."""
        ways = () if how == "auto" else possible_ways(self.ask.model)
        words = next((way.words for way in ways if way.words), False)
        facts = {"how": how, "joint": joint_aspects(self.ask), "words": words}
        return self.ask.signature(self.method, self.prompt_digest, **facts)


def unanswered_score(answer: QuestionAnswer, **about: Any) -> Score:
    """Return the score of a question without an answer."""
    return Score(outcome=answer.outcome, error=answer.problem, **about)
