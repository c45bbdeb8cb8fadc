"""`LocalModel`: a model of this process behind a work queue.

Requests become tasks of the loaded model: tokenized, cut to fit its context, answered.
"""

from __future__ import annotations

import math
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, cast

from textassay.runtime.backends.local.scoring import (
    ChoicesPlan,
    ContinuationPlan,
    Evaluation,
    Generation,
    PromptIds,
    ScoringPlan,
)
from textassay.runtime.backends.local.tokens import Vocabulary
from textassay.runtime.backends.local.work_queue import WorkQueue
from textassay.runtime.errors import (
    CapabilityError,
    ConfigurationError,
    ContextTooLong,
    RequestRefused,
    TextassayError,
)
from textassay.runtime.model import (
    Capabilities,
    ChoicesRequest,
    ChoicesResponse,
    ContinuationRequest,
    ContinuationResponse,
    InProcessModel,
    Prompted,
    PromptedRequest,
    Request,
    Response,
)

if TYPE_CHECKING:
    from textassay.runtime.backends.local.json_grammar import JsonGrammar

LocalResponse = Response | ChoicesResponse | ContinuationResponse
Truncate = Literal["error", "source"]

AnyPrompted = TypeVar("AnyPrompted", bound=Prompted)
TokenPlan = TypeVar("TokenPlan")


@dataclass(frozen=True)
class LocalRules:
    """The options of a model that apply to every request."""

    name: str
    truncate: Truncate


ModelTask = ScoringPlan | Generation
"""The task of a request: text to score, or answers to write."""


class LoadedModel(ABC):
    """A loaded model on its thread: turns requests into tasks, and answers batches of them.

    `limit` is its longest sequence in tokens, `longest_answer` the most tokens of an answer to a
    request that names no limit; `grammar` turns a JSON schema into a function that makes the
    grammar of a sample.
    """

    def __init__(
        self,
        rules: LocalRules,
        vocabulary: Vocabulary,
        tokenize: Callable[[Prompted], PromptIds],
        *,
        limit: int,
        longest_answer: int | None = None,
        grammar: Callable[[Mapping[str, Any]], Callable[[], JsonGrammar]] | None = None,
    ) -> None:
        self._rules, self._vocabulary, self._tokenize = rules, vocabulary, tokenize
        self._limit = limit
        self._longest_answer, self._grammar = longest_answer or limit, grammar

    @property
    @abstractmethod
    def evaluated_tokens(self) -> int:
        """Tokens evaluated so far; a prefix that tasks share counts once."""

    @abstractmethod
    def run(
        self, tasks: Sequence[ModelTask], abandoned: Callable[[], bool]
    ) -> Sequence[LocalResponse | TextassayError]:
        """Answer tasks together."""

    @abstractmethod
    def close(self) -> None:
        """Free the model."""

    def prepare(self, request: PromptedRequest) -> ModelTask:
        """Return the task of a request, unless it cannot be answered."""
        if isinstance(request, Request):
            return self._writing(request)
        plan, truncated = fit_to_context(
            request, self._plan, lambda plan: plan.length, limit=self._limit, rules=self._rules
        )
        plan.truncated = truncated
        return plan

    def _plan(self, request: ChoicesRequest | ContinuationRequest) -> ScoringPlan:
        prompt = self._tokenize(request)
        if isinstance(request, ChoicesRequest):
            return ChoicesPlan(prompt, request.choices)
        return ContinuationPlan(prompt, request.continuation, self._vocabulary.text)

    def _writing(self, request: Request) -> Generation:
        answer = request.max_tokens or 1

        def length(prompt: PromptIds) -> int:
            # Encoder and decoder have their own positions: the longer of the two must fit.
            encoded = len(prompt.encoded)
            return max(encoded, answer) if encoded else len(prompt.ids) + answer

        prompt, truncated = fit_to_context(
            request, self._tokenize, length, limit=self._limit, rules=self._rules
        )
        ids = prompt.encoded if len(prompt.encoded) else prompt.ids
        room = self._limit if len(prompt.encoded) else self._limit - len(ids)
        schema = request.json_schema
        generation = Generation(
            self._vocabulary,
            request,
            ids,
            most=request.max_tokens or min(room, self._longest_answer),
            grammar=self._grammar(schema) if self._grammar and schema is not None else None,
        )
        generation.truncated = truncated
        return generation

    def answers(
        self,
        tasks: Sequence[ModelTask],
        score: Callable[[list[Evaluation]], None],
        write: Callable[[list[Generation]], None],
    ) -> list[LocalResponse | TextassayError]:
        """Evaluate tasks together; return their answers, or the error of one that failed."""
        plans = [task for task in tasks if isinstance(task, ScoringPlan)]
        if plans:
            score([evaluation for plan in plans for evaluation in plan.evaluations])
        generations = [task for task in tasks if isinstance(task, Generation)]
        if generations:
            write(generations)
        return [self._answer(task) for task in tasks]

    def _answer(self, task: ModelTask) -> LocalResponse | TextassayError:
        try:
            return task.response(self._rules.name)
        except TextassayError as error:  # such as a token that the model rules out
            return error


# ---- fitting ----


