"""Checklist: the mean of yes/no questions on each aspect, answered with evidence that is checked.

Or the share of points of the criteria in each row's rubric.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from textassay.agents.aggregation import (
    UNIT,
    Average,
    RubricTotal,
    answer_evidence,
    common_fields,
    reverse,
)
from textassay.agents.ask import Ask, signature_of_parts
from textassay.agents.planning import Decomposer, Decomposition, GrownTree, grow
from textassay.agents.prompt_template import Task
from textassay.agents.questions import Answerer, YesNoScorer
from textassay.agents.quoted_answerer import (
    MAX_TOKENS,
    QuotedAnswer,
    QuotedAnswerer,
    question_of,
    score_quoted,
)
from textassay.agents.quotes import quotable
from textassay.methods.judging import PER_ASPECT, PromptMethod, ask_to_write
from textassay.methods.library import trees
from textassay.methods.library.trees import PUBLISHED, on_scale
from textassay.methods.method import Models, SourcedOptions
from textassay.runtime.base import Json
from textassay.runtime.calls.sharing import once
from textassay.runtime.errors import ConfigurationError, MalformedResponse
from textassay.runtime.graph import Node, each
from textassay.runtime.messages import Aspect, AspectTree, Example, Failure, How, Score


class ChecklistOptions(SourcedOptions):
    """Options of the checklist."""

    checklist: str = PUBLISHED
    """File (TOML or JSON) or name of a published checklist; `published`: the task's checklist, and
    the model's own questions on aspects without questions; `model`: the model's own questions on
    all aspects; `rubric`: the criteria of each row.
    """
    answers: Literal["quoted", "p-yes"] = "quoted"
    """`quoted`: the judge answers in words and quotes the decisive passage; an answer whose
    quotation is not in the texts is abstained. `p-yes`: P(yes) / (P(yes) + P(no)), no quotation; by
    log-probabilities if the model sends usable ones, else by the share of yes among written
    answers."""
    calls: Literal["each", "joint"] = "each"
    """One request for each question, or one for all questions of an aspect (or all criteria of a
    rubric)."""
    total: Literal["clipped", "raw"] = "clipped"
    """Total of the points of a rubric: `clipped` is at least 0, `raw` may be below 0 (as in
    HealthBench, which clips the mean over all texts).
    """
    required: float = Field(default=0.5, gt=0, le=1)
    """Least share of an aspect's questions with an answer: below it there is no score. For a rubric
    the default is all of its criteria.
    """
    output: Literal["aspects", "questions"] = "aspects"
    """One score for each aspect, or one for each question: features for `fit`."""
    pattern: str = Field(default="{question}", pattern=r"\{question\}")
    """Text of a question in prompts of `answers=p-yes`."""


class Checklist(PromptMethod):
    """Checklist with evidence (CheckEval, Lee et al. 2024, arXiv 2403.18771; RULERS, 2601.08654).

    1. Each aspect has yes/no questions: from a file, or written once by the model (TICK, arXiv
    2410.03608).
    2. Each question is answered separately: yes or no with a passage quoted word for word, or
    P(yes).
    3. A node without a model looks the passage up in output, source and context; an answer whose
    passage is not there is abstained.
    4. An aspect's score is the mean of its answers, if at least `required` of them are usable.
    5. An aspect with two labels is one question, its own, and the answer is the label.
    6. With `checklist=rubric` the criteria are from the row, and the score is the share of their
    points (HealthBench, 2505.08775; prerequisites as in DevAI, 2410.10934), or with P(yes) the
    expected share.

    Deviations: CheckEval asks all questions of an aspect in one request, as `calls=joint` does, and
    quotes nothing; HealthBench's grader quotes nothing and has other words; RULERS maps scores to
    the raters' scale, for which we have `fit` and `calibrate`. The published questions are the
    seeds of CheckEval's repository (`checklist=summarization-all` and `dialogue-all` have the
    augmented ones as well); those on other aspects and tasks are ours.
    """

    name = "checklist"
    prompt = "checklist"
    scale = UNIT
    asks_yes_or_no = True
    Options = ChecklistOptions
    options: ChecklistOptions

    def prepare(self) -> None:
        """Find the known questions, and the agent that writes the others."""
        if self.decides:
            if self.options.answers == "quoted":
                self.check_written_unset("answers")
            self.options = self.options.model_copy(update={"answers": "p-yes"})
        self._known_questions, roots = self._find_questions()
        unknown = [root for root in roots if root.id not in self._known_questions]
        self._writing = () if self.reads_rubrics else tuple(unknown)
        # a file's own roots may replace the task's aspects
        self._task = self._task.model_copy(update={"aspects": roots})
        if self._writing:
            self._writer = writer_for(self.models, self._task, self.options)
            self.has_writer = True
        # written once per run, so that every example gets the same questions
        self._write = once(self._write_questions)
        self._question_counts = self.options.question_counts(self._task)
        self._ask = self._make_ask()
        self._sign()
        if self._reads_choices:
            self.answerer = Answerer(self._ask)
            self._scorer = YesNoScorer(self.answerer, self.signature)

    def _find_questions(self) -> tuple[dict[str, tuple[Aspect, ...]], tuple[Aspect, ...]]:
        """Return the questions known before the run, by id of their aspect, and all aspects."""
        options = self.options
        if not self.reads_rubrics:
            questions, roots = trees.find_parts(
                "checklist", options.checklist, self._task, UNIT, trees.questions_below
            )
            # an aspect with two labels is one question, and its answer is the label
            return questions | {
                root.id: (_own_question(root),) for root in roots if root.labels
            }, roots
        if options.output == "questions":
            self.check_unset("criteria and points of a rubric are in the data", "output")
        return {}, (_aspect_of_rubric(self._task),)

    def _make_ask(self) -> Ask:
        options = self.options
        if not self._reads_choices:
            prompt = "checklist_joint" if self._asks_jointly and not options.prompt else ""
            return self.ask(prompt, max_tokens=MAX_TOKENS)
        if options.calls == "joint":
            raise ConfigurationError(
                "calls=joint needs written answers; leave out options={'answers': 'p-yes'}"
            )
        return self.ask_yes_or_no("decomp_eval")

    def _sign(self) -> None:
        ask, options = self._ask, self.options
        writer = self._writer.digest if self._writing else ""
        words = (ask.layout, options.pattern, self._task.digest, self.questions_digest)
        self.sign(
            ask,
            (*words, (writer, self._required_share)),
            answers=options.answers,
            how="auto" if self._reads_choices else False,
            questions="rubric" if self.reads_rubrics else self.questions_digest or "model",
            output=options.output,
            calls=options.calls if self._asks_jointly else False,
            total=options.total if self.reads_rubrics else False,
            points="expected" if self.reads_rubrics and self._reads_choices else False,
            evidence=options.evidence or False,
        )

    def nodes(self) -> list[Node]:
        """Ask every question, look up quotations, and average or score the answers."""
        if self.reads_rubrics:
            return [
                Node("criteria", self._criteria, example="input.example"),
                *self._answering("criteria", "verdicts"),
                Node("scores", self._total, **PER_ASPECT, verdicts="verdicts"),
            ]
        if self.options.output == "questions":
            if self._writing:
                raise ConfigurationError(
                    "output=questions needs questions that are known beforehand;"
                    f" {self._writing[0].name!r} has none. Give a file with checklist=FILE"
                    " (textassay draft tree --method checklist writes one)"
                )
            return [*self._answering("input.aspects", "scores")]
        return [
            Node("questions", self._questions, aspect=each("input.aspects")),
            Node("all", self._lay_out, questions="questions"),
            *self._answering("all", "ratings"),
            Node("scores", self._fuse, **PER_ASPECT, questions=each("questions"),
                 all_questions="all", ratings="ratings"),
        ]  # fmt: skip

    def _answering(self, questions: str, output: str) -> list[Node]:
        """Return the nodes that answer questions; the last one is called `output`."""
        example, question = "input.example", each(questions)
        if not self._reads_choices:
            retries, is_rubric = self.options.parse_retries, self.reads_rubrics
            answerer = QuotedAnswerer(self._ask, retries, self._question_counts, is_rubric)
            # the check is a node of its own, as a judge cannot check its own quotation
            if self._asks_jointly:
                return [
                    Node("batches", self._batches, questions=questions),
                    Node("answers", answerer.answer_all, example=example,
                         questions=each("batches")),
                    Node(output, self._check_batches, example=example, batches="batches",
                         answers="answers"),
                ]  # fmt: skip
            return [
                Node("answers", answerer, example=example, question=question),
                Node(output, self._check, example=example, answer=each("answers")),
            ]
        return [Node(output, self._answer_by_probability, example=example, question=question)]

    async def _criteria(self, example: Example) -> tuple[Aspect, ...]:
        """Return the criteria of a row's rubric as questions."""
        parent = self._task.aspects[0].id
        return tuple(
            Aspect(name=criterion.id, definition=criterion.criterion, parent=parent, scale=UNIT)
            for criterion in example.rubric
        )

    async def _batches(self, questions: tuple[Aspect, ...]) -> list[tuple[Aspect, ...]]:
        """Return the questions of each aspect together, or separately."""
        groups: dict[Any, list[Aspect]] = {}
        for at, question in enumerate(questions):
            key = question.parent if self.options.calls == "joint" else at
            groups.setdefault(key, []).append(question)
        return [tuple(group) for group in groups.values()]

    async def _check(self, example: Example, answer: QuotedAnswer) -> Score:
        """Return 1 for yes and 0 for no; `abstained` if the quoted passage does not exist."""
        texts = quotable(
            example,
            question_counts=self._question_counts or not example.passages,
            references_count=bool(self._task.reference_name),
        )
        return score_quoted(
            answer,
            texts,
            # a criterion of a rubric may be decided by something absent
            must_quote=not self.reads_rubrics or bool(answer.quote.strip()),
            **common_fields(example, answer.question, how="text", signature=self.signature),
            explanation=answer.text or None,
        )

    async def _check_batches(
        self,
        example: Example,
        batches: list[tuple[Aspect, ...]],
        answers: list[tuple[QuotedAnswer, ...] | Failure],
    ) -> list[Score | Failure]:
        """Look up the quotations of all batches; a failed batch is a failure of each question."""
        checked: list[Score | Failure] = []
        for batch, answered in zip(batches, answers, strict=True):
            if isinstance(answered, Failure):
                checked += [answered] * len(batch)
            else:
                checked += [await self._check(example, answer) for answer in answered]
        return checked

    async def _total(
        self, example: Example, aspect: Aspect, verdicts: list[Score | Failure]
    ) -> Score:
        signature = signature_of_parts(self.signature, verdicts)
        total = RubricTotal(signature, self._required_share, self.options.total)
        return await total(example, aspect, verdicts)

    async def _answer_by_probability(self, example: Example, question: Aspect) -> Score:
        words = question_of(question)
        if self.reads_rubrics:
            words = f"Does this {self._task.output_name.lower()} meet the criterion: {words}"
        text = self.options.pattern.replace("{question}", words)
        return await self._scorer(example, question.model_copy(update={"question": text}))

    async def _questions(self, aspect: Aspect) -> Decomposition:
        """Return the questions on an aspect, written once per run if no file has them."""
        if aspect.id in self._known_questions:
            return Decomposition(of=aspect, aspects=self._known_questions[aspect.id])
        return await self._write(aspect)

    async def _write_questions(self, aspect: Aspect) -> Decomposition:
        questions = await self._writer(aspect)
        return as_questions(aspect, questions.aspects, questions.notes)

    async def _lay_out(self, questions: list[Decomposition | Failure]) -> tuple[Aspect, ...]:
        """Return the questions of all aspects; an aspect whose questions failed has none."""
        there = [parts for parts in questions if isinstance(parts, Decomposition)]
        return tuple(item for part in there for item in part.aspects)

    async def _fuse(
        self,
        example: Example,
        aspect: Aspect,
        questions: Decomposition,
        all_questions: tuple[Aspect, ...],
        ratings: list[Score | Failure],
    ) -> Score:
        """Return the mean over an aspect's questions, with every answer as evidence."""
        # by id, since two aspects may share a question
        ids = {question.id for question in questions.aspects}
        pairs = [(q, r) for q, r in zip(all_questions, ratings, strict=True) if q.id in ids]
        signature = signature_of_parts(self.signature, [rating for _, rating in pairs])
        average = Average(signature, self.options.required)
        rises = aspect.higher_is_better  # a bad question's yes is 0
        parts = [r if q.higher_is_better == rises else reverse(r) for q, r in pairs]
        score = await average(example, aspect, parts)
        fields = ("answer", "quote", "found_in", "p_yes", "mass")
        evidence = [
            answer_evidence(rating, question_of(question), fields, without=("explanation",))
            | {"id": question.id}
            for question, rating in pairs
        ]
        if count := sum(isinstance(r, Score) and r.outcome == "abstained" for _, r in pairs):
            text = f"{count} of {len(pairs)} questions abstained"
            evidence.append({"text": text, "abstained": count})
        return score.model_copy(update={"evidence": (*evidence, *questions.notes)})

    @property
    def _reads_choices(self) -> bool:
        return self.options.answers == "p-yes"

    @property
    def reads_rubrics(self) -> bool:  # type: ignore[override]  # the options say it
        return self.options.checklist == "rubric"

    @property
    def _asks_jointly(self) -> bool:
        # a single criterion uses the prompt for several, which also asks for a reason
        return self.options.calls == "joint" or (self.reads_rubrics and not self._reads_choices)

    @property
    def questions_digest(self) -> str:
        """6 hex digits of all words of the questions known before the run; empty without any."""
        if not self._known_questions:
            return ""
        return trees.tree_digest(
            question for items in self._known_questions.values() for question in items
        )

    @property
    def _required_share(self) -> float:
        return (
            1.0 if self.reads_rubrics and "required" not in self.user_set else self.options.required
        )

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The chosen aspects, or with `output=questions` every question."""
        if self.options.output == "questions":
            return tuple(question for items in self._known_questions.values() for question in items)
        return super().aspects

    @property
    def how(self) -> How:
        """`fused`; for single questions `text`, or how P(yes) is obtained."""
        return "fused" if self.options.output == "aspects" else super().how

    def describe(self) -> dict[str, Any]:
        """Return options, task, prompt digest and the questions known before the run."""
        content = {
            root: {question.id: question_of(question) for question in items}
            for root, items in self._known_questions.items()
        }
        return super().describe() | {
            "questions": content,
            "questions_digest": self.questions_digest,
        }


def writer_for(models: Models, task: Task, options: ChecklistOptions) -> Decomposer:
    """Return the agent that writes the questions on one aspect."""
    ask = ask_to_write(
        models, "decomposer", "checklist_questions", task, options, seed=options.seed,
        what="a checklist", instead="give one with options={'checklist': 'FILE'}",
    )  # fmt: skip
    # at most the number of published questions on the relevance of summaries
    return Decomposer(ask, count=5, scale=UNIT, repairs=options.parse_retries, questions=True)


async def write_checklist(
    models: Models, task: Task, options: ChecklistOptions | None = None
) -> GrownTree:
    """Let a model write questions on a task's aspects, for `trees.save`."""
    options = options or ChecklistOptions()
    roots = on_scale(task.aspects, UNIT)
    grown = await grow(writer_for(models, task, options), roots, 2)
    nodes, notes = list[Aspect](), list(grown.notes)
    for root in roots:
        questions = as_questions(root, grown.tree.children(root.id), ())
        nodes += [root, *questions.aspects]
        notes += questions.notes
    return GrownTree(tree=AspectTree(aspects=tuple(nodes)), notes=tuple(notes))


