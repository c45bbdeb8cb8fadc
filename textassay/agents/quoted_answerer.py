"""Answers yes/no questions in words, each with a quotation, which another agent looks up.

`QuotedAnswerer` asks a model one question, or several at once. `score_quoted` calls no model: an
answer whose quotation is not in the texts is abstained, so that all verdicts have verifiable
evidence (RULERS, arXiv 2601.08654).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, Literal

from textassay.agents.ask import Ask, Parsed, check_not_filtered, remind_of
from textassay.agents.quotes import find_quote
from textassay.agents.reading.json_in_prose import (
    JsonObject,
    find_json,
    normalize_key,
    object_schema,
)
from textassay.agents.reading.outcomes import DECLINED, MAX_QUOTED
from textassay.runtime.base import NO_USAGE, Json, Message, Usage
from textassay.runtime.declining import declines
from textassay.runtime.messages import Aspect, Example, Score
from textassay.runtime.model import Sample, thought_note

AnswerVerdict = Literal["yes", "no", "unsure"]
_ANSWER: Json = {  # the quotation comes first, so that the answer follows from it
    "quote": {"type": "string"},
    "answer": {"type": "string", "enum": ["yes", "no", "unsure"]},
}
DRY_RUN_ANSWER = (
    '{"quote": "as many words as a sentence of a news article or a summary usually has, about'
    ' twenty of them in all", "answer": "yes"}'
)
MAX_TOKENS = 256
"""Longest answer in tokens to one question; an answer to several questions has as many for each. It
is too short for 0.02 % of 27,567 sentences of SummEval, RealSumm, Newsroom and RAGChecker, half of
it for 0.2 %, a quarter for 13 %; unused tokens cost nothing."""

_VERDICTS: dict[str, AnswerVerdict] = {
    "yes": "yes", "y": "yes", "true": "yes", "no": "no", "n": "no", "false": "no",
    "unsure": "unsure", "cannot tell": "unsure", "unknown": "unsure", "not sure": "unsure",
}  # fmt: skip
_ANSWER_KEYS = ("answer", "verdict")


class QuotedAnswer(Message):
    """The answer of a model to a yes/no question, before its quotation is looked up."""

    question: Aspect
    verdict: AnswerVerdict | None = None
    """The answer; `None` if it could not be read."""
    quote: str = ""
    """The passage that the model names as evidence."""
    reason: str = ""
    """The reason in the model's words, if the prompt asks for one."""
    text: str = ""
    """The last answer as it was written."""
    notes: tuple[Json, ...] = ()
    """The model's thoughts, as evidence."""
    problem: str = ""
    """Why no answer could be read: `NoAnswerFound`, `Declined`, `EmptyOutput` or `CutOff`."""
    usage: Usage = NO_USAGE

    @property
    def complaint(self) -> str:
        """The reason for a missing answer, as a message."""
        cut = " (the answer was cut at max_tokens)" if self.problem == "CutOff" else ""
        return f"no yes or no could be read{cut}; it said: {self.text[:MAX_QUOTED]!r}"


