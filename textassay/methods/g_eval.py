"""G-Eval: evaluation steps written by the model itself, form filling, and the expected rating."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from textassay.agents.asking import prompt_digest
from textassay.agents.scorer import Scorer
from textassay.agents.steps import Steps, StepsWriter, WrittenSteps
from textassay.agents.task import Task
from textassay.methods.llm_score import describe
from textassay.methods.method import Models, Options, model_for
from textassay.runtime.graph import Graph, Node, each
from textassay.runtime.messages import Aspect, Assignment, How
from textassay.runtime.share import once

STEPS_PROMPT = "g_eval_steps"


def _once(writer: StepsWriter | WrittenSteps) -> Callable[[Aspect], Awaitable[Steps]]:
    """Return the writer as an agent that is asked once an aspect, whatever the number of examples."""
    remembered = once(writer)

    async def write_steps(aspect: Aspect) -> Steps:
        return await remembered(aspect)

    return write_steps


class GEvalOptions(Options):
    """Options of G-Eval."""

    steps: Literal["auto", "task"] = "auto"
    """Whether the model writes the evaluation steps or they are taken from the task's file."""


class GEval:
    """G-Eval (Liu et al. 2023, arXiv 2303.16634).

    1. For each aspect the model writes evaluation steps from the task and the criterion (once, temperature 0).
    2. Task, criterion, steps, source and text are put into a form whose last line is the aspect's score.
    3. `n` = 1: the score is the mean over labels, weighted by the token probabilities of the answer at temperature 0.
       `n` > 1: it is the mean of `n` sampled answers at temperature 1 (the paper: n = 20), which estimates the same.

    Deviations: fluency is rated on the task's scale (the paper: 1-3); texts stand between delimiters; the mean over
    labels is renormalised, since other tokens have some probability. A model without log-probabilities is an error
    that names `--n 20`, never a fallback.
    """

    name = "g-eval"
    prompt = "g_eval"
    room = 16
    Options = GEvalOptions

    def __init__(self, models: Models, task: Task, options: GEvalOptions | None = None) -> None:
        self.options = options or GEvalOptions()
        self._task = task
        self.scorer = Scorer(
            model=model_for(models, "scorer"),
            task=task,
            method=self.name,
            prompt=self.options.prompt or self.prompt,
            how="logprob" if self.options.n == 1 else "sampled",
            form=self.options.form,
            layout=self.options.prompt_layout,
            n=self.options.n,
            temperature=self.options.warmth,
            seed=self.options.seed,
            parse_retries=self.options.parse_retries,
            max_tokens=self.options.max_tokens or self.room,
            variant=self._steps_variant(),
        )
        self.signature = self.scorer.signature
        writer = WrittenSteps(task) if self.options.steps == "task" else StepsWriter(model_for(models, "steps"), task)
        self.graph = Graph(
            self.name,
            input=Assignment,
            nodes=[
                Node("steps", _once(writer), aspect=each("input.aspects")),
                Node(
                    "scores",
                    self.scorer,
                    example="input.example",
                    aspect=each("input.aspects"),
                    steps=each("steps"),
                ),
            ],
            output="scores",
        )

    def _steps_variant(self) -> str:
        """Return what tells apart scores whose steps came about differently."""
        return "task" if self.options.steps == "task" else prompt_digest((STEPS_PROMPT,))

    @property
    def task(self) -> str:
        """Name of the task."""
        return self._task.name

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The task's chosen aspects."""
        return self._task.aspects

    @property
    def how(self) -> How:
        """`logprob`, or `sampled` for `n` above 1."""
        return self.scorer.how

    def describe(self) -> dict[str, Any]:
        """Return options, task and prompt digest."""
        return describe(self.name, self._task, self.options, self.scorer.prompt_digest)
