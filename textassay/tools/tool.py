"""Assistant evaluators: a name, a description for a planner, and one method, `score`.

`Tool` is the protocol that agents and runs use. `TextTool` is the base of the package's own tools:
it handles missing inputs, empty outputs and signatures, so that a tool only measures. `tool` makes
a tool of a function, for users who have a metric of their own.
"""

from __future__ import annotations

import asyncio
import importlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from importlib.util import find_spec
from threading import RLock
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from textassay.runtime.base import Message, Number, ScoreError, Usage
from textassay.runtime.concurrency import AsyncResource
from textassay.runtime.errors import ConfigurationError, TextassayError
from textassay.runtime.messages import Example, Scale, Score
from textassay.version import __version__

Need = Literal["source", "context", "premise", "references"]
"""An input besides the output; `premise` is `context` and `source` together, of which one is
enough."""


@runtime_checkable
class Tool(Protocol):
    """An assistant evaluator: one number for one text."""

    @property
    def name(self) -> str:
        """The name that plans, columns and people use; the `aspect` of its scores."""

    @property
    def description(self) -> str:
        """The measure, its range and the compared texts, in words for a planner."""

    @property
    def scale(self) -> Scale | None:
        """Lowest and highest value; `None` if unbounded."""

    @property
    def higher_is_better(self) -> bool:
        """Whether a high value is better."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """Inputs without which it abstains."""

    @property
    def signature(self) -> str:
        """Short text that names kind, model and settings; with equal ones scores are comparable."""

    async def score(self, example: Example) -> Score:
        """Measure one example.

        The score is `abstained`, with a typed reason, if an input is missing or the output is
        empty.

        Raises:
            ConfigurationError: The tool cannot work at all, because an extra is missing or a
                folder does not contain a model, for example.
            ModelError: Its model could not be asked.
        """

    async def aclose(self) -> None:
        """Release models and threads; safe to call twice."""


@runtime_checkable
class Preparable(Protocol):
    """A tool that can find out before the first score whether it works."""

    async def prepare(self, *, load: bool = True) -> None:
        """Do the first steps of the first score, which fail before anything was paid for.

        Args:
            load: Whether to fetch and load models too; if not, as in a dry run, only installed
                packages and the files of this machine are checked.

        Raises:
            ConfigurationError: The tool cannot work: a missing extra or model.
        """


async def prepare_tools(tools: Iterable[Tool], *, load: bool = True) -> None:
    """Prepare those tools that can be prepared, one after the other; see `Preparable`.

    Raises:
        ConfigurationError: The first tool that cannot work, and why.
    """
    for tool in tools:
        if isinstance(tool, Preparable):
            await tool.prepare(load=load)


class Measurement(Message, defer_build=True):
    """A value with its evidence."""

    value: Number
    """The value, on the tool's scale."""
    explanation: str | None = None
    """Origin of the value, in one sentence."""
    evidence: tuple[dict[str, Any], ...] = ()
    """Objects with `text` behind the value, such as sentences with their own values."""
    usage: Usage = Usage()
    """Model calls behind the value."""
    signature_parts: dict[str, str] = {}
    """Facts about this measurement that make it comparable only with measurements of the same
    facts; added to the signature."""


class Abstention(ScoreError, defer_build=True):
    """The reason why a tool gives no value for an example; the message names the missing input."""


