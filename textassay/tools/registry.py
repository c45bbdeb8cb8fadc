"""Tools by name: the known kinds, and how `sum_bleurt=bleurt:PATH?engine=onnx` is parsed.

`KINDS` maps a kind to a callable that makes a tool. Other packages add kinds by the entry-point
group `textassay.tools`, for names that are not in the dict. Making a tool loads no model; the first
score does.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl, urlencode

from pydantic import Field, PydanticSchemaGenerationError, TypeAdapter, ValidationError

from textassay.runtime.base import Message
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Scale
from textassay.runtime.model import Model
from textassay.tools.engines import (
    PACKAGED_VECTORS,
    OnnxEngine,
    PytorchEngine,
    StaticEngine,
    load_packaged_vectors,
)
from textassay.tools.probability import NLI, BartScore, LMProb, MiniCheck, UniEval
from textassay.tools.similarity import BertScore, Bleurt, Embedding
from textassay.tools.surface import (
    Bleu,
    Chrf,
    Coverage,
    Length,
    Meteor,
    Novelty,
    Readability,
    Repetition,
    Rouge,
    RougeVariant,
    Ter,
)
from textassay.tools.tool import FunctionTool, Need, Tool

Factory = Callable[..., Tool]
"""Makes a tool; takes `name` and the kind's options as keywords."""

KINDS: dict[str, Factory] = {
    "nli": NLI,
    "minicheck": MiniCheck,
    "bleurt": Bleurt,
    "bertscore": BertScore,
    "bartscore": BartScore,
    "embedding": Embedding,
    "unieval": UniEval,
    "lm_prob": LMProb,
    **{variant: partial(Rouge, variant=variant) for variant in typing.get_args(RougeVariant)},
    "bleu": Bleu,
    "chrf": Chrf,
    "ter": Ter,
    "meteor": Meteor,
    "novelty": Novelty,
    "coverage": Coverage,
    "length": Length,
    "repetition": Repetition,
    "readability": Readability,
}
"""The package's own kinds of tools."""

GROUPS: dict[str, tuple[str, ...]] = {"rouge": ("rouge1", "rouge2", "rougeL")}
"""Short names for several kinds at once."""


class ToolSpec(Message):
    """A tool to make: its kind, name, model and options."""

    kind: str = Field(min_length=1)
    """Name of the kind."""
    name: str | None = None
    """Name of the tool; the kind's if left out."""
    model: str | None = None
    """Model of the tool: a folder, a Hub id, or for `lm_prob` the name of a model."""
    options: dict[str, Any] = {}
    """Options of the kind; texts are converted to the type of the option."""


class ToolDescription(Message):
    """A kind of tool, as `tools list` shows it."""

    kind: str
    """Name of the kind."""
    description: str
    """The description for a planner."""
    scale: Scale | None
    """Lowest and highest value; `None` if unbounded."""
    higher_is_better: bool
    """Whether a high value is better."""
    needs: tuple[Need, ...]
    """Inputs besides the output."""
    extra: str | None
    """Extra of the package that the kind needs (`nli` or, for some, `onnx` instead)."""
    installed: bool
    """Whether one of its extras is installed."""


def describe_all() -> tuple[ToolDescription, ...]:
    """Describe every kind of tool, also of other packages.

    Imports none of the heavy libraries.

    Raises:
        ConfigurationError: The entry point of another package cannot be loaded.
    """
    kinds = {**{name: _load(point) for name, point in _points().items()}, **KINDS}
    return tuple(_describe(kind, factory(name=kind)) for kind, factory in kinds.items())


def _describe(kind: str, tool: Tool) -> ToolDescription:
    extra = getattr(tool, "extra", None)
    usable: tuple[str, ...] = (extra,) if extra else ()
    if extra == "nli" and kind not in ("unieval", "bartscore"):  # these have a decoder
        usable = ("nli", "onnx", "static") if kind == "embedding" else ("nli", "onnx")
    attributes = ("description", "scale", "higher_is_better", "needs")
    return ToolDescription(
        kind=kind,
        **{name: getattr(tool, name) for name in attributes},
        extra=extra,
        installed=not usable or any(map(has_extra, usable)),
    )