@dataclass(frozen=True)
class QuotedAnswerer:
    """Asks yes/no questions about an example, each with the decisive passage."""

    ask: Ask
    """Model and prompt, which gets `question`, or `items` (the questions) and `is_rubric`."""
    retries: int = 1
    """How often unusable or missing answers are requested again."""
    question_counts: bool = True
    """Whether the source is evidence even where there are passages."""
    is_rubric: bool = False
    """Whether joint questions are criteria, which are met or not."""

    def _schema(self, schema: Json) -> Json | None:
        """Return the schema if the model is known to follow schemas; otherwise lines are read."""
        return schema if self.ask.model.capabilities.json_schema is True else None

    def _ask_about(self, example: Example) -> Ask:
        """Return the `Ask` whose task has notes on evidence beside the names of the texts."""
        notes: dict[str, list[str]] = {}
        if example.passages and not self.question_counts:
            notes["source_name"] = ["no evidence: quote another text"]
        if example.images:  # beside a text that is shown
            place = "source_name" if example.source else "context_name"
            note = "an image is quoted by its number, such as [Image 1]"
            notes.setdefault(place, []).append(note)
        return self._with_notes(**{name: "; ".join(texts) for name, texts in notes.items()})

    @cached_property
    def _with_notes(self) -> Callable[..., Ask]:
        """Returns an `Ask` with notes by field of the task; the same one for equal notes."""

        def with_notes(**notes: str) -> Ask:
            if not notes:
                return self.ask
            task = self.ask.task
            update = {name: f"{getattr(task, name)} ({note})" for name, note in notes.items()}
            return replace(self.ask, task=task.model_copy(update=update))

        return cache(with_notes)

    async def __call__(self, example: Example, question: Aspect) -> QuotedAnswer:
        """Return the answer to one question, or why it cannot be read."""
        example = self.ask.prepare(example)
        if not example.output.strip():
            return QuotedAnswer(question=question, problem="EmptyOutput")
        answer = await self.ask.until_usable(
            self._ask_about(example).render(example, question=question),
            partial(read_quoted, question=question),
            remind_of("json"),
            retries=self.retries,
            problem=lambda answer: _complete(answer.readings[0], answer).problem or None,
            json_schema=self._schema(object_schema(**_ANSWER)),
            dry_run_answer=DRY_RUN_ANSWER,
        )
        fields = {"reason": "", "text": answer.text, "usage": answer.usage}
        fields["notes"] = thought_note(answer.samples)
        return _complete(answer.readings[0], answer).model_copy(update=fields)

    async def answer_all(
        self, example: Example, questions: tuple[Aspect, ...]
    ) -> tuple[QuotedAnswer, ...]:
        """Ask several questions in one request, each with a reason and a passage.

        Only questions without an answer are asked again. Answers are matched by their numbers.

        Returns:
            An answer to each question, or why it cannot be read; the first has the usage.
        """
        numbered = object_schema(number={"type": "integer"}, reason={"type": "string"}, **_ANSWER)
        schema = object_schema(answers={"type": "array", "items": numbered})
        example = self.ask.prepare(example)
        if not example.output.strip():
            return tuple(QuotedAnswer(question=query, problem="EmptyOutput") for query in questions)
        ask = self._ask_about(example)
        answers: dict[int, QuotedAnswer] = {}
        usage, unanswered, prompt = NO_USAGE, list(range(len(questions))), None
        for _ in range(self.retries + 1):
            items_shown = tuple(" ".join(question_of(questions[at]).split()) for at in unanswered)
            prompt = prompt or ask.render(example, items=items_shown, is_rubric=self.is_rubric)
            answer = await ask.answer(
                prompt,
                partial(read_several, questions=[questions[at] for at in unanswered]),
                max_tokens=MAX_TOKENS * len(unanswered),
                json_schema=self._schema(schema),
                dry_run_answer=_dry_run_answers(len(unanswered)),
            )
            usage += answer.usage
            for at, quoted in zip(unanswered, answer.readings[0], strict=True):
                answers[at] = _complete(quoted, answer)
            requested, unanswered = unanswered, [at for at in unanswered if answers[at].problem]
            if not unanswered or any(answers[at].problem == DECLINED for at in unanswered):
                break
            # without any answer, the form was the problem; otherwise only the missing ones are
            # asked again
            prompt = remind_of("json")(prompt, answer) if unanswered == requested else None
        items = [answers[at] for at in range(len(questions))]
        # cost and thoughts belong to all questions together, so only the first answer has them
        shared = {"usage": usage, "notes": thought_note(answer.samples)}
        items[0] = items[0].model_copy(update=shared)
        return tuple(items)


def score_quoted(
    answer: QuotedAnswer,
    texts: Mapping[str, str],
    *,
    must_quote: bool,
    place: str = "any of the texts",
    **about: Any,
) -> Score:
    """Return 1 for yes and 0 for no; `abstained` if a required quotation is not in the texts."""
    about |= {"scale": (0.0, 1.0), "usage": answer.usage, "evidence": answer.notes}
    if answer.problem or not answer.verdict:
        return Score.unscored(answer.problem or "NoAnswerFound", answer.complaint, **about)
    found_in = find_quote(answer.quote, texts)
    piece: Json = {"text": question_of(answer.question), "answer": answer.verdict}
    piece |= {"quote": answer.quote, "found_in": found_in}
    piece |= {"reason": answer.reason} if answer.reason else {}
    # an abstention also shows the missing quotation
    about["evidence"] = (piece, *answer.notes)
    if answer.verdict == "unsure":
        return Score.unscored("Unsure", "the judge could not tell", outcome="abstained", **about)
    if not found_in and must_quote:
        message = f"the quoted passage is not in {place}: {answer.quote[:MAX_QUOTED]!r}"
        return Score.unscored("QuoteNotFound", message, outcome="abstained", **about)
    return Score(value=1.0 if answer.verdict == "yes" else 0.0, **about)


