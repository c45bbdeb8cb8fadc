"""LLMScore and LLMScore with chain of thought: a judge is asked once, or several times, for a rating."""

from __future__ import annotations

from typing import Any

from textassay.agents.scorer import Scorer
from textassay.agents.task import Task
from textassay.methods.method import Models, Options, PromptOptions, model_for
from textassay.runtime.graph import Graph, Node, each
from textassay.runtime.messages import Aspect, Assignment, How


class LLMScore:
    """LLMScore, the plain baseline of CoAScore (arXiv 2312.10355, section 4.2 and appendix A.1).

    1. The judge sees the task, one aspect with its definition, the source and the text.
    2. It gives a reason in one sentence and a rating on the aspect's scale, at temperature 0.
    3. With `n` above 1 the mean of that many samples is taken (not in the paper).

    Deviations: the words of the prompt are ours, since the paper's table 8 is not in the copies we know; the rating is
    asked for with a reason. Models that are known to follow a JSON schema answer by one.
    """

    name = "llm-score"
    prompt = "llm_score"
    room = 512

    def __init__(self, models: Models, task: Task, options: Options | None = None) -> None:
        self.options = options or Options()
        self._task = task
        self.scorer = Scorer(
            model=model_for(models, "scorer"),
            task=task,
            method=self.name,
            prompt=self.options.prompt or self.prompt,
            how=self.options.how,
            form=self.options.form,
            layout=self.options.prompt_layout,
            n=self.options.n,
            temperature=self.options.warmth,
            seed=self.options.seed,
            parse_retries=self.options.parse_retries,
            max_tokens=self.options.max_tokens or self.room,
        )
        self.signature = self.scorer.signature
        self.graph = Graph(
            self.name,
            input=Assignment,
            nodes=[Node("scores", self.scorer, example="input.example", aspect=each("input.aspects"))],
            output="scores",
        )

    Options = Options

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
        """`text`, or `sampled` for `n` above 1."""
        return self.scorer.how

    def describe(self) -> dict[str, Any]:
        """Return options, task and prompt digest."""
        return describe(self.name, self._task, self.options, self.scorer.prompt_digest)


class LLMScoreCoT(LLMScore):
    """LLMScore with chain of thought (CoAScore, section 4.2): the judge thinks aloud before it rates.

    As `LLMScore`, but the prompt ends in the paper's "Let's think step by step:" and the rating comes at the end.
    """

    name = "llm-score-cot"
    prompt = "llm_score_cot"
    room = 1024


def describe(name: str, task: Task, options: PromptOptions, prompts: str) -> dict[str, Any]:
    """Return what a manifest records of a method."""
    return {
        "name": name,
        "task": {"name": task.name, "digest": task.digest},
        "aspects": [
            {"name": a.label, "scale": list(a.scale), "higher_is_better": a.higher_is_better} for a in task.aspects
        ],
        "options": options.model_dump(mode="json"),
        "prompts": prompts,
    }
