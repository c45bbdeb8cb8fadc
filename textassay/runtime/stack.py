"""Combines a backend with its wrappers: cache, limits, retries, budget.

It opens the backend of a name, and puts the wrappers around it, always in the same order.

    questions -> samples -> meter -> adapt -> cache -> single-flight -> prefix -> health -> retry
    -> budget -> endpoints -> limit -> store -> deadline -> mask -> split thoughts -> backend

With batches: ... single-flight -> budget -> batch.

Only this file uses all of them; `docs/architecture.md` lists the class and the file of each. Rarely
needed ones (batches, dry runs) are imported on use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from textassay.runtime.backends.by_name import (
    api_key_of,
    check_model_protocol,
    open_backend,
    secrets_of,
)
from textassay.runtime.backends.endpoint import endpoint_of
from textassay.runtime.backends.thoughts import SplitThoughts
from textassay.runtime.base import Price, UsageTotal
from textassay.runtime.calls.adaptation import Adaptation, AdaptingModel
from textassay.runtime.calls.budget import Budget, BudgetedModel, MeteredModel
from textassay.runtime.calls.cache import CachedModel, StoringModel, WithIdentity
from textassay.runtime.calls.call import Call, RefusingModel, Wrapper, layers, sender
from textassay.runtime.calls.deciding import DecidingModel, decider
from textassay.runtime.calls.endpoints import EndpointsModel, EndpointState
from textassay.runtime.calls.limits import AdaptiveConcurrency, LimitedModel, Limiter, LimiterState
from textassay.runtime.calls.masking import MaskedModel
from textassay.runtime.calls.retry import DeadlineModel, Health, HealthModel, RetryingModel
from textassay.runtime.calls.samples import OneSamplePerRequest
from textassay.runtime.calls.sharing import PrefixModel, SharedModel
from textassay.runtime.calls.traits import Sampling
from textassay.runtime.concurrency import AsyncResource
from textassay.runtime.errors import ConfigurationError, ModelError
from textassay.runtime.graph import OBSERVERS
from textassay.runtime.model import AnyResponse, InProcessModel, Model
from textassay.runtime.questions import DecisionRequest, DecisionResponse
from textassay.runtime.settings import EndpointSettings, Settings
from textassay.runtime.storage.answer_store import AnswerStore
from textassay.runtime.storage.answers import DiskStore

if TYPE_CHECKING:
    from textassay.runtime.backends.scripted import BatchWaves
    from textassay.runtime.batches.batch import BatchBook
    from textassay.runtime.batches.dialect import Dialect
    from textassay.runtime.batches.model import BatchQueue


TIMEOUT, THINKING_TIMEOUT = 120.0, 600.0
"""Seconds for one attempt, without and with tokens for a thought. A plain answer that takes longer
than the first is stuck, and asking again is faster than waiting."""


def connect_model(model: str | Model, settings: Settings, budget: Budget) -> ConnectedModel:
    """Return a model with these settings; `connect` for callers with a complete `Settings`."""
    if not isinstance(model, str):
        backends = [(check_backend(model, settings), settings)]
    elif settings.endpoints:
        backends = _at_endpoints(model, settings)
    else:
        backends = [(open_backend(model, settings), settings)]
    return (BatchedModel if settings.batch else ConnectedModel)(backends, settings, budget)


def _at_endpoints(model: str, settings: Settings) -> list[tuple[Model, Settings]]:
    """Return the backend of each endpoint, and its settings."""
    opened = []
    for number, endpoint in enumerate(settings.endpoints, start=1):
        endpoint_settings = settings.at(endpoint)
        try:
            opened.append((open_backend(model, endpoint_settings), endpoint_settings))
        except ConfigurationError as error:
            raise ConfigurationError(f"endpoint {number}: {error}") from error
    return opened


class ConnectedModel(AsyncResource, Wrapper):
    """A backend inside its wrappers; open between `__aenter__` and `__aexit__`.

    Use one such object per endpoint, key and model, since all its callers share its limiter.
    """

    def __init__(
        self, backends: Sequence[tuple[Model, Settings]], settings: Settings, budget: Budget
    ) -> None:
        self.settings, self.budget = settings, budget
        self._backends = list(backends)
        self.backend = backends[0][0]
        if settings.endpoints:
            if isinstance(self.backend, InProcessModel):
                raise ConfigurationError(
                    f"{self.backend.name!r} runs in this process and has no endpoints"
                )
            # The endpoints share answers, so the identity omits the address.
            self._backends = [
                (WithIdentity(each, {**each.identity, "api_base": None}), e) for each, e in backends
            ]
            self.backend = self._backends[0][0]
        self._is_open = False
        # They queue calls themselves, without a time limit, and cost nothing.
        self._is_local = isinstance(self.backend, InProcessModel)
        self.price: Price | None = settings.price or getattr(self.backend, "price", None)
        if self._is_local:
            self.price = (0.0, 0.0)
        self.adaptation = self.new_adaptation()
        weights = [endpoint.weight for endpoint in settings.endpoints] or [1.0]
        self._endpoints = [
            EndpointState(number, self._open_limiter(endpoint_settings), weight)
            for number, ((_, endpoint_settings), weight) in enumerate(
                zip(self._backends, weights, strict=True), start=1
            )
        ]
        self.failures: Counter[str] = Counter()
        self.health = Health(outage_wait=settings.outage_wait)
        self._stack = AsyncExitStack()
        super().__init__(
            RefusingModel(self.backend, _not_opened(self.backend.name))
            if self._needs_opening
            else self.build_stack(None)
        )

    def check_open(self) -> None:
        """Refuse a model whose cache is not open."""
        if self._needs_opening and not self._is_open:
            raise ConfigurationError(_not_opened(self.name))

    def build_stack(
        self,
        store: AnswerStore | None,
        identity: Mapping[str, Any] | None = None,
        book: BatchBook | None = None,
    ) -> Model:
        """Return the backend in its wrappers with this store.

        Limiter, budget and failures stay this model's.
        """
        limited = [
            LimitedModel(self.guarded_backend(each, e, store, identity), endpoint.limiter)
            for (each, e), endpoint in zip(self._backends, self._endpoints, strict=True)
        ]
        endpoint_model = (
            limited[0] if len(limited) == 1 else EndpointsModel(limited, self._endpoints)
        )
        # From the inside out. Storing is innermost, except for time limit and mask, so that a
        # slot of the limiter is held until the answer is safe. The limiter is inside of the budget:
        # money is reserved while a request waits for its turn. Both are inside of retry, since each
        # attempt may be billed and counts against the limits. Health is outside of retry: it sees
        # calls that failed in every attempt.
        once = BudgetedModel(endpoint_model, self.budget, self.price)
        retrying = RetryingModel(
            once,
            attempts=self.settings.attempts,
            total_timeout=self.settings.total_timeout,
            on_failure=self._count,
            gives_up=self.health.finds_no_model,
        )
        healthy: Model = HealthModel(retrying, once=once, health=self.health)
        if not self._is_local:
            # Outside of retry, so that no time limit runs while a request waits for its turn.
            healthy = PrefixModel(healthy)
        # Hits must be free, so the cache is outside of all these; answers are stored further in.
        return with_outer_wrappers(healthy, store, adaptation=self.adaptation)

    def new_adaptation(self) -> Adaptation:
        """Return the adaptation of requests, with the backend's known traits."""
        sampling = Sampling.of(self.settings)
        adaptation = Adaptation(self.backend, sampling, in_batches=self.settings.batch)
        if isinstance(self.backend, Adapts):  # a recorded model knows the traits of its run
            adaptation.learned = self.backend.new_adaptation().learned
        return adaptation

    def guarded_backend(
        self,
        backend: Model,
        settings: Settings,
        store: AnswerStore | None,
        identity: Mapping[str, Any] | None,
    ) -> Model:
        """Return a backend with masking, a time limit, and storage of its answers."""
        guarded = _with_identity(backend, identity)
        # our backends for servers remove thoughts from answers themselves
        kind = "" if self._is_local else guarded.identity.get("backend")
        if kind not in ("openai-compatible", "litellm"):
            guarded = SplitThoughts(guarded)
        # requests that wait in the queue of a local model are not stuck
        if not self._is_local:
            if secrets := secrets_of(settings):
                guarded = MaskedModel(guarded, secrets)
            guarded = DeadlineModel(
                guarded,
                timeout=settings.timeout or TIMEOUT,
                thinking_timeout=settings.timeout or THINKING_TIMEOUT,
            )
        return guarded if store is None else StoringModel(guarded, store)

    def dry_run_backend(self, waves: BatchWaves | None) -> Model:
        """Return the substitute of the backend in a dry run."""
        from textassay.runtime.backends.scripted import DryRunModel

        return DryRunModel(self.backend, price=self.price)

    @property
    def bare(self) -> AdaptingModel:
        """The backend with adapted requests, but without cache, retries and limits."""
        guarded = self.guarded_backend(self.backend, self.settings, None, None)
        return AdaptingModel(guarded, self.adaptation)

    @property
    def settings_facts(self) -> Mapping[str, object]:
        """The settings' additions to every request, also before the model is opened."""
        return self.adaptation.sampling.facts

    @property
    def limiter(self) -> Limiter:
        """The limiter, of the first endpoint if there are several."""
        return self._endpoints[0].limiter

    @property
    def limiter_state(self) -> LimiterState:
        """The state of the limiters of all endpoints together."""
        first, *others = (endpoint.limiter.state for endpoint in self._endpoints)
        return sum(others, first)

    def divide_limits(self, part: int, parts: int) -> None:
        """Use one of several equal parts of its limits; see `Limiter.divide`.

        The queue of a local model is not divided.
        """
        for endpoint in self._endpoints:
            if not self._is_local:
                endpoint.limiter.divide(part, parts)

    @property
    def exceeds_limits(self) -> bool:
        """Whether more calls are in flight than the part of the limits allows."""
        return any(endpoint.limiter.is_exceeded for endpoint in self._endpoints)

    @property
    def _needs_opening(self) -> bool:
        return bool(self.settings.cache)

    def _open_limiter(self, settings: Settings) -> Limiter:
        thinks = not self._is_local and self.adaptation.learned.thinks
        # a local model runs one call at a time, and chooses the next from its queue
        queued = 4096 if self._is_local else 1
        return Limiter(
            rpm=settings.rpm,
            tpm=settings.tpm,
            concurrency=max(settings.concurrency, queued),
            first_share=1.0 if self._is_local else AdaptiveConcurrency.FIRST_SHARE,
            timeout=settings.timeout or (THINKING_TIMEOUT if thinks else TIMEOUT),
        )

    def _count(self, error: ModelError) -> None:
        self.failures[type(error).__name__] += 1

    async def __aenter__(self) -> Self:
        """Load a local model, and open the cache if one is set."""
        if isinstance(self.backend, InProcessModel):
            await self.backend.open()
        if self.settings.cache:
            store = DiskStore(self.settings.cache)
            self._stack.push_async_callback(store.aclose)
            self.wrapped = self.build_stack(store)
        self._is_open = True
        return self

    def send(self, call: Call) -> Coroutine[Any, Any, AnyResponse]:
        """Ask the open stack, without a further coroutine."""
        return sender(self.wrapped)(call)

    async def decide(self, request: DecisionRequest) -> DecisionResponse:
        return await decider(self.wrapped).decide(request)

    async def aclose(self) -> None:
        """Close the backend and the cache."""
        try:
            for backend, _ in self._backends:
                await backend.aclose()
        finally:
            await self._stack.aclose()


