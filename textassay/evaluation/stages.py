"""The three stages of opening a run: models, method, records. Each is checked before the next.

1. `SessionModels`: the models by role, connected under one budget.
2. `SessionMethod`: the method with its tools, which accepts models and data.
3. `Records`: the run folder, and the places of answers and batches. It comes last, so that a
   refused run leaves no folder behind. The exit stack of the caller closes what a stage opens.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from textassay.evaluation import opening
from textassay.evaluation.manifest import check_same_run, open_folder, recorded_identity
from textassay.evaluation.progress import add_costs
from textassay.evaluation.request import RunRequest
from textassay.evaluation.sources import CompletedScores
from textassay.methods.by_name import build
from textassay.methods.method import Method, traits_of
from textassay.runtime.calls.call import Call, Wrapper, sender
from textassay.runtime.concurrency import in_thread
from textassay.runtime.data.dataset import DataInfo
from textassay.runtime.errors import CapabilityError
from textassay.runtime.messages import Aspect, Example, Score
from textassay.runtime.model import AnyResponse, Model
from textassay.runtime.stack import BatchedModel, ConnectedModel, usage_ledger, with_store
from textassay.runtime.storage.answer_store import AnswerStore
from textassay.runtime.storage.run_files import keep_rows
from textassay.runtime.storage.run_folder import RunFolder
from textassay.tools.tool import Tool, prepare_tools

if TYPE_CHECKING:
    from textassay.runtime.backends.scripted import BatchWaves
    from textassay.runtime.batches.batch import BatchBook


class SessionModel(Wrapper):
    """A session's model: methods are built with it before the session's cache is open.

    The cache is in the run folder, which is created only after the method was checked.
    """

    def send(self, call: Call) -> Coroutine[Any, Any, AnyResponse]:
        """Ask the current model, without a coroutine in between."""
        return sender(self.wrapped)(call)


@dataclass(frozen=True)
class SessionModels:
    """The models of a session, by role."""

    opened: Mapping[str, Model]
    """The models as they were connected or given."""
    for_method: Mapping[str, SessionModel]
    """The same models for the method; their caches are added once there are records."""

    @property
    def connected(self) -> tuple[ConnectedModel, ...]:
        """The connected models, each once: roles may share a model."""
        by_id = {id(m): m for m in self.opened.values() if isinstance(m, ConnectedModel)}
        return tuple(by_id.values())

    @property
    def batched(self) -> list[BatchedModel]:
        """The models that are asked through batches."""
        return opening.models_in_batches(self.opened)

    def add_caches(
        self, records: Records, *, dry: bool, observe: Callable[[Model], Model] | None
    ) -> None:
        """Put the session's cache around each model, before anything is asked."""
        earlier = records.earlier
        for role, model in self.for_method.items():
            identity = recorded_identity(model, earlier.get(role, earlier.get("")))
            cached = with_store(
                model.wrapped, records.answers, dry=dry, identity=identity, book=records.book,
                waves=records.waves,
            )  # fmt: skip
            model.wrapped = cached if observe is None else observe(cached)

    def costs(self) -> dict[str, float | None]:
        """Return the cost of each model in US dollars, by name."""
        each = {id(model): model for model in self.for_method.values()}
        return add_costs((model.name, usage_ledger(model).cost) for model in each.values())


async def open_session_models(
    request: RunRequest, given_models: Mapping[str, Model], stack: AsyncExitStack
) -> SessionModels:
    """Open the models of a request, except roles with models of the caller."""
    opened = await opening.open_models({**request.models, **given_models}, request.settings, stack)
    return SessionModels(opened, {role: SessionModel(model) for role, model in opened.items()})


@dataclass(frozen=True)
class SessionMethod:
    """A method that accepts the models and the data."""

    method: Method
    is_given: bool
    """Whether the caller has built the method, which then has its own models."""
    adjust: Callable[[Score], Score] | None = None
    """Changes each score before it is journaled."""


