"""Pairwise comparison: two texts are compared in both orders."""

from __future__ import annotations

import math
from typing import Any, Literal

from textassay.agents.aggregation import UNIT, common_fields
from textassay.agents.ask import Ask, check_not_filtered, remind_of, score_answer
from textassay.agents.prompt_template import Prompt, fence_texts, join_messages, references_shown
from textassay.agents.reading.choices import parse_choice
from textassay.agents.reading.outcomes import NoRating
from textassay.agents.typed_questions import QuestionBatcher, name_texts, unanswered_score
from textassay.methods.judging import PER_ASPECT, PromptMethod
from textassay.methods.method import SamplingOptions, model_for
from textassay.runtime.base import NO_USAGE
from textassay.runtime.data.dataset import DataInfo
from textassay.runtime.data.material import OTHER_OUTPUT
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph import Node, constant, each
from textassay.runtime.messages import Aspect, Example, Score
from textassay.runtime.model import Sample
from textassay.runtime.questions import Question

TextOrder = Literal["forth", "back"]
"""`forth` shows `output` first, `back` shows `output_b` first."""
LabeledText = tuple[str, str, str]
"""Kind, label and text of a part of the material."""


class PairwiseOptions(SamplingOptions):
    """Options of the pairwise comparison."""

    orders: Literal["both", "forth", "back"] = "both"
    """Orders of the two texts: both, `output` first, or `output_b` first."""
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
    of the probability of `output`, to which half of the probability of a tie is added.

    Deviations: the words of the prompt are ours; one aspect is judged at a time.
    """

    name = "pairwise"
    prompt = "pairwise"
    compares_pairs = True
    Options = PairwiseOptions
    options: PairwiseOptions

    def prepare(self) -> None:
        options = self.options
        self._batcher = QuestionBatcher(model_for(self.models, self.judge))
        if self.decides:
            self._ask = self.ask("typed_comparison")
            sampling: dict[str, Any] = {"how": "auto"}
        else:
            # a reason in one sentence, and a letter
            room = options.max_tokens or 512
            self._ask = self.ask(temperature=options.temperature or 0.0, max_tokens=room)
            sampling = self._ask.sampling
        words = (options.prompt_layout, options.ties, self._task.digest)
        self.sign(self._ask, words, orders=options.orders, ties=options.ties, **sampling)

    def describe_task(self) -> dict[str, Any]:
        """Return task and aspects, with `higher_is_better`, since a high score prefers `output`."""
        described = super().describe_task()
        rising = [aspect | {"higher_is_better": True} for aspect in described["aspects"]]
        return described | {"aspects": rising}

    def nodes(self) -> list[Node]:
        """Compare in each order at the same time, and make one score of both."""
        # a node per order, so that the graph asks both concurrently
        comparers = [
            Node(order, self._compare, **PER_ASPECT, order=constant(order))
            for order in self._orders
        ]
        wires = dict(zip(("first", "second"), map(each, self._orders), strict=False))
        return [*comparers, Node("scores", self._settle, **PER_ASPECT, **wires)]

    async def _compare(self, example: Example, aspect: Aspect, order: TextOrder) -> Score:
        """Return 1 if `output` is better, 0 if `output_b` is, 0.5 if neither, or a probability.

        Half of the probability of a tie counts for `output`.
        """
        about = common_fields(example, aspect, how="text", signature=self.signature, scale=UNIT)
        if not example.output.strip() or not other_output(example).strip():
            return Score.unscored("EmptyOutput", "one of the two texts is empty", **about)
        texts = _compared_texts(self._ask, example, order)
        ask = self._ask_typed if self.decides else self._ask_in_words
        score = await ask(example, aspect, texts, about)
        if score.value is None or order == "forth":
            return score
        # the judge's A and B are positions: in the order `back`, A is `output_b`
        return score.model_copy(update={"value": 1 - score.value})

    async def _ask_in_words(
        self, example: Example, aspect: Aspect, texts: list[LabeledText], about: dict[str, Any]
    ) -> Score:
        messages = self._ask.template.render_messages(
            {kind: text for kind, _, text in texts},
            material=fence_texts(texts),
            aspect=aspect,
            ties=self.options.ties,
        )
        answer = await self._ask.until_usable(
            Prompt(messages, example.source, example.images),
            self._read,
            remind_of("letters", ("A", "B", "C") if self.options.ties else ("A", "B")),
            retries=self.options.parse_retries,
            dry_run_answer=(
                "Both say what happened, and one of them says it in an order that is easier to"
                " follow.\nAnswer: A"
            ),
        )
        return score_answer(answer, **about)

    def _read(self, sample: Sample) -> float | NoRating:
        rating = parse_choice(sample.text, ties=self.options.ties)
        if isinstance(rating, NoRating):
            check_not_filtered(sample, "the answer before its choice")
        return rating

    async def _ask_typed(
        self, example: Example, aspect: Aspect, texts: list[LabeledText], about: dict[str, Any]
    ) -> Score:
        name = self._ask.task.output_name
        options = [f"{name} A", f"{name} B", *(["Neither is better"] if self.options.ties else [])]
        text = join_messages(self._ask.template.render(aspect=aspect).messages)
        result = await self._batcher.ask(
            Question.choice(text, options),
            name_texts(self._ask.task, {label: text for _, label, text in texts}),
            images=example.images,
        )
        answer, way = result.answer, result.way
        about |= {"how": way.how, "signature": way.sign(self.signature), "usage": result.usage}
        about["samples"] = way.samples or None
        if answer.problem:
            return unanswered_score(answer, **about)
        first, second, *tie = answer.probabilities.values()
        share = (first + sum(tie) / 2) / (first + second + sum(tie))
        return Score(value=share, evidence=answer.notes, **about)

    async def _settle(
        self, example: Example, aspect: Aspect, first: Score, second: Score | None = None
    ) -> Score:
        """Return one score for both orders.

        A choice that flips with the order counts as a tie: 0.5, with a note in the evidence.
        """
        choices = [first, second] if second else [first]
        explanations = (choice.explanation for choice in choices if choice.explanation)
        update: dict[str, Any] = {
            "usage": sum((choice.usage for choice in choices), NO_USAGE),
            "explanation": "\n\n".join(explanations) or None,
        }
        notes = tuple(note for choice in choices for note in choice.evidence)
        values = [choice.value for choice in choices if choice.value is not None]
        if len(values) < len(choices):
            unusable = next(choice for choice in choices if choice.error)
            return unusable.model_copy(update=update | {"evidence": notes})
        flipped = len({_side(value) for value in values}) > 1
        evidence = [
            {"text": _in_words(order, value), "order": order, "choice": value}
            for order, value in zip(self._orders, values, strict=True)
        ]
        if flipped:
            evidence.append({"text": "the choice flipped with the order", "flipped": True})
        # Judges tend to prefer the first text, or the second (position bias); a choice that flips
        # with the order says nothing about the texts. The mean of probabilities over both orders
        # is free of this bias.
        mean = math.fsum(values) / len(values)
        value = mean if self.decides else 0.5 if flipped else values[0]
        return first.model_copy(update=update | {"value": value, "evidence": (*evidence, *notes)})

    @property
    def _orders(self) -> tuple[TextOrder, ...]:
        orders = self.options.orders
        return ("forth", "back") if orders == "both" else (orders,)

    def check_data(self, info: DataInfo) -> None:
        """Refuse data without a second text.

        Raises:
            ConfigurationError: An example has no `output_b`.
        """
        super().check_data(info)
        # before the run, as an error at this example would come after paid requests
        lacking = info.count - info.compared
        if lacking:
            raise ConfigurationError(
                f"{self.name} compares two texts, and {lacking} of {info.count} examples of "
                f"{info.name} have no {OTHER_OUTPUT!r}; add it, map a column to it "
                f"(fields={{NAME: {OTHER_OUTPUT!r}}}), or pair the systems of each group with "
                "pair=system"
            )


def _compared_texts(ask: Ask, example: Example, order: TextOrder) -> list[LabeledText]:
    """Return the texts of a comparison's prompt, the two compared ones last."""
    prepare = ask.profile.prepare_text
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


def other_output(example: Example) -> str:
    """Return the second text of a comparison, or an empty string."""
    return str(example.meta.get(OTHER_OUTPUT) or "")


def _in_words(order: TextOrder, value: float) -> str:
    first = "output" if order == "forth" else OTHER_OUTPUT
    better = ("output", "neither", OTHER_OUTPUT)[1 - _side(value)]
    return f"{first} shown first: {better} is better"


def _side(value: float) -> int:
    """Return 1 if `output` is preferred, -1 if `output_b` is, 0 if neither."""
    return (value > 0.5) - (value < 0.5)