class BatchedModel(ConnectedModel):
    """A backend that is asked through its provider's batches instead of single calls."""

    def __init__(
        self, backends: Sequence[tuple[Model, Settings]], settings: Settings, budget: Budget
    ) -> None:
        self._queues: list[BatchQueue] = []
        super().__init__(backends, settings, budget)
        _ = self._dialect  # a provider without batches is refused here

    @cached_property
    def _dialect(self) -> Dialect:
        from textassay.runtime.batches.model import open_dialect

        return open_dialect(
            self.backend.name,
            api_base=self.settings.api_base,
            api_key=api_key_of(self.settings),
            endpoint=endpoint_of(self.settings),
            window=self.settings.batch_window,
        )

    @property
    def _batch_price(self) -> Price | None:
        return self.price and tuple(part * self._dialect.discount for part in self.price)

    def build_stack(
        self,
        store: AnswerStore | None,
        identity: Mapping[str, Any] | None = None,
        book: BatchBook | None = None,
    ) -> Model:
        from textassay.runtime.batches.model import BatchAbilities

        backend = _with_identity(self.backend, identity)
        core: Model = RefusingModel(backend, _without_book(backend.name))
        if store is not None and book is not None:
            # Around the queue, so that a request holds its part of the budget while its batch is
            # under way.
            core = BudgetedModel(
                self._open_queue(backend, store, book), self.budget, self._batch_price
            )
        batched = BatchAbilities(core, self._dialect)
        return with_outer_wrappers(batched, store, adaptation=self.adaptation)

    def only_batches(self, store: AnswerStore, book: BatchBook) -> Model:
        """Return the backend with batches only, without any other wrapper."""
        return self._open_queue(self.backend, store, book)

    def _open_queue(self, backend: Model, store: AnswerStore, book: BatchBook) -> BatchQueue:
        from textassay.runtime.batches.batch import Availability, BatchContext, PollPolicy
        from textassay.runtime.batches.model import BatchQueue

        settings = self.settings
        context = BatchContext(
            dialect=self._dialect,
            book=book,
            store=store,
            mask=MaskedModel(backend, secrets_of(settings)),
            policy=PollPolicy(call=settings.timeout or TIMEOUT, outage=settings.outage_wait),
            provider=Availability(backend.name),
            submit_only=settings.submit_only,
        )
        queue = BatchQueue(backend, context)
        self._queues.append(queue)
        return queue

    def dry_run_backend(self, waves: BatchWaves | None) -> Model:
        from textassay.runtime.backends.scripted import DryRunModel, WavesModel
        from textassay.runtime.batches.model import BatchAbilities

        backend = DryRunModel(self.backend, price=self._batch_price)
        counted = backend if waves is None else WavesModel(backend, waves)
        return BatchAbilities(counted, self._dialect)

    async def close_queues(self) -> None:
        """Stop waiting for batches; safe to call twice."""
        queues, self._queues = self._queues, []
        for queue in queues:
            await queue.aclose()

    async def aclose(self) -> None:
        try:
            await self.close_queues()
        finally:
            await super().aclose()


