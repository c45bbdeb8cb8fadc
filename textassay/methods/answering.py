"""Bases of small methods that ask one question about each aspect and read no rating.

`YesNoMethod` gives P(yes) to a question, `AnswerMethod` a value that it reads in a written answer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from textassay.agents.aggregation import EMPTY, UNIT, common_fields
from textassay.agents.ask import check_not_filtered, remind_of, score_answer
from textassay.agents.prompt_template import as_noun
from textassay.agents.questions import Answerer, YesNoScorer, fill_placeholders
from textassay.agents.reading.outcomes import DECLINED, NoRating
from textassay.methods.judging import PER_ASPECT, PromptMethod
from textassay.methods.method import PromptOptions, SamplingOptions
from textassay.runtime.declining import declines
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph import Node
from textassay.runtime.messages import Aspect, Example, Score
from textassay.runtime.model import Sample


class YesNoMethod(PromptMethod):
    """A method whose score on an aspect is P(yes) to one question about the text.

    The question is the method's, or the aspect's own; a subclass needs only a `name`.
    Log-probabilities are read if the model sends usable ones, otherwise the share of yes among
    written answers.
    """

    prompt = "decomp_eval"
    scale = UNIT
    asks_yes_or_no = True
    question: ClassVar[str] = ""
    """The question, in which `{aspect}`, `{output}` and `{source}` are replaced by their names; by
    default the question of the aspect. Without `{aspect}` it is asked about one aspect only."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        # yes to a question of the method's own says nothing about an aspect's labels
        cls.asks_yes_or_no = not cls.question

    def prepare(self) -> None:
        aspects = [aspect.name for aspect in self._task.aspects]
        if self.question and "{aspect}" not in self.question and len(aspects) > 1:
            raise ConfigurationError(
                f"the question of {self.name} is the same for {', '.join(aspects)}, so that their"
                " scores would be equal: name {aspect} in it, or choose one with aspects="
            )
        self.answerer = Answerer(self.ask_yes_or_no())

    @property
    def variant(self) -> object:
        return self.question

    def nodes(self) -> Sequence[Node]:
        return [Node("scores", self._score, **PER_ASPECT)]

    async def _score(self, example: Example, aspect: Aspect) -> Score:
        names = {"output": self._task.output_name, "source": self._task.source_name}
        words = {f"{{{part}}}": name.lower() for part, name in names.items()}
        question = fill_placeholders(self.question, words | {"{aspect}": as_noun(aspect).name})
        changed = aspect.model_copy(update={"question": question}) if question else aspect
        assert self.answerer  # set by `prepare`
        return await YesNoScorer(self.answerer, self.signature)(example, changed)


class AnswerMethod(PromptMethod):
    """A method whose score on an aspect is read in one written answer.

    A subclass has a `prompt` that asks for an answer, `read`, and a `dry_run_answer`. A blank
    output is abstained; an unusable answer is asked for again, and then invalid.
    """

    Options: ClassVar[type[PromptOptions]] = SamplingOptions
    """Type of its options: `SamplingOptions` or a subclass."""
    options: SamplingOptions
    scale = UNIT
    no_decisions = "its answers are written; take decide"
    max_tokens: ClassVar[int] = 512
    """Longest answer in tokens by default."""
    dry_run_answer: ClassVar[str]
    """A usable answer of usual length, which a dry run takes for the judge's."""

    def prepare(self) -> None:
        self.require_writing("an answer in words", "take another model")
        most = self.options.max_tokens or self.max_tokens
        self._ask = self.ask(temperature=self.options.temperature or 0.0, max_tokens=most)

    @abstractmethod
    def read(self, answer: str, example: Example) -> float | NoRating:
        """Return the value in an answer, or why there is none."""

    def values(self, example: Example, aspect: Aspect) -> Mapping[str, Any]:
        """Return further values for the prompt, beside `aspect` and the texts; by default none."""
        return {}

    def nodes(self) -> Sequence[Node]:
        return [Node("scores", self._score, **PER_ASPECT)]

    async def _score(self, example: Example, aspect: Aspect) -> Score:
        about = common_fields(example, aspect, how=self.how, signature=self.signature)
        if not self.has_scale:
            about["scale"] = None
        prepared = self._ask.prepare(example)
        if not prepared.output.strip():
            return Score.unscored(EMPTY.type, EMPTY.message, **about)
        answer = await self._ask.until_usable(
            self._ask.render(prepared, aspect=aspect, **self.values(example, aspect)),
            partial(self._read, example=example),
            remind_of("same"),
            retries=self.options.parse_retries,
            dry_run_answer=self.dry_run_answer,
        )
        return score_answer(answer, **about)

    def _read(self, sample: Sample, example: Example) -> float | NoRating:
        value = self.read(sample.text, example)
        if isinstance(value, NoRating):
            check_not_filtered(sample)
            return NoRating(DECLINED, value.message) if declines(sample.text) else value
        return value
