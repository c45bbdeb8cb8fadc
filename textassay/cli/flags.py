"""The flags that commands share, most made from `RunRequest` and `Settings`, and how they are read.

A command takes a group of them in one parameter, `Annotated[Flags, RUNTIME]`, and gets a
dictionary of the given flags, which `with_config` merges with a TOML file of flags. Its other flags
are ordinary typer parameters. Imports nothing heavy, since help does not need it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NoReturn, Union, get_args, get_origin

import typer
from pydantic import BaseModel

from textassay.cli.console import say
from textassay.cli.syntax import GroupColumn, argument, drop_unset, option, switch
from textassay.evaluation.request import RunRequest
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.settings import (
    FLAGGED,
    LOADED,
    LOADING,
    SETTABLE,
    EndpointSettings,
    Settings,
    descriptions,
    flag_of,
    settings_in,
    split_settings,
)


def build_option(model: type[BaseModel], name: str) -> Any:
    """Return the option of a field that carries a `Flag`; its help is the field's."""
    field, flag = model.model_fields[name], flag_of(model, name)
    if flag is None:
        raise KeyError(f"{model.__name__}.{name} has no flag")
    plain = field.is_required() or not field.default or isinstance(field.default, tuple)
    default = "" if plain else f" (default: {field.default})"
    return typer.Option(
        f"--{(flag.name or name).replace('_', '-')}",
        *([flag.short] if flag.short else []),
        metavar=flag.metavar or None,
        help=_first_sentence(descriptions(model).get(name, "")).removesuffix(".") + default + ".",
        rich_help_panel=flag.panel,
    )


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s+(?=[A-Z])", " ".join(text.split()), maxsplit=1)[0]


_EXAMPLES = argument("DATA", "Examples: JSON Lines (.gz), CSV, Parquet or .xlsx.")
Data = Annotated[str, _EXAMPLES]
OptionalData = Annotated[str | None, _EXAMPLES]
ScoresArgument = Annotated[
    Path, argument("SCORES", "Run folder, or JSON Lines with id, aspect, value.")
]
RatedData = Annotated[
    Path | None,
    argument(
        "DATA", "Examples with human ratings (default: the data of the run, or SCORES itself)."
    ),
]
RunArgument = Annotated[Path, argument("RUN", "Run folder.")]
MethodName = Annotated[str | None, build_option(RunRequest, "method")]
ModelNames = Annotated[list[str] | None, build_option(RunRequest, "models")]
JudgeNames = Annotated[
    list[str] | None,
    option(
        "[ROLE=]MODEL",
        "Model to ask, or models by role: repeat it as ROLE=MODEL (default: TEXTASSAY_MODEL).",
        "--model",
        "-m",
    ),
]
Out = Annotated[Path | None, build_option(RunRequest, "out")]
NewRun = Annotated[
    Path | None,
    option("DIR", "Folder to create for the result (default: runs/DATA-DATE-TIME).", "--out", "-o"),
]
ScoresOrMetrics = Annotated[
    Path,
    argument(
        "SCORES", "Run folder, JSON Lines with id, aspect, value, or a data set with metrics."
    ),
]
AspectPairs = Annotated[
    list[str] | None,
    option("SCORE=HUMAN", "Compare this score with that human rating; may repeat."),
]
ScaleOf = Annotated[
    list[str] | None,
    option(
        "ASPECT=LOW,HIGH",
        "Scale of the human ratings, if it is not the judge's; may repeat.",
        "--scale",
    ),
]
Confidence = Annotated[float, option("C", "Confidence of the intervals, such as 0.95.")]
WeightOption = Annotated[
    str,
    option(
        "sources|texts",
        "Weight every source equally, or every text. "
        "Intervals always treat the source as the unit.",
    ),
]
SelectionOption = Annotated[
    str,
    option(
        "HOW",
        "How the rated rows were selected: random, chosen (by hand; without intervals), or the "
        "file of a label plan.",
    ),
]
HumanData = Annotated[
    Path | None, option("DATA", "Texts and human ratings (default: the data of the run).")
]
ToTable = Annotated[Path, option("FILE", "File to write, .toml or .json.", "--out", "-o")]
Writers = Annotated[list[str], option("[ROLE=]MODEL", "Model to ask; may repeat.", "--model", "-m")]