def with_outer_wrappers(
    core: Model, store: AnswerStore | None, *, adaptation: Adaptation | None = None
) -> Model:
    """Put single-flight, cache, adaptation, meter and the splitting of samples around a model.

    There is a cache only with a store. It looks answers up and never stores them: `core` does.
    """
    # Inside of the cache: callers that miss at the same time join one request, and its answer is
    # stored once.
    inner: Model = SharedModel(core, store)
    if store is not None:
        inner = CachedModel(inner, store)
    inner = adapting = AdaptingModel(inner, adaptation or Adaptation(core), store)
    # Splitting is outermost, so that each sample has a cache entry of its own.
    outer: Model = OneSamplePerRequest(MeteredModel(inner))
    # Outside of all others, as it makes many requests to a chat model.
    outer = outer if OBSERVERS.current is None else OBSERVERS.current.model(outer)
    return DecidingModel(outer, memory=adapting)


def _with_identity(model: Model, identity: Mapping[str, Any] | None) -> Model:
    """Return the model under another identity, if one is given."""
    return WithIdentity(model, identity) if identity else model


def _not_opened(name: str) -> str:
    return (
        f"model {name!r} was connected with cache=, which `async with` opens: "
        "write `async with textassay.connect(...) as model:`"
    )


def _without_book(name: str) -> str:
    return (
        f"batches of {name!r} are recorded in a run folder, and only for methods that are given by "
        "name: give out=RUN, and make a graph of your own a named method (an "
        "entry point of the group textassay.methods)"
    )