def has_extra(extra: str) -> bool:
    """Return whether an extra of the package is installed, with its files; imports no module."""
    modules: dict[str, tuple[str, ...]] = {
        "nltk": ("nltk",),
        "nli": PytorchEngine.modules,
        "onnx": OnnxEngine.modules,
        "static": (PACKAGED_VECTORS, *StaticEngine.modules),
    }
    if not all(map(find_spec, modules.get(extra, ()))):
        return False
    if extra == "static":
        # else a package without its vectors would fail at the first score
        try:
            load_packaged_vectors()
        except ConfigurationError:
            return False
    return True


def build(
    specs: Iterable[str | ToolSpec | Tool],
    *,
    table: Mapping[str, Mapping[str, Any]] | None = None,
    model: Model | None = None,
) -> tuple[Tool, ...]:
    """Make tools from specs.

    Args:
        specs: Each a spec such as `rougeL`, `bleu?lowercase=false`, `nli:/models/nli?engine=onnx`,
            `sum_bleurt=bleurt:PATH`, the name of an entry of `table`, the name of a group, or a
            tool made elsewhere.
        table: The configuration's `[tools.NAME]` tables: `kind` (the name itself if left out),
            `model`, and the kind's options.
        model: Model for `lm_prob` if its spec names none; the caller closes it.

    Raises:
        ConfigurationError: A spec cannot be read, an option is unknown or of the wrong type, or two
            tools share a name.
    """
    tools: list[Tool] = []
    for spec in specs:
        if isinstance(spec, str):
            tools += [_make(item, model) for item in _expand(spec, table or {})]
        else:
            tools.append(_make(spec, model) if isinstance(spec, ToolSpec) else spec)
    # names are columns of the results, and plans refer to them
    names = [tool.name for tool in tools]
    if twice := sorted(name for name in set(names) if names.count(name) > 1):
        raise ConfigurationError(
            f"two tools are called {twice[0]!r}; give one another name: other={twice[0]}"
        )
    return tuple(tools)


def parse(spec: str) -> ToolSpec:
    """Read a spec of the form `[NAME=]KIND[:MODEL][?OPTION=VALUE&...]`.

    Raises:
        ConfigurationError: It has another form.
    """
    # sum_bleurt=bleurt:/models/sum?engine=onnx
    match = re.fullmatch(
        r"(?:(?P<name>[\w.\-]+)=)?(?P<kind>[\w.\-]+)(?::(?P<model>[^?]+))?(?:\?(?P<options>.*))?",
        spec.strip(),
    )
    if not match:
        raise ConfigurationError(
            f"cannot read the tool {spec!r}; it is written [NAME=]KIND[:MODEL][?OPTION=VALUE&...],"
            " such as rougeL, or sum_bleurt=bleurt:/models/sum?engine=onnx"
        )
    try:
        text = match["options"] or ""
        options = dict(parse_qsl(text, strict_parsing=bool(text), keep_blank_values=True))
    except ValueError:
        raise ConfigurationError(
            f"cannot read the options of the tool {spec!r}; write ?OPTION=VALUE&..."
        ) from None
    return ToolSpec(kind=match["kind"], name=match["name"], model=match["model"], options=options)


def as_text(spec: ToolSpec) -> str:
    """Return the text that `parse` reads as this spec.

    Raises:
        ConfigurationError: An option is not a number, text or truth value, or the
            model's name has a `?`.
    """
    for name, value in spec.options.items():
        if not isinstance(value, str | int | float):
            raise ConfigurationError(
                f"option {name} of the tool {spec.name or spec.kind}: {value!r} is not a single "
                "value"
            )
    if spec.model is not None and ("?" in spec.model or not spec.model):
        raise ConfigurationError(
            f"the tool {spec.name or spec.kind}: a model cannot be called {spec.model!r}"
        )
    options = urlencode({name: str(value) for name, value in spec.options.items()})
    model = f":{spec.model}" if spec.model else ""
    return f"{spec.name or spec.kind}={spec.kind}{model}{'?' if options else ''}{options}"


