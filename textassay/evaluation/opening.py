"""Opens models, their answers and tools by name: for runs, for `fit` and for the command line.

Everything opened here is closed with the exit stack of the caller.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from textassay.evaluation.request import RunRequest, in_every_role, request_from_manifest
from textassay.methods.by_name import default_tools, tools_for
from textassay.runtime.backends.by_name import is_replay, load_backend
from textassay.runtime.calls.budget import Budget
from textassay.runtime.concurrency import in_thread
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.model import Model
from textassay.runtime.settings import SHARED_BY_ROLES, Settings
from textassay.runtime.stack import BatchedModel, ConnectedModel, connect_model
from textassay.runtime.storage.answer_admin import holds_answers
from textassay.runtime.storage.answer_store import AnswerStore
from textassay.runtime.storage.answers import DiskStore, RecordedAnswers
from textassay.runtime.storage.run_files import read_manifest
from textassay.tools.tool import Tool

if TYPE_CHECKING:
    from textassay.runtime.batches.batch import BatchBook

_log = logging.getLogger(__name__)


async def open_models(
    models: Mapping[str, str | Model], settings: Settings, stack: AsyncExitStack
) -> dict[str, Model]:
    """Return models by role; names are connected under one budget.

    A role with settings but without a model uses the general model with these settings. Roles with
    the same model and settings share one object. The models have no caches; see `open_store` and
    `with_store`. A replay sends each role's original requests.
    """
    general = models.get("")
    recorded: Sequence[str] = ()
    if isinstance(general, str) and is_replay(general):
        from textassay.runtime.backends.replay import roles_of_replay

        recorded = roles_of_replay(general)
    # one budget for all roles: the limit is on the run, not on each model
    budget = Budget(settings.max_cost)
    uncached = settings.model_copy(update={"cache": None})  # one cache serves all models
    opened: list[tuple[str, Settings, ConnectedModel]] = []
    by_role: dict[str, Model] = {}
    for role, model in in_every_role(models, (*settings.roles, *recorded)).items():
        if isinstance(model, str):
            model_settings = uncached.for_role(role)
            if is_replay(model):
                from textassay.runtime.backends.replay import with_recorded_sampling

                model_settings = with_recorded_sampling(model, model_settings, role)
            same = (o for name, how, o in opened if (name, how) == (model, model_settings))
            connected = next(same, None)
            if connected is None:
                await load_backend(model)
                connected = await stack.enter_async_context(
                    connect_model(model, model_settings, budget)
                )
                opened.append((model, model_settings, connected))
            by_role[role] = connected
        else:
            by_role[role] = model
    connected_models = (model for model in by_role.values() if isinstance(model, ConnectedModel))
    unpriced = [candidate.name for candidate in connected_models if candidate.price is None]
    # without a price, a cost limit would never be reached
    if settings.max_cost is not None and unpriced:
        raise ConfigurationError(
            f"max_cost= cannot be enforced: the price of {unpriced[0]!r} is not known; give it with"
            " price=(IN, OUT) (US dollars per million tokens)"
        )
    return by_role


async def open_store(
    settings: Settings, default: Path | None, stack: AsyncExitStack, *, read_only: bool = False
) -> AnswerStore | None:
    """Open the cache that the settings name, or the folder `default`; `None` keeps no answers."""
    folder = default if settings.cache is None else settings.cache
    if folder is None or folder is False:
        return None
    if read_only and not holds_answers(folder):
        return None
    store: AnswerStore = RecordedAnswers(folder) if read_only else DiskStore(folder)
    stack.push_async_callback(store.aclose)
    return store


def models_in_batches(models: Mapping[str, Model]) -> list[BatchedModel]:
    """Return the models that are asked through batches."""
    return [model for model in models.values() if isinstance(model, BatchedModel)]


def check_submit_only(settings: Settings, models: Mapping[str, Model]) -> None:
    """Refuse `submit_only` for a run that does not use batches."""
    if settings.submit_only and not models_in_batches(models):
        raise ConfigurationError(
            "submit_only=True needs a role that is asked in batches, and this run has none"
        )


async def open_book(
    batched: Sequence[BatchedModel], folder: Path, stack: AsyncExitStack
) -> BatchBook | None:
    """Open the journal of batches in a folder, if any model is asked through batches."""
    if not batched:
        return None
    from textassay.runtime.batches.batch import BatchBook

    book = await in_thread(lambda: BatchBook(folder))
    stack.push_async_callback(book.aclose)
    for model in batched:  # the queue's requests in flight end before its journal is closed
        stack.push_async_callback(model.close_queues)
    return book


def open_tools(
    method: str, specs: Sequence[str | Tool], models: Mapping[str, Model], stack: AsyncExitStack
) -> tuple[Tool, ...]:
    """Return a method's tools; tools created here are closed with the stack."""
    tools = tools_for(method, specs, models)
    for tool in tools:
        # the caller closes the tools that it passed
        if tool not in specs:
            stack.push_async_callback(tool.aclose)
    return tools


