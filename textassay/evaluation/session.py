"""Opens what a run needs, runs it to its end, and closes everything again.

In this order: tools by default, data, models, method and its tools, run folder, answers, engine.
What can be refused is refused before there is a run folder.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from textassay.evaluation import opening
from textassay.evaluation.engine import CompletedScores, EvaluationEngine
from textassay.evaluation.manifest import (
    build_manifest,
    check_same_run,
    open_folder,
    recorded_identity,
    with_absolute_paths,
)
from textassay.evaluation.progress import add_costs
from textassay.evaluation.request import RunRequest
from textassay.evaluation.run import Run
from textassay.evaluation.sources import Feed, check_examples, select_examples
from textassay.methods.by_name import build
from textassay.methods.library import tasks
from textassay.methods.method import (
    Method,
    traits_of,
)
from textassay.runtime.calls.budget import Budget
from textassay.runtime.concurrency import in_thread
from textassay.runtime.data.dataset import DataInfo, Examples
from textassay.runtime.errors import (
    CapabilityError,
    ConfigurationError,
    FatalModelError,
    StorageError,
    TextassayError,
)
from textassay.runtime.messages import Aspect, Example, Score, Usage, label_scales
from textassay.runtime.model import Model
from textassay.runtime.settings import Settings
from textassay.runtime.stack import ConnectedModel, usage_ledger
from textassay.runtime.storage.answers import AnswerStore
from textassay.runtime.storage.kept_rows import keep_rows
from textassay.runtime.storage.run_folder import RunFolder
from textassay.tools.tool import Tool, prepare_tools

if TYPE_CHECKING:
    from textassay.runtime.backends.scripted import BatchRounds
    from textassay.runtime.batches.batch import BatchBook

MAX_WAITING = 50_000
"""Examples in work at once if a model is asked through batches: the largest batch of most
providers."""

SPARE_WORKERS = 1.25
"""Examples in work per call in flight, so that rendering and journaling never leave the model
idle."""


@dataclass
class Session:
    """An open run."""

    engine: EvaluationEngine
    method: Method
    examples: Iterable[Example]
    """The examples; none if another process feeds them."""
    data: DataInfo
    models: Mapping[str, Model]
    """The models by role, with their caches."""
    connected: Sequence[ConnectedModel]
    """Those that were connected, each once, without their caches."""
    folder: RunFolder | None
    manifest: Callable[[], dict[str, Any]]
    """Returns the manifest of the run."""
    book: BatchBook | None = None
    """The journal of batches, if a model is asked through them."""
    rounds: BatchRounds | None = None
    """Counts the rounds of batches, in a dry run of models that are asked through batches."""
    tools_by_default: opening.ToolsByDefault | None = None
    """Tools that a new run takes because it names none."""

    @property
    def warning(self) -> str | None:
        """Why models that are asked through batches will take long; `None` if they will not."""
        chain = traits_of(self.method).chain
        if chain is None or not any(model.settings.batch for model in self.connected):
            return None
        return (
            f"batches take one wave of up to 24 hours per link of a chain, and {self.method.name}"
            f" {chain}"
        )

    @property
    def budget(self) -> Budget | None:
        """The budget that all models share; `None` if nothing is asked."""
        return self.connected[0].budget if self.connected else None

    def divide_limits(self, part: int, parts: int) -> None:
        """Keep to one of several equal parts of the models' limits; see `Limiter.divide`."""
        for model in self.connected:
            model.divide_limits(part, parts)

    @property
    def exceeds_limits(self) -> bool:
        """Whether calls are in flight for which a part of the limits has no place."""
        return any(model.exceeds_limits for model in self.connected)

    @property
    def usage(self) -> Usage:
        """What all models together cost in this session."""
        each = {id(model): usage_ledger(model).usage for model in self.models.values()}
        return sum(each.values(), Usage())

    def discard(self) -> bool:
        """Have the run folder removed unless a model answered or a batch may run; tell whether."""
        usage = self.usage
        answered = usage.calls + usage.cached_calls
        # a batch that was submitted will be paid, and only the run's journal knows of it
        if answered or not (self.book is None or self.book.is_free):
            return False
        return self.folder is not None and self.folder.discard()

    def write_summary(self) -> None:
        """Write the summary, and what the method made for people to read, to the run folder."""
        if self.folder is None:
            return
        sent = {model.name: model.adaptation.described for model in self.connected}
        self.folder.add_to_manifest({"sent": sent} if any(sent.values()) else {})
        self.folder.write_summary()
        for name, text in getattr(self.method, "artifacts", dict)().items():
            self.folder.keep(name, text)


