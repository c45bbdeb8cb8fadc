"""DecompEval: a yes/no question on the whole output, after one sub-question per sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from textassay.agents.aggregation import UNIT
from textassay.agents.ask import ProbabilityReading
from textassay.agents.prompt_template import Asking
from textassay.agents.questions import (
    Answerer,
    AnswerOrder,
    AnswersInOrder,
    QuestionTable,
    SentenceQuestions,
    YesNoAggregator,
)
from textassay.methods.judging import PER_ASPECT, PromptMethod
from textassay.methods.library.toml import read_as
from textassay.methods.method import PromptOptions
from textassay.prompts import REPHRASINGS, rephrasing_file, table_file
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph import Node, each
from textassay.tools.text import DEFAULT_SPLITTER, NltkSplitter


class DecompEvalOptions(PromptOptions):
    """Options of DecompEval."""

    instruction: bool = True
    """Whether the instruction is shown; without it, table 6's "w/o Instruction"."""
    subquestions: bool | Literal["parallel"] = True
    """Whether there are sub-questions about sentences; without them, table 6's "w/o Decomp. Q&A":
    one question, one call. With `parallel` (not in the paper) they are sent at once, without
    earlier answers: two steps rather than one per sentence.
    """
    question_first: bool = False
    """Whether the question about the whole comes before the inputs: table 6's "w/ Prefix Yes/No
    Que."."""
    ask: Asking = "chat"
    """Ask by messages (`chat`), or by a plain prompt (`plain`) for base models and completion
    servers."""
    questions: str | None = None
    """Path of a TOML file with questions, in the form of the package's
    `prompts/tables/decomp_eval.toml`, or one of `rephrasing-1` to `rephrasing-7` (figure 5;
    dialogue)."""
    sentences: Literal["rules", "nltk"] = "rules"
    """Splitter of the output into sentences: our rules, or NLTK's Punkt as in the paper (extra
    `nltk`)."""
    reading: ProbabilityReading = "auto"
    """`auto`: P(yes) by log-probabilities if the model sends usable ones, otherwise the share of
    yes among written answers; `logprob`: only by log-probabilities.
    """


class DecompEval(PromptMethod):
    """DecompEval (Ke et al. 2023, arXiv 2307.06869).

    1. The aspect is a yes/no question about the output; instruction, inputs and question make the
    prompt (tables 8-10).
    2. The output is cut into sentences, each with a sub-question.
    3. These are answered in order; each answer (yes if P(yes) > P(no), a tie is no) joins the
    prompt of the next.
    4. The question comes last, after all sub-questions with their answers: score = P(yes) / (P(yes)
    + P(no)).
    5. Fluency and consistency of summaries are the average, engagingness of dialogue turns the sum,
    of the sentences' own step 4: each is judged as if it were the whole output (section 4.2, after
    UniEval).

    A decision model gets all questions in one request, without answers to the others
    (`order:independent` in the signature), and averages and sums are over the sub-questions.

    With `subquestions=parallel`, step 3 is not a chain: sub-questions do not show earlier answers.

    Deviations: texts are between delimiters, which one sentence explains, unless the
    profile is `paper`; sentences are cut by our rules unless `sentences=nltk`; "a word's
    probability" sums its spellings (yes, Yes, with and without a space before). If the paper has
    no question, ours is asked (`prompts/tables/decomp_eval.toml` marks which), or the
    task's own, or one from a template that shows the definition. An aspect whose question names a
    text that an example lacks is `abstained`. Prompts are not cut to the paper's input length of
    1,024 tokens (section 4.2). Without usable log-probabilities, P(yes) is the share of yes among
    written answers at temperature 1: 20, or 5 from a model that thinks. For an aspect with two
    labels, P(yes) to its own question is the probability of the second label.
    """

    name = "decomp-eval"
    prompt = "decomp_eval"
    judge = "answerer"
    scale = UNIT
    asks_yes_or_no = True
    Options = DecompEvalOptions
    options: DecompEvalOptions
    answerer: Answerer

    def prepare(self) -> None:
        options, task = self.options, self._task
        if options.question_first and options.prompt_layout != "paper":
            raise ConfigurationError(
                "question_first puts the question before the texts, prompt_layout=shared-prefix "
                "after them; choose one"
            )
        book, book_digest = read_questions(options.questions)
        if self.decides:
            self.check_written_unset("question_first", "reading", "ask", "instruction")
        alone = not self.decides and self._alone(book)
        ask = self.ask_yes_or_no(profile=self.profile.model_copy(update={"ask": options.ask}))
        self.questions = SentenceQuestions(
            ask.template,
            book,
            decompose=options.subquestions is not False,
            splitter=NltkSplitter() if options.sentences == "nltk" else DEFAULT_SPLITTER,
            alone=alone,
            delimited=not self.decides,
        )
        self.answerer = Answerer(
            ask,
            book if options.instruction else book.model_copy(update={"instruction": ""}),
            question_first=options.question_first,
            reading=options.reading,
        )
        self.chain = self._find_chain()
        shape = (options.instruction, options.subquestions, options.question_first)
        self.sign(
            ask,
            (ask.layout, *shape, book_digest, task.digest),
            ask=False if self.decides else options.ask,
            how=options.reading,
            order=False if self._order == "chain" else self._order,
            sentences=self.questions.splitter.signature,
            over="alone" if alone else False,
        )

    def _alone(self, book: QuestionTable) -> bool:
        """Return whether averages and sums are over separately judged sentences."""
        options, task = self.options, self._task
        if not self.profile.digest or self.profile.printed:
            return True
        forms = ((aspect, form) for aspect in task.aspects for form in book.forms(task, aspect))
        over = [aspect.name for aspect, form in forms if form.value != "question"]
        if over and (options.question_first or options.subquestions is False):
            # an option without effect would be reported as a variant of the paper
            raise ConfigurationError(
                f"{'question_first' if options.question_first else 'subquestions'} has no meaning"
                f" for {over[0]} with a profile of its own words: the score is made of the answers"
                " to the sub-questions; leave the aspect out"
            )
        return False

    def _find_chain(self) -> str | None:
        """Return the chain of requests, and how to avoid it; `None` if there is no chain."""
        if self._order != "chain" or not self.options.subquestions:
            return None
        book, task = self.questions.book, self._task
        forms = (form for a in task.aspects for form in book.forms(task, a) or (None,))
        # separately judged sentences have one sub-question each
        if self.questions.alone and all(form and form.value != "question" for form in forms):
            return None
        return (
            "asks about each sentence of an output after the answer to the one before;"
            " options={'subquestions': 'parallel'} asks about all of them at once, which is not"
            " the paper's method and may change scores"
        )

    @property
    def _order(self) -> AnswerOrder:
        if self.decides:
            return "independent"
        return "parallel" if self.options.subquestions == "parallel" else "chain"

    def nodes(self) -> list[Node]:
        """Ask about each sentence in order, then about the whole output, and score the answers."""
        answers = AnswersInOrder(self.answerer, self._order)
        question_set, aggregate = each("questions"), YesNoAggregator(self.signature)
        return [
            Node("questions", self.questions, **PER_ASPECT),
            Node("answers", answers, question_set=question_set),
            Node("scores", aggregate, **PER_ASPECT, question_set=question_set,
                 replies=each("answers")),
        ]  # fmt: skip


def read_questions(path: str | None = None) -> tuple[QuestionTable, str]:
    """Return the questions of a file, or the packaged ones, and 6 hex digits of their content."""
    file = Path(path) if path else table_file("decomp_eval")
    if path in REPHRASINGS:
        file = rephrasing_file(path)
    return read_as(file, QuestionTable)