def question_of(aspect: Aspect) -> str:
    """Return the question of an aspect: its own, or its definition."""
    return aspect.question or aspect.definition


def read_quoted(sample: Sample, question: Aspect) -> QuotedAnswer:
    """Read answer and quotation: JSON, or lines that begin with `Answer:` and `Quote:`."""
    quoted = _read(_fields(sample.text), question)
    # an answer that a filter cut off after its verdict is usable
    return quoted if quoted.verdict else QuotedAnswer(question=question, problem=_unread(sample))


def read_several(sample: Sample, questions: Sequence[Aspect]) -> list[QuotedAnswer]:
    """Read the answers to numbered questions from JSON objects, each by its own number.

    A single answer needs no number. Two different answers to a question count as a missing one.
    """
    answers: dict[int, list[QuotedAnswer]] = {}
    for number, fields in _iter_numbered([part.value for part in find_json(sample.text)], 0):
        at = number or int(len(questions) == 1)
        # one with a number too high answers no question, but shows that the judge does not decline
        if at and (quoted := _read(fields, questions[min(at, len(questions)) - 1])).verdict:
            answers.setdefault(at, []).append(quoted)
    problem = "NoAnswerFound" if answers else _unread(sample)
    return [
        answers[at][0]
        if len({quoted.verdict for quoted in answers.get(at, ())}) == 1
        else QuotedAnswer(question=question, problem=problem)
        for at, question in enumerate(questions, start=1)
    ]


def _iter_numbered(content: object, number: int) -> Iterator[tuple[int, Json]]:
    """Yield the objects with an answer in a JSON value, and the number of each, 0 if unknown."""
    if isinstance(content, list):
        for item in content:
            yield from _iter_numbered(item, 0)
    elif isinstance(content, JsonObject):
        fields = {normalize_key(name): value for name, value in content.items()}
        number_there = fields.get("number", number)
        if any(key in fields for key in _ANSWER_KEYS):
            doubted = {normalize_key(name) for name in content.contradicted}
            if doubted.isdisjoint(_ANSWER_KEYS):
                yield (int(str(number_there)) if str(number_there).isdigit() else 0), fields
            return
        for name, item in content.items():
            yield from _iter_numbered(item, int(name) if name.strip().isdigit() else 0)


def _read(fields: Json, question: Aspect) -> QuotedAnswer:
    """Return verdict, quotation and reason of one answer; no verdict if its word is unknown."""

    def text_of(*keys: str) -> str:
        text = next((fields[key] for key in keys if key in fields), "")
        return text if isinstance(text, str) else ""

    answer = next((fields[key] for key in _ANSWER_KEYS if key in fields), None)
    word = " ".join(str(answer).lower().strip(" .\"'*").split())
    return QuotedAnswer(
        question=question,
        verdict=_VERDICTS.get(word) if isinstance(answer, str | bool) else None,
        quote=text_of("quote", "quotation", "evidence"),
        reason=text_of("reason", "explanation"),
    )


def _unread(sample: Sample) -> str:
    check_not_filtered(sample)
    return DECLINED if declines(sample.text) else "NoAnswerFound"


def _fields(text: str) -> Json:
    """Return the fields of JSON objects, or of lines; empty unless they have one answer."""
    objects = [part.value for part in find_json(text) if isinstance(part.value, JsonObject)]
    if objects:
        pairs = [pair for item in objects for pair in (*item.contradicted.items(), *item.items())]
    else:
        lines = (line.strip(" *-").partition(":") for line in text.splitlines())
        pairs = [
            (name.strip(" *"), value.strip().strip("*").strip())
            for name, colon, value in lines
            if colon
        ]
    fields = [(normalize_key(name), value) for name, value in pairs]
    answers = {str(value).lower() for name, value in fields if name in _ANSWER_KEYS}
    return dict(fields) if len(answers) == 1 else {}


def _complete(quoted: QuotedAnswer, answer: Parsed[Any]) -> QuotedAnswer:
    """Return one of several answers; `text` has all of them if this one cannot be read."""
    problem = "CutOff" if quoted.problem and answer.cut else quoted.problem
    text = quoted.reason if quoted.verdict else answer.text
    return quoted.model_copy(update={"text": text, "problem": problem})


def _dry_run_answers(count: int) -> str:
    fields = DRY_RUN_ANSWER.removeprefix("{")
    reason = "one sentence of about twenty words that says what in the texts decides it"
    items = [f'{{"number": {at}, "reason": "{reason}", {fields}' for at in range(1, count + 1)]
    return '{"answers": [' + ", ".join(items) + "]}"
