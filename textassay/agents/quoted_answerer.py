"""Answers yes/no questions in words, each with a quotation; a second agent looks the quotation up.

The first asks a model. The second asks none: an answer whose quotation is not in the texts is
abstained (RULERS, arXiv 2601.08654: verdicts are bound to evidence that can be checked).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from textassay.agents.ask import DECLINED, MAX_QUOTED, Ask, Parsed, thought_note
from textassay.agents.quotes import find_quote, quotable
from textassay.agents.reading.json_in_prose import JsonObject, find_json, normalized_key
from textassay.agents.reading.rating import declines
from textassay.runtime.errors import ContentRefused
from textassay.runtime.messages import NO_USAGE, Aspect, Example, Message, Score, Usage
from textassay.runtime.model import Json, Sample

AnswerVerdict = Literal["yes", "no", "unsure"]
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "quote": {"type": "string"},
        "answer": {"type": "string", "enum": ["yes", "no", "unsure"]},
    },
    "required": ["quote", "answer"],
    "additionalProperties": False,
}
"""The quotation comes first, so that the answer follows from it."""
DRY_RUN_ANSWER = (
    '{"quote": "as many words as a sentence of a news article or a summary usually has, about'
    ' twenty of them in all", "answer": "yes"}'
)
MAX_TOKENS = 256

_VERDICTS: dict[str, AnswerVerdict] = {
    "yes": "yes", "y": "yes", "true": "yes", "no": "no", "n": "no", "false": "no",
    "unsure": "unsure", "cannot tell": "unsure", "unknown": "unsure", "not sure": "unsure",
}  # fmt: skip
_ANSWERS, _QUOTES = ("answer", "verdict"), ("quote", "quotation", "evidence")


class QuotedAnswer(Message):
    """What a model answered to a yes/no question, before its quotation is looked up."""

    question: Aspect
    """What was asked."""
    verdict: AnswerVerdict | None = None
    """The answer; `None` if none could be read."""
    quote: str = ""
    """The passage that it names as evidence."""
    text: str = ""
    """The last answer as it was written."""
    notes: tuple[Json, ...] = ()
    """What the model thought, as evidence."""
    problem: str | None = None
    """Why no answer could be read: `NoAnswerFound`, `Declined`, `EmptyOutput` or `CutOff`."""
    usage: Usage = NO_USAGE
    """Cost of asking."""

    @property
    def complaint(self) -> str:
        """Why there is no answer, for people."""
        cut = " (the answer was cut at max_tokens)" if self.problem == "CutOff" else ""
        return f"no yes or no could be read{cut}; it said: {self.text[:MAX_QUOTED]!r}"


class _Read(Message):
    verdict: AnswerVerdict | None = None
    quote: str = ""
    problem: str | None = None


@dataclass(frozen=True)
class QuotedAnswerer:
    """Asks one yes/no question about an example, and for the passage that decides it.

    Attributes:
        ask: Model and prompt, which is given `question` as well.
        retries: How often an unusable answer is asked for again.
        question_counts: Whether the source is evidence even where there are passages.
    """

    ask: Ask
    retries: int = 1
    question_counts: bool = True

    @cached_property
    def _telling(self) -> Ask:
        """Asks, and says that the source is no evidence."""
        return self._noting("no evidence: quote another text")

    @cached_property
    def _with_images(self) -> Ask:
        """Asks, and says how an image is quoted."""
        return self._noting("an image is quoted by its number, such as [Image 1]")

    def _noting(self, note: str) -> Ask:
        task = self.ask.task
        name = f"{task.source_name} ({note})"
        return replace(self.ask, task=task.model_copy(update={"source_name": name}))

    async def __call__(self, example: Example, question: Aspect) -> QuotedAnswer:
        """Return the answer, or why it cannot be read.

        Raises:
            PromptError: The prompt file does not render.
            ContentRefused: The provider's filter cut the answer off.
            ModelError: The model could not be asked.
        """
        example = self.ask.prepare(example)
        if not example.output.strip():
            return QuotedAnswer(question=question, problem="EmptyOutput")
        ask = self._with_images if example.images else self.ask
        if example.passages and not self.question_counts:
            ask = self._telling
        # Only if it is known: a server that merely ignores the schema gives lines, which are read
        # as well.
        structured = self.ask.model.capabilities.json_schema is True
        answers = await self.ask.until_usable(
            ask.render(example, question=question),
            read_quoted,
            _problem,
            retries=self.retries,
            form="json",
            json_schema=SCHEMA if structured else None,
            dry_run_answer=DRY_RUN_ANSWER,
        )
        last = answers[-1]
        return QuotedAnswer(
            question=question,
            verdict=last.read[0].verdict if _problem(last) is None else None,
            quote=last.read[0].quote,
            text=last.samples[0].text.strip(),
            notes=thought_note(last.samples),
            problem=_problem(last),
            usage=sum((answer.usage for answer in answers), NO_USAGE),
        )


@dataclass(frozen=True)
class QuoteCheck:
    """Makes a score of an answer: 1 for yes, 0 for no, none if its quotation is not in the texts.

    Attributes:
        signature: What the scores carry.
        required: Whether an answer counts only with a quotation that is found.
        question_counts: Whether the source is evidence even where there are passages.
    """

    signature: str = ""
    required: bool = True
    question_counts: bool = True

    async def __call__(self, example: Example, answer: QuotedAnswer) -> Score:
        """Return the score; `abstained` with `QuoteNotFound` if the evidence does not exist."""
        about: dict[str, Any] = {
            "id": example.id,
            "aspect": answer.question.label,
            "scale": (0.0, 1.0),
            "how": "text",
            "signature": self.signature,
            "usage": answer.usage,
            "explanation": answer.text or None,
            "evidence": answer.notes,
        }
        if answer.problem is not None or answer.verdict is None:
            return Score.unscored(answer.problem or "NoAnswerFound", answer.complaint, **about)
        counts = self.question_counts or not example.passages
        match = find_quote(answer.quote, quotable(example, question_counts=counts))
        piece: Json = {"text": question_of(answer.question), "answer": answer.verdict}
        piece |= {"quote": answer.quote, "found_in": match.where if match else None}
        # Recorded before the verdict is judged, so that an abstention shows the quotation that was
        # not found.
        about["evidence"] = (piece, *answer.notes)
        if answer.verdict == "unsure":
            message = "the judge could not tell"
            return Score.unscored("Unsure", message, outcome="abstained", **about)
        if match is None and self.required:
            message = (
                f"the quoted passage is not in any of the texts: {answer.quote[:MAX_QUOTED]!r}"
            )
            return Score.unscored("QuoteNotFound", message, outcome="abstained", **about)
        return Score(value=1.0 if answer.verdict == "yes" else 0.0, **about)


def question_of(aspect: Aspect) -> str:
    """Return the question of an aspect: its own, or its definition."""
    return aspect.question or aspect.definition


def read_quoted(sample: Sample) -> _Read:
    """Read answer and quotation: JSON, or lines that begin with `Answer:` and `Quote:`.

    Raises:
        ContentRefused: The provider's filter cut the answer off.
    """
    fields = _fields(sample.text)
    answer = next((fields[key] for key in _ANSWERS if key in fields), None)
    quote = next((fields[key] for key in _QUOTES if key in fields), "")
    word = " ".join(str(answer).lower().strip(" .\"'*").split())
    verdict = _VERDICTS.get(word) if isinstance(answer, str | bool) else None
    # An answer that was cut off by a filter behind its verdict is an answer.
    if verdict is not None:
        return _Read(verdict=verdict, quote=quote if isinstance(quote, str) else "")
    if sample.finish_reason == "filtered":
        raise ContentRefused("the provider's content filter cut the answer off")
    return _Read(problem=DECLINED if declines(sample.text) else "NoAnswerFound")


def _fields(text: str) -> Json:
    """Return the fields of JSON objects, or of lines; none unless they hold one answer."""
    objects = [part.value for part in find_json(text) if isinstance(part.value, JsonObject)]
    if objects:
        pairs = [pair for one in objects for pair in (*one.contradicted.items(), *one.items())]
    else:
        lines = (line.strip(" *-").partition(":") for line in text.splitlines())
        pairs = [
            (name.strip(" *"), value.strip().strip("*").strip())
            for name, colon, value in lines
            if colon
        ]
    fields = [(normalized_key(name), value) for name, value in pairs]
    answers = {str(value).lower() for name, value in fields if name in _ANSWERS}
    return dict(fields) if len(answers) == 1 else {}


def _problem(answer: Parsed[_Read]) -> str | None:
    if answer.read[0].verdict is not None:
        return None
    return "CutOff" if answer.cut else answer.read[0].problem