@asynccontextmanager
async def open_session(
    examples: Any,
    request: RunRequest,
    *,
    method: Method | None = None,
    models: Mapping[str, Model] | None = None,
    tools: Sequence[str | Tool] | None = None,
    dry: bool = False,
    adjusting: Callable[[Method], Callable[[Score], Score]] | None = None,
    observe: Callable[[Model], Model] | None = None,
) -> AsyncIterator[Session]:
    """Check everything, open everything, and close it at the end of the block.

    What the caller has opened (a method, models, tools) takes the place of what `request` names.
    With `dry`, what would be asked is counted, and nothing is written.

    `adjusting` returns what is done to each score before it is journaled; it is called with the
    method before anything is asked. `observe` wraps each model outside of its cache, to see all
    that is asked.

    Raises:
        ConfigurationError: Something does not fit; nothing was asked and no run folder made.
        StorageError: The run folder or the cache cannot be opened.
    """
    request, by_default = with_absolute_paths(request), None
    settings, out, resume = request.settings, request.out, request.resume
    if method is None:
        request, by_default = opening.with_default_tools(request, tools, out if resume else None)
    # data are read before any model is connected: a bad row costs nothing then
    data, info = await _check_inputs(examples, request)
    # a dry run promises that the real one will start, so a folder in the way is refused here too
    if dry and out is not None and not resume:
        RunFolder.check_new(out)
    async with AsyncExitStack() as stack:
        given = await opening.open_models({**request.models, **(models or {})}, settings, stack)
        counted = {role: opening.SessionModel(model) for role, model in given.items()}
        roles, is_given = opening.UsedRoles(counted), method is not None
        method, taken = _open_method(method, request, tools, roles, stack, dry=dry)
        used = {role: given[role] for role in roles.used}
        if not is_given:  # a method that was given has asked for its models elsewhere
            roles.warn_of_unused(method.name)
            opening.check_submit_only(settings, used)
        _check_data(method, used.values(), info)
        adjust = adjusting(method) if adjusting is not None else None
        await prepare_tools(taken, load=not dry)
        # whatever can be refused has been: only now is there a folder
        folder = None
        if out is not None and not dry:
            folder = await open_folder(out, stack, resume=resume)
        store, before = await _open_answers(data, request, folder, stack, read_only=dry)
        batched = opening.models_in_batches(given)
        # a method that was given asks models of its own, with a journal of their own
        book = (
            None
            if is_given or folder is None
            else await opening.open_book(batched, folder.path, stack)
        )
        rounds = _rounds_to_count(batched, dry=dry)
        for role, model in counted.items():
            identity = recorded_identity(model, before.get(role, before.get("")))
            model.open(store, dry=dry, identity=identity, observe=observe, book=book, rounds=rounds)
        requested = opening.settings_as_requested(settings, models or {})
        manifest = partial(build_manifest, request, method, counted, info, requested)
        judged, total, completed = await plan_examples(
            data, info, request, folder, manifest, method.aspects
        )
        # each once: roles may share a model
        connected = tuple(
            {id(m): m for m in given.values() if isinstance(m, ConnectedModel)}.values()
        )
        engine = EvaluationEngine(
            judged,
            method,
            total=total,
            folder=folder,
            completed=completed,
            models=connected,
            costs=partial(_sum_costs, {} if is_given else counted),
            # a batch is sent once all its requests are there, so few workers would make many small
            # batches
            workers=min(total, MAX_WAITING if batched else count_workers(settings, connected)),
            adjust=adjust,
        )
        yield Session(
            engine=engine,
            method=method,
            examples=() if isinstance(data, Feed) else data,
            data=info,
            models=counted,
            connected=connected,
            folder=folder,
            manifest=manifest,
            book=book,
            rounds=rounds,
            tools_by_default=by_default,
        )


