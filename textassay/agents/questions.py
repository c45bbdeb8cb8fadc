"""Turns an aspect into yes/no questions: one per output sentence and one on the whole output.

DecompEval, section 3.

Knows what is asked and about which texts; asks no model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field, model_validator

from textassay.agents.prompt_template import PromptTemplate, fenced, plain_texts
from textassay.agents.task import Task
from textassay.prompts import fence, nonce
from textassay.runtime.images import Image
from textassay.runtime.messages import Aspect, Example, Message, ScoreError, SubQuestion
from textassay.tools.text import DEFAULT_SPLITTER, SentenceSplitter
from textassay.tools.tool import references

Part = Literal["source", "context", "reference", "output"]
PARTS: tuple[Part, ...] = ("source", "context", "output", "reference")
"""In the order in which a shared prefix shows them; the first three are shown for every aspect."""
Value = Literal["question", "average", "sum"]
"""What the score is: equation 3 on the question, or the average or sum of the sub-questions'
own."""
# Is |this| summary ...?
_OPENING = re.compile(r"(?i)\b(this)\s+")


class QuestionForm(Message):
    """How one aspect is asked about: a row of DecompEval's tables 8 to 10."""

    inputs: dict[str, str]
    """What each text is called, by `source`, `context`, `reference` and `output`, in the order of
    the prompt; a name that ends in `?` may be missing from an example."""
    question: str = Field(min_length=1)
    """About the whole output."""
    subquestion: str = Field(min_length=1)
    """About one sentence, with `{number}` (from 1) and `{sentence}` in its place."""
    value: Value = "question"
    """What the score is."""
    definition: str = ""
    """What the aspect means, if the question alone does not say."""

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
        """Return the inputs that it needs and that are not among the texts."""
        return [part for part in self.inputs if not part.endswith("?") and part not in texts]

    def labels(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return what each of the texts is called that it uses, in its order."""
        named = {part.removesuffix("?"): label for part, label in self.inputs.items()}
        return {part: label for part, label in named.items() if part in texts}


class QuestionTable(Message):
    """The words of DecompEval's prompts.

    A file of this form may replace those that come with the package.
    """

    instruction: str = "Answer the following yes/no question."
    """What stands before or after the inputs."""
    yes: tuple[str, ...] = Field(default=("yes", "Yes"), min_length=1)
    """Spellings of yes; the last one is what prompts show behind a sub-question."""
    no: tuple[str, ...] = Field(default=("no", "No"), min_length=1)
    """Spellings of no."""
    quoted: bool = True
    """Whether the sentence of a sub-question stands between quotation marks."""
    generic: QuestionForm | None = None
    """How an aspect is asked about that is not in the book, with `{noun}` and `{aspect}`; by
    default a template of ours or the aspect's own question."""
    tasks: dict[str, dict[str, tuple[QuestionForm, ...]]] = {}
    """By task and aspect; of several forms the first one counts whose inputs an example has."""
    overrides: bool = True
    """Whether these questions take the place of an aspect's own; else they are for aspects that ask
    the same."""

    def forms(self, task: Task, aspect: Aspect) -> tuple[QuestionForm, ...]:
        """Return the table's forms for an aspect, or none.

        If the table does not override the aspect's own question, only a form with that question
        counts.
        """
        written = self.tasks.get(task.name, {}).get(aspect.name.casefold(), ())
        questions = {form.question for form in written}
        return written if self.overrides or aspect.question in questions else ()

    def form_of_any(self, task: Task, aspect: Aspect) -> QuestionForm:
        """Return the form for an aspect that is not in the book."""
        if self.generic is None:
            return templated(task, aspect)
        words = {"{noun}": task.output_name.lower(), "{aspect}": aspect.name.lower()}
        questions = {
            key: fill_placeholders(getattr(self.generic, key), words)
            for key in ("question", "subquestion")
        }
        return self.generic.model_copy(update=questions)


def fill_placeholders(pattern: str, words: Mapping[str, str]) -> str:
    """Return a pattern with its placeholders replaced, in order.

    Words filled in last are not searched for placeholders.
    """
    for place, word in words.items():
        pattern = pattern.replace(place, word)
    return pattern


def templated(task: Task, aspect: Aspect) -> QuestionForm:
    """Return the form for an aspect without a table entry.

    Its own question is used, or one made from its name and definition.
    """
    noun = task.output_name.lower()
    inputs = {
        "source?": task.source_name.lower(),
        "context?": task.context_name.lower(),
        "output": noun,
    }
    if task.reference_name is not None:
        inputs["reference?"] = task.reference_name.lower()
    if aspect.question is not None:
        return QuestionForm(
            inputs=inputs, question=aspect.question, subquestion=for_sentence(aspect.question, noun)
        )
    text = (
        f"good in terms of {aspect.name}" if aspect.higher_is_better else f"marked by {aspect.name}"
    )
    question = f"Is this {noun} {text}?"
    return QuestionForm(
        inputs=inputs,
        question=question,
        subquestion=for_sentence(question, noun),
        definition=f"{aspect.name}: {aspect.definition}",
    )


def for_sentence(question: str, noun: str) -> str:
    """Return the sub-question that belongs to a question, as DecompEval words them in its tables.

    Args:
        question: Such as `Is this a coherent summary to the document?`.
        noun: What the question calls the output, such as `summary`.
    """
    sentence = "sentence {number} {sentence}"
    subject = sentence if noun == "sentence" else f"{noun} {sentence}"
    opening = _OPENING.search(question)
    if opening is None:
        return f"Consider {subject} alone. {question}"
    start, rest = question[: opening.end(1)], question[opening.end() :]
    if re.match(rf"(?i){re.escape(noun)}\b", rest):
        rest = rest[len(noun) :].lstrip(" ")
        return f"{start} {subject}{'' if rest[:1] in ('?', ',') else ' '}{rest}"
    if re.match(r"(?i)(?:an?|overall|the)\b", rest):
        return f"{start} {subject} {rest}"
    return f"Consider {subject} alone. {question}"


_MISSING = {
    "source": "MissingSource",
    "context": "MissingContext",
    "reference": "MissingReferences",
}


class QuestionSet(Message):
    """Everything that is asked about one example and one aspect."""

    texts: tuple[dict[str, str], ...] = ()
    """What the model is shown, `{label, text}` each, in order, between delimiters."""
    bare: dict[str, str] = {}
    """The example's texts without delimiters, by part, for prompts of profiles."""
    names: tuple[dict[str, str], ...] = ()
    """Where texts go by another name than this aspect's: `{label, name}` each."""
    form: QuestionForm | None = None
    """How the aspect is asked about; `None` if nothing can be asked."""
    output: str = ""
    """The whole output."""
    images: tuple[Image, ...] = ()
    """The images that the source names."""
    source: str | None = None
    """The source, if it is among the texts: what may be cut if not everything fits a local
    model."""
    subquestions: tuple[SubQuestion, ...] = ()
    """One for each sentence, in order."""
    missing: ScoreError | None = None
    """Why nothing can be asked."""
    parts: tuple[QuestionSet, ...] = ()
    """What is asked about each sentence as if it were the whole output, if the score is the average
    or sum of the sentences' own (section 4.2); nothing else is asked then."""

    @property
    def question(self) -> SubQuestion:
        """The question about the whole output, which comes after all sentences."""
        text = self.form.question if self.form is not None else "?"
        return SubQuestion(text=text, sentence=self.output, index=len(self.subquestions))

    @property
    def questions(self) -> tuple[SubQuestion, ...]:
        """All questions, in order.

        The question about the whole comes last; it is left out if the score is made of the
        sentences' answers.
        """
        if self.form is None:
            return ()
        of_sentences = self.form.value != "question" and self.subquestions
        return self.subquestions if of_sentences else (*self.subquestions, self.question)


@dataclass(frozen=True)
class SentenceQuestions:
    """Asks about an output sentence by sentence.

    Attributes:
        template: The prompt that the questions are put into; with a shared prefix, all aspects are
            shown the same texts.
        book: The questions by task and aspect; what is not in it is asked by a template.
        decompose: Whether there are sub-questions at all (DecompEval's table 6 has a variant
            without).
        splitter: Cuts the output into sentences.
        alone: Whether averages and sums go over sentences that are judged by themselves, each as if
            it were the whole output, rather than over the answers to the sub-questions.
    """

    template: PromptTemplate
    book: QuestionTable = field(default_factory=QuestionTable)
    decompose: bool = True
    splitter: SentenceSplitter = DEFAULT_SPLITTER
    alone: bool = False

    async def __call__(self, example: Example, aspect: Aspect) -> QuestionSet:
        """Return the question, its sub-questions and what they are answered from."""
        whole = self._about_whole(example, aspect)
        if not self.alone or whole.form is None or whole.form.value == "question":
            return whole
        sentences = self.splitter.split(example.output)
        by_itself = whole.form.model_copy(update={"value": "question"})
        parts = [
            self._about_whole(example.model_copy(update={"output": sentence}), aspect, (sentence,))
            for sentence in sentences
        ]
        parts = [part.model_copy(update={"form": by_itself}) for part in parts]
        return whole.model_copy(update={"parts": tuple(parts)})

    def _about_whole(
        self, example: Example, aspect: Aspect, sentences: tuple[str, ...] | None = None
    ) -> QuestionSet:
        """Return what is asked about an output, whose sentences may be known."""
        task = self.template.task
        written, example = example.output, self.template.prepare(example)
        if not example.output.strip():
            return QuestionSet(
                missing=ScoreError(type="EmptyOutput", message="there is no text to judge")
            )
        texts = _texts(example)
        forms = self.book.forms(task, aspect) or (self.book.form_of_any(task, aspect),)
        form = next((form for form in forms if not form.missing(texts)), None)
        if form is None:
            return QuestionSet(missing=_needs(aspect, forms[0].missing(texts)))
        # One number for all texts of the example: the same prefix for every aspect, which servers
        # reuse.
        number = nonce(texts.values())
        labels = form.labels(texts)
        shared = self._shared(texts, labels)
        shown = labels if self.template.layout == "paper" else shared
        # published questions know no passages, messages and images, and must not leave them out
        in_source = example.messages or example.images
        material = {
            part for part, given in (("context", example.passages), ("source", in_source)) if given
        }
        if not material <= shown.keys():
            shown = {
                p: shown.get(p, name) for p, name in shared.items() if p in {*shown, *material}
            }
        return QuestionSet(
            texts=self._shown(
                [(part, label, texts[part]) for part, label in shown.items()], number
            ),
            bare=plain_texts(example),
            names=tuple(
                {"label": shown[part], "name": label}
                for part, label in labels.items()
                if shown[part] != label
            ),
            form=form,
            output=example.output,
            images=example.images,
            source=example.source if "source" in shown or self.template.takes_plain_texts else None,
            subquestions=self._subquestions(
                form, self.splitter.split(written) if sentences is None else sentences, number
            ),
        )

    def _shown(self, texts: list[tuple[str, str, str]], number: str) -> tuple[dict[str, str], ...]:
        if self.template.profile.printed:
            return tuple({"label": label, "text": text.strip()} for _, label, text in texts)
        return tuple(fenced(texts, number))

    def _shared(self, texts: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, str]:
        """Return what all aspects are shown, under names that are the same for all of them."""
        task = self.template.task
        names = {
            "source": task.source_name.lower(),
            "context": task.context_name.lower(),
            "output": task.output_name.lower(),
        }
        return {
            part: name
            for part in PARTS
            if part in texts and (name := names.get(part) or labels.get(part))
        }

    def _subquestions(
        self, form: QuestionForm, written: Iterable[str], number: str
    ) -> tuple[SubQuestion, ...]:
        if not self.decompose:
            return ()
        sentences = map(self.template.prepare_text, written)
        return tuple(
            SubQuestion(
                text=self._about(form.subquestion, index, sentence, number),
                sentence=sentence,
                index=index,
            )
            for index, sentence in enumerate(sentences)
        )

    def _about(self, subquestion: str, index: int, sentence: str, number: str) -> str:
        """Return the sub-question about a sentence, which stands on one line.

        It stands between quotation marks as in the paper's tables 11 and 12, or between delimiters
        that it cannot forge if it contains one itself; or bare.
        """
        text = " ".join(sentence.split())
        if self.book.quoted:
            text = (
                f'"{text}"'
                # A sentence with a quotation mark could close the quotation and go on as a
                # question.
                if '"' not in text or self.template.profile.printed
                else fence("sentence", text, number).replace("\n", " ")
            )
        return fill_placeholders(subquestion, {"{number}": str(index + 1), "{sentence}": text})


def _texts(example: Example) -> dict[str, str]:
    """Return the texts of an example that are not blank, by part.

    The first of several references.
    """
    reference = next(iter(references(example)), None)
    parts = {
        "source": example.source,
        "context": example.context,
        "reference": reference,
        "output": example.output,
    }
    return {part: text for part, text in parts.items() if text is not None and text.strip()}


def _needs(aspect: Aspect, missing: list[str]) -> ScoreError:
    what = " and a ".join(missing)
    return ScoreError(
        type=_MISSING[missing[0]],
        message=f"{aspect.name} needs a {what}, which this example does not have",
    )
