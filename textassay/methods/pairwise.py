"""Pairwise comparison: which of two texts is better, asked in both orders."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from textassay.agents.aggregation import common_fields
from textassay.agents.ask import Ask, Parsed, refuse_filtered
from textassay.agents.prompt_template import Prompt, fence_texts, join_messages, references_shown
from textassay.agents.reading.choices import parse_choice
from textassay.agents.reading.outcomes import MAX_QUOTED, NoRating
from textassay.agents.typed_questions import QuestionBatcher, name_texts
from textassay.methods.judging import PER_ASPECT, PromptMethod
from textassay.methods.method import SamplingOptions
from textassay.runtime.data.dataset import DataInfo
from textassay.runtime.data.material import OTHER_OUTPUT
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph import Node, each
from textassay.runtime.messages import (
    NO_USAGE,
    Aspect,
    Example,
    How,
    Message,
    Outcome,
    Score,
    Usage,
)
from textassay.runtime.model import Json, Sample, thought_note
from textassay.runtime.questions import Question, Way

ROOM = 512
"""Longest answer in tokens: a reason in one sentence, and a letter."""
COMPARE_PROMPT = "typed_comparison"


class PairwiseOptions(SamplingOptions):
    """Options of the pairwise comparison."""

    orders: Literal["both", "forth", "back"] = "both"
    """Orders in which the two texts are shown: both, `output` first, or `output_b` first."""
    ties: bool = False
    """Whether the judge may say that neither is better."""


class Pairwise(PromptMethod):
    """Pairwise comparison in both orders, after Zheng et al. 2023 (arXiv 2306.05685, section 3.4).

    1. The judge sees the task, one aspect with its definition, the source and two texts, A and B.
    2. It gives a reason in one sentence and a letter, at temperature 0.
    3. It is asked again with the two texts in the other order.
    4. The value is 1 if `output` is chosen both times, 0 if `output_b` is, and 0.5 if the choice
       flips with the order or neither is better; flips are counted in the evidence.

    A decision model sends a probability for each text, and the value is the mean over both orders
    of that of `output` (half of a tie's is its).

    Deviations: the words of the prompt are ours; one aspect is judged at a time.
    """

    name = "pairwise"
    prompt = "pairwise"
    judge = "scorer"
    Options = PairwiseOptions
    options: PairwiseOptions

    def nodes(self) -> list[Node]:
        """Compare in each order, side by side, and settle what they say."""
        orders: tuple[OptionOrder, ...] = (
            ("forth", "back") if self.options.orders == "both" else (self.options.orders,)
        )
        # a node per order: the graph asks both at the same time, and each is cached for itself
        ties, retries = self.options.ties, self.options.parse_retries
        comparers = [
            Node(
                order,
                TypedComparer(self._ask, order, ties)
                if self.decides
                else Comparer(self._ask, order, ties, retries),
                **PER_ASPECT,
            )
            for order in orders
        ]
        wires = {
            place: each(order) for place, order in zip(("first", "second"), orders, strict=False)
        }
        return [*comparers, Node("scores", PreferenceScorer(self.signature), **PER_ASPECT, **wires)]

    def check_data(self, info: DataInfo) -> None:
        """Refuse data without a second text.

        Raises:
            ConfigurationError: An example has no `output_b`.
        """
        super().check_data(info)
        # before the run: a missing text would otherwise cost the calls of all other examples first
        lacking = info.count - info.compared
        if lacking:
            raise ConfigurationError(
                f"{self.name} compares two texts, and {lacking} of {info.count} examples of "
                f"{info.name} have no {OTHER_OUTPUT!r}; add it, or pair the systems of each group "
                "with pair=system"
            )

    @property
    def how(self) -> How:
        """`text`: the judge writes its choice; `decision` if it is a decision model."""
        return "decision" if self.decides else "text"

    @cached_property
    def signature(self) -> str:  # type: ignore[override]  # mypy takes it for read-only
        """Method, model, words, orders, sampling and version."""
        facts = {"orders": self.options.orders, "ties": self.options.ties}
        ask = self._ask
        sampling = {"how": "auto"} if self.decides else ask.sampling
        return ask.signature(self.name, self.prompt_digest, **facts, **sampling)

    @cached_property
    def prompt_digest(self) -> str:  # type: ignore[override]  # mypy takes it for read-only
        """6 hex digits for the words that are sent."""
        return self._ask.digest(self.options.prompt_layout, self.options.ties, self._task.digest)

    @cached_property
    def _ask(self) -> Ask:
        options = self.options
        if self.decides:
            return self.ask(COMPARE_PROMPT)
        return self.ask(
            temperature=options.temperature or 0.0, max_tokens=options.max_tokens or ROOM
        )


OptionOrder = Literal["forth", "back"]
"""`forth` shows `output` first, `back` shows `output_b` first."""
_DRY = (
    "Both say what happened, and one of them says it in an order that is easier to"
    " follow.\nAnswer: A"
)


class Preference(Message):
    """What a judge chose in one order."""

    order: OptionOrder
    """Which text came first."""
    value: float | None = None
    """How much better `output` is than `output_b`: 1, 0.5 or 0, or the probability that it is;
    `None` if the answer is unusable."""
    way: Way | None = None
    """How a typed question was answered; `None` for a written choice."""
    reply: str = ""
    """The judge's words."""
    problem: str | None = None
    """Why there is no value; `Declined` if the judge refused."""
    message: str = ""
    """The same in a sentence."""
    outcome: Outcome | None = None
    """Outcome of a score without a value; `None` for what follows from `problem`."""
    notes: tuple[Json, ...] = ()
    """What the judge thought, as evidence."""
    usage: Usage = NO_USAGE
    """Cost of all requests."""


@dataclass(frozen=True)
class Comparer:
    """Asks which of the two texts of an example is better."""

    ask: Ask
    """Model and prompt; the prompt is given `aspect`, `ties` and `material`."""
    order: OptionOrder = "forth"
    """Which text comes first."""
    ties: bool = False
    """Whether the judge may say that neither is better."""
    parse_retries: int = 1
    """How often an unusable answer is asked for again."""

    async def __call__(self, example: Example, aspect: Aspect) -> Preference:
        """Return the choice."""
        if (missing := _missing_text(example, self.order)) is not None:
            return missing
        answers = await self.ask.until_usable(
            self._prompt(example, aspect),
            self._read,
            _problem,
            retries=self.parse_retries,
            form="letters",
            labels=("A", "B", "C") if self.ties else ("A", "B"),
            dry_run_answer=_DRY,
        )
        last = answers[-1]
        about: dict[str, Any] = {
            "order": self.order,
            "reply": last.samples[0].text.strip(),
            "notes": thought_note(last.samples),
            "usage": sum((answer.usage for answer in answers), NO_USAGE),
        }
        rating = _rating_of(last)
        if isinstance(rating, NoRating):
            return Preference(problem=rating.reason, message=rating.message, **about)
        # A and B are places, not texts: shown back to front, A is `output_b`.
        return Preference(value=rating if self.order == "forth" else 1 - rating, **about)

    def _prompt(self, example: Example, aspect: Aspect) -> Prompt:
        texts = _compared_texts(self.ask, example, self.order)
        messages = self.ask.template.render_messages(
            {kind: text for kind, _, text in texts},
            material=fence_texts(texts),
            aspect=aspect,
            ties=self.ties,
        )
        return Prompt(messages, example.source, example.images)

    def _read(self, sample: Sample) -> float | NoRating:
        rating = parse_choice(sample.text, ties=self.ties)
        if isinstance(rating, NoRating):
            refuse_filtered(sample, "the answer before its choice")
        return rating


@dataclass(frozen=True)
class TypedComparer:
    """Asks which of the two texts of an example is better, in one order, by a typed question."""

    ask: Ask
    """Model, task and the prompt that words the question."""
    order: OptionOrder = "forth"
    """Which text comes first."""
    ties: bool = False
    """Whether neither may be better."""

    async def __call__(self, example: Example, aspect: Aspect) -> Preference:
        """Return the probability that `output` is better; half of a tie's is its."""
        if (missing := _missing_text(example, self.order)) is not None:
            return missing
        texts = _compared_texts(self.ask, example, self.order)
        name = self.ask.task.output_name
        options = [f"{name} A", f"{name} B", *(["Neither is better"] if self.ties else [])]
        text = join_messages(self.ask.template.render(aspect=aspect).messages)
        result = await self._batcher.ask(
            Question.choice(text, options),
            name_texts(self.ask.task, {label: text for _, label, text in texts}),
            images=example.images,
        )
        about: dict[str, Any] = {"order": self.order, "way": result.way, "usage": result.usage}
        answer = result.answer
        if answer.problem is not None:
            problem = answer.problem
            return Preference(
                problem=problem.type, message=problem.message, outcome=answer.outcome, **about
            )
        first, second, *tie = answer.probabilities.values()
        share = (first + sum(tie) / 2) / (first + second + sum(tie))
        # A and B are places, not texts: shown back to front, A is `output_b`.
        value = share if self.order == "forth" else 1 - share
        return Preference(value=value, notes=answer.notes, **about)

    @cached_property
    def _batcher(self) -> QuestionBatcher:
        return QuestionBatcher(self.ask.model)


def _missing_text(example: Example, order: OptionOrder) -> Preference | None:
    """Return a choice without a value if one of the two texts is empty."""
    if example.output.strip() and other_output(example).strip():
        return None
    return Preference(order=order, problem="EmptyOutput", message="one of the two texts is empty")


def _compared_texts(ask: Ask, example: Example, order: OptionOrder) -> list[tuple[str, str, str]]:
    """Return kind, label and text of what a comparison shows, the two texts last."""
    prepare = ask.template.prepare_text
    pair = [prepare(example.output), prepare(other_output(example))]
    if order == "back":
        pair.reverse()
    task, name = ask.task, ask.task.output_name
    texts = [
        ("source", task.source_name, prepare(example.source or "")),
        ("context", task.context_name, prepare(example.context or "")),
        *references_shown(task, example),
    ]
    texts = [part for part in texts if part[2].strip()]
    return [*texts, ("output-a", f"{name} A", pair[0]), ("output-b", f"{name} B", pair[1])]


@dataclass(frozen=True)
class PreferenceScorer:
    """Makes a score of the choices of one order or of both.

    A choice that flips with the order is no preference: its value is 0.5, and the evidence says so.
    """

    signature: str
    """What makes scores comparable."""

    async def __call__(
        self, example: Example, aspect: Aspect, first: Preference, second: Preference | None = None
    ) -> Score:
        """Return the score: 1 if `output` is better, 0 if `output_b` is, 0.5 if neither."""
        choices = [first] if second is None else [first, second]
        about: dict[str, Any] = {
            **common_fields(example, aspect, how="text", signature=self.signature),
            "scale": (0.0, 1.0),
            "usage": sum((one.usage for one in choices), NO_USAGE),
            "explanation": "\n\n".join(one.reply for one in choices if one.reply) or None,
        }
        if (way := first.way) is not None:
            about |= {"how": way.how, "signature": way.sign(self.signature)}
            about["samples"] = way.samples or None
        notes = tuple(note for one in choices for note in one.notes)
        for one in choices:
            if one.problem is not None:
                reply = f"; the judge said: {one.reply[:MAX_QUOTED]!r}" if one.reply else ""
                return Score.unscored(
                    one.problem, one.message + reply, outcome=one.outcome, evidence=notes, **about
                )
        values = [one.value for one in choices if one.value is not None]
        flipped = len({_side(value) for value in values}) > 1
        evidence = [
            {"text": _in_words(one), "order": one.order, "choice": one.value} for one in choices
        ]
        if flipped:
            evidence.append({"text": "the choice flipped with the order", "flipped": True})
        # Judges prefer the first text, or the second, whatever it says (position bias); a
        # choice that depends on it says nothing about the texts.
        # Probabilities show how much, and their mean over both orders is free of it.
        mean = math.fsum(values) / len(values)
        value = mean if way is not None else 0.5 if flipped else values[0]
        return Score(value=value, evidence=(*evidence, *notes), **about)


def other_output(example: Example) -> str:
    """Return the second text of a comparison, or an empty string."""
    return str(example.meta.get(OTHER_OUTPUT) or "")


def _rating_of(answer: Parsed[float | NoRating]) -> float | NoRating:
    if answer.cut and not isinstance(answer.read[0], NoRating):
        return NoRating("NoScoreFound", "the answer was cut before its end; raise max_tokens")
    return answer.read[0]


def _problem(answer: Parsed[float | NoRating]) -> str | None:
    rating = _rating_of(answer)
    return rating.reason if isinstance(rating, NoRating) else None


def _in_words(choice: Preference) -> str:
    first = "output" if choice.order == "forth" else OTHER_OUTPUT
    better = ("output", "neither", OTHER_OUTPUT)[1 - _side(choice.value or 0.0)]
    return f"{first} shown first: {better} is better"


def _side(value: float) -> int:
    """Return 1 if `output` is preferred, -1 if `output_b` is, 0 if neither."""
    return (value > 0.5) - (value < 0.5)