def build_flags(model: type[BaseModel], *names: str) -> GroupColumn:
    """Return the flags of fields; names, types, defaults and help come from the model."""
    flags: dict[str, Any] = {}
    for name in names:
        annotation = model.model_fields[name].annotation
        kind = list[str] if _is_list(annotation) else _word(annotation)
        flag = flag_of(model, name)
        flags[flag.name or name if flag else name] = Annotated[
            kind if kind is bool else kind | None, build_option(model, name)
        ]
    return GroupColumn(**flags)


def _is_list(annotation: Any) -> bool:
    """Return whether a flag may repeat: its field is a mapping or a sequence of names."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return any(map(_is_list, arguments))
    return origin is dict or (
        origin is tuple and str in (get_args(arguments[0]) or (arguments[0],))
    )


def _word(annotation: Any) -> Any:
    """Return the type as which typer reads a value; longer values are read later."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _word(arguments[0])
    if origin in (Union, UnionType):
        return _word(next(item for item in arguments if item is not NoneType))
    if origin is Literal or annotation in (bool, int, float, str, Path):
        return annotation
    return str


_SHARED: dict[str, Any] = {
    "config": Annotated[
        Path | None,
        option("FILE", "TOML file of settings and tables; the command line wins.", "--config"),
    ],
    "set": Annotated[
        list[str] | None,
        option(
            "KEY=VALUE",
            "Set a method option or a further run-time setting (timeout, attempts, ...); may"
            " repeat. `textassay list settings` lists them.",
            "--set",
        ),
    ],
    "dry_run": Annotated[
        bool, switch("--dry-run", "Estimate calls, tokens and cost without asking any model.")
    ],
    "progress": Annotated[
        Literal["auto", "plain", "none"] | None,
        option(
            "",
            "How to show progress: live in a terminal (auto), an occasional line, or not at all.",
        ),
    ],
    "log": Annotated[
        Literal["text", "json"] | None,
        option("", "Write progress and messages as text, or as one JSON object per line."),
    ],
    "criterion": Annotated[
        list[str] | None,
        option(
            "[NAME:] TEXT",
            'Sentence to judge by, such as "Every statement is supported by the source."; may'
            " repeat.",
            panel="Judging",
        ),
    ],
    "scale": Annotated[
        str | None,
        option(
            "1-5|yes-no|A,B,C",
            "Scale of the criteria: numbers (default: 1-5), yes or no, or a choice of labels.",
            panel="Judging",
        ),
    ],
    "jury": Annotated[
        list[str] | None,
        option("MODEL...", "Judges whose ratings are averaged; may repeat.", panel="Judging"),
    ],
    **build_flags(RunRequest, "task", "aspects", "tools").flags,
    "n": Annotated[int | None, option("N", "Samples per judgment.", "--n", "-n", panel="Judging")],
    "temperature": Annotated[float | None, option("T", "Sampling temperature.", panel="Judging")],
    "seed": Annotated[int | None, option("N", "Random seed.", panel="Judging")],
    **build_flags(
        RunRequest, "fields", "missing", "strict_columns", "limit", "unit", "pair", "shard"
    ).flags,
    "processes": Annotated[
        int | None,
        option("N", "Use N processes on this machine; they share the limits.", panel="Scale"),
    ],
    "cluster": Annotated[
        str | None,
        option(
            "ray[://HOST:PORT]",
            "Judge on a Ray cluster: ray for the one that Ray finds, or ray://HOST:PORT of a Ray "
            "Client server.",
            panel="Scale",
        ),
    ],
    "workers": Annotated[
        int | None,
        option(
            "N",
            "Number of workers on the cluster (default: one per node, or per GPU for local"
            " models).",
            panel="Scale",
        ),
    ],
    **build_flags(Settings, *FLAGGED).flags,
    "no_cache": Annotated[
        bool, option("", "Keep no answers on disk.", "--no-cache", panel="Cache")
    ],
}
"""The flags of `score` by parameter, in the order of its help; other commands use some of them."""


