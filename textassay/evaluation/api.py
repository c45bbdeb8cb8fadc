"""The three doors of the Python API: `evaluate`, `stream` and `evaluate_sync`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, TypedDict, Unpack

from pydantic import ValidationError

from textassay.evaluation.graph_method import GraphMethod
from textassay.evaluation.run import Run
from textassay.evaluation.session import Session, open_session
from textassay.evaluation.spec import RunSpec
from textassay.methods.method import Method
from textassay.runtime.errors import ConfigurationError, StorageError, TextassayError
from textassay.runtime.graph.graph import Graph
from textassay.runtime.messages import Aspect, Score
from textassay.runtime.model import Model
from textassay.runtime.settings import Settings
from textassay.tools import Tool

Models = str | Model | Mapping[str, str | Model]


class Evaluation(TypedDict, total=False):
    """What `evaluate`, `stream` and `evaluate_sync` take beside the examples."""

    method: str | Method | Graph
    """Name of a method, an evaluator folder, a method object, or a graph from an `Assignment` to
    its scores."""
    model: Models
    """A connected model or a model's name, or a mapping of these by role; method objects and graphs
    bring their own."""
    task: str | None
    """A built-in task or the path of a TOML file; by default the general one, or the first that has
    the aspects."""
    aspects: Sequence[str | Aspect] | None
    """Names of the task's aspects, or aspects of your own; by default all of the task."""
    out: str | Path | None
    """Run folder; without one nothing is written."""
    resume: bool
    """Go on with the run in `out`."""
    options: Mapping[str, Any] | None
    """Options of the method, such as `{"n": 20, "temperature": 1.0}`."""
    settings: Settings | None
    """How models that are given by name are asked."""
    fields: Mapping[str, str] | None
    """Field map from the data's names to ours."""
    limit: int | None
    """Only the first so many examples."""
    tools: Sequence[str | Tool]
    """Assistant evaluators, by spec or as tools of your own, which stay yours to close."""


@asynccontextmanager
async def session_of(
    examples: Any, *, dry: bool = False, **wanted: Unpack[Evaluation]
) -> AsyncIterator[Session]:
    """Open the session that the keyword arguments describe; see `evaluate`."""
    if "method" not in wanted:
        raise ConfigurationError("evaluate needs a method, such as method='g-eval'")
    aspects, out = wanted.get("aspects"), wanted.get("out")
    method = _method_object(wanted)
    names, objects = _by_role(wanted.get("model"))
    spec = _spec(
        method=wanted["method"] if method is None else method.name,
        task=wanted.get("task"),
        aspects=None if aspects is None else tuple(aspects),
        models=names,
        options=dict(wanted.get("options") or {}),
        tools=tuple(
            tool if isinstance(tool, str) else tool.name for tool in wanted.get("tools") or ()
        ),
        data=str(examples) if isinstance(examples, str | Path) else None,
        fields=dict(wanted.get("fields") or {}),
        limit=wanted.get("limit"),
    )
    async with open_session(
        examples,
        spec,
        method=method,
        models=objects,
        settings=wanted.get("settings") or Settings(),
        tools=wanted.get("tools") or (),
        out=None if out is None else Path(out),
        resume=wanted.get("resume", False),
        dry=dry,
    ) as session:
        yield session


def _method_object(wanted: Evaluation) -> Method | None:
    """Return the method where an object was given rather than a name; refuse what it would not heed.

    Raises:
        ConfigurationError: It is no method, or comes with something that only a name goes with.
    """
    method = wanted["method"]
    if isinstance(method, str):
        return None
    own = ("model", "options", "tools")
    for name in own if isinstance(method, Graph) else (*own, "task", "aspects"):
        if wanted.get(name):
            raise ConfigurationError(
                f"{name}= goes with the name of a method; {method!r} was built with its own"
            )
    if isinstance(method, Graph):
        return GraphMethod.of(method, wanted.get("task"), wanted.get("aspects"))
    if not isinstance(method, Method):
        raise ConfigurationError(f"method= is a name, a method object or a graph, not {method!r}")
    return method


def _spec(**fields: Any) -> RunSpec:
    try:
        return RunSpec(**fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ConfigurationError(
            f"{first['loc'][0]}=: {first['msg']} (given: {first['input']!r})"
        ) from None


def _by_role(model: Models | None) -> tuple[dict[str, str], dict[str, Model]]:
    if model is None:
        return {}, {}
    by_role = model if isinstance(model, Mapping) else {"": model}
    names = {role: item if isinstance(item, str) else item.name for role, item in by_role.items()}
    return names, {role: item for role, item in by_role.items() if not isinstance(item, str)}


async def stream(examples: Any, **wanted: Unpack[Evaluation]) -> AsyncGenerator[Score, None]:
    """Yield scores as they are found; takes what `evaluate` takes.

    Leaving the loop early, or cancelling, stops the workers and leaves a run that can be resumed.
    Use `contextlib.aclosing` where the stop must not wait for garbage collection.

    Raises:
        TextassayError: As `evaluate`.
    """
    async with (
        session_of(examples, **wanted) as session,
        writing_summary(session),
        aclosing(session.engine.scores()) as scores,
    ):
        async for score in scores:
            yield score


async def evaluate(examples: Any, **wanted: Unpack[Evaluation]) -> Run:
    """Judge every example and return the run.

    Args:
        examples: A path (JSONL, .gz, .csv, .parquet), an iterable of `Example` or dicts, or a
            table.
        **wanted: See `Evaluation`; `method` is required.

    Raises:
        ConfigurationError: Something does not fit; nothing was asked.
        ModelError: A failure that would hit every call; the run folder can be resumed.
        BudgetReached: The cost limit is reached; the run folder can be resumed.
        StorageError: Scores or answers cannot be written; the run folder can be resumed.
    """
    async with session_of(examples, **wanted) as session:
        return await finish(session)


async def finish(session: Session) -> Run:
    """Run a session to its end and return the run; keeps scores in memory only where there is no folder."""
    scores: list[Score] = []
    async with writing_summary(session), aclosing(session.engine.scores()) as found:
        async for score in found:
            if session.folder is None:  # with a folder the scores are there, and memory stays flat
                scores.append(score)  # noqa: PERF401
    path = None if session.folder is None else session.folder.path
    return Run(folder=path, scores=scores, progress=session.engine.progress)


@asynccontextmanager
async def writing_summary(session: Session) -> AsyncIterator[None]:
    """Write the run's summary when the block is left, however that is, and tell how to go on where it was stopped."""
    folder = session.folder
    if folder is None:
        yield
        return
    try:
        yield
    except TextassayError as error:
        if not isinstance(error, StorageError):
            session.write_summary()
        if not isinstance(error, ConfigurationError):
            error.add_note(f"what is finished is kept; go on with: textassay resume {folder.path}")
        raise
    except BaseException:
        session.write_summary()
        raise
    session.write_summary()


def evaluate_sync(examples: Any, **wanted: Unpack[Evaluation]) -> Run:
    """Do what `evaluate` does, from code that is not async.

    Raises:
        ConfigurationError: An event loop is running in this thread already (a notebook, a web
            server).
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(evaluate(examples, **wanted))
    raise ConfigurationError(
        "evaluate_sync cannot run inside a running event loop (a notebook or a web server has one); "
        "write `await textassay.evaluate(...)` instead"
    )
