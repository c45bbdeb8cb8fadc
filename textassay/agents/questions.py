"""Yes/no questions (DecompEval, section 3): questions, their answers, and the score made of them.

An aspect becomes one question for each sentence of the output and one about the whole output. They
are answered by the probabilities of the spellings of yes and no as the next token, or by written
answers if a model sends none: the share of yes among several estimates the same P(yes).
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from pydantic import Field, model_validator

from textassay.agents.aggregation import EMPTY, UNIT, common_fields
from textassay.agents.ask import Ask, ProbabilityReading, reached_limit
from textassay.agents.prompt_template import (
    KINDS,
    Prompt,
    PromptTemplate,
    Task,
    fence_texts,
    join_messages,
    plain_texts,
)
from textassay.agents.typed_questions import (
    QuestionBatcher,
    TypedAnswer,
    name_texts,
    unanswered_score,
)
from textassay.prompts import fence, nonce
from textassay.runtime.base import NO_USAGE, Json, Message, ScoreError
from textassay.runtime.calls.logprobs_or_samples import LogprobsOrSamples
from textassay.runtime.calls.sharing import chain_requests
from textassay.runtime.calls.wording import QuestionWording
from textassay.runtime.concurrency import gather
from textassay.runtime.images import Image
from textassay.runtime.messages import Aspect, Example, How, Score, SubQuestion
from textassay.runtime.model import Sample, scoring
from textassay.runtime.questions import Question, QuestionAnswer, Way
from textassay.tools.text import DEFAULT_SPLITTER, SentenceSplitter
from textassay.tools.tool import references

PARTS = ("source", "context", "output", "reference")
"""Parts of the material, in the order of the shared prefix, which always has the first three."""


class QuestionForm(Message):
    """The questions about one aspect: a row of DecompEval's tables 8 to 10."""

    inputs: dict[str, str]
    """Name of each text, by `source`, `context`, `reference` and `output`, in the order of the
    prompt; a key that ends in `?` may be missing from an example."""
    question: str = Field(min_length=1)
    """Question about the whole output."""
    subquestion: str = Field(min_length=1)
    """Question about one sentence, with the placeholders `{number}` (from 1) and `{sentence}`."""
    value: Literal["question", "average", "sum"] = "question"
    """The score: equation 3 on the question, or the average or sum over the sentences."""
    definition: str = ""
    """Definition of the aspect, if the question does not contain it."""

    @model_validator(mode="after")
    def _complete(self) -> QuestionForm:
        unknown = [part for part in self.inputs if part.removesuffix("?") not in PARTS]
        if unknown:
            raise ValueError(f"inputs: unknown text {unknown[0]!r}; known: {', '.join(PARTS)}")
        if "output" not in self.inputs:
            raise ValueError("inputs: the output is missing")
        if "{sentence}" not in self.subquestion:
            raise ValueError(
                "subquestion: it needs {sentence}, which marks the place of the sentence"
            )
        return self

    def missing(self, texts: Mapping[str, str]) -> list[str]:
        """Return the required inputs that are not among the texts."""
        return [part for part in self.inputs if not part.endswith("?") and part not in texts]

    def with_source_in_context(self) -> QuestionForm:
        """Return the form for an example whose context has the place of the source."""
        kept = {part: label for part, label in self.inputs.items() if part != "context?"}
        inputs = {"context" if part == "source" else part: label for part, label in kept.items()}
        return self.model_copy(update={"inputs": inputs})

    def labels(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return the name of each text of the form, in order."""
        named = {part.removesuffix("?"): label for part, label in self.inputs.items()}
        return {part: label for part, label in named.items() if part in texts}


class QuestionTable(Message):
    """The words of DecompEval's prompts; a file of the same form may replace them."""

    instruction: str = "Answer the following yes/no question."
    """Instruction before or after the inputs."""
    yes: tuple[str, ...] = Field(default=("yes", "Yes"), min_length=1)
    """Spellings of yes; prompts show the last one as the answer to a sub-question."""
    no: tuple[str, ...] = Field(default=("no", "No"), min_length=1)
    """Spellings of no."""
    quoted: bool = True
    """Whether the sentence of a sub-question is put between quotation marks."""
    generic: QuestionForm | None = None
    """Form for aspects that are not in the table, with `{noun}` and `{aspect}`; by default a
    template of ours or the aspect's own question."""
    tasks: dict[str, dict[str, tuple[QuestionForm, ...]]] = {}
    """Forms by task and aspect; the first one whose inputs an example has is used."""
    overrides: bool = True
    """Whether these questions replace an aspect's own; otherwise they apply to aspects with an
    equal question.
    """

    def forms(self, task: Task, aspect: Aspect) -> tuple[QuestionForm, ...]:
        """Return the table's forms for an aspect, if they override its own question or equal it."""
        forms = self.tasks.get(task.name, {}).get(aspect.name.casefold(), ())
        questions = {form.question for form in forms}
        return forms if self.overrides or aspect.question in questions else ()

    def asks_about_context(self, task: Task) -> bool:
        """Return whether a question of the task is about the context, such as a fact."""
        forms = self.tasks.get(task.name, {}).values()
        return any("context" in form.inputs for some in forms for form in some)

    def form_of_any(self, task: Task, aspect: Aspect) -> QuestionForm:
        """Return the form for an aspect that is not in the table."""
        if not self.generic:
            return default_form(task, aspect)
        words = {"{noun}": task.output_name.lower(), "{aspect}": aspect.name.lower()}
        question = fill_placeholders(self.generic.question, words)
        subquestion = fill_placeholders(self.generic.subquestion, words)
        return self.generic.model_copy(update={"question": question, "subquestion": subquestion})


def fill_placeholders(pattern: str, words: Mapping[str, str]) -> str:
    """Return a pattern with its placeholders replaced, one after the other."""
    for place, word in words.items():
        pattern = pattern.replace(place, word)
    return pattern


def default_form(task: Task, aspect: Aspect) -> QuestionForm:
    """Return the form for an aspect that is not in the table, by its question or its name."""
    noun = task.output_name.lower()
    inputs = {
        "source?": task.source_name.lower(),
        "context?": task.context_name.lower(),
        "output": noun,
    }
    if task.reference_name:
        inputs["reference?"] = task.reference_name.lower()
    verdict = "good in terms of" if aspect.higher_is_better else "marked by"
    question = aspect.question or f"Is this {noun} {verdict} {aspect.name}?"
    return QuestionForm(
        inputs=inputs,
        question=question,
        subquestion=for_sentence(question, noun),
        definition="" if aspect.question else f"{aspect.name}: {aspect.definition}",
    )


def for_sentence(question: str, noun: str) -> str:
    """Return the sub-question of a question, in the words of DecompEval's tables."""
    sentence = "sentence {number} {sentence}"
    subject = sentence if noun == "sentence" else f"{noun} {sentence}"
    opening = re.search(r"(?i)\b(this)\s+", question)
    if not opening:
        return f"Consider {subject} alone. {question}"
    start, rest = question[: opening.end(1)], question[opening.end() :]
    if re.match(rf"(?i){re.escape(noun)}\b", rest):
        rest = rest[len(noun) :].lstrip(" ")
        return f"{start} {subject}{'' if rest[:1] in ('?', ',') else ' '}{rest}"
    if re.match(r"(?i)(?:an?|overall|the)\b", rest):
        return f"{start} {subject} {rest}"
    return f"Consider {subject} alone. {question}"


class QuestionSet(Message):
    """The questions about one example and one aspect."""

    id: str = ""
    """The example."""
    texts: tuple[dict[str, str], ...] = ()
    """Texts of the prompt, `{label, text}` each, in order, between delimiters."""
    bare: dict[str, str] = {}
    """The example's texts without delimiters, by part, for prompts of profiles."""
    names: tuple[dict[str, str], ...] = ()
    """Texts whose label differs from this aspect's name for them: `{label, name}` each."""
    form: QuestionForm | None = None
    """The form of the questions; `None` if no question can be asked."""
    output: str = ""
    """The whole output."""
    images: tuple[Image, ...] = ()
    """The images that the source names."""
    source: str | None = None
    """The source, if it is among the texts; it may be cut if the prompt does not fit a local model.
    """
    subquestions: tuple[SubQuestion, ...] = ()
    """One for each sentence, in order."""
    missing: ScoreError | None = None
    """Why no question can be asked."""
    parts: tuple[QuestionSet, ...] = ()
    """Questions about each sentence as if it were the whole output, if the score is the
    average or sum over sentences (section 4.2); then there are no other questions."""

    @property
    def definition(self) -> str:
        """Definition of the aspect, if its question does not contain it."""
        return self.form.definition if self.form else ""

    @property
    def question(self) -> SubQuestion:
        """The question about the whole output, which comes after all sentences."""
        text = self.form.question if self.form else "?"
        return SubQuestion(text=text, sentence=self.output, index=len(self.subquestions))

    @property
    def questions(self) -> tuple[SubQuestion, ...]:
        """All questions, in order.

        The question about the whole comes last; it is omitted if the score is computed from the
        sentences' answers.
        """
        if not self.form:
            return ()
        of_sentences = self.form.value != "question" and self.subquestions
        return self.subquestions if of_sentences else (*self.subquestions, self.question)


@dataclass(frozen=True)
class SentenceQuestions:
    """Asks about an output sentence by sentence."""

    template: PromptTemplate
    """The prompt of the questions; with a shared prefix, all aspects have the same texts."""
    book: QuestionTable = field(default_factory=QuestionTable)
    """The questions by task and aspect; other aspects use a template."""
    decompose: bool = True
    """Whether there are sub-questions (DecompEval's table 6 has a variant without them)."""
    splitter: SentenceSplitter = DEFAULT_SPLITTER
    """Cuts the output into sentences."""
    alone: bool = False
    """Whether averages and sums are over separately judged sentences, each as if it were the whole
    output, rather than over the answers to the sub-questions.
    """
    delimited: bool = True
    """Whether texts are between delimiters; a decision model gets them apart from the questions."""

    async def __call__(self, example: Example, aspect: Aspect) -> QuestionSet:
        """Return the question, its sub-questions and the texts for the answers."""
        sentences = self.splitter.split(example.output)
        whole = self._about_whole(example, aspect, sentences)
        if not self.alone or not whole.form or whole.form.value == "question":
            return whole
        by_itself, parts = whole.form.model_copy(update={"value": "question"}), []
        for sentence in sentences:
            alone = example.model_copy(update={"output": sentence})
            part = self._about_whole(alone, aspect, (sentence,))
            parts.append(part.model_copy(update={"form": by_itself}))
        return whole.model_copy(update={"parts": tuple(parts)})

    def _about_whole(
        self, example: Example, aspect: Aspect, sentences: Sequence[str]
    ) -> QuestionSet:
        """Return the questions about an output with these sentences."""
        task = self.template.task
        example = self.template.prepare(example)
        if not example.output.strip():
            return QuestionSet(missing=EMPTY)
        texts = _texts(example)
        forms = self.book.forms(task, aspect) or (self.book.form_of_any(task, aspect),)
        form = next((form for form in forms if not form.missing(texts)), None)
        if not form and not self.book.asks_about_context(task):
            changed = (form.with_source_in_context() for form in forms)
            form = next((form for form in changed if not form.missing(texts)), None)
        if not form:
            return QuestionSet(missing=_needs(aspect, forms[0].missing(texts)))
        # one number for all texts of the example: the same prefix for every aspect, which servers
        # reuse
        number = nonce(texts.values())
        labels = form.labels(texts)
        shared = self._shared_material(texts, labels)
        names = labels if self.template.layout == "paper" else shared
        # published questions do not name passages, messages and images, which must be shown as well
        in_source = example.messages or example.images
        material = {"context"} if example.passages else set[str]()
        material |= {"source"} if in_source else set()
        if not material <= names.keys():
            needed = {*names, *material}
            names = {p: names.get(p, name) for p, name in shared.items() if p in needed}
        others = ((names[part], label) for part, label in labels.items() if names[part] != label)
        return QuestionSet(
            id=example.id,
            texts=self._show([(part, label, texts[part]) for part, label in names.items()], number),
            bare=plain_texts(example),
            names=tuple({"label": label, "name": name} for label, name in others),
            form=form,
            output=example.output,
            images=example.images,
            source=example.source if "source" in names or self.template.takes_plain_texts else None,
            subquestions=self._subquestions(form, sentences, number),
        )

    def _show(self, texts: list[tuple[str, str, str]], number: str) -> tuple[dict[str, str], ...]:
        if self.template.profile.printed or not self.delimited:
            return tuple({"label": label, "text": text.strip()} for _, label, text in texts)
        return tuple(fence_texts(texts, number))

    def _shared_material(
        self, texts: Mapping[str, str], labels: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the texts that the prompts of all aspects show, under the same names."""
        task = self.template.task
        names = {part: getattr(task, f"{part}_name").lower() for part in KINDS}
        named = {part: names.get(part) or labels.get(part) for part in PARTS if part in texts}
        return {part: name for part, name in named.items() if name}

    def _subquestions(
        self, form: QuestionForm, sentences: Iterable[str], number: str
    ) -> tuple[SubQuestion, ...]:
        if not self.decompose:
            return ()
        questions = []
        for at, sentence in enumerate(map(self.template.profile.prepare_text, sentences)):
            text = self._about(form.subquestion, at, sentence, number)
            questions.append(SubQuestion(text=text, sentence=sentence, index=at))
        return tuple(questions)

    def _about(self, subquestion: str, index: int, sentence: str, number: str) -> str:
        """Return the sub-question about a sentence, in one line.

        The sentence is between quotation marks, as in the paper's tables 11 and 12, between
        delimiters if it contains a quotation mark, or bare.
        """
        text = " ".join(sentence.split())
        if self.book.quoted:
            # a sentence with a quotation mark could close the quotation and continue as a question
            if '"' in text and not self.template.profile.printed:
                text = fence("sentence", text, number).replace("\n", " ")
            else:
                text = f'"{text}"'
        return fill_placeholders(subquestion, {"{number}": str(index + 1), "{sentence}": text})


def _texts(example: Example) -> dict[str, str]:
    """Return the texts of an example that are not blank, by part; only the first reference."""
    parts = {
        "source": example.source or "",
        "context": example.context or "",
        "reference": next(iter(references(example)), ""),
        "output": example.output,
    }
    return {part: text for part, text in parts.items() if text.strip()}


def _needs(aspect: Aspect, missing: list[str]) -> ScoreError:
    texts = " and a ".join(missing)
    kind = "References" if missing[0] == "reference" else missing[0].capitalize()
    message = f"{aspect.name} needs a {texts}, which this example does not have"
    return ScoreError(type=f"Missing{kind}", message=message)


class Replies(Message):
    """Answers to the first questions of a set, in order, up to the first problem."""

    items: tuple[TypedAnswer, ...] = ()
    parts: tuple[Replies, ...] = ()
    """Replies about each separately judged sentence, if any; `items` has all replies."""

    @property
    def unanswered(self) -> QuestionAnswer | None:
        """The first reading without an answer, with the reason; `None` if all have one."""
        return next((reply.answer for reply in self.items if reply.answer.problem), None)

    @property
    def way(self) -> Way:
        """How the answers were obtained; by log-probabilities if there was no request."""
        return self.items[0].way if self.items else Way(how="logprob")


@dataclass(frozen=True)
class Answerer:
    """Answers one yes/no question about an example.

    A decision model gets a typed question about the texts, any other model the prompt.
    """

    ask: Ask
    """Model and prompt."""
    book: QuestionTable = field(default_factory=QuestionTable)
    """Instruction and spellings of yes and no in prompts."""
    question_first: bool = False
    """Whether the question about the output precedes the inputs (table 6)."""
    reading: ProbabilityReading = "auto"
    """Whether written answers are read if the model sends no log-probabilities."""

    def __post_init__(self) -> None:
        if self.reading == "logprob":
            scoring(self.ask.model, "choices")

    @cached_property
    def _batcher(self) -> QuestionBatcher:
        return QuestionBatcher(self.ask.model)

    @property
    def how(self) -> How:
        """How P(yes) is obtained, if known."""
        if self.probabilities:
            return self.probabilities.how
        return "logprob" if self.reading == "logprob" else "decision"

    @property
    def probabilities(self) -> LogprobsOrSamples | None:
        """The choice between log-probabilities and samples, if the first answer decides it."""
        return self._batcher.reading if self.reading == "auto" else None

    async def __call__(
        self, question: SubQuestion, question_set: QuestionSet, earlier: Sequence[TypedAnswer] = ()
    ) -> TypedAnswer:
        """Return the answer with P(yes) and the mass of both words.

        Args:
            question: A sub-question of the set, or its question.
            question_set: The texts for the answer.
            earlier: Answers to the first questions of the set, to show before it; not to a decision
                model.

        Raises:
            CapabilityError: The model does not return log-probabilities of choices, and written
                answers are not allowed.
        """
        if self.ask.model.capabilities.only_decides:
            return await self._decide(question, question_set)
        wording = self._wording(question, question_set, earlier)
        return await self._batcher.ask_in_words(wording, may_sample=self.reading == "auto")

    async def _decide(self, question: SubQuestion, question_set: QuestionSet) -> TypedAnswer:
        words = self.ask.template.render(
            names=question_set.names, definition=question_set.definition, question=question.text
        )
        texts = {part["label"]: part["text"] for part in question_set.texts}
        return await self._batcher.ask(
            Question.yes_no(join_messages(words.messages)),
            name_texts(self.ask.task, texts),
            images=question_set.images,
            example=question_set.id,
        )

    def _wording(
        self, question: SubQuestion, question_set: QuestionSet, earlier: Sequence[TypedAnswer]
    ) -> QuestionWording:
        ahead = self.question_first and question == question_set.question
        book, words = self.book, {"yes": self.book.yes[-1], "no": self.book.no[-1]}
        answered = [
            {"question": question_.text, "word": words[_word_of(answer.answer)]}
            for question_, answer in zip(question_set.questions, earlier, strict=False)
        ]
        messages = self.ask.template.render_messages(
            question_set.bare,
            instruction=book.instruction,
            texts=question_set.texts,
            names=question_set.names,
            definition=question_set.definition,
            earlier=answered,
            question=question.text,
            ahead=question.text if ahead else "",
        )
        return self.ask.wording(
            Question.yes_no(question.text),
            Prompt(messages, question_set.source, question_set.images),
            {"yes": _spellings(book.yes), "no": _spellings(book.no)},
            read=self._read_written,
            dry_run_answer=book.yes[-1],
        )

    def _read_written(self, sample: Sample) -> int | None:
        """Return 0 if the first or last word of an answer is yes, and 1 if it is no."""
        words = [word.casefold() for word in re.findall(r"[^\W\d_]+", sample.text)]
        either = {word.casefold() for word in (*self.book.yes, *self.book.no)}
        ends = words[:1]
        # an answer that was cut off may have ended otherwise
        if not reached_limit(sample) and words and words[-1] in either:
            # `I cannot say yes or no` has both
            ends += [words[-1], *words[-3:-2]]
        yes = any(word.casefold() in ends for word in self.book.yes)
        no = any(word.casefold() in ends for word in self.book.no)
        return None if yes == no else int(no)


AnswerOrder = Literal["chain", "parallel", "independent"]
"""`chain`: each answer becomes part of the next prompt, as in the paper; `parallel`: sub-questions
at the same time, then the question about the whole, which shows their answers; `independent`: all
at the same time, so that a decision model is asked in one request."""


@dataclass(frozen=True)
class AnswersInOrder:
    """Answers yes/no questions: the sub-questions first, the question about the whole last."""

    answerer: Callable[..., Awaitable[TypedAnswer]]
    """An `Answerer`, or a callable with the same arguments."""
    order: AnswerOrder = "chain"
    """Which questions wait for the answers to others."""

    async def __call__(self, question_set: QuestionSet) -> Replies:
        """Return the replies, up to the first question without an answer.

        Separately judged sentences do not wait for each other.
        """
        if question_set.parts:
            parts = await gather([self(part) for part in question_set.parts])
            items = [reply for part in parts for reply in part.items]
            return Replies(items=tuple(items), parts=tuple(parts))
        questions, replies = question_set.questions, list[TypedAnswer]()
        sizes = {"chain": 1, "parallel": len(question_set.subquestions)}
        at_once = sizes.get(self.order) or len(questions)
        with chain_requests() as turns:
            while len(replies) < len(questions) and not any(r.answer.problem for r in replies):
                left = questions[len(replies) :]
                # a local model keeps the prompt for the next question, which begins with it
                turns.has_next = self.order == "chain" and len(left) > 1
                asking = [
                    self.answerer(one, question_set, tuple(replies)) for one in left[:at_once]
                ]
                replies += await gather(asking)
        return Replies(items=tuple(replies))


def _spellings(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words, each with and without a leading space, as many tokens have one."""
    return tuple(dict.fromkeys([*words, *(f" {word}" for word in words)]))


@dataclass(frozen=True)
class YesNoAggregator:
    """Scores the last question's P(yes), or the mean or sum over the output's sentences.

    The questions with their answers are the score's evidence.
    """

    signature: str = ""
    """Signature of the scores; `how:auto` is replaced by how the answers were read."""

    async def __call__(
        self, example: Example, aspect: Aspect, question_set: QuestionSet, replies: Replies
    ) -> Score:
        """Return the score.

        It has no value if no question could be asked or the model gave no usable answer.
        """
        way = replies.way
        about = common_fields(
            example,
            aspect,
            how=way.how,
            signature=way.sign(self.signature),
            scale=UNIT,
            evidence=_evidence(question_set, replies),
            usage=sum((reply.usage for reply in replies.items), NO_USAGE),
        )
        if way.samples:
            about["samples"] = min(reply.answer.usable for reply in replies.items)
        if missing := question_set.missing:
            return Score.unscored(missing.type, missing.message, outcome="abstained", **about)
        # no score if a question has no answer: a mean over the others would describe another text
        if problem := replies.unanswered:
            return unanswered_score(problem, **about)
        answers = [reply.answer for reply in replies.items]
        if replies.parts:  # the question about each sentence counts, which follows its sub-question
            answers = [part.items[-1].answer for part in replies.parts]
        elif question_set.questions[-1] == question_set.question:
            answers = answers[-1:]
        total, count = math.fsum(answer.p_yes for answer in answers), len(answers)
        is_sum = bool(question_set.form and question_set.form.value == "sum")
        value, highest = (total, float(count)) if is_sum else (total / count, 1.0)
        about["scale"] = (0.0, highest)
        masses = [answer.mass for answer in answers if answer.mass is not None]
        mass = math.fsum(masses) / count if len(masses) == count else None
        if way.samples:  # each answer is an estimate
            variance = math.fsum(answer.p_yes * (1 - answer.p_yes) for answer in answers)
            about["spread"] = math.sqrt(variance) / (1 if is_sum else count)
        return Score(value=min(value, highest), mass=mass, **about)


@dataclass(frozen=True)
class YesNoScorer:
    """Scores one example on one aspect by P(yes) to the question about the whole output."""

    answerer: Answerer
    """Answers the question."""
    signature: str = ""
    """Signature of the scores, as for `YesNoAggregator`."""

    @cached_property
    def _questions(self) -> SentenceQuestions:
        ask = self.answerer.ask
        delimited = not ask.model.capabilities.only_decides
        return SentenceQuestions(ask.template, decompose=False, delimited=delimited)

    async def __call__(self, example: Example, aspect: Aspect) -> Score:
        """Return P(yes) / (P(yes) + P(no)); no value if there is no usable answer."""
        return await self.answer(example, aspect, await self._questions(example, aspect))

    async def answer(self, example: Example, aspect: Aspect, question_set: QuestionSet) -> Score:
        """Return the score by a question that is already laid out."""
        replies = await AnswersInOrder(self.answerer, "independent")(question_set)
        return await YesNoAggregator(self.signature)(example, aspect, question_set, replies)


def _word_of(answer: QuestionAnswer) -> str:
    return "yes" if answer.p_yes > 0.5 else "no"  # a tie is no


def _evidence(question_set: QuestionSet, replies: Replies) -> tuple[Json, ...]:
    """Return all replies as evidence, each with its sentence if it was judged separately."""
    # the notes of the last answer, which has the largest weight
    notes = replies.items[-1].answer.notes if replies.items else ()
    parts = zip(question_set.parts or (question_set,), replies.parts or (replies,), strict=True)
    pieces = [
        _as_evidence(question, reply) | ({"sentence": question.sentence} if replies.parts else {})
        for part, answered in parts
        for question, reply in zip(part.questions, answered.items, strict=False)
    ]
    return (*pieces, *notes)


def _as_evidence(question: SubQuestion, reply: TypedAnswer) -> Json:
    """Return a reply as a piece of a score's evidence: the question, the answer and P(yes)."""
    piece: Json = {"text": question.text}
    answer, way, _, truncated_tokens = reply
    if not answer.problem:
        piece |= {"answer": _word_of(answer), "p_yes": answer.p_yes, "mass": answer.mass}
    if way.samples:
        piece["samples"] = f"{answer.usable} of {way.samples} usable"
    if answer.problem:
        piece["problem"] = answer.problem.type
    if answer.unreported:
        piece["unreported"] = answer.unreported[0]
    if truncated_tokens:
        piece["truncated_tokens"] = truncated_tokens
    return piece