async def build_session_method(
    request: RunRequest,
    models: SessionModels,
    info: DataInfo,
    stack: AsyncExitStack,
    *,
    method: Method | None = None,
    tools: Sequence[str | Tool] | None = None,
    adjustment_for: Callable[[Method], Callable[[Score], Score]] | None = None,
    dry: bool = False,
) -> SessionMethod:
    """Build the method of a request with its tools, or take the given `method`, and check it.

    Raises:
        ConfigurationError: Method, tools, models and data are incompatible.
    """
    is_given, opened_tools = method is not None, tuple[Tool, ...]()
    roles = opening.UsedRoles(models.for_method)
    if method is None:
        opened_tools = opening.open_tools(request.method, tools or request.tools, roles, stack)
        method = build(
            request.method,
            roles,
            task=request.task,
            aspects=request.aspects,
            options=request.options,
            tools=_dry_run_tools(opened_tools) if dry else opened_tools,
        )
    used = {role: models.opened[role] for role in roles.used}
    if not is_given:
        roles.warn_of_unused(method.name)
        opening.check_submit_only(request.settings, used)
    _check_data(method, used.values(), info)
    adjust = None if adjustment_for is None else adjustment_for(method)
    await prepare_tools(opened_tools, load=not dry)
    return SessionMethod(method, is_given, adjust)


def _dry_run_tools(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    from textassay.tools.probability import LMProb
    from textassay.tools.tool import DryRunTool

    # a tool's model is also a stand-in, which counts its requests
    return tuple(
        tool if isinstance(tool, LMProb) and tool.connected is not None else DryRunTool(tool)
        for tool in tools
    )


def _check_data(method: Method, models: Iterable[Model], info: DataInfo) -> None:
    """Refuse data that the method cannot judge, and images that the judge cannot see."""
    traits = traits_of(method)
    takes_none = [f"the model {m.name}" for m in models if m.capabilities.images is False]
    if not traits.shows_images:
        takes_none.insert(0, f"the method {method.name}")
    if info.images and takes_none:
        raise CapabilityError(
            f"{info.images:,} of {info.count:,} examples have images, and {takes_none[0]} accepts"
            " only texts; choose another, or judge the texts alone: "
            'fields={NAME: "meta"}'
        )
    traits.check_data(info)


@dataclass(frozen=True)
class Records:
    """A session's stores of scores, answers and batches, with their earlier content."""

    folder: RunFolder | None = None
    answers: AnswerStore | None = None
    earlier: Mapping[str, Any] = field(default_factory=dict)
    """The models in the manifest of the run that is resumed, by role."""
    completed: CompletedScores | None = None
    """The scores of earlier sessions, if any."""
    book: BatchBook | None = None
    """The journal of batches, if a model is asked through them."""
    waves: BatchWaves | None = None
    """Counts the waves of batches in a dry run with batches."""


async def open_records(
    request: RunRequest,
    models: SessionModels,
    built: SessionMethod,
    stack: AsyncExitStack,
    *,
    dry: bool,
) -> Records:
    """Make the run folder, or open the folder of the resumed run; a dry run writes nothing.

    Raises:
        StorageError: The run folder or the cache cannot be opened.
    """
    if request.out is None or dry:
        store = await opening.open_store(request.settings, None, stack, read_only=dry)
        if not dry or not models.batched:
            return Records(answers=store)
        from textassay.runtime.backends.scripted import BatchWaves

        return Records(answers=store, waves=BatchWaves())
    folder = await open_folder(request.out, stack, resume=request.resume)
    store = await opening.open_store(request.settings, folder.answers, stack)
    # a given method has its own models, with their own journal
    batched = () if built.is_given else models.batched
    return Records(
        folder,
        store,
        earlier=folder.manifest.get("models", {}) if request.resume else {},
        # read from the journal, not from the summary: a killed session writes no summary
        completed=folder.tally if request.resume else None,
        book=await opening.open_book(batched, folder.path, stack),
    )


async def write_or_check_manifest(
    folder: RunFolder,
    manifest: dict[str, Any],
    judged: Iterable[Example],
    aspects: Iterable[Aspect],
    *,
    resume: bool,
) -> None:
    """Write the manifest of a new run, or check that a resumed run has the same one."""
    if not resume:
        folder.write_manifest(manifest)
        # data from memory are gone with the process, and scores do not contain the texts
        if manifest["data"]["path"] is None and manifest["settings"]["keep_rows"]:
            await in_thread(lambda: keep_rows(folder.path, judged))
        return
    check_same_run(folder.manifest, manifest)
    labels = [aspect.label for aspect in aspects]
    # scores of other data are refused before any request
    await in_thread(
        lambda: folder.check_pairs(
            lambda: ((example.id, label) for example in judged for label in labels)
        )
    )
