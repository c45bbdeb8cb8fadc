"""Opens a run in three stages, runs it to its end, and closes everything again.

First come default tools and data, then the stages of `stages.py`, and last the engine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from textassay.evaluation import opening
from textassay.evaluation.engine import EvaluationEngine
from textassay.evaluation.manifest import build_manifest, with_absolute_paths
from textassay.evaluation.request import RunRequest
from textassay.evaluation.run import Run
from textassay.evaluation.sources import FedSource, Source, open_source
from textassay.evaluation.stages import (
    Records,
    SessionMethod,
    SessionModels,
    build_session_method,
    open_records,
    open_session_models,
    write_or_check_manifest,
)
from textassay.methods.library import tasks
from textassay.methods.method import Method, traits_of
from textassay.runtime.base import Usage
from textassay.runtime.calls.budget import Budget
from textassay.runtime.data.dataset import DataInfo
from textassay.runtime.errors import (
    CapabilityError,
    ConfigurationError,
    FatalModelError,
    StorageError,
    TextassayError,
)
from textassay.runtime.messages import Example, Score, label_scales
from textassay.runtime.model import Model
from textassay.runtime.settings import Settings
from textassay.runtime.stack import ConnectedModel, usage_ledger
from textassay.runtime.storage.answer_store import AnswerStore
from textassay.runtime.storage.run_folder import RunFolder, check_new
from textassay.tools.tool import Tool

MAX_WAITING = 50_000
"""Examples in progress at once if a model is asked through batches: the largest batch of most
providers."""


@dataclass(frozen=True)
class Session:
    """An open run."""

    request: RunRequest
    """The request, with the settings for resuming."""
    source: Source
    method: Method
    """The method, ready to run."""
    models: Mapping[str, Model]
    """The models by role, with their caches."""
    connected: tuple[ConnectedModel, ...]
    """The connected models, each once, without their caches."""
    records: Records
    engine: EvaluationEngine
    examples: Iterable[Example] = ()
    """All examples of the data; empty if another process feeds them."""
    tools_notice: str = ""
    """Notice of the default tools of a new run."""

    @property
    def data(self) -> DataInfo:
        """Facts about all of the data."""
        return self.source.info

    @property
    def folder(self) -> RunFolder | None:
        """The run folder, if scores are kept."""
        return self.records.folder

    def manifest(self) -> dict[str, Any]:
        request = self.request
        return build_manifest(request, self.method, self.models, self.data, request.settings)

    @property
    def warning(self) -> str:
        """Why batches will take long; empty if they will not."""
        chain = traits_of(self.method).chain
        if chain is None or not any(model.settings.batch for model in self.connected):
            return ""
        return (
            f"batches take one wave of up to 24 hours per link of a chain, and {self.method.name}"
            f" {chain}"
        )

    @property
    def budget(self) -> Budget | None:
        """The budget that all models share; `None` without models."""
        return self.connected[0].budget if self.connected else None

    def divide_limits(self, part: int, parts: int) -> None:
        """Use one of several equal parts of the models' limits; see `Limiter.divide`."""
        for model in self.connected:
            model.divide_limits(part, parts)

    @property
    def exceeds_limits(self) -> bool:
        """Whether more calls are in flight than the part of the limits allows."""
        return any(model.exceeds_limits for model in self.connected)

    @property
    def usage(self) -> Usage:
        """The usage of all models in this session."""
        each = {id(model): usage_ledger(model).usage for model in self.models.values()}
        return sum(each.values(), Usage())

    def write_summary(self) -> None:
        """Write the summary, and the method's files for people to read, to the run folder."""
        if self.folder is None:
            return
        adaptations = {model.name: model.adaptation.described for model in self.connected}
        self.folder.add_to_manifest({"sent": adaptations} if any(adaptations.values()) else {})
        self.folder.write_summary()
        for name, text in getattr(self.method, "artifacts", dict)().items():
            self.folder.write_extra_file(name, text)


@asynccontextmanager
async def open_session(
    examples: Any,
    request: RunRequest,
    *,
    method: Method | None = None,
    models: Mapping[str, Model] | None = None,
    tools: Sequence[str | Tool] | None = None,
    dry: bool = False,
    adjustment_for: Callable[[Method], Callable[[Score], Score]] | None = None,
    observe: Callable[[Model], Model] | None = None,
) -> AsyncIterator[Session]:
    """Check everything, open everything, and close it at the end of the block.

    A method, models and tools that the caller has opened replace the named ones in `request`. With
    `dry`, requests are counted and not sent, and nothing is written. `adjustment_for` is called
    with the method before any request, and returns a function that changes each score before it is
    journaled. `observe` wraps each model outside of its cache, to see all requests.

    Raises:
        ConfigurationError: The request is wrong; no model was called and no run folder was made.
        StorageError: The run folder or the cache cannot be opened.
    """
    request, given_models = with_absolute_paths(request), models or {}
    tools_notice = ""
    if method is None:
        earlier = request.out if request.resume else None
        request, tools_notice = opening.with_default_tools(request, tools, earlier)
    # data are read before any model is connected, so that a bad row costs nothing
    source = await open_source(examples, request)
    # a dry run promises that the real run will start, so it also refuses an existing folder
    if dry and request.out is not None and not request.resume:
        check_new(request.out)
    async with AsyncExitStack() as stack:
        opened = await open_session_models(request, given_models, stack)
        built = await build_session_method(
            request, opened, source.info, stack,
            method=method, tools=tools, adjustment_for=adjustment_for, dry=dry,
        )  # fmt: skip
        records = await open_records(request, opened, built, stack, dry=dry)
        opened.add_caches(records, dry=dry, observe=observe)
        session = _assemble(request, source, opened, built, records)
        requested = opening.settings_as_requested(request.settings, given_models)
        session = replace(
            session,
            request=request.model_copy(update={"settings": requested}),
            examples=source.examples,
            tools_notice=tools_notice,
        )
        if records.folder is not None:
            judged, aspects = source.judged, built.method.aspects
            await write_or_check_manifest(
                records.folder, session.manifest(), judged, aspects, resume=request.resume
            )
            recorded = records.folder.manifest.get("sent") or {}
            for model in session.connected:
                model.adaptation.answered_as += recorded.get(model.name, {}).get("answered_as", ())
        yield session


