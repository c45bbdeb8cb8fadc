"""G-Eval: evaluation steps written by the model itself, form filling, and the expected rating."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Literal

from textassay.agents.ask import ProbabilityReading, never_cut
from textassay.agents.planning import StepsWriter, WrittenSteps, no_steps
from textassay.agents.prompt_template import Prompt, Task, prompt_digest
from textassay.agents.scorer import TOP_LOGPROBS, RatingReading
from textassay.methods.judging import PER_ASPECT, RatingMethod, ask_to_write
from textassay.methods.library import tasks
from textassay.methods.method import RatingOptions, model_for
from textassay.prompts import table_file
from textassay.runtime.calls.sharing import once
from textassay.runtime.graph import Node, each
from textassay.runtime.messages import Aspect
from textassay.runtime.model import ChatMessage


def with_published_words(task: Task) -> Task:
    """Return the task with the words that G-Eval's authors publish for SummEval's aspects.

    Definitions and steps are replaced, and fluency is rated on 1-3. Aspects whose definition or
    scale differs from the packaged task's are unchanged.
    """
    if task.published:
        return task
    table = tasks.load(str(table_file("g_eval")))
    theirs = {aspect.name: aspect for aspect in table.aspects}
    packaged = {(a.name, a.definition, a.scale) for a in tasks.load(table.name).aspects}
    names = tuple(a.name for a in task.aspects if (a.name, a.definition, a.scale) in packaged)
    digest = hashlib.sha256(f"{task.digest}{table.digest}".encode()).hexdigest()[:6]
    return task.model_copy(
        update={
            "aspects": tuple(theirs[a.name] if a.name in names else a for a in task.aspects),
            "steps": task.steps | {name: table.steps[name] for name in names},
            "published": names,
            "digest": digest if names else task.digest,
        }
    )


class GEvalOptions(RatingOptions):
    """Options of G-Eval."""

    steps: Literal["auto", "task", "none"] = "auto"
    """`auto`: the model writes the evaluation steps; `task`: they are taken from the task's file;
    `none`: there are no steps. With `profile=paper` the default is the authors' published steps,
    where they exist.
    """
    reading: ProbabilityReading = "auto"
    """`auto`: the mean over labels by log-probabilities if the model sends usable ones, otherwise
    the mean of samples; `logprob`: only by log-probabilities. `n` above 1 asks for samples.
    """


class GEval(RatingMethod):
    """G-Eval (Liu et al. 2023, arXiv 2303.16634).

    1. For each aspect the model writes evaluation steps from the task and the criterion (once,
    temperature 0).
    2. Task, criterion, steps, source and text are put into a form whose last line is the aspect's
    score.
    3. The score is the mean over labels, weighted by the token probabilities of the answer at
    temperature 0.
       Without usable log-probabilities, or with `n` above 1, it is the mean of sampled answers at
       temperature 1, an estimate of the same mean: 20 as in the paper.

    With the profile `paper` the prompts of SummEval's aspects are those that the authors publish
    (github.com/nlpyang/geval), steps included: fluency is rated on 1-3 by three grades, and the
    summary alone is shown for it.

    A decision model sends the distribution over the levels itself; its steps are written by the
    model of the role `steps`, or are the task's.

    Deviations: with other profiles texts are between delimiters, a sentence asks for the steps
    alone, fluency is rated on the task's scale, and the steps of `steps=task` are ours but for
    coherence. The mean over labels is renormalized, since other tokens have some probability; a
    model that thinks gives 5 samples rather than 20. The authors send the prompt as the system's
    message; here it is the user's.
    """

    name = "g-eval"
    prompt = "g_eval"
    labels_prompt = "g_eval_labels"
    ends_in_rating = True
    max_tokens = 16
    Options = GEvalOptions
    options: GEvalOptions

    def prepare(self) -> None:
        """Choose the steps for a judge that writes none, and the words of the profile `paper`."""
        if self.decides and "steps" not in self.user_set:
            self.options = self.options.model_copy(update={"steps": self._steps_of_a_decider()})
        if not self.profile.printed:
            return
        self._task = with_published_words(self._task)
        is_published = len(self._task.published) == len(self._task.aspects)
        if is_published and "steps" not in self.user_set:
            self.options = self.options.model_copy(update={"steps": "task"})

    def _steps_of_a_decider(self) -> Literal["auto", "task", "none"]:
        """Return the origin of the steps if the judge is a decision model.

        It is the model of the role `steps` if it can write, else the task's file if it has steps.
        """
        if not model_for(self.models, "steps").capabilities.only_decides:
            return "auto"
        names = {aspect.name for aspect in self._task.aspects}
        return "task" if names <= self._task.steps.keys() else "none"

    def nodes(self) -> list[Node]:
        """Write the steps of an aspect once, then fill in the form for every example."""
        self._write, self._find_logprobs = once(self._writer()), once(self._ask_for_logprobs)
        return [
            Node("steps", self._steps, aspect=each("input.aspects")),
            Node("scores", self.scorer, **PER_ASPECT, steps=each("steps")),
        ]

    async def _steps(self, aspect: Aspect) -> str:
        # before the steps, which cost a call for each aspect: a judge without log-probabilities is
        # refused
        if self.how_read == "logprob" and self.options.steps == "auto" and not self.decides:
            await self._find_logprobs()
        return await self._write(aspect)

    async def _ask_for_logprobs(self) -> None:
        """Find out by a request whether the judge sends log-probabilities, if it is unknown."""
        ask = self.scorer.ask
        if ask.model.capabilities.logprobs is None:
            await ask.answer(
                Prompt((ChatMessage(role="user", content="Answer with the number 1."),)),
                lambda sample: sample.text,
                is_cut=never_cut,
                logprobs=TOP_LOGPROBS,
                dry_run_answer="1",
            )

    @property
    def how_read(self) -> RatingReading:
        """`reading`, or `sampled` for `n` above 1."""
        # the paper samples because its GPT-4 had no log-probabilities; with them, one call gives
        # the same expectation without sampling error
        samples = self.options.n > 1 and self.options.reading == "auto"
        return "sampled" if samples else self.options.reading

    @property
    def variant(self) -> str:
        """Origin of the steps; a digest of the prompt if the model writes them."""
        if self.options.steps == "auto":
            # the prompt for the steps, since the steps are not known before the run
            has_labels = any(aspect.labels for aspect in self._task.aspects)
            also = ("g_eval_labels_steps",) if has_labels else ()
            return prompt_digest((self._steps_prompt, *also))
        return self.options.steps

    def _writer(self) -> Callable[[Aspect], Awaitable[str]]:
        if self.options.steps == "none":
            return no_steps
        if self.options.steps == "task":
            return WrittenSteps(self._task)
        ask = ask_to_write(
            self.models, "steps", self._steps_prompt, self._task, self.options,
            what="evaluation steps",
            instead="take the task's (options={'steps': 'task'}) or none (steps=none)",
        )  # fmt: skip
        return StepsWriter(ask, "g_eval_labels_steps")

    @property
    def _steps_prompt(self) -> str:
        # the paper's prompt itself, which ends where the steps would begin
        return self.profile.prompt(self.prompt) if self.profile.printed else "g_eval_steps"
