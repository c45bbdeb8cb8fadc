"""What the Python API was asked for, checked and turned into a session."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from textassay.evaluation.graph_method import GraphMethod
from textassay.evaluation.session import Session, open_session
from textassay.evaluation.spec import RunSpec
from textassay.methods.method import Method
from textassay.runtime.connected import ConnectedModel
from textassay.runtime.data.units import Unit
from textassay.runtime.errors import ConfigurationError, as_python
from textassay.runtime.graph.graph import Graph
from textassay.runtime.messages import Aspect
from textassay.runtime.model import Model
from textassay.runtime.settings import Settings
from textassay.tools.tool import Tool

ModelsByRole = str | Model | Mapping[str, str | Model]
MethodChoice = str | PathLike[str] | Method | Graph
OF_THE_RUN = frozenset({"cache", "no_cache"})
"""Settings that the run applies itself, even if the caller opened the model."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
    """The arguments of `evaluate` beside the examples; it documents them."""

    method: MethodChoice
    model: ModelsByRole | None = None
    task: str | None = None
    aspects: str | Aspect | Sequence[str | Aspect] | None = None
    out: str | Path | None = None
    resume: bool = False
    options: Mapping[str, Any] | None = None
    settings: Settings | None = None
    fields: Mapping[str, str] | None = None
    unit: Unit | None = None
    conversation_chars: int | None = None
    limit: int | None = None
    tools: str | Tool | Sequence[str | Tool] = field(default=())

    def __post_init__(self) -> None:
        if isinstance(self.method, PathLike):  # the folder of an evaluator
            object.__setattr__(self, "method", fspath(self.method))

    @property
    def chosen_aspects(self) -> tuple[str | Aspect, ...] | None:
        """The aspects as a tuple; one name alone is one aspect."""
        return aspects_of(self.aspects)

    @property
    def chosen_tools(self) -> tuple[str | Tool, ...]:
        """The tools as a tuple; one name alone is one tool."""
        single = isinstance(self.tools, str | Tool)
        return (self.tools,) if single else tuple(self.tools)  # type: ignore[arg-type, return-value]


def aspects_of(
    given: str | Aspect | Sequence[str | Aspect] | None,
) -> tuple[str | Aspect, ...] | None:
    """Return aspects as a tuple; one alone is one aspect, `None` is all of the task."""
    if given is None:
        return None
    return (given,) if isinstance(given, str | Aspect) else tuple(given)


@asynccontextmanager
async def open_requested_session(
    examples: Any, request: EvaluationRequest, *, dry: bool = False
) -> AsyncIterator[Session]:
    """Open the session that a request describes.

    Raises:
        ConfigurationError: Something does not fit, or would have no effect; nothing was asked.
    """
    method = _method_object(request)
    names, objects = _by_role(request.model)
    _check_effect(request, names, objects)
    spec = spec_from(
        method=request.method if method is None else method.name,
        task=request.task,
        aspects=request.chosen_aspects,
        models=names,
        options=dict(request.options or {}),
        tools=tuple(tool if isinstance(tool, str) else tool.name for tool in request.chosen_tools),
        data=str(examples) if isinstance(examples, str | Path) else None,
        fields=dict(request.fields or {}),
        unit=request.unit,
        conversation_chars=request.conversation_chars,
        limit=request.limit,
    )
    async with open_session(
        examples,
        spec,
        method=method,
        models=objects,
        settings=request.settings or Settings(),
        tools=request.chosen_tools,
        out=None if request.out is None else Path(request.out),
        resume=request.resume,
        dry=dry,
    ) as session:
        if session.warning is not None and not dry:
            _log.warning("%s", as_python(session.warning))
        for notice in session.data.notices:
            _log.warning("%s", notice)
        if session.tools_by_default is not None:
            _log.info("%s", as_python(session.tools_by_default.notice))
        yield session


def _method_object(request: EvaluationRequest) -> Method | None:
    """Return the method if an object was given rather than a name; refuse what it would not heed.

    Raises:
        ConfigurationError: It is no method, or comes with something that only a name goes with.
    """
    method = request.method
    if isinstance(method, str):
        return None
    own = ("model", "options", "tools")
    # a graph judges the aspects of a task like a named method; a method object brings its own
    for name in own if isinstance(method, Graph) else (*own, "task", "aspects"):
        if getattr(request, name):
            raise ConfigurationError(
                f"{name}= can only be given with the name of a method; {method!r} was built with "
                "its own"
            )
    if isinstance(method, Graph):
        return GraphMethod.of(method, request.task, request.chosen_aspects)
    if not isinstance(method, Method):
        raise ConfigurationError(
            "method= must be an evaluator folder, a name, a method object or a graph, not "
            f"{method!r}"
        )
    return method


def _check_effect(
    request: EvaluationRequest, names: Mapping[str, str], objects: Mapping[str, Model]
) -> None:
    """Refuse what would have no effect.

    Settings of models that were opened before, `resume` without `out`.

    Raises:
        ConfigurationError: An argument would be ignored.
    """
    if request.resume and request.out is None:
        raise ConfigurationError("resume= continues the run in out=, which is not given")
    # a model given by name still takes the settings
    if objects and not set(names) - set(objects):
        check_settings(request.settings, objects)


def check_settings(settings: Settings | None, models: Mapping[str, Model]) -> None:
    """Refuse settings of models that were opened before.

    Raises:
        ConfigurationError: A setting would be ignored.
    """
    set_here = (settings or Settings()).model_fields_set - OF_THE_RUN
    if not any(isinstance(model, ConnectedModel) for model in models.values()):
        set_here -= {"concurrency"}  # a bare model has no limiter of its own
    if set_here:
        listed = ", ".join(f"{name}=..." for name in sorted(set_here))
        raise ConfigurationError(
            f"settings= has no effect on a model that is connected already; give {listed} to "
            "textassay.connect(...), or the model by its name"
        )


def spec_from(**fields: Any) -> RunSpec:
    """Return a spec of what a caller gave.

    Raises:
        ConfigurationError: A value is of the wrong kind.
    """
    try:
        return RunSpec(**fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ConfigurationError(
            f"{first['loc'][0]}=: {first['msg']} (given: {first['input']!r})"
        ) from None


def _by_role(model: ModelsByRole | None) -> tuple[dict[str, str], dict[str, Model]]:
    if model is None:
        return {}, {}
    by_role = model if isinstance(model, Mapping) else {"": model}
    names = {role: item if isinstance(item, str) else item.name for role, item in by_role.items()}
    return names, {role: item for role, item in by_role.items() if not isinstance(item, str)}
