"""The flags that commands share, and groups of them, most made from `RunRequest` and `Settings`.

A command takes a group in one parameter, `Annotated[Given, RUNTIME]`, and gets a dictionary of the
flags that were given. Its other flags are ordinary typer parameters. Nothing heavy is imported
here: help needs none of it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from pydantic import BaseModel

from textassay.evaluation.request import RunRequest
from textassay.runtime.settings import FLAGGED, Settings, flag_of

Given = dict[str, Any]
"""The flags of a group that were given, by the names of their parameters."""


def build_option(model: type[BaseModel], name: str) -> Any:
    """Return the option of a field that carries a `Flag`; its help is that of the field."""
    field, flag = model.model_fields[name], flag_of(model, name)
    if flag is None:
        raise KeyError(f"{model.__name__}.{name} has no flag")
    plain = field.is_required() or not field.default or isinstance(field.default, tuple)
    shown = "" if plain else f" (default: {field.default})"
    return typer.Option(
        f"--{(flag.name or name).replace('_', '-')}",
        *([flag.short] if flag.short else []),
        metavar=flag.metavar or None,
        help=_first_sentence(field.description or "").removesuffix(".") + shown + ".",
        rich_help_panel=flag.panel,
    )


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s+(?=[A-Z])", " ".join(text.split()), maxsplit=1)[0]


_EXAMPLES = typer.Argument(
    metavar="DATA", help="Examples: JSON Lines (.gz), CSV, Parquet or .xlsx."
)
Data = Annotated[str, _EXAMPLES]
OptionalData = Annotated[str | None, _EXAMPLES]
Scores = Annotated[
    Path, typer.Argument(metavar="SCORES", help="Run folder, or JSON Lines with id, aspect, value.")
]
RatedData = Annotated[
    Path | None,
    typer.Argument(metavar="DATA", help="Examples with human ratings (default: those of the run)."),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]
MethodName = Annotated[str | None, build_option(RunRequest, "method")]
Models = Annotated[list[str] | None, build_option(RunRequest, "models")]
Out = Annotated[Path | None, build_option(RunRequest, "out")]
ScoresOrMetrics = Annotated[
    Path,
    typer.Argument(
        metavar="SCORES",
        help="Run folder, JSON Lines with id, aspect, value, or a data set with metrics.",
    ),
]
Rated = Annotated[Path, typer.Argument(metavar="DATA", help="Examples with human ratings.")]
AspectMap = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SCORE=HUMAN", help="Compare this score with that human rating; may repeat."
    ),
]
ScaleOf = Annotated[
    list[str] | None,
    typer.Option(
        "--scale",
        metavar="ASPECT=LOW,HIGH",
        help="Scale of the human ratings, if it is not the judge's; may repeat.",
    ),
]
Confidence = Annotated[
    float, typer.Option(metavar="C", help="Confidence of the intervals, such as 0.95.")
]
AllowChange = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="allow_change=true",
        help="Accept scores with another signature, if you know that it does not matter.",
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", help="Random seed.")]
Weight = Annotated[
    str,
    typer.Option(
        metavar="sources|texts",
        help=(
            "What counts the same in a mean: sources, however many texts each has, or texts. "
            "Intervals are over sources either way."
        ),
    ),
]
Labels = Annotated[
    str,
    typer.Option(
        metavar="HOW",
        help=(
            "How the rated rows were picked: random, chosen (by hand; no interval is promised), "
            "or the file of a label plan."
        ),
    ),
]
Human = Annotated[
    Path | None,
    typer.Option(metavar="DATA", help="Texts and human ratings (default: the data of the run)."),
]
ToTable = Annotated[
    Path, typer.Option("--out", "-o", metavar="FILE", help="File to write, .toml or .json.")
]
Writers = Annotated[
    list[str],
    typer.Option("--model", "-m", metavar="[ROLE=]MODEL", help="Model to ask; may repeat."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


class Group:
    """Flags that several commands take together; marks the one parameter that receives them."""

    def __init__(self, **flags: Any) -> None:
        self.flags = flags

    def parameters(self) -> list[inspect.Parameter]:
        """Return the flags as the parameters of a function."""
        return [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                # None rather than the setting's default: only then can a flag that was typed be
                # told from one that was not, which decides what wins over a config file
                default=False if get_args(flag)[0] is bool else None,
                annotation=flag,
            )
            for name, flag in self.flags.items()
        ]

    def only(self, *names: str) -> Group:
        """Return a group of some of the flags."""
        return Group(**{name: self.flags[name] for name in names})

    def __or__(self, other: Group) -> Group:
        # a flag that is in both groups raises a TypeError here, at import, and not when somebody
        # types it
        return Group(**self.flags, **other.flags)


def given(flags: Mapping[str, Any]) -> Given:
    """Return the flags that were given: neither missing, nor empty, nor a switch that is off."""
    return {
        name: value
        for name, value in flags.items()
        # a switch that is off and a list without items are what typer passes for flags that nobody
        # typed
        if value is not None and value is not False and value != []
    }


def expanded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with each parameter annotated with a `Group` spread into flags."""
    # annotations are strings under `from __future__ import annotations`; this resolves them
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Group] = {}
    for parameter in inspect.signature(function).parameters.values():
        hint = hints[parameter.name]
        group = next((mark for mark in get_args(hint)[1:] if isinstance(mark, Group)), None)
        if group is None:
            parameters.append(parameter.replace(annotation=hint))
        else:
            groups[parameter.name] = group
            parameters += group.parameters()

    @wraps(function)
    def spread(**flags: Any) -> Any:
        collected = {
            name: given({flag: flags.pop(flag) for flag in group.flags})
            for name, group in groups.items()
        }
        return function(**flags, **collected)

    # typer reads the signature and the annotations, each for itself
    spread.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    spread.__annotations__ = {item.name: item.annotation for item in parameters}
    return spread