@asynccontextmanager
async def open_fed_session(
    feed: FedSource, request: RunRequest, answers: AnswerStore | None, earlier: Mapping[str, Any]
) -> AsyncIterator[Session]:
    """Open the session of a worker: another process has read the data, and keeps the scores.

    Args:
        feed: Gets the examples from that process.
        request: With absolute paths and the tools that the run takes.
        answers: Store of answers, if there is one.
        earlier: The models in the manifest of the run that is resumed, by role.
    """
    async with AsyncExitStack() as stack:
        models = await open_session_models(request, {}, stack)
        built = await build_session_method(request, models, feed.info, stack)
        records = Records(answers=answers, earlier=earlier, completed=feed)
        models.add_caches(records, dry=False, observe=None)
        yield _assemble(request, feed, models, built, records)


def _assemble(
    request: RunRequest,
    source: Source,
    models: SessionModels,
    built: SessionMethod,
    records: Records,
) -> Session:
    """Return the session with its engine."""
    connected = models.connected
    in_progress = count_workers(request.settings, connected)
    engine = EvaluationEngine(
        source,
        built.method,
        folder=records.folder,
        completed=records.completed,
        models=connected,
        # a given method has its own models
        costs=dict if built.is_given else models.costs,
        # a batch is sent when all workers wait, so few workers would make many small batches
        workers=min(source.total, MAX_WAITING if models.batched else in_progress),
        adjust=built.adjust,
    )
    return Session(request, source, built.method, models.for_method, connected, records, engine)


def count_workers(settings: Settings, models: Iterable[ConnectedModel]) -> int:
    """Return the number of examples in progress at once without batches."""
    in_flight = max([settings.concurrency, *(model.settings.concurrency for model in models)])
    # bounded, since a limit may be a billion, for "any number" or in a foreign manifest; a quarter
    # more than calls in flight, so that the model is never idle during rendering and journaling
    return max(1, int(min(in_flight, MAX_WAITING) * 1.25))


def notices(method: Method, request: RunRequest, *, is_new: bool) -> Iterator[str]:
    """Yield notices on a run's method, which name parameters as Python takes them."""
    traits, task = traits_of(method), method.task
    if traits.probabilities is not None:
        yield f"{method.name} {traits.probabilities.notice}"
    if (
        traits.likelihoods_of is not None
        and traits.likelihoods_of.capabilities.continuation is None
    ):
        yield (
            f"{method.name} needs log-probabilities of a given text; if the model does not return"
            " them, the run stops at the first request"
        )
    n = request.options.get("n", 1)
    if n != 1 and request.options.get("temperature") == 0:
        yield (
            f"{n} samples at temperature 0 are nearly the same answer {n} times:"
            " eight gained 1.4 points on RewardBench 2 in place of 3.6; leave out temperature="
        )
    if is_new and request.task is None and task not in (None, tasks.DEFAULT):
        yield f"task: {task}, the first that has these aspects (task= names another)"


async def finish(session: Session) -> Run:
    """Run a session to its end; return the run, with scores in memory only without a folder."""
    scores: list[Score] = []
    async with writing_summary(session), aclosing(session.engine.score_lists()) as finished:
        async for journaled in finished:
            if session.folder is None:  # otherwise they are on disk
                scores += journaled
    path = None if session.folder is None else session.folder.path
    return Run(
        folder=path,
        scores=scores,
        progress=session.engine.progress,
        examples=session.examples,
        labels=label_scales(session.method.aspects),
        manifest=None if path is not None else session.manifest(),
    )


class HasSummary(Protocol):
    """A session, or the record of a run with workers."""

    @property
    def folder(self) -> RunFolder | None:
        """The run folder, if there is one yet."""

    def write_summary(self) -> None:
        """Write the summary of the scores so far, if there is a folder."""


@asynccontextmanager
async def writing_summary(session: HasSummary) -> AsyncIterator[None]:
    """Write the run's summary when the block ends; add to errors how to resume the run."""
    try:
        yield
    except TextassayError as error:
        folder = session.folder
        if folder is None and not isinstance(error, ConfigurationError):
            error.add_note("with out=, finished work is kept and can be resumed")
        if folder is None or not folder.manifest:
            raise
        # a wrong key or a missing ability fails the first call; nothing is written then, so that
        # the corrected command can use the folder
        if isinstance(error, FatalModelError | CapabilityError) and not folder.tally.pairs:
            # resuming would fail again if the model lacks an ability
            resume = f", or continue with: textassay resume {folder.path}"
            can_resume = isinstance(error, FatalModelError)
            error.add_note(
                f"nothing is scored yet: fix this and repeat the command{resume * can_resume}"
            )
            raise
        if not isinstance(error, StorageError):
            session.write_summary()
        if not isinstance(error, ConfigurationError):
            state = "finished work is kept" if folder.tally.pairs else "nothing is finished yet"
            error.add_note(f"{state}; continue with: textassay resume {folder.path}")
        raise
    # also after Ctrl-C and cancellation: a summary without the last scores would contradict the
    # journal
    except BaseException:
        session.write_summary()
        raise
    session.write_summary()