class UsedRoles(Mapping[str, Model]):
    """Models by role that record the roles that a method looks up, also with `in`.

    Names alone, as a loop yields them, record nothing; `values` and `items` record all.
    """

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = models
        self._used: set[str] = set()

    def __getitem__(self, role: str) -> Model:
        self._used.add(role)
        return self._models[role]

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)

    @property
    def used(self) -> set[str]:
        """The used roles that have a model."""
        return self._used & self._models.keys()

    def warn_of_unused(self, method: str) -> None:
        """Log a warning for each given role that is not used."""
        roles = ", ".join(sorted(self._used - {"", "tools"})) or "none"
        for role in sorted(self._models.keys() - self._used - {""}):
            _log.warning("role %r is not used; the roles of %s: %s", role, method, roles)


def with_default_tools(
    request: RunRequest, tools: Sequence[str | Tool] | None, earlier: Path | None
) -> tuple[RunRequest, str]:
    """Return the request with default tools if it names none, and a notice of them.

    The notice names parameters as Python takes them. It is empty without tools, or if an `earlier`
    run has chosen them.
    """
    if request.tools or tools:
        return request, ""
    defaults, left_out = default_tools(request.method)
    if not defaults:
        return request, ""
    if earlier is not None:
        before = request_from_manifest(read_manifest(earlier)).tools
        return request.model_copy(update={"tools": before or defaults}), ""
    missing = "".join(
        f"; pip install 'textassay[{extra}]' adds {spec}" for spec, extra in left_out.items()
    )
    notice = f"tools: {', '.join(defaults)} (the default; tools= names others{missing})"
    return request.model_copy(update={"tools": defaults}), notice


def settings_as_requested(settings: Settings, models: Mapping[str, Model]) -> Settings:
    """Return the settings of models that the caller connected, for `resume`."""
    by_role = {
        role: model.settings for role, model in models.items() if isinstance(model, ConnectedModel)
    }
    if not by_role:
        return settings
    # models with a store of their own, as in `fit`, also have batches of their own
    own_batches = {"batch", "submit_only"} if settings.cache is False else set()
    unbatched = {name: Settings.model_fields[name].default for name in own_batches}
    first = next(iter(by_role.values()))
    if all(other == first for other in by_role.values()):
        of_the_run = SHARED_BY_ROLES - {"local", "transformers"}
        shared = {name: getattr(settings, name) for name in of_the_run}
        return first.model_copy(update={**shared, **unbatched})
    requested = {
        role: {
            name: value
            for name, value in settings_of_role.model_dump(exclude_defaults=True).items()
            if name not in SHARED_BY_ROLES and name not in own_batches
        }
        for role, settings_of_role in by_role.items()
    }
    return settings.model_copy(update={"roles": {**settings.roles, **requested}, **unbatched})