def build_flags(model: type[BaseModel], *names: str) -> Group:
    """Return the flags of fields; names, types, defaults and help come from the model."""
    flags: dict[str, Any] = {}
    for name in names:
        annotation = model.model_fields[name].annotation
        kind = list[str] if _is_list(annotation) else _word(annotation)
        flag = flag_of(model, name)
        flags[flag.name or name if flag else name] = Annotated[
            kind if kind is bool else kind | None, build_option(model, name)
        ]
    return Group(**flags)


def _is_list(annotation: Any) -> bool:
    """Return whether a flag may repeat: what it holds is a mapping, or names one by one."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return any(map(_is_list, arguments))
    return origin is dict or (origin is tuple and str in _leaves(arguments[0]))


def _leaves(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) or (annotation,)


def _word(annotation: Any) -> Any:
    """Return the type that a value is read as; what is more than a word is read later."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _word(arguments[0])
    if origin in (Union, UnionType):
        return _word(next(item for item in arguments if item is not NoneType))
    if origin is Literal or annotation in (bool, int, float, str, Path):
        return annotation
    return str


def _option(panel: str | None, text: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=panel)


RUNTIME = build_flags(Settings, *FLAGGED)
"""How models are asked: every setting that has a flag."""

PROGRESS = Group(
    progress=Annotated[
        Literal["auto", "plain", "none"] | None,
        _option(
            None,
            "How to show progress: live in a terminal (auto), an occasional line, or not at all.",
        ),
    ]
)

LOG = Group(
    log=Annotated[
        Literal["text", "json"] | None,
        _option(None, "Write progress and messages as text, or as one JSON object per line."),
    ],
    prometheus=Annotated[
        Path | None,
        _option(
            None,
            "Keep the run's figures in this file, as Prometheus text for node_exporter's textfile"
            " collector.",
            metavar="FILE",
        ),
    ],
)
"""How a run is watched by programs."""

DRY_RUN = Group(
    dry_run=Annotated[
        bool,
        _option(None, "Estimate calls, tokens and cost without asking any model.", "--dry-run"),
    ]
)

SET = Group(
    set=Annotated[
        list[str] | None,
        _option(
            None,
            "Set a method option or a further run-time setting (timeout, attempts, ...); may"
            " repeat. `textassay settings` lists them.",
            "--set",
            metavar="KEY=VALUE",
        ),
    ]
)

CONFIG = Group(
    config=Annotated[
        Path | None,
        _option(
            None,
            "TOML file of flags and tables; the command line wins.",
            "--config",
            metavar="FILE",
        ),
    ]
)

CELLS = build_flags(RunRequest, "fields", "missing")
"""What the columns of data mean, and which cells mean nothing."""

MAPPED = CONFIG | CELLS
"""How data are read by what scores nothing."""
UNIT = build_flags(RunRequest, "unit")
"""Which part of a conversation counts as an example."""
RATINGS = Group(
    ratings=Annotated[
        list[Path] | None,
        _option(
            None,
            "File of ratings of these data, as annotate writes it, joined by id; may repeat.",
            "--ratings",
            metavar="FILE",
        ),
    ]
)
"""Files of ratings beside the data."""
ALLOWING = Group(set=AllowChange)
"""The one setting of commands that compare signatures."""

READING = CELLS | build_flags(RunRequest, "limit", "unit", "pair")
"""How data are read."""

JUDGING = build_flags(RunRequest, "task", "aspects", "tools")
"""What is judged, and with which tools."""
RATED = MAPPED | RATINGS | JUDGING.only("task")
"""How examples with human ratings are read, and which task names their labels."""

SAMPLING = Group(
    n=Annotated[int | None, _option("Judging", "Samples per judgment.", "--n", "-n", metavar="N")],
    temperature=Annotated[float | None, _option("Judging", "Sampling temperature.", metavar="T")],
    seed=Annotated[int | None, _option("Judging", "Random seed.", metavar="N")],
)
"""How answers are drawn."""

SHARDING = build_flags(RunRequest, "shard")
"""Which part of the data is judged."""

WORKERS = Group(
    processes=Annotated[
        int | None,
        _option(
            "Scale",
            "Judge in N processes of this machine, which keep to the limits together.",
            metavar="N",
        ),
    ],
    cluster=Annotated[
        str | None,
        _option(
            "Scale",
            "Judge on a Ray cluster: ray for the one that Ray finds, or ray://HOST:PORT of a Ray "
            "Client server.",
            metavar="ray[://HOST:PORT]",
        ),
    ],
    workers=Annotated[
        int | None,
        _option(
            "Scale",
            "Number of workers on the cluster (default: one per node, or per GPU for local"
            " models).",
            metavar="N",
        ),
    ],
)
"""What judges the data, if not this process."""

SCORE = (
    CONFIG
    | SET
    | DRY_RUN
    | PROGRESS
    | LOG
    | JUDGING
    | SAMPLING
    | READING
    | SHARDING
    | WORKERS
    | RUNTIME
)
"""How texts are scored: the flags of `score` that are no arguments of its own."""
CONFIG_KEYS = (
    *("data", "method", "model", "out", "calibration", "escalate"),
    *SCORE.flags,
    "fields",
)
"""Keys that a file of `--config` may have: one file serves a run and what is made of it."""