def from_table(name: str, table: Mapping[str, Any]) -> ToolSpec:
    """Return the spec of a `[tools.NAME]` table of a configuration.

    Raises:
        ConfigurationError: `kind` or `model` is not a text.
    """
    options = dict(table)
    kind, model = options.pop("kind", name), options.pop("model", None)
    if not isinstance(kind, str) or not isinstance(model, str | None):
        raise ConfigurationError(f"[tools.{name}]: kind and model must be strings")
    return ToolSpec(kind=kind, name=name, model=model, options=options)


def _expand(spec: str, table: Mapping[str, Mapping[str, Any]]) -> list[ToolSpec]:
    if spec in table:
        return [from_table(spec, table[spec])]
    parsed = parse(spec)
    if parsed.kind not in GROUPS:
        return [parsed]
    if parsed.name or parsed.model:
        raise ConfigurationError(
            f"{parsed.kind!r} stands for {', '.join(GROUPS[parsed.kind])}; name one of them"
        )
    return [ToolSpec(kind=kind, options=parsed.options) for kind in GROUPS[parsed.kind]]


def _make(spec: ToolSpec, model: Model | None) -> Tool:
    factory = KINDS.get(spec.kind) or _plugin(spec.kind)
    options: dict[str, Any] = {"name": spec.name or spec.kind, **spec.options}
    if spec.model is not None:
        options["model"] = spec.model
    hints = _options_of(factory)
    if hints is None:
        return factory(**options)
    if "connected" in hints and model is not None and "model" not in options:
        options["connected"] = model
    # `rouge1` is `Rouge` with its variant; another variant would contradict the name
    fixed = factory.keywords if isinstance(factory, partial) else {}
    accepted = [name for name in hints if name not in {*fixed, "connected", "name"}]
    for name in options:
        if name not in (*accepted, "connected", "name"):
            raise UnknownName(f"option of the tool {spec.kind}:", name, accepted)
    return factory(**{name: _read(spec.kind, name, options[name], hints[name]) for name in options})


def _read(kind: str, name: str, value: Any, hint: Any) -> Any:
    try:
        return TypeAdapter(hint).validate_python(value)
    except PydanticSchemaGenerationError:
        return value  # a protocol, such as a sentence splitter, which only Python can give
    except ValidationError as error:
        raise ConfigurationError(
            f"option {name} of the tool {kind}: {value!r}: {error.errors()[0]['msg']}"
        ) from None


def _options_of(factory: Factory) -> dict[str, Any] | None:
    """Return the annotations of a factory's options; `None` if it checks them itself."""
    options: dict[str, Any] = {}
    for name, parameter in inspect.signature(factory, eval_str=True).parameters.items():
        hint = parameter.annotation
        if parameter.kind is not parameter.VAR_KEYWORD:
            options[name] = Any if hint is parameter.empty else hint
        elif typing.get_origin(hint) is typing.Unpack:
            options |= typing.get_type_hints(typing.get_args(hint)[0], include_extras=True)
        else:
            return None
    return options


def _points() -> dict[str, EntryPoint]:
    """Return the factories, or `FunctionTool`s, of other packages."""
    return {point.name: point for point in entry_points(group="textassay.tools")}


def _plugin(kind: str) -> Factory:
    points = _points()
    if kind not in points:
        raise UnknownName("tool", kind, [*KINDS, *GROUPS, *points])
    return _load(points[kind])


def _load(point: EntryPoint) -> Factory:
    try:
        loaded = point.load()
    except (ImportError, AttributeError) as error:
        package = point.dist.name if point.dist else "another package"
        raise ConfigurationError(
            f"the tool {point.name!r} of {package} cannot be loaded: {error}"
        ) from error
    if isinstance(loaded, FunctionTool):
        return loaded.rename
    if not callable(loaded):
        raise ConfigurationError(
            f"the entry point {point.name!r} in textassay.tools is neither a factory nor a tool"
        )
    return typing.cast(Factory, loaded)