def _sum_costs(models: Mapping[str, Model]) -> dict[str, float | None]:
    """Return what each model has cost in US dollars, by its name."""
    each = {id(model): model for model in models.values()}
    return add_costs((model.name, usage_ledger(model).cost) for model in each.values())


def _check_data(method: Method, models: Iterable[Model], info: DataInfo) -> None:
    """Refuse data that the method cannot judge, and images that no judge would see."""
    takes_none = [f"the model {m.name}" for m in models if m.capabilities.images is False]
    if not traits_of(method).shows_images:
        takes_none.insert(0, f"the method {method.name}")
    if info.images and takes_none:
        raise CapabilityError(
            f"{info.images:,} of {info.count:,} examples have images, and {takes_none[0]} takes"
            " texts only; use another, or judge the texts alone: "
            'fields={NAME: "meta"}'
        )
    traits_of(method).check_data(info)


async def plan_examples(
    data: Examples | Feed,
    info: DataInfo,
    request: RunRequest,
    folder: RunFolder | None,
    manifest: Callable[[], dict[str, Any]],
    aspects: Iterable[Aspect],
) -> tuple[Iterable[Example] | Feed, int, CompletedScores | None]:
    """Bind the run folder; return what is judged, how much it is, and what is completed."""
    if isinstance(data, Feed):
        return data, info.count, data
    judged, total = select_examples(data, info.count, limit=request.limit, shard=request.shard)
    if folder is None:
        return judged, total, None
    await bind(folder, manifest(), judged, aspects, resume=request.resume)
    # read from the journal, not from the summary: a killed session writes no summary
    return judged, total, folder.tally if request.resume else None


async def bind(
    folder: RunFolder,
    manifest: dict[str, Any],
    judged: Iterable[Example],
    aspects: Iterable[Aspect],
    *,
    resume: bool,
) -> None:
    """Write what a new run does, or check that a resumed one does the same on the same data."""
    if not resume:
        folder.write_manifest(manifest)
        # data from memory are gone with the process, and the scores alone say nothing of texts
        if manifest["data"]["path"] is None and manifest["settings"]["keep_rows"]:
            await in_thread(lambda: keep_rows(folder.path, judged))
        return
    check_same_run(folder.manifest, manifest)
    labels = [aspect.label for aspect in aspects]
    # scores of something else than the data are refused before anything is asked
    await in_thread(
        lambda: folder.check_pairs(
            lambda: ((example.id, label) for example in judged for label in labels)
        )
    )


def count_workers(settings: Settings, models: Iterable[ConnectedModel]) -> int:
    """Return how many examples are in work at once if models are asked one by one."""
    in_flight = max([settings.concurrency, *(model.settings.concurrency for model in models)])
    # bounded, since a limit may be a billion, for "any number" or in a foreign manifest
    return max(1, int(min(in_flight, MAX_WAITING) * SPARE_WORKERS))


async def _open_answers(
    data: Examples | Feed,
    request: RunRequest,
    folder: RunFolder | None,
    stack: AsyncExitStack,
    *,
    read_only: bool,
) -> tuple[AnswerStore | None, Mapping[str, Any]]:
    """Open where answers are kept; return it, and the earlier models under which they are filed."""
    if isinstance(data, Feed):  # whoever feeds examples keeps answers itself
        return data.store, data.recorded
    default = None if folder is None else folder.answers
    store = await opening.open_store(request.settings, default, stack, read_only=read_only)
    earlier = {} if folder is None or not request.resume else folder.manifest
    return store, earlier.get("models", {})


