"""Answers yes/no questions in words, each with a quotation; another agent looks the quotation up.

The first two ask a model, one question or several at once. The last asks none: an answer whose
quotation is not in the texts is abstained (RULERS, arXiv 2601.08654: verdicts are bound to evidence
that can be checked).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, Literal

from textassay.agents.aggregation import common_fields
from textassay.agents.ask import REMINDER, Ask, Parsed, refuse_filtered
from textassay.agents.quotes import find_quote, quotable
from textassay.agents.reading.json_in_prose import (
    JsonObject,
    find_json,
    normalize_key,
    object_schema,
)
from textassay.agents.reading.outcomes import DECLINED, MAX_QUOTED, declines
from textassay.runtime.messages import NO_USAGE, Aspect, Example, Message, Score, Usage
from textassay.runtime.model import Json, Sample, thought_note

AnswerVerdict = Literal["yes", "no", "unsure"]
_ANSWER: Json = {
    "quote": {"type": "string"},
    "answer": {"type": "string", "enum": ["yes", "no", "unsure"]},
}
SCHEMA = object_schema(**_ANSWER)
"""The quotation comes first, so that the answer follows from it."""
DRY_RUN_ANSWER = (
    '{"quote": "as many words as a sentence of a news article or a summary usually has, about'
    ' twenty of them in all", "answer": "yes"}'
)
_NUMBERED = object_schema(number={"type": "integer"}, reason={"type": "string"}, **_ANSWER)
JOINT_SCHEMA = object_schema(answers={"type": "array", "items": _NUMBERED})
MAX_TOKENS = 256
"""Longest answer to one question, and what each of several adds."""

_VERDICTS: dict[str, AnswerVerdict] = {
    "yes": "yes", "y": "yes", "true": "yes", "no": "no", "n": "no", "false": "no",
    "unsure": "unsure", "cannot tell": "unsure", "unknown": "unsure", "not sure": "unsure",
}  # fmt: skip
_ANSWERS, _QUOTES = ("answer", "verdict"), ("quote", "quotation", "evidence")
_REASONS = ("reason", "explanation")
NO_EVIDENCE = "no evidence: quote another text"
QUOTING_IMAGES = "an image is quoted by its number, such as [Image 1]"
"""What prompts say about the source."""


class QuotedAnswer(Message):
    """What a model answered to a yes/no question, before its quotation is looked up."""

    question: Aspect
    """What was asked."""
    verdict: AnswerVerdict | None = None
    """The answer; `None` if none could be read."""
    quote: str = ""
    """The passage that it names as evidence."""
    reason: str = ""
    """Why, in its own words, if it was asked for that."""
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


class _QuotedReading(Message):
    verdict: AnswerVerdict | None = None
    quote: str = ""
    reason: str = ""
    problem: str | None = None


@dataclass(frozen=True)
class _AsksForQuotations:
    ask: Ask
    retries: int = 1
    question_counts: bool = True

    def _schema(self, schema: Json) -> Json | None:
        """Return the schema if the model is known to follow one; else lines are read."""
        return schema if self.ask.model.capabilities.json_schema is True else None

    def _ask_about(self, example: Example) -> Ask:
        """Return how to ask: with notes on what is evidence beside the names of the texts."""
        notes: dict[str, list[str]] = {}
        if example.passages and not self.question_counts:
            notes["source_name"] = [NO_EVIDENCE]
        if example.images:  # beside a text that is shown
            shown = "source_name" if example.source else "context_name"
            notes.setdefault(shown, []).append(QUOTING_IMAGES)
        return self._noting(**{name: "; ".join(said) for name, said in notes.items()})

    @cached_property
    def _noting(self) -> Callable[..., Ask]:
        """Returns the same with notes on texts by their names' fields; made once for equal ones."""

        def noting(**notes: str) -> Ask:
            if not notes:
                return self.ask
            task = self.ask.task
            update = {name: f"{getattr(task, name)} ({note})" for name, note in notes.items()}
            return replace(self.ask, task=task.model_copy(update=update))

        return cache(noting)