def fit_to_context(
    request: AnyPrompted,
    plan: Callable[[AnyPrompted], TokenPlan],
    length: Callable[[TokenPlan], int],
    *,
    limit: int,
    rules: LocalRules,
) -> tuple[TokenPlan, int]:
    """Return `plan(request)` with at most `limit` tokens, and how many tokens were left out.

    If the rules allow it, the request's `truncatable` text is cut at its end; `length` returns the
    tokens that a plan needs in the context.
    """
    whole = plan(request)
    needed = length(whole)
    if needed <= limit:
        return whole, 0
    problem = f"the request needs {needed} tokens and the context of {rules.name!r} has {limit}"
    if rules.truncate != "source" or not request.truncatable:
        raise ContextTooLong(
            f"{problem}; ask for a larger n_ctx, or allow cutting the source (truncate='source')"
        )
    # A template may have changed the text (stripped it, say); cutting elsewhere could cut the
    # question.
    if not any(request.truncatable in text for text in _texts(request)):
        raise RequestRefused(
            f"{problem}, and the text that may be cut does not occur unchanged in the prompt"
        )
    best = _longest(request, plan, length, limit)
    if best is None:
        raise ContextTooLong(f"{problem}, even without the source")
    return best, needed - length(best)


def _longest(
    request: AnyPrompted,
    plan: Callable[[AnyPrompted], TokenPlan],
    length: Callable[[TokenPlan], int],
    limit: int,
) -> TokenPlan | None:
    """Return the plan with the longest beginning of the source that fits."""
    source, best = request.truncatable or "", None
    places = _places_to_cut(source)
    low, high = 0, len(places)
    while low < high:
        middle = (low + high) // 2
        candidate = plan(_cut(request, source[: places[middle]]))
        if length(candidate) <= limit:
            best, low = candidate, middle + 1
        else:
            high = middle
    return best


def _texts(request: Prompted) -> list[str]:
    return [message.content for message in request.messages] or [request.prompt or ""]


def _places_to_cut(source: str) -> list[int]:
    """Return the ends of words, and the places in a word with none of them 40 characters before."""
    places, end = [], -math.inf
    for place, character in enumerate(source):
        if place and character.isspace():
            end = place
        if place == end or place - end > 40:
            places.append(place)
    return places


def _cut(request: AnyPrompted, beginning: str) -> AnyPrompted:
    """Return the request with the first occurrence of its source cut to this beginning."""
    source = request.truncatable or ""
    if request.prompt is not None:
        return request.model_copy(update={"prompt": request.prompt.replace(source, beginning, 1)})
    messages = list(request.messages)
    place = next(index for index, message in enumerate(messages) if source in message.content)
    content = messages[place].content.replace(source, beginning, 1)
    messages[place] = messages[place].model_copy(update={"content": content})
    return request.model_copy(update={"messages": tuple(messages)})


Loaded = TypeVar("Loaded", bound=LoadedModel)


class LocalModel(InProcessModel, Generic[Loaded]):
    """A model on one thread of its own; the first use, or `open`, loads it."""

    _follows_schemas = True

    def __init__(self, name: str, queue: WorkQueue[Loaded, PromptedRequest, LocalResponse]) -> None:
        self.name, self._queue = name, queue
        self._engine: Loaded | None = None
        # For a model that is not closed. At exit the queue joins its thread itself.
        weakref.finalize(self, queue.stop).atexit = False

    @property
    def capabilities(self) -> Capabilities:
        """The abilities; the default context length is known once the model is open."""
        return Capabilities(
            n=True,
            logprobs=True,
            json_schema=self._follows_schemas,
            seed=True,
            choices=True,
            continuation=True,
            functions=False,
            context_length=self._context_length,
        )

    @property
    @abstractmethod
    def _context_length(self) -> int | None:
        """Longest sequence in tokens; `None` if it is unknown or unlimited."""

    @property
    def evaluated_tokens(self) -> int:
        """Tokens evaluated so far; a prefix that requests share counts once."""
        return self._engine.evaluated_tokens if self._engine else 0

    async def open(self) -> Self:
        """Find, or download, the model and load it, unless it is loaded already."""
        engine = await self._queue.open()
        if not self._engine:
            self._engine = engine
            self._has_opened()
        return self

    def _has_opened(self) -> None:
        """Called once the model is loaded."""

    def _require_loaded(self) -> Loaded:
        """Return the loaded model, or raise `ConfigurationError`."""
        if not self._engine:
            raise ConfigurationError(
                f"model {self.name!r} is not open: its identity depends on its files"
                " (await model.open())"
            )
        return self._engine

    async def generate(self, request: Request) -> Response:
        """Return `n` sampled answers."""
        if request.extra:
            raise ConfigurationError(
                f"a local model takes no extra fields, and was given {', '.join(request.extra)}"
            )
        return cast(Response, await self._ask(request))

    async def choices(self, request: ChoicesRequest) -> ChoicesResponse:
        """Return the log of each choice's probability to come next, summed over its forms."""
        return cast(ChoicesResponse, await self._ask(request))

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        """Return the log-probability of each token of the continuation."""
        return cast(ContinuationResponse, await self._ask(request))

    async def _ask(self, request: PromptedRequest) -> LocalResponse:
        if request.images:
            raise CapabilityError(f"{self.name!r} runs in this process and takes no images")
        if not self._engine:
            await self.open()
        [answer] = await self._queue.ask([request])
        return answer

    async def aclose(self) -> None:
        """Stop, fail queued requests with `ModelClosed`, and free the memory."""
        await self._queue.aclose()
        self._engine = None

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