@runtime_checkable
class Adapts(Protocol):
    """A model that knows its settings."""

    def new_adaptation(self) -> Adaptation:
        """Return an adaptation that has learned nothing from a run."""
        ...


def with_store(
    model: Model,
    store: AnswerStore | None,
    *,
    dry: bool = False,
    identity: Mapping[str, Any] | None = None,
    book: BatchBook | None = None,
    waves: BatchWaves | None = None,
) -> Model:
    """Return `model` in a new stack of wrappers, whose cache is this store.

    A connected model keeps its limiter, budget and count of failures, see `build_stack`.
    """
    if isinstance(model, ConnectedModel):
        model.check_open()
        if not dry:
            return model.build_stack(store, identity, book)
    core = _with_identity(dry_run_model(model, waves) if dry else model, identity)
    if store is not None and not dry:
        core = StoringModel(core, store)
    # a new one, since nothing can be learned from the answers of a dry run
    adaptation = model.new_adaptation() if isinstance(model, Adapts) else None
    return with_outer_wrappers(core, store, adaptation=adaptation)


def dry_run_model(model: Model, waves: BatchWaves | None) -> Model:
    """Return the substitute of a model in a dry run."""
    from textassay.runtime.backends.scripted import DryRunModel

    if isinstance(model, ConnectedModel):
        return model.dry_run_backend(waves)
    return DryRunModel(model, price=None)


def usage_ledger(model: Model) -> UsageTotal:
    """Return the usage and cost so far of a model from `with_outer_wrappers`."""
    return next(layer.total for layer in layers(model) if isinstance(layer, MeteredModel))


def check_backend(model: Model, settings: Settings) -> Model:
    """Return the caller's model, after a check that it is a model."""
    if isinstance(model, ConnectedModel):
        raise ConfigurationError(f"model {model.name!r} is connected already")
    backend = check_model_protocol(model, f"{model!r:.80}")
    for name, field in EndpointSettings.model_fields.items():
        if getattr(settings, name) != field.default:
            raise ConfigurationError(
                f"{name}= has no effect on a model object, which connects to its server itself"
            )
    return backend