class TextTool(ABC):
    """Base of the tools in this package: a subclass has `description`, `scale` and `measure`.

    A kind with options has a constructor of its own, which takes `name` and them as keywords.
    """

    kind: ClassVar[str] = ""
    """Name of the kind of tool in the registry."""
    extra: ClassVar[str | None] = None
    """Extra of the package that must be installed, such as `nli`; `None` if it needs no extra."""

    name: str
    description: str
    scale: Scale | None = None
    higher_is_better: bool = True
    needs: tuple[Need, ...] = ()

    def __init__(self, name: str | None = None) -> None:
        self.name = name or self.kind

    def settings(self) -> Mapping[str, object]:
        """Return the settings that determine the value; they are in the signature."""
        return {}

    @property
    def signature(self) -> str:
        """Kind, settings and version, such as `tool:bleu|lowercase:True|version:0.1.0`."""
        return sign(self.kind or self.name, self.settings())

    @abstractmethod
    async def measure(self, example: Example) -> Measurement | Abstention:
        """Measure an example whose output is not blank and that has everything in `needs`."""

    async def score(self, example: Example) -> Score:
        """Measure one example; see `Tool.score`."""
        # here for all tools, so that no tool gives a number for a missing text
        result = self.missing(example) or await self.measure(example)
        if isinstance(result, Abstention):
            error = ScoreError(**vars(result))
            return _score(self, example, outcome="abstained", error=error)
        return _score(
            self,
            example,
            value=on_scale(result.value, self.scale),
            explanation=result.explanation,
            evidence=result.evidence,
            usage=result.usage,
            # after measuring, as a model's commit is known once it is loaded
            signature=sign(self.kind or self.name, {**self.settings(), **result.signature_parts}),
        )

    def missing(self, example: Example) -> Abstention | None:
        """Return why the example cannot be measured, or `None` if it can."""
        if not example.output.strip():
            message = f"the output is empty, so {self.name} has nothing to measure"
            return Abstention(type="EmptyOutput", message=message)
        if example.images and not {"source", "premise"}.isdisjoint(self.needs):
            message = f"{self.name} reads texts alone, and the source of this example has images"
            return Abstention(type="HasImages", message=message)
        present: dict[Need, bool] = {
            "source": bool(example.source and example.source.strip()),
            "context": any(map(str.isalnum, example.context or "")),
            "premise": bool(premise(example)),
            "references": bool(references(example)),
        }
        for need in self.needs:
            if not present[need]:
                kind = "source" if need == "premise" else need
                needed = "a source or context" if need == "premise" else need
                message = f"{self.name} needs {needed}, which this example does not have"
                return Abstention(type=f"Missing{kind.capitalize()}", message=message)
        return None

    async def aclose(self) -> None:  # noqa: B027  # most tools have no resources
        """Release the tool's resources; by default nothing."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {self.signature}>"


class Computed(TextTool):
    """A tool without a model: `compute` runs in a worker thread."""

    async def measure(self, example: Example) -> Measurement | Abstention:
        """Run `compute` off the event loop."""
        return await asyncio.to_thread(self.compute, example)

    @abstractmethod
    def compute(self, example: Example) -> Measurement | Abstention:
        """Measure an example that has everything in `needs`."""


def _score(tool: Tool, example: Example, **fields: Any) -> Score:
    fields = {"signature": tool.signature, **fields}
    return Score(id=example.id, aspect=tool.name, scale=tool.scale, how="tool", **fields)


def premise(example: Example) -> str | None:
    """Return context (a fact) and source (a conversation, an article) as one text.

    In dialogue it is fact and conversation together (Fusion-Eval, table 3), elsewhere the source.
    """
    parts = [text.strip() for text in (example.context, example.source) if text and text.strip()]
    return "\n".join(parts) or None


def references(example: Example) -> tuple[str, ...]:
    """Return the references that are not blank."""
    return tuple(text for text in example.references if text.strip())


def sign(kind: str, settings: Mapping[str, object]) -> str:
    """Return a signature: kind, settings in the given order, version of the package."""
    parts = [f"{key}:{value}" for key, value in settings.items() if value is not None]
    return "|".join([f"tool:{kind}", *parts, f"version:{__version__}"])


def on_scale(value: float, scale: Scale | None) -> float:
    """Return `value`, clipped to the scale if it is beyond it by rounding alone."""
    if not scale:
        return value
    low, high = scale
    rounding = 1e-5 * (high - low)
    # a value far off its scale is an error in the tool, which clipping would hide
    if not low - rounding <= value <= high + rounding:
        raise ValueError(f"a tool gave {value!r}, which is off its own scale {low:g} to {high:g}")
    return min(max(value, low), high)


MeasureFunction = Callable[
    [Example], float | Measurement | Abstention | Awaitable[float | Measurement | Abstention]
]
"""A function for `tool`; a plain one runs in a worker thread, a coroutine function on the event
loop."""


@dataclass(repr=False, eq=False)
class FunctionTool(TextTool):
    """A tool made of one function; usually written with the decorator `tool`."""

    function: MeasureFunction
    _: KW_ONLY
    name: str
    description: str
    scale: Scale | None = None
    higher_is_better: bool = True
    needs: tuple[Need, ...] = ()
    revision: str = "1"

    def settings(self) -> Mapping[str, object]:
        return {"function": self.function.__qualname__, "revision": self.revision}

    def rename(self, name: str) -> FunctionTool:
        """Return the same tool under another name."""
        return replace(self, name=name)

    async def measure(self, example: Example) -> Measurement | Abstention:
        # a plain function may compute for seconds, which would block the event loop
        if asyncio.iscoroutinefunction(self.function):
            value = await self.function(example)
        else:
            value = await asyncio.to_thread(self.function, example)
        return value if isinstance(value, Measurement | Abstention) else Measurement(value=value)


def tool(
    *,
    description: str,
    name: str | None = None,
    scale: Scale | None = None,
    higher_is_better: bool = True,
    needs: tuple[Need, ...] = (),
    revision: str = "1",
) -> Callable[[MeasureFunction], FunctionTool]:
    """Make a tool of a function from an example to a number, a `Measurement` or an `Abstention`.

    Args:
        description: For a planner: the measure, its range, and the compared texts.
        name: Name of the tool; the function's own if left out.
        scale: Lowest and highest value; `None` if unbounded.
        higher_is_better: Whether a high value is better.
        needs: Inputs without which the tool abstains, so that the function always has them.
        revision: Part of the signature; change it when the function starts to give other numbers.
    """
    return lambda function: FunctionTool(
        function,
        name=name or function.__name__,
        description=description,
        scale=scale,
        higher_is_better=higher_is_better,
        needs=needs,
        revision=revision,
    )


IMPORTING = RLock()
"""Held while tools import modules or read NLTK's data, by one thread at a time."""


