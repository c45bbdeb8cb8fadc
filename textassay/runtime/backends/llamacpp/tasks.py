"""What the owner thread is given to do: score given text, or write answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from textassay.runtime.backends.llamacpp.fitting import Truncate, fit_to_context
from textassay.runtime.backends.llamacpp.generation import Generation
from textassay.runtime.backends.llamacpp.loading import LoadedGGUF
from textassay.runtime.backends.llamacpp.queued_task import WorkerTask
from textassay.runtime.backends.llamacpp.scoring import ChoicesPlan, ContinuationPlan, ScoringPlan
from textassay.runtime.backends.llamacpp.streams import generate_together, score_together
from textassay.runtime.backends.llamacpp.tokens import GGUFTokenizer
from textassay.runtime.backends.llamacpp.weights import Ids
from textassay.runtime.errors import TextassayError
from textassay.runtime.model import (
    ChoicesRequest,
    ContinuationRequest,
    Prompted,
    Request,
    Response,
)


@dataclass(frozen=True)
class Rules:
    """What a model's options say about every request."""

    name: str
    truncate: Truncate
    seed: int | None


def plan_choices(tokenizer: GGUFTokenizer, request: ChoicesRequest) -> ChoicesPlan:
    """Tokenize a request for choices."""
    return ChoicesPlan(tokenizer.prompt(request), request.choices)


def plan_continuation(tokenizer: GGUFTokenizer, request: ContinuationRequest) -> ContinuationPlan:
    """Tokenize a request for a continuation."""
    return ContinuationPlan(tokenizer.prompt(request), request.continuation)


Q = TypeVar("Q", bound=Prompted)
A = TypeVar("A")


class ScoringTask(Generic[Q, A]):
    """Scores given text."""

    plan: ScoringPlan[A]

    def __init__(
        self, rules: Rules, request: Q, plan: Callable[[GGUFTokenizer, Q], ScoringPlan[A]]
    ) -> None:
        """Take a request, and what tokenizes it."""
        self._rules, self._request = rules, request
        self._plan_with = plan

    def prepare(self, resource: LoadedGGUF) -> bytes:
        """Tokenize; the key is the longest evaluation's ids."""
        self.plan, self._truncated = fit_to_context(
            self._request,
            lambda request: self._plan_with(resource.tokenizer, request),
            lambda plan: plan.length,
            limit=resource.engine.n_ctx,
            truncate=self._rules.truncate,
            name=self._rules.name,
        )
        # The longest one decides what stays in the cache, and so what the next task can share.
        return sort_key(max((evaluation.ids for evaluation in self.plan.evaluations), key=len))

    def run(self, resource: LoadedGGUF, abandoned: Callable[[], bool]) -> A:
        """Evaluate alone."""
        resource.engine.score(self.plan.evaluations, abandoned)
        return self.finish(resource)

    def finish(self, resource: LoadedGGUF) -> A:
        """Return the answer, once evaluated."""
        return self.plan.response(self._rules.name, resource.weights.text, self._truncated)


class WritingTask:
    """Writes answers."""

    def __init__(self, rules: Rules, request: Request) -> None:
        self._rules, self._request = rules, request

    def prepare(self, resource: LoadedGGUF) -> bytes:
        """Tokenize; the key is the prompt's ids."""
        limit = resource.engine.n_ctx
        answer = self._request.max_tokens or 1
        prompt, self._truncated = fit_to_context(
            self._request,
            resource.tokenizer.prompt,
            lambda prompt: len(prompt.ids) + answer,
            limit=limit,
            truncate=self._rules.truncate,
            name=self._rules.name,
        )
        self.generation = Generation(
            resource.weights, self._request, prompt.ids, n_ctx=limit, seed=self._rules.seed
        )
        return sort_key(prompt.ids)

    def run(self, resource: LoadedGGUF, abandoned: Callable[[], bool]) -> Response:
        """Write the samples one after the other."""
        self.generation.run(resource.engine, abandoned)
        return self.finish(resource)

    def finish(self, _: LoadedGGUF) -> Response:
        """Return the answer, once written."""
        return self.generation.response(self._rules.name, self._truncated)


def run_together(
    resource: LoadedGGUF,
    tasks: Sequence[WorkerTask[LoadedGGUF, object]],
    abandoned: Callable[[], bool],
) -> list[object]:
    """Run several tasks in shared batches, for throughput mode.

    Returns:
        Results in order, with the error in place of a task that failed.
    """
    scorings = [task for task in tasks if isinstance(task, ScoringTask)]
    writings = [task for task in tasks if isinstance(task, WritingTask)]
    if scorings:
        score_together(
            resource.engine, [one for task in scorings for one in task.plan.evaluations], abandoned
        )
    written = generate_together(resource.engine, [task.generation for task in writings], abandoned)
    failed = dict(zip(map(id, writings), written, strict=True))
    # By identity: two equal requests are two tasks.
    return [failed.get(id(task)) or _finished(task, resource) for task in tasks]


def _finished(task: object, resource: LoadedGGUF) -> object:
    assert isinstance(task, ScoringTask | WritingTask)
    try:
        return task.finish(resource)
    except TextassayError as error:  # such as a token that the model rules out
        return error


def sort_key(ids: Ids) -> bytes:
    """Return ids as bytes that sort as the ids do."""
    return ids.astype(">u4").tobytes()