def pick(*names: str) -> GroupColumn:
    """Return some of the flags that commands share, in this order."""
    return GroupColumn(**{name: _SHARED[name] for name in names})


SCORE = pick(*_SHARED)
"""Flags of `score` that it shares with other commands."""
RUNTIME = pick(*FLAGGED, "no_cache")
"""Every setting that has a flag."""
READING = pick("field", "missing", "strict_columns", "limit", "unit", "pair")
"""Flags for reading data."""
MAPPED = pick("config", "field", "missing")
"""Flags for reading data in commands that score nothing."""
RATINGS = GroupColumn(
    ratings=Annotated[
        list[Path] | None,
        option(
            "FILE",
            "File of ratings of these data, as annotate writes it, joined by id; may repeat.",
            "--ratings",
        ),
    ]
)
"""Files of ratings beside the data."""
RATED = MAPPED | RATINGS | pick("task")
"""Flags for reading examples with human ratings, and the task that names their labels."""
ALLOWING = GroupColumn(
    set=Annotated[
        list[str] | None,
        option(
            "allow_change=true",
            "Accept scores with another signature, if you know that it does not matter.",
            "--set",
        ),
    ]
)
"""The one `--set` key of commands that compare signatures."""
CONFIG_KEYS = (
    "data", "method", "model", "out", "calibration", "fields",
    *(name for name in SCORE.flags if name not in ("no_cache", "set")),
)  # fmt: skip
"""Keys that a file of `--config` may have: one file serves a run and the commands that use it."""


def read_names(value: str | Iterable[str]) -> tuple[str, ...]:
    """Read `a,b,c`, or the list that a TOML file may have in its place."""
    if not isinstance(value, str):
        return tuple(value)
    return tuple(part.strip() for part in value.split(",") if part.strip())


def split_names(items: Iterable[str] | None) -> tuple[str, ...] | None:
    """Read a flag that takes `A,B` and may repeat; `None` if it was not typed.

    Unlike `read_names`, it splits every item: only a TOML list can contain a name with a comma.
    """
    return read_names(",".join(items)) if items else None


def read_pairs(items: Iterable[str], flag: str) -> dict[str, str]:
    """Read `key=value` items."""
    parsed: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise ConfigurationError(f"{flag} takes key=value, not {item!r}")
        parsed[key.strip()] = value
    return parsed


