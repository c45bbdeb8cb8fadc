"""Turns an aspect into yes/no questions: one per output sentence and one on the whole output.

DecompEval, section 3.

Knows what is asked and about which texts; asks no model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from textassay.agents.material import fenced, plain_texts
from textassay.agents.prompt_template import PromptTemplate
from textassay.agents.question_table import PARTS, QuestionForm, QuestionTable, fill_placeholders
from textassay.prompts import fence, nonce
from textassay.runtime.messages import Aspect, Example, Message, ScoreError, SubQuestion
from textassay.tools.text import DEFAULT_SPLITTER, SentenceSplitter
from textassay.tools.tool import references

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
        # published questions know no passages and messages, and must not leave them out
        material = {
            part
            for part, given in (("context", example.passages), ("source", example.messages))
            if given
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