@dataclass(frozen=True)
class QuotedAnswerer(_AsksForQuotations):
    """Asks one yes/no question about an example, and for the passage that decides it.

    Attributes:
        ask: Model and prompt, which is given `question` as well.
        retries: How often an unusable answer is asked for again.
        question_counts: Whether the source is evidence even where there are passages.
    """

    async def __call__(self, example: Example, question: Aspect) -> QuotedAnswer:
        """Return the answer, or why it cannot be read."""
        example = self.ask.prepare(example)
        if not example.output.strip():
            return QuotedAnswer(question=question, problem="EmptyOutput")
        answers = await self.ask.until_usable(
            self._ask_about(example).render(example, question=question),
            read_quoted,
            _problem,
            retries=self.retries,
            form="json",
            json_schema=self._schema(SCHEMA),
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
class JointAnswerer(_AsksForQuotations):
    """Asks several yes/no questions about an example at once, for a reason and a passage each.

    What the answer leaves out is asked for again, by itself. Answers are read by their numbers.

    Attributes:
        ask: Model and prompt, which is given `items` (the questions) and `is_rubric` as well.
        retries: How often what an answer leaves out is asked for again.
        question_counts: Whether the source is evidence even where there are passages.
        is_rubric: Whether the questions are criteria, which are met or not.
    """

    is_rubric: bool = False

    async def __call__(
        self, example: Example, questions: tuple[Aspect, ...]
    ) -> tuple[QuotedAnswer, ...]:
        """Return an answer to each question, or why it cannot be read; the first has the usage."""
        example = self.ask.prepare(example)
        if not example.output.strip():
            return tuple(QuotedAnswer(question=one, problem="EmptyOutput") for one in questions)
        ask = self._ask_about(example)
        found: dict[int, QuotedAnswer] = {}
        usage, left, prompt = NO_USAGE, list(range(len(questions))), None
        for _ in range(self.retries + 1):
            shown = tuple(" ".join(question_of(questions[at]).split()) for at in left)
            prompt = prompt or ask.render(example, items=shown, is_rubric=self.is_rubric)
            answer = await ask.answer(
                prompt,
                partial(read_several, count=len(left)),
                max_tokens=MAX_TOKENS * len(left),
                json_schema=self._schema(JOINT_SCHEMA),
                dry_run_answer=_dry_run_answers(len(left)),
            )
            usage += answer.usage
            for at, read in zip(left, answer.read[0], strict=True):
                found[at] = _to_answer(questions[at], read, answer)
            asked, left = left, [at for at in left if found[at].problem is not None]
            if not left or any(found[at].problem == DECLINED for at in left):
                break
            # if none was answered it is the form that was missed; else only what is left is asked
            text = answer.samples[0].text.strip()
            prompt = prompt.append_turn(text, REMINDER, form="json") if left == asked else None
        items = [found[at] for at in range(len(questions))]
        # cost and thoughts are of all of them, and stand once
        shared = {"usage": usage, "notes": thought_note(answer.samples)}
        items[0] = items[0].model_copy(update=shared)
        return tuple(items)


@dataclass(frozen=True)
class QuoteCheck:
    """Scores an answer: 1 for yes, 0 for no, none if its quotation is not in the texts."""

    signature: str = ""
    """What the scores carry."""
    question_counts: bool = True
    """Whether the source is evidence even where there are passages."""
    references_count: bool = False
    """Whether the references, which are shown then, are evidence."""
    absence_counts: bool = False
    """Whether an answer may rest on what is absent, and quote nothing."""

    async def __call__(self, example: Example, answer: QuotedAnswer) -> Score:
        """Return the score; `abstained` with `QuoteNotFound` if the evidence does not exist."""
        counts = self.question_counts or not example.passages
        return score_quoted(
            answer,
            quotable(example, question_counts=counts, references_count=self.references_count),
            must_quote=not self.absence_counts or bool(answer.quote.strip()),
            **common_fields(example, answer.question, how="text", signature=self.signature),
            explanation=answer.text or None,
        )


def score_quoted(
    answer: QuotedAnswer,
    texts: Mapping[str, str],
    *,
    must_quote: bool,
    place: str = "any of the texts",
    **about: Any,
) -> Score:
    """Return 1 for yes and 0 for no; `abstained` if the passage that it must quote is not there."""
    about |= {"scale": (0.0, 1.0), "usage": answer.usage, "evidence": answer.notes}
    if answer.problem is not None or answer.verdict is None:
        return Score.unscored(answer.problem or "NoAnswerFound", answer.complaint, **about)
    found_in = find_quote(answer.quote, texts)
    piece: Json = {"text": question_of(answer.question), "answer": answer.verdict}
    piece |= {"quote": answer.quote, "found_in": found_in}
    piece |= {"reason": answer.reason} if answer.reason else {}
    # recorded before the verdict is judged, so that an abstention shows the quotation that was not
    # found
    about["evidence"] = (piece, *answer.notes)
    if answer.verdict == "unsure":
        return Score.unscored("Unsure", "the judge could not tell", outcome="abstained", **about)
    if found_in is None and must_quote:
        message = f"the quoted passage is not in {place}: {answer.quote[:MAX_QUOTED]!r}"
        return Score.unscored("QuoteNotFound", message, outcome="abstained", **about)
    return Score(value=1.0 if answer.verdict == "yes" else 0.0, **about)


def question_of(aspect: Aspect) -> str:
    """Return the question of an aspect: its own, or its definition."""
    return aspect.question or aspect.definition


def read_quoted(sample: Sample) -> _QuotedReading:
    """Read answer and quotation: JSON, or lines that begin with `Answer:` and `Quote:`."""
    read = _read(_fields(sample.text))
    # An answer that was cut off by a filter behind its verdict is an answer.
    if read.verdict is not None:
        return read
    return _QuotedReading(problem=_unread(sample))


def read_several(sample: Sample, *, count: int) -> tuple[_QuotedReading, ...]:
    """Read the answers to numbered questions from JSON objects, each by its own number.

    A single one needs no number. One that is answered twice, and differently, has no answer.
    """
    found: dict[int, list[_QuotedReading]] = {}
    for number, fields in _iter_numbered([part.value for part in find_json(sample.text)], None):
        at = 1 if number is None and count == 1 else number
        if at is not None:
            found.setdefault(at, []).append(_read(fields))
    if not any(read.verdict for reads in found.values() for read in reads):
        return (_QuotedReading(problem=_unread(sample)),) * count
    settled = []
    for at in range(1, count + 1):
        reads = [read for read in found.get(at, ()) if read.verdict is not None]
        is_one = len({read.verdict for read in reads}) == 1
        settled.append(reads[0] if is_one else _QuotedReading(problem="NoAnswerFound"))
    return tuple(settled)


def _iter_numbered(held: object, number: int | None) -> Iterator[tuple[int | None, Json]]:
    """Yield the objects with an answer below a JSON value, and the number of each."""
    if isinstance(held, list):
        for item in held:
            yield from _iter_numbered(item, None)
    elif isinstance(held, JsonObject):
        fields = {normalize_key(name): value for name, value in held.items()}
        own = fields.get("number", number)
        if any(key in fields for key in _ANSWERS):
            doubted = {normalize_key(name) for name in held.contradicted}
            if doubted.isdisjoint(_ANSWERS):
                yield (int(str(own)) if str(own).isdigit() else None), fields
            return
        for name, item in held.items():
            yield from _iter_numbered(item, int(name) if name.strip().isdigit() else None)


def _read(fields: Json) -> _QuotedReading:
    """Return what the fields of one answer say; no verdict if it is none of the words."""
    answer = next((fields[key] for key in _ANSWERS if key in fields), None)
    quote = next((fields[key] for key in _QUOTES if key in fields), "")
    reason = next((fields[key] for key in _REASONS if key in fields), "")
    word = " ".join(str(answer).lower().strip(" .\"'*").split())
    return _QuotedReading(
        verdict=_VERDICTS.get(word) if isinstance(answer, str | bool) else None,
        quote=quote if isinstance(quote, str) else "",
        reason=reason if isinstance(reason, str) else "",
    )


def _unread(sample: Sample) -> str:
    refuse_filtered(sample)
    return DECLINED if declines(sample.text) else "NoAnswerFound"


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
    fields = [(normalize_key(name), value) for name, value in pairs]
    answers = {str(value).lower() for name, value in fields if name in _ANSWERS}
    return dict(fields) if len(answers) == 1 else {}


def _to_answer(
    question: Aspect, read: _QuotedReading, answer: Parsed[tuple[_QuotedReading, ...]]
) -> QuotedAnswer:
    """Return one of several answers; `text` has all of them if this one cannot be read."""
    is_read = read.verdict is not None
    return QuotedAnswer(
        question=question,
        verdict=read.verdict,
        quote=read.quote,
        reason=read.reason,
        text=read.reason if is_read else answer.samples[0].text.strip(),
        problem=None if is_read else "CutOff" if answer.cut else read.problem,
    )


def _dry_run_answers(count: int) -> str:
    one = DRY_RUN_ANSWER.removeprefix("{")
    reason = "one sentence of about twenty words that says what in the texts decides it"
    items = [f'{{"number": {at}, "reason": "{reason}", {one}' for at in range(1, count + 1)]
    return '{"answers": [' + ", ".join(items) + "]}"


def _problem(answer: Parsed[_QuotedReading]) -> str | None:
    if answer.read[0].verdict is not None:
        return None
    return "CutOff" if answer.cut else answer.read[0].problem