def as_questions(
    aspect: Aspect, parts: tuple[Aspect, ...], notes: tuple[dict[str, Any], ...]
) -> Decomposition:
    """Return a model's list as questions; lines without a question are left out and noted."""
    items, dropped = list[Aspect](), list[Json]()
    for part in parts:
        if part.definition.rstrip().endswith("?"):
            items.append(part.model_copy(update={"question": part.definition}))
        else:  # a statement cannot be answered with yes or no
            text = f"{part.name}: {part.definition}"
            dropped.append({"text": text, "problem": "no question"})
    if not items:
        raise MalformedResponse(
            f"the model was asked for yes/no questions on {aspect.name!r} and wrote none"
        )
    return Decomposition(of=aspect, aspects=tuple(items), notes=(*notes, *dropped))


def _own_question(aspect: Aspect) -> Aspect:
    """Return the one question about an aspect with two labels: its own."""
    fields = {"definition": aspect.definition, "question": aspect.question, "parent": aspect.id}
    return Aspect(name="question", scale=UNIT, **fields)


def _aspect_of_rubric(task: Task) -> Aspect:
    """Return the aspect that is judged by rubrics: the named one, or `rubric`."""
    if task.aspects == task.family:
        definition = "how far the text does what its criteria ask for."
        return Aspect(name="rubric", definition=definition, scale=UNIT)
    if len(task.aspects) > 1:
        names = ", ".join(aspect.name for aspect in task.aspects)
        raise ConfigurationError(
            f"a rubric gives one score, and {names} are {len(task.aspects)} aspects; name one, or"
            " none"
        )
    if task.aspects[0].labels:
        raise ConfigurationError(
            f"a rubric gives a share of points, and {task.aspects[0].name!r} has labels; name an"
            " aspect with a scale, or none"
        )
    return on_scale(task.aspects, UNIT)[0]
