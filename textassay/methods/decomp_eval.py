"""DecompEval: a yes/no question about the whole output, answered after one sub-question for each sentence."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from textassay.agents.answerer import Answerer, AnswersInOrder
from textassay.agents.ask import Ask
from textassay.agents.profile import Asking
from textassay.agents.questions import QuestionTable, SentenceQuestions
from textassay.agents.task import Task
from textassay.agents.yes_no_aggregator import YesNoAggregator
from textassay.methods.judging import PromptMethod
from textassay.methods.library import profiles
from textassay.methods.library.toml import read_table, validated
from textassay.methods.method import Models, PromptOptions, model_for
from textassay.prompts.packaged import table_file
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph.graph import Graph, Node, each
from textassay.runtime.messages import Aspect, Assignment, How


class DecompEvalOptions(PromptOptions):
    """Options of DecompEval."""

    instruction: bool = True
    """Whether the instruction is shown; without it, table 6's "w/o Instruction"."""
    subquestions: bool = True
    """Whether sentences are asked about first; without them, table 6's "w/o Decomp. Q&A": one
    question, one call."""
    question_first: bool = False
    """Whether the question about the whole stands before the inputs: table 6's "w/ Prefix Yes/No
    Que."."""
    ask: Asking = "chat"
    """Ask by messages (`chat`), or by a plain prompt (`plain`) for base models and completion
    servers."""
    questions: str | None = None
    """Path of a TOML file with questions, in the form of the package's
    `prompts/tables/decomp_eval.toml`."""
    least_mass: float = Field(default=0.0, ge=0, lt=1)
    """Probability of yes and no together below which an answer is unusable; the paper has no such
    bound."""


class DecompEval(PromptMethod):
    """DecompEval (Ke et al. 2023, arXiv 2307.06869).

    1. The aspect is a yes/no question about the output; instruction, inputs and question make the
    prompt (tables 8-10).
    2. The output is cut into sentences, each with a sub-question.
    3. These are answered in order; each answer (yes where P(yes) > P(no), a tie is no) joins the
    prompt of the next.
    4. The question comes last, after all sub-questions with their answers: score = P(yes) / (P(yes)
    + P(no)).
    5. Fluency and consistency of summaries are the average, engagingness of dialogue turns the sum,
    of the sentences'
       own step 4 (section 4.2, after UniEval), and the question is not asked.

    Deviations: texts stand between delimiters and one sentence says what these mean; sentences are
    cut by our rules rather than by NLTK; "a word's probability" sums its spellings (yes, Yes, with
    and without a space before). Where the paper has no question, ours stands in its place
    (`prompts/tables/decomp_eval.toml` marks which), or the task's own, or one from a template that
    shows the definition. The average and the sum go over the answers of step 3. An aspect whose
    question names a text that an example lacks is `abstained`.
    """

    name = "decomp-eval"
    prompt = "decomp_eval"
    how: How = "logprob"
    Options = DecompEvalOptions
    options: DecompEvalOptions

    def __init__(
        self, models: Models, task: Task, options: DecompEvalOptions | None = None
    ) -> None:
        self.options, self.profile = profiles.settled(
            options or DecompEvalOptions(), self.name, models, task, "answerer"
        )
        if self.options.question_first and self.options.prompt_layout != "paper":
            raise ConfigurationError(
                "question_first puts the question before the texts, prompt_layout=shared-prefix behind them; choose one"
            )
        self._task = task
        book, book_digest = read_questions(self.options.questions)
        ask = Ask(
            model_for(models, "answerer"),
            self.options.prompt or self.profile.prompt(self.prompt),
            task,
            layout=self.options.prompt_layout,
            profile=self.profile.model_copy(update={"ask": self.options.ask}),
        )
        questions = SentenceQuestions(ask.template, book, decompose=self.options.subquestions)
        answerer = Answerer(
            ask,
            book if self.options.instruction else book.model_copy(update={"instruction": ""}),
            question_first=self.options.question_first,
            least_mass=self.options.least_mass,
        )
        asked = (self.options.instruction, self.options.subquestions, self.options.question_first)
        self.prompt_digest = ask.digest(ask.layout, *asked, book_digest, task.digest)
        self.signature = ask.signature(
            self.name,
            self.prompt_digest,
            ask=self.options.ask,
            how=self.how,
            sentences=questions.splitter.signature,
            mass=f"{answerer.least_mass:g}",
        )
        self.graph = Graph(
            self.name,
            input=Assignment,
            nodes=[
                Node("questions", questions, example="input.example", aspect=each("input.aspects")),
                Node("answers", AnswersInOrder(answerer), inquiry=each("questions")),
                Node(
                    "scores",
                    YesNoAggregator(self.signature),
                    example="input.example",
                    aspect=each("input.aspects"),
                    inquiry=each("questions"),
                    replies=each("answers"),
                ),
            ],
            output="scores",
        )

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The task's chosen aspects, each on the scale of P(yes)."""
        return tuple(aspect.model_copy(update={"scale": (0.0, 1.0)}) for aspect in super().aspects)


def read_questions(path: str | None = None) -> tuple[QuestionTable, str]:
    """Return the questions of a file, by default the package's own, and 6 hex digits that change with the file.

    Raises:
        ConfigurationError: The file cannot be read or says something wrong; names file and key.
    """
    file = table_file("decomp_eval") if path is None else Path(path)
    table = read_table(file)
    return validated(file, table.content, QuestionTable), table.digest