async def _check_inputs(examples: Any, request: RunRequest) -> tuple[Examples | Feed, DataInfo]:
    if isinstance(examples, Feed):  # whoever feeds examples has checked all of them
        return examples, examples.info
    return await check_examples(examples, request)


def _open_method(
    given: Method | None,
    request: RunRequest,
    tools: Sequence[str | Tool] | None,
    models: Mapping[str, Model],
    stack: AsyncExitStack,
    *,
    dry: bool,
) -> tuple[Method, tuple[Tool, ...]]:
    """Return a method that was given, or the one of the request with its tools."""
    if given is not None:
        return given, ()
    taken = opening.open_tools(request.method, tools or request.tools, models, stack)
    method = build(
        request.method,
        models,
        task=request.task,
        aspects=request.aspects,
        options=request.options,
        tools=_dry_run_tools(taken) if dry else taken,
    )
    return method, taken


def notices(method: Method, spec: RunRequest, *, is_new: bool) -> Iterator[str]:
    """Yield what the user should know of a run's method first; names parameters (`parameter`)."""
    traits, task = traits_of(method), method.task
    if traits.probabilities is not None:
        yield f"{method.name} {traits.probabilities.notice}"
    if (
        traits.likelihoods_of is not None
        and traits.likelihoods_of.capabilities.continuation is None
    ):
        yield (
            f"{method.name} needs log-probabilities of a given text; whether the model gives them"
            " shows when it is asked: if it does not, the run stops at the first request"
        )
    if is_new and spec.task is None and task not in (None, tasks.DEFAULT):
        yield f"task: {task}, the first that has these aspects (task= names another)"


def _dry_run_tools(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    from textassay.tools.probability import LMProb
    from textassay.tools.tool import DryRunTool

    # the model that a tool was given is itself a stand-in, which counts what it is asked
    return tuple(
        tool if isinstance(tool, LMProb) and tool.connected is not None else DryRunTool(tool)
        for tool in tools
    )


def _rounds_to_count(batched: Sequence[ConnectedModel], *, dry: bool) -> BatchRounds | None:
    if not dry or not batched:
        return None
    from textassay.runtime.backends.scripted import BatchRounds

    return BatchRounds()


async def finish(session: Session) -> Run:
    """Run a session to its end and return the run, with its scores only if it has no folder."""
    scores: list[Score] = []
    async with writing_summary(session), aclosing(session.engine.score_lists()) as finished:
        async for journaled in finished:
            if session.folder is None:  # with a folder the scores are there, and memory stays flat
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


class Summarized(Protocol):
    """A session, or the record of a run with workers."""

    @property
    def folder(self) -> RunFolder | None:
        """The run folder, if there is one yet."""

    def discard(self) -> bool:
        """Have the folder removed if nothing was answered; return whether it will be."""

    def write_summary(self) -> None:
        """Write the summary of the scores so far, if there is a folder."""


@asynccontextmanager
async def writing_summary(session: Summarized) -> AsyncIterator[None]:
    """Write the run's summary when the block ends, and say how to resume a run that was stopped."""
    try:
        yield
    except TextassayError as error:
        if (folder := session.folder) is None:
            raise
        # a wrong key, or what a model lacks, is met by the first call: an empty run folder would
        # only be in the way of the corrected command
        if isinstance(error, FatalModelError | CapabilityError) and session.discard():
            error.add_note(
                f"no request was answered, so {folder.path} is not kept: fix this and repeat the "
                "command"
            )
            raise
        if not isinstance(error, StorageError):
            session.write_summary()
        if not isinstance(error, ConfigurationError):
            kept = "finished work is kept" if folder.tally.pairs else "nothing is finished yet"
            error.add_note(f"{kept}; continue with: textassay resume {folder.path}")
        raise
    # Ctrl-C and cancellation as well: a summary that lacks the last scores would contradict the
    # journal
    except BaseException:
        session.write_summary()
        raise
    session.write_summary()