def import_module(module: str) -> Any:
    """Import a module that tools use in worker threads, and return it.

    One thread at a time: modules of NLTK import each other, so that two threads could each see a
    half-imported one.
    """
    with IMPORTING:
        return importlib.import_module(module)


def need(module: str, *, extra: str, what: str) -> Any:
    """Import a module of an extra of this package for `what`, and return it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"{what} needs {module.partition('.')[0]}: pip install 'textassay[{extra}]' ({error})"
        ) from error


def check_installed(modules: Sequence[str], *, extra: str, what: str) -> None:
    """Check that top-level modules of an extra are installed, without importing them."""
    missing = [module for module in modules if not find_spec(module)]
    if missing:
        raise ConfigurationError(
            f"{what} needs {' and '.join(missing)}: pip install 'textassay[{extra}]'"
        )


class ToolScorer(AsyncResource):
    """Runs several tools at the same time; `async with` closes them.

    Raises:
        ConfigurationError: There is no tool, or two share a name.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        if not tools:
            raise ConfigurationError("no tools to score with; name at least one")
        self.tools = tuple(tools)
        self.names = tuple(tool.name for tool in tools)
        if len(set(self.names)) < len(self.names):
            raise ConfigurationError(f"two tools share a name: {', '.join(self.names)}")

    async def score(self, example: Example) -> list[Score]:
        """Score with every tool; the scores are in the order of the tools.

        A tool that fails on this example gives a score with the outcome `error`, and the others
        continue.

        Raises:
            TextassayError: A failure that every example would have, such as a missing extra.
        """
        # no task group for one tool, the common case in a graph
        if len(self.tools) == 1:
            return [await self._one(self.tools[0], example)]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._one(tool, example)) for tool in self.tools]
        except ExceptionGroup as several:
            # not by `except*`, which wraps the error in a group again in Python 3.11.2
            raise several.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _one(self, tool: Tool, example: Example) -> Score:
        try:
            return await tool.score(example)
        except Exception as error:  # the only place where a tool's failure becomes a value
            if isinstance(error, TextassayError) and error.stops_run:
                raise
            failure = ScoreError(type=type(error).__name__, message=str(error) or repr(error))
            return _score(tool, example, outcome="error", error=failure)

    async def aclose(self) -> None:
        for tool in self.tools:
            await tool.aclose()


class DryRunTool:
    """Returns the middle of another tool's scale, or 1/2, without loading or asking anything."""

    def __init__(self, tool: Tool) -> None:
        self.name, self.description, self.signature = tool.name, tool.description, tool.signature
        self.scale, self.needs = tool.scale, tool.needs
        self.higher_is_better = tool.higher_is_better

    async def score(self, example: Example) -> Score:
        """Return the middle of the scale."""
        middle = sum(self.scale or (0.0, 1.0)) / 2
        return _score(self, example, value=middle)

    async def aclose(self) -> None:
        """Nothing is open."""
