"""What a request asks of the engine.

Tokenized, measured, and turned into an answer once evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from textassay.runtime.backends.llamacpp.fitting import Truncate, fit_to_context
from textassay.runtime.backends.llamacpp.generation import Generation
from textassay.runtime.backends.llamacpp.scoring import ChoicesPlan, ContinuationPlan, ScoringPlan
from textassay.runtime.backends.llamacpp.tokens import GGUFTokenizer
from textassay.runtime.backends.llamacpp.weights import Ids
from textassay.runtime.backends.transformers.engine import BatchRow, TransformersEngine
from textassay.runtime.backends.transformers.loading import LoadedTransformer
from textassay.runtime.errors import ContextTooLong
from textassay.runtime.model import (
    ChoicesRequest,
    ContinuationRequest,
    Prompted,
    Request,
    Response,
)

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class PromptLike(Protocol):
    """A tokenized prompt that knows what follows it."""

    ids: Ids

    def followed_by(self, text: str) -> Ids:
        """Return the ids of prompt and text together."""
        ...


class EncodedPrompt:
    """A prompt that goes through an encoder: what follows it is all that the decoder writes.

    Args:
        loaded: The model.
        tokenizer: Tokenizes plain text.
        prompt: The prompt's ids, without the encoder's end mark.
    """

    def __init__(self, loaded: LoadedTransformer, tokenizer: GGUFTokenizer, prompt: Ids) -> None:
        assert loaded.start is not None
        self._tokenizer = tokenizer
        self.encoded = np.concatenate([prompt, np.array(loaded.vocabulary.end_mark, np.int32)])
        self.ids: Ids = np.array([loaded.start], np.int32)

    def followed_by(self, text: str) -> Ids:
        """Return the decoder's ids for a text.

        A leading space is dropped, since the decoder's text begins here.
        """
        return np.concatenate([self.ids, self._tokenizer.plain(text.lstrip(" "))])


@dataclass(frozen=True)
class Rules:
    """What a model's options say about every request."""

    name: str
    truncate: Truncate
    seed: int | None


class ScoringTask(Generic[A]):
    """Scores given text.

    Args:
        rules: The model's.
        loaded: The model.
        tokenizer: Its tokenizer.
        request: What is asked.
        plan: Makes the evaluations of a tokenized prompt.

    Raises:
        ContextTooLong: Prompt and text do not fit.
        RequestRefused: The text cannot be scored.
    """

    def __init__(
        self,
        rules: Rules,
        loaded: LoadedTransformer,
        tokenizer: GGUFTokenizer,
        request: ChoicesRequest | ContinuationRequest,
        plan: Callable[[Any, Any], ScoringPlan[A]],
    ) -> None:
        self._rules, self._spell = rules, loaded.vocabulary.text
        encoded: list[Ids] = []

        def planned(one: Prompted) -> ScoringPlan[A]:
            prompt = tokenized(loaded, tokenizer, one)
            encoded[:] = [getattr(prompt, "encoded", np.empty(0, np.int32))]
            made = plan(prompt, one)
            # Encoder and decoder have their own positions: the longer of the two must fit.
            made.length = max(made.length, len(encoded[0]))
            return made

        self._plan, self._truncated = fit_to_context(
            request,
            planned,
            lambda made: made.length,
            limit=loaded.length,
            truncate=rules.truncate,
            name=rules.name,
        )
        # cutting guesses several prompts, of which the last is not always the one that is kept
        if self._truncated and loaded.is_encoder_decoder:
            raise ContextTooLong(
                f"{rules.name} does not cut prompts of encoder-decoder models; shorten the source"
            )
        self.rows = [BatchRow(evaluation, encoded[0]) for evaluation in self._plan.evaluations]
        self.length = sum(row.length for row in self.rows)

    def finish(self) -> A:
        """Return the answer, once evaluated."""
        return self._plan.response(self._rules.name, self._spell, self._truncated)


class WritingTask:
    """Writes answers.

    Args:
        rules: The model's.
        loaded: The model.
        tokenizer: Its tokenizer.
        request: What is asked.

    Raises:
        ContextTooLong: Prompt and answer do not fit.
    """

    def __init__(
        self, rules: Rules, loaded: LoadedTransformer, tokenizer: GGUFTokenizer, request: Request
    ) -> None:
        self._rules = rules
        answer = request.max_tokens or 1
        prompt, self._truncated = fit_to_context(
            request,
            lambda one: tokenized(loaded, tokenizer, one),
            lambda one: _evaluated(one, answer),
            limit=loaded.length,
            truncate=rules.truncate,
            name=rules.name,
        )
        ids = prompt.encoded if isinstance(prompt, EncodedPrompt) else prompt.ids
        # Models with relative positions have no length to bound an answer by.
        room = min(loaded.length, len(ids) + MAX_ANSWER)
        self.generation = Generation(
            loaded.vocabulary,  # type: ignore[arg-type]  # what a draft needs of a vocabulary
            request,
            ids,
            n_ctx=room if request.max_tokens is None else max(room, len(ids) + answer),
            seed=rules.seed,
        )
        self.length = len(ids) * 1 + request.n

    def finish(self) -> Response:
        """Return the answer, once written."""
        return self.generation.response(self._rules.name, self._truncated)


MAX_ANSWER = 1024
"""Longest answer in tokens, if the request names none."""


def tokenized(loaded: LoadedTransformer, tokenizer: GGUFTokenizer, request: Prompted) -> PromptLike:
    """Return a request's prompt as its model reads it."""
    prompt = tokenizer.prompt(request)
    return EncodedPrompt(loaded, tokenizer, prompt.ids) if loaded.is_encoder_decoder else prompt


def plan_choices(prompt: Any, request: ChoicesRequest) -> ChoicesPlan:
    """Return the evaluations of choices."""
    return ChoicesPlan(prompt, request.choices)


def plan_continuation(prompt: Any, request: ContinuationRequest) -> ContinuationPlan:
    """Return the evaluation of a continuation."""
    return ContinuationPlan(prompt, request.continuation)


def run(engine: TransformersEngine, tasks: Sequence[ScoringTask[Any] | WritingTask]) -> list[Any]:
    """Evaluate tasks together and return their answers in order."""
    scorings = [task for task in tasks if isinstance(task, ScoringTask)]
    writings = [task for task in tasks if isinstance(task, WritingTask)]
    if scorings:
        engine.score([row for task in scorings for row in task.rows])
    if writings:
        engine.generate([task.generation for task in writings])
    return [task.finish() for task in tasks]


def _evaluated(prompt: PromptLike, answer: int) -> int:
    """Return the longest sequence: the decoder's alone, if there is an encoder beside it."""
    if isinstance(prompt, EncodedPrompt):
        return max(len(prompt.encoded), answer)
    return len(prompt.ids) + answer
