"""Published questions by aspect: how they are worded, and what they need."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from textassay.agents.task import Task
from textassay.runtime.messages import Aspect, Message

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