def read_set(items: Iterable[str]) -> dict[str, Any]:
    """Read the items of `--set`, each value as TOML (`3`, `true`, `[1, 2]`), or else as text."""
    set_values: dict[str, Any] = {}
    for key, text in read_pairs(items, "--set").items():
        try:
            # TOML, because a config file writes the same values in TOML
            set_values[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            set_values[key] = text
    return set_values


def read_models(items: str | Iterable[str] | Mapping[str, str]) -> dict[str, str]:
    """Read `[ROLE=]MODEL` items; a model without a role serves every role that is not named.

    Only `juror` may be given several times; its models become `juror1`, `juror2`, ... in order.
    """
    # read from a config file already
    if isinstance(items, Mapping):
        return dict(items)
    by_role: dict[str, str] = {}
    items = [items] if isinstance(items, str) else list(items)
    # a single `juror=` keeps its plain name; only several need numbers
    repeats = sum(item.startswith("juror=") for item in items) > 1
    for item in items:
        role, equals, name = item.partition("=")
        # names of models may hold "=" in an address; a role has neither a slash nor a dot
        if not equals or "/" in role or "." in role:
            role, name = "", item
        if role == "juror" and repeats:
            numbers = {role.removeprefix("juror") for role in by_role}
            role += next(str(at) for at in range(1, len(items) + 1) if str(at) not in numbers)
        if role in by_role:
            whose = f"the role {role!r}" if role else "every role"
            raise ConfigurationError(
                f"--model: two models for {whose}, {by_role[role]} and {name}; name the role of"
                f" each (--model juror={by_role[role]} --model juror={name} for a jury)"
            )
        by_role[role] = name
    return by_role


def read_extra(items: str | Iterable[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Read `KEY=JSON` items, or the table that a TOML file has in their place."""
    if isinstance(items, Mapping):
        return dict(items)
    fields = {}
    pairs = read_pairs([items] if isinstance(items, str) else items, "--extra")
    for key, value in pairs.items():
        try:
            fields[key] = json.loads(value)
        except ValueError as error:
            raise ConfigurationError(
                f'--extra {key} takes JSON, such as 3, true, "text" or {{"a": 1}}, not {value!r}'
            ) from error
    return fields


def read_scales(items: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Read `ASPECT=LOW,HIGH` items."""
    by_aspect: dict[str, tuple[float, float]] = {}
    for item in items:
        # from the right: an aspect's name may hold "="
        name, equals, ends = item.rpartition("=")
        try:
            low, high = (float(part) for part in ends.split(","))
        except ValueError:
            # an unreadable pair fails the same check, with the same message, as a pair in the wrong
            # order
            low = high = 0.0
        if not (equals and name and low < high):
            raise ConfigurationError(f"--scale takes ASPECT=LOW,HIGH, not {item!r}")
        by_aspect[name] = (low, high)
    return by_aspect


def read_price(value: str | Iterable[float]) -> tuple[float, ...]:
    """Read `IN,OUT[,CACHED[,WRITTEN]]`, US dollars per million tokens, or a TOML list."""
    try:
        parts = tuple(map(float, value.split(",") if isinstance(value, str) else value))
    except (TypeError, ValueError):
        parts = ()
    if not 2 <= len(parts) <= 4:
        raise ConfigurationError(
            "--price takes IN,OUT[,CACHED[,WRITTEN]] in US dollars per million tokens, not"
            f" {value!r}"
        )
    return parts


def config_file(path: Path | None, known: Iterable[str]) -> dict[str, Any]:
    """Read a TOML file whose keys are the names of settings, as in Python.

    The tables `options` and `fields` are options of the method and the field map. Lists may be
    lists, `model` a table by role, `tools` tables by the tool's name, and `models`
    tables, each with the settings of one model, by its role or by the name that `--model` takes.
    """
    if path is None:
        return {}

    def refuse(why: object) -> NoReturn:
        raise ConfigurationError(f"--config {path}: {why}")

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        refuse(error)
    # the file may spell flags as the command line does
    flat = {key.replace("-", "_"): value for key, value in content.items()}
    others = {"models", "endpoints", "options", *EndpointSettings.model_fields, *SETTABLE, *LOADING}
    allowed = sorted({*known, *others} - {"config", "field", "set"})
    for key in (key for key in flat if key not in allowed):
        table = next((name for name, fields in LOADING.items() if key in fields.model_fields), None)
        if table is not None:
            refuse(f"{key!r} belongs below [{table}]")
        if key in ("set", "settings"):
            refuse(
                f"there is no {key!r}; write settings such as timeout above all tables, and options"
                " of the method below [options]"
            )
        raise UnknownName("key", key, allowed, where=str(path))
    for key in ("options", "fields", *LOADING):
        if not isinstance(flat.get(key, {}), dict):
            refuse(f"{key!r} must be a table of settings, not {flat[key]!r}")
    for key in flat.get("options", {}):
        if key in (*SETTABLE, *LOADING, *LOADED, *FLAGGED):
            refuse(f"{key!r} is not an option of a method; write it above [options]")
    if not isinstance(flat.get("endpoints", []), list):
        refuse("endpoints must be tables, each beginning with [[endpoints]] in two brackets")
    if "models" in flat:
        named, flat["roles"] = role_tables(flat.pop("models"), path)
        flat["model"] = {**read_models(flat.get("model") or {}), **named}
    for key, reader in READERS.items():
        try:
            if key in flat:
                flat[key] = reader(flat[key])
        except (AttributeError, TypeError):
            refuse(f"{key!r} cannot be {flat[key]!r}")
    return flat


def role_tables(value: Any, path: Path) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Read `[models.NAME]` tables: models and their settings, by name."""
    names_by_role: dict[str, str] = {}
    settings_by_role: dict[str, dict[str, Any]] = {}
    tables = value if isinstance(value, Mapping) else {"": value}
    for role, table in tables.items():
        if not isinstance(table, Mapping):
            raise ConfigurationError(
                f"--config {path}: models must consist of tables, such as [models.scorer], not "
                f"{table!r}"
            )
        settings = {key.replace("-", "_"): value for key, value in table.items()}
        if "model" in settings:
            names_by_role[role] = settings.pop("model")
        settings_by_role[role] = settings
    return names_by_role, settings_by_role


def read_tools(
    value: str | Iterable[str] | Mapping[str, Mapping[str, Any]],
) -> tuple[str, ...] | dict[str, str]:
    """Read the names of tools, or `[tools.NAME]` tables, which become specs by name."""
    if isinstance(value, Mapping):
        from textassay.tools import as_text, from_table  # help does not need it

        return {name: as_text(from_table(name, table)) for name, table in value.items()}
    return read_names(value)


def read_sentences(
    value: str | Iterable[str] | Mapping[str, str],
) -> tuple[str, ...] | dict[str, str]:
    """Return texts unchanged; a TOML file may have a single one, or a table of criteria by name."""
    if isinstance(value, Mapping):
        return dict(value)
    return (value,) if isinstance(value, str) else tuple(value)


def seat_jury(flags: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Return flags with the models of `jury` as jurors, and with the method `jury`."""
    if "jury" not in flags:
        return dict(flags)
    seated = dict(flags)
    jurors = split_names(read_sentences(seated.pop("jury"))) or ()
    if len(jurors) < 2:
        raise ConfigurationError(f"{where}--jury needs at least two models, not {list(jurors)!r}")
    if seated.get("model"):
        raise ConfigurationError(f"{where}--jury names the models; leave out --model")
    if seated.setdefault("method", "jury") != "jury":
        raise ConfigurationError(
            f"{where}--jury uses the method jury; leave out --method {seated['method']}"
        )
    return {**seated, "model": read_models([f"juror={model}" for model in jurors])}


READERS: Mapping[str, Callable[[Any], Any]] = {
    "model": read_models,
    "aspects": read_names,
    "features": read_names,
    "tools": read_tools,
    "extra": read_extra,
    "missing": read_sentences,
    "price": read_price,
    "criterion": read_sentences,
}
"""Readers of values that are more than one word, on the command line and in a file."""


def read_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given flags with their values read."""
    values = {
        key: split_names(value) if key in ("aspects", "features", "tools")
        else READERS[key](value) if key in READERS else value
        for key, value in drop_unset(flags).items()
    }  # fmt: skip
    if values.pop("no_cache", False):
        if "cache" in values:
            raise ConfigurationError("--cache and --no-cache exclude each other")
        values["cache"] = False
    return values


def with_config(
    flags: Mapping[str, Any], known: Iterable[str] = CONFIG_KEYS
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the flags and the `--set` values, both merged with the file of `--config`.

    Typed flags win over the file.
    """
    values = seat_jury(drop_unset(flags))
    path, set_items = values.pop("config", None), values.pop("set", None)
    mapped = read_pairs(values.pop("field", None) or (), "--field")
    configured = config_file(path, known)
    if values.get("model"):  # typed flags win
        configured.pop("jury", None)
    configured = seat_jury(configured, f"--config {path}: ")
    if values.get("api_base") is not None and configured.get("endpoints"):
        raise ConfigurationError(
            f"--api-base would not be used beside the [[endpoints]] of {path}: leave out one"
        )
    if mapped:
        configured["fields"] = {**configured.get("fields", {}), **mapped}
    in_file, set_values = configured.pop("options", {}), read_set(set_items or ())
    _check_given_once(in_file, configured, f"{path} gives {{0}} twice, in [options] and outside it")
    for table in LOADING:
        in_file |= configured.pop(table, {})
    _check_given_once(
        set_values, drop_unset(values), "{0} is given twice, by its flag and by --set {0}="
    )
    for role, settings in configured.get("roles", {}).items():
        _say_unused_flags(role, settings, values)
    # typed values win over any form in the file
    general = {name: value for name, value in configured.items() if name not in set_values}
    flags = overlay(read_flags(values), general)
    return _with_described_models(flags, configured.get("model", {})), {**in_file, **set_values}


def data_options(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments `fields` and `missing` of `Examples`."""
    return {name: flags[name] for name in ("fields", "missing") if name in flags}


def data_reading(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reading options of a command that scores nothing; its file may have any key."""
    return data_options(with_config(values)[0])


def _with_described_models(flags: dict[str, Any], described: Mapping[str, str]) -> dict[str, Any]:
    """Return flags with models replaced by the `[models.NAME]` tables that they name."""
    tables, models_by_role = flags.get("roles", {}), flags.get("model", {})
    by_role = {
        role: name for role, name in models_by_role.items() if name in tables and name != role
    }
    if not by_role:
        return flags
    # the name of a model is not a role
    models = {role: name for role, name in models_by_role.items() if role not in by_role.values()}
    roles = {role: table for role, table in tables.items() if role not in by_role.values()}
    for role, name in by_role.items():
        models[role] = described.get(name, name)
        roles[role] = {**tables[name], **tables.get(role, {})}
    return {**flags, "model": models, "roles": roles}


def with_model_tables(flags: Mapping[str, Any], models: Mapping[str, str]) -> dict[str, Any]:
    """Return flags with tables of models by role."""
    tables, described = flags.get("roles", {}), flags.get("model", {})
    roles = dict(tables)
    for name, table in tables.items():
        if name not in models:
            for role in [r for r, model in models.items() if model == described.get(name, name)]:
                roles[role] = {**table, **tables.get(role, {})}
                roles.pop(name, None)
    return {**flags, "roles": roles} if tables else dict(flags)


def _check_given_once(names: Iterable[str], flags: Container[str], problem: str) -> None:
    for name in names:
        if name in flags:
            raise ConfigurationError(f"{problem.format(name)}: leave out one")


def _say_unused_flags(role: str, settings: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Print which typed flags do not apply to a role that has its own settings in the file."""
    places = {"api_base"} if "endpoints" in settings else set[str]()
    unused = [
        name for name in (*settings, *places - settings.keys()) if values.get(name) is not None
    ]
    if unused:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(unused))
        say(f"[models.{role}] has settings of its own in place of {flags}")


def model_settings(flags: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], Settings]:
    """Return flags, method options and settings for a command that asks models without a run."""
    values, set_values = with_config(flags)
    runtime, options = split_settings(set_values)
    runtime |= settings_in(values)
    return values, options, Settings(**runtime)


def overlay(values: Mapping[str, Any], configured: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags of the command line over the file.

    Tools that the file describes are used by name: the named ones, or else all.
    """
    # typed values win: the file is the general case, the command line the exception
    flags = {**configured, **values}
    if "extra" in configured:
        flags["extra"] = {**configured["extra"], **values.get("extra", {})}
    described = configured.get("tools")
    if isinstance(described, Mapping):
        flags["tools"] = tuple(described.get(name, name) for name in flags["tools"])
    return flags


def read_allow_change(items: Iterable[str] | None) -> bool:
    """Read `--set allow_change=true`, the one setting of the commands from scores to decisions."""
    set_values = read_set(items or ())
    for name in set_values:
        if name != "allow_change":
            raise UnknownName("setting", name, ["allow_change"])
    value = set_values.get("allow_change", False)
    if not isinstance(value, bool):
        raise ConfigurationError(f"--set allow_change must be true or false, not {value!r}")
    return value


def check_confidence(confidence: float) -> None:
    """Check that the confidence is between 0 and 1."""
    if not 0 < confidence < 1:
        raise ConfigurationError(f"--confidence must be between 0 and 1, not {confidence!r}")
