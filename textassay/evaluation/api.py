"""The Python API: `evaluate`, `stream` and `evaluate_sync`."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

from textassay.agents.prompt_template import Task
from textassay.evaluation.defaults import check_keys, default_method, with_default_model
from textassay.evaluation.progress import OnProgress, display_progress
from textassay.evaluation.request import RunRequest, build_request
from textassay.evaluation.run import Run
from textassay.evaluation.session import Session, finish, open_session, writing_summary
from textassay.methods.library import tasks
from textassay.methods.library.criteria import Criteria, with_criteria
from textassay.methods.method import Method, TaskMethod
from textassay.runtime.base import P, T
from textassay.runtime.concurrency import in_thread
from textassay.runtime.conversation import Unit
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.graph import Graph, Node
from textassay.runtime.messages import Aspect, Assignment, How, Score
from textassay.runtime.model import Model
from textassay.runtime.settings import Settings, strict_keywords, takes_arguments_of
from textassay.runtime.stack import ConnectedModel
from textassay.runtime.storage.run_files import MANIFEST
from textassay.tools.tool import Tool
from textassay.version import __version__

ModelsByRole = str | Model | Mapping[str, str | Model]
MethodChoice = str | PathLike[str] | Method | Graph
_log = logging.getLogger(__name__)


@strict_keywords
async def evaluate(
    examples: Any,
    *,
    method: MethodChoice | None = None,
    model: ModelsByRole | None = None,
    task: str | None = None,
    aspects: str | Aspect | Sequence[str | Aspect] | None = None,
    criteria: Criteria | None = None,
    scale: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    fields: Mapping[str, str] | None = None,
    missing: Sequence[str] = (),
    strict_columns: bool = False,
    unit: Unit | None = None,
    conversation_chars: int | None = None,
    limit: int | None = None,
    tools: str | Tool | Sequence[str | Tool] = (),
    progress: OnProgress = None,
    cluster: str | None = None,
    workers: int | None = None,
) -> Run:
    """Judge every example and return the run.

    Args:
        examples: A path (JSON Lines, .gz, .csv, .parquet, .xlsx), an iterable of `Example` or
            dicts, or a table such as a pandas DataFrame.
        method: Name of a method (`"g-eval"`; `textassay.methods.METHODS` lists them), folder of a
            fitted evaluator or what `fit` returned, a method object, or a graph from an
            `Assignment` to its scores. By default `"decide"` for a decision model, `"jury"` for
            the roles `juror1`, `juror2`, ..., and `"llm-score"` otherwise.
        model: A connected model, the name of a model, or a mapping of these by role; method objects
            and graphs bring their own. By default the model that the environment variable
            `TEXTASSAY_MODEL` names.
        task: A built-in task (`"summarization"`, `"dialogue"`, `"data-to-text"`, `"translation"`,
            `"general"`) or the path of a TOML file; by default the general one, or the first that
            has the aspects.
        aspects: Names of the task's aspects, or aspects of your own; by default all of the task.
        criteria: Sentences to judge by, such as `"Every statement is supported by the source."`,
            alone, in a list or by name; `"NAME: sentence"` gives a name as well.
        scale: Scale of the criteria: `"1-5"` or other numbers (the default), `"yes-no"`, or labels,
            `"friendly,neutral,rude"`.
        out: Run folder; without one nothing is written.
        resume: Continue the run in `out`, or begin it if there is none, so that a script can be run
            again.
        options: Options of the method, such as `{"n": 20, "temperature": 1.0}`.
        settings: How models that are given by name are asked; see `Settings`. A connected model
            has its own.
        fields: Field map from the data's names to ours, such as `{"text": "output"}`.
        missing: Cells that are missing values, such as `("N/A", "-")`, in any case.
        strict_columns: Whether a column that no judge sees is an error, rather than a line in the
            log.
        unit: Part of a conversation that is judged: all of it (`"conversation"`), each `"turn"` of
            the assistant or each `"call"` of a tool, with its history.
        conversation_chars: Maximum characters of a conversation that a judge sees; tool results are
            shortened first. By default 100,000.
        limit: Maximum number of examples to read.
        tools: Metrics that assist the judge: names, or your own tools, which you close yourself.
        progress: `True` for a line of progress on standard error or below the notebook's cell,
            `False` for no progress, or a function that gets a `Progress` a few times a second; by
            default a line in notebooks and terminals.
        cluster: Judge on the workers of a cluster: `"ray"` for the cluster that Ray finds
            (`RAY_ADDRESS`, one on this machine, or else a new one on this machine), or
            `"ray://HOST:PORT"` of a Ray Client server. This process reads the data and writes
            `out`; method, models and tools are given by name, as each worker opens its own, and
            limits and budget apply to all workers together.
        workers: Number of workers on the cluster; by default one on each node, or on each GPU for
            local models.

    Raises:
        ConfigurationError: An argument is wrong or would have no effect, or the cluster cannot be
            reached; no model was called.
        ClusterLost: The cluster is lost; the run folder can be resumed.
        ModelError: A failure that would hit every call; the run folder can be resumed.
        BudgetReached: The cost limit is reached; the run folder can be resumed.
        StorageError: Scores or answers cannot be written; the run folder can be resumed.
    """
    arguments = {**locals()}
    for name in ("progress", "cluster", "workers"):
        del arguments[name]
    if cluster is not None:
        return await _evaluate_on_cluster(cluster, workers, progress, **arguments)
    if workers is not None:
        raise ConfigurationError("workers= needs cluster=, which is not given")
    async with (
        open_evaluation(**arguments) as session,
        display_progress(lambda: session.engine.progress, progress),
    ):
        return await finish(session)


@takes_arguments_of(evaluate)
def evaluate_sync(*args: Any, **arguments: Any) -> Run:
    """Do what `evaluate` does, with the same arguments, from code that is not async.

    Raises:
        ConfigurationError: An event loop is running in this thread already (a notebook, a web
            server).
        TextassayError: As `evaluate`.
    """
    return run_sync(evaluate, *args, **arguments)


def run_sync(
    function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **arguments: P.kwargs
) -> T:
    """Run an async function of the API to its end, unless an event loop runs in this thread."""
    check_no_running_loop(function.__name__)
    return asyncio.run(function(*args, **arguments))


def check_no_running_loop(name: str) -> None:
    """Refuse to block an event loop, where the async function `name` can be awaited."""
    try:
        # checked here, since the error of `asyncio.run` does not mention notebooks
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise ConfigurationError(
            f"{name}_sync cannot run inside a running event loop (a notebook or a web server has "
            f"one); write `await textassay.{name}(...)` instead"
        )


@strict_keywords
async def stream(
    examples: Any,
    *,
    method: MethodChoice | None = None,
    model: ModelsByRole | None = None,
    task: str | None = None,
    aspects: str | Aspect | Sequence[str | Aspect] | None = None,
    criteria: Criteria | None = None,
    scale: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    fields: Mapping[str, str] | None = None,
    missing: Sequence[str] = (),
    strict_columns: bool = False,
    unit: Unit | None = None,
    conversation_chars: int | None = None,
    limit: int | None = None,
    tools: str | Tool | Sequence[str | Tool] = (),
) -> AsyncGenerator[Score, None]:
    """Yield scores as they arrive; takes `evaluate`'s arguments except `progress` and `cluster`.

    Leaving the loop early, or cancelling, stops the workers and leaves a run that can be resumed.
    Use `contextlib.aclosing` if the stop must not wait for garbage collection.

    Raises:
        TextassayError: As `evaluate`.
    """
    arguments = {**locals()}
    async with (
        open_evaluation(**arguments) as session,
        writing_summary(session),
        aclosing(session.engine.scores()) as scores,
    ):
        async for score in scores:
            yield score


class _Arguments(NamedTuple):
    """The arguments of `evaluate`: a request by names, and the objects that the caller opened."""

    request: RunRequest
    method: Method | None
    models: dict[str, Model]
    tools: tuple[str | Tool, ...]


async def _read_arguments(
    examples: Any,
    *,
    method: MethodChoice | None = None,
    model: ModelsByRole | None = None,
    tools: str | Tool | Sequence[str | Tool] = (),
    criteria: Criteria | None = None,
    scale: str | None = None,
    dry: bool = False,
    **named: Any,
) -> _Arguments:
    named["aspects"] = with_criteria(named.get("aspects"), criteria, scale)
    listed_tools = (tools,) if isinstance(tools, str | Tool) else tuple(tools)
    built, by_role = None, models_by_role(model)
    if method is None or isinstance(method, str | PathLike):
        method_name = None if method is None else fspath(method)
        by_role = with_default_model(by_role, method_name)
        # in a thread: litellm, whose table of models may be needed, takes seconds to import
        name = method_name or await in_thread(lambda: default_method(by_role))
    else:
        arguments = {"model": model, "tools": listed_tools, "criteria": criteria, **named}
        built = _method_object(method, arguments)
        name = built.name
    request = build_request(
        RunRequest,
        method=name,
        models={role: e if isinstance(e, str) else e.name for role, e in by_role.items()},
        tools=tuple(tool if isinstance(tool, str) else tool.name for tool in listed_tools),
        data=str(examples) if isinstance(examples, str | Path) else None,
        **named,
    )
    if request.resume:
        if request.out is None:
            raise ConfigurationError("resume= continues the run in out=, which is not given")
        # if there is no run yet, it is begun
        is_begun = (request.out / MANIFEST).exists()
        request = request.model_copy(update={"resume": is_begun})
    if not dry and not request.resume:
        await in_thread(lambda: check_keys(by_role, request.settings))
    objects = {role: entry for role, entry in by_role.items() if not isinstance(entry, str)}
    return _Arguments(request, built, objects, listed_tools)


async def _evaluate_on_cluster(
    cluster: str, workers: int | None, progress: OnProgress, *, examples: Any, **arguments: Any
) -> Run:
    """Judge every example on the workers of a cluster, which open models and tools by name."""
    # most runs need none
    from textassay.workers.driver import Cluster, FollowedRun, run_with_workers

    place = Cluster.parse(cluster, workers)
    inputs = await _read_arguments(examples, **arguments)
    objects = {
        "method": inputs.method is not None,
        "model": bool(inputs.models),
        "tools": any(not isinstance(tool, str) for tool in inputs.tools),
    }
    for name, is_object in objects.items():
        if is_object:
            raise ConfigurationError(
                f"{name}= must be given by name if cluster= is given, as each worker opens its own"
            )
    followed = FollowedRun()
    async with display_progress(lambda: followed.progress, progress):
        return await run_with_workers(
            examples,
            inputs.request,
            place,
            followed=followed,
            notify=_log.warning,
            notice=_log.warning,
        )


@asynccontextmanager
async def open_evaluation(
    examples: Any, *, dry: bool = False, **arguments: Any
) -> AsyncIterator[Session]:
    """Open the session that the arguments of `evaluate` describe.

    Objects that the caller opened (a method, models, tools) are passed beside the request, which
    contains names.

    Raises:
        ConfigurationError: An argument is wrong or would have no effect; no model was called.
    """
    inputs = await _read_arguments(examples, dry=dry, **arguments)
    request, objects = inputs.request, inputs.models
    # a model given by name still takes the settings
    if objects and not set(request.models) - set(objects):
        check_settings(request.settings, objects)
    async with open_session(
        examples, request, method=inputs.method, models=objects, tools=inputs.tools, dry=dry
    ) as session:
        if session.warning and not dry:
            _log.warning("%s", session.warning)
        for notice in session.data.notices:
            _log.warning("%s", notice)
        if session.tools_notice:
            _log.info("%s", session.tools_notice)
        yield session


def _method_object(method: Any, arguments: Mapping[str, Any]) -> Method:
    """Return a method that was given as an object; refuse arguments that it would ignore."""
    # a graph judges the aspects of a task like a named method; a method object brings its own
    of_task = () if isinstance(method, Graph) else ("task", "criteria", "aspects")
    for name in ("model", "tools", "options", *of_task):
        if arguments.get(name):
            raise ConfigurationError(
                f"{name}= can only be given with the name of a method; {method!r} was built with "
                "its own"
            )
    if isinstance(method, Graph):
        return GraphMethod(method, tasks.load(arguments.get("task"), arguments.get("aspects")))
    if not isinstance(method, Method):
        raise ConfigurationError(
            "method= must be an evaluator folder, a name, a method object or a graph, not "
            f"{method!r}"
        )
    return method


def check_settings(settings: Settings, models: Mapping[str, Model]) -> None:
    """Refuse settings that already opened models would ignore."""
    # the run applies these two itself, even if the caller opened the model
    set_here = settings.model_fields_set - {"cache", "keep_rows"}
    if not any(isinstance(model, ConnectedModel) for model in models.values()):
        set_here -= {"concurrency"}  # a bare model has no limiter of its own
    if set_here:
        listed = ", ".join(f"{name}=..." for name in sorted(set_here))
        raise ConfigurationError(
            f"settings= has no effect on a model that is connected already; give {listed} to "
            "textassay.connect(...), or the model by its name"
        )


def models_by_role(model: ModelsByRole | None) -> dict[str, str | Model]:
    """Return the models by role; a single one has the role `""`.

    Raises:
        ConfigurationError: One is neither a name nor a model.
    """
    if model is None:
        return {}
    by_role = dict(model) if isinstance(model, Mapping) else {"": model}
    for entry in by_role.values():
        if not isinstance(getattr(entry, "name", entry), str):
            raise ConfigurationError(
                "model= takes a name, a connected model, or a mapping of these by role, such as"
                f" {{'juror1': NAME, 'juror2': NAME}}, not {entry!r}"
            )
    return by_role


class _Signed(Graph):
    """A graph of the user's, which signs the scores that it yields.

    Scores without a signature get the signature of the whole graph. If the graph contains code of
    the user, which may change texts or scores, the graph's digest is added to the signature of
    built-in agents: otherwise scores would look like scores of that agent alone.
    """

    def __init__(self, graph: Graph, signature: str, digest: str) -> None:
        super().__init__(graph.name, input=graph.input, nodes=graph.nodes, output=graph.output)
        self._whole, self._digest = signature, digest
        self._is_foreign = any(map(_is_foreign, graph.nodes))

    async def run(self, input: Any) -> Any:
        result = await super().run(input)
        return [self._sign(score) for score in result] if isinstance(result, list) else result

    def _sign(self, yielded: object) -> object:
        if not isinstance(yielded, Score):
            return yielded
        if not yielded.signature:
            return yielded.model_copy(update={"signature": self._whole})
        if not self._is_foreign or not yielded.signature.startswith("method:"):
            return yielded
        return yielded.model_copy(update={"signature": f"{yielded.signature}|graph:{self._digest}"})


def _is_foreign(node: Node) -> bool:
    """Return whether a node uses code outside this package."""
    if isinstance(node.agent, Graph):
        return any(map(_is_foreign, node.agent.nodes))
    return not str(getattr(node.agent, "__module__", "")).startswith("textassay.")


class GraphMethod(TaskMethod):
    """A graph from an `Assignment` to a list of one `Score` per aspect, in the aspects' order."""

    how: How = "text"
    """`how` of failed scores; other scores come from the graph's agents."""

    def __init__(self, graph: Graph, task: Task) -> None:
        """Take a graph and the aspects that it judges.

        Raises:
            ConfigurationError: The graph does not take an `Assignment`.
        """
        if graph.input is not Assignment:
            raise ConfigurationError(
                f"{graph!r} cannot be evaluated: it must take an Assignment (an example and"
                " aspects) and yield a list of scores, one per aspect; wire its nodes to"
                " 'input.example' and each('input.aspects')"
            )
        self.graph, self._task = graph, task
        from textassay.evaluation.graph_code import code_digests, models_in  # few runs need it

        # once, since agents may remember facts about the first examples
        self._code, self._models = code_digests(graph), models_in(graph)
        self.graph = _Signed(graph, self.signature, self._digest)

    @property
    def name(self) -> str:
        """The graph's name."""
        return self.graph.name

    @property
    def signature(self) -> str:
        """Names the graph, its shape and its code."""
        return f"method:{self.name}|graph:{self._digest}|task:{self._task.digest}|v:{__version__}"

    @property
    def _digest(self) -> str:
        # the drawing names every node and edge, so a graph with other wires or other agents has
        # another signature
        text = f"{self.graph.to_mermaid()}{self._code}"
        return hashlib.sha256(text.encode()).hexdigest()[:6]

    def describe(self) -> dict[str, Any]:
        """Return graph, digests of its agents' code, the models in them, task and aspects."""
        return {
            "name": self.name,
            "graph": self.graph.to_mermaid(),
            "code": self._code,
            "models": list(self._models),
            **self.describe_task(),
        }
