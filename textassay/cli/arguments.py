"""Reads what several commands share: `--set`, `--model`, lists, and a TOML file of flags."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from textassay.cli.console import say
from textassay.cli.flags import CONFIG_KEYS, given
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.settings import (
    LOADED,
    SETTABLE,
    EndpointSettings,
    Settings,
    settings_in,
    split_settings,
)


def names(given: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """Read `a,b,c`, or the list that a TOML file may have in its place; `None` stays `None`."""
    if given is None:
        return None
    if not isinstance(given, str):
        return tuple(given)
    return tuple(part.strip() for part in given.split(",") if part.strip())


def typed_names(given: Iterable[str] | None) -> tuple[str, ...] | None:
    """Read a flag that takes `A,B` and may repeat; `None` if it was not typed.

    Unlike `names`, it takes apart every item: only a TOML list can hold a name with a comma.
    """
    return names(",".join(given)) if given else None


def pairs(items: Iterable[str], flag: str) -> dict[str, str]:
    """Read `key=value` items."""
    parsed: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise ConfigurationError(f"{flag} takes key=value, not {item!r}")
        parsed[key.strip()] = value
    return parsed


def settings(items: Iterable[str]) -> dict[str, Any]:
    """Read the items of `--set`, each value as TOML if it is valid TOML."""
    return {key: literal(value) for key, value in pairs(items, "--set").items()}


def literal(text: str) -> Any:
    """Read a value as TOML (`3`, `0.5`, `true`, `[1, 2]`), or as plain text if it is not TOML."""
    try:
        # TOML rather than Python or JSON, because a config file writes the same values in TOML
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def models(items: str | Iterable[str] | Mapping[str, str]) -> dict[str, str]:
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
            taken = {role.removeprefix("juror") for role in by_role}
            role += next(str(at) for at in range(1, len(items) + 1) if str(at) not in taken)
        if role in by_role:
            whose = f"the role {role!r}" if role else "every role"
            raise ConfigurationError(
                f"--model: two models for {whose}, {by_role[role]} and {name}; name the role of"
                f" each (--model juror={by_role[role]} --model juror={name} for a jury)"
            )
        by_role[role] = name
    return by_role


def extra(given: str | Iterable[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Read `KEY=JSON` items, or the table that a TOML file has in their place."""
    if isinstance(given, Mapping):
        return dict(given)
    fields = {}
    for key, value in pairs([given] if isinstance(given, str) else given, "--extra").items():
        try:
            fields[key] = json.loads(value)
        except ValueError as error:
            raise ConfigurationError(
                f'--extra {key} takes JSON, such as 3, true, "text" or {{"a": 1}}, not {value!r}'
            ) from error
    return fields


def scales(items: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Read `ASPECT=LOW,HIGH` items."""
    by_aspect: dict[str, tuple[float, float]] = {}
    for item in items:
        # from the right: an aspect's name may hold "="
        name, equals, ends = item.rpartition("=")
        try:
            low, high = (float(part) for part in ends.split(","))
        except ValueError:
            # an unreadable pair fails the same check, and gets the same message, as a pair in the
            # wrong order
            low = high = 0.0
        if not (equals and name and low < high):
            raise ConfigurationError(f"--scale takes ASPECT=LOW,HIGH, not {item!r}")
        by_aspect[name] = (low, high)
    return by_aspect


def price(given: str | Iterable[float] | None) -> tuple[float, ...] | None:
    """Read `IN,OUT` or `IN,OUT,CACHED`, US dollars per million tokens.

    A TOML file may hold a list of them instead.
    """
    if given is None:
        return None
    try:
        parts = tuple(
            float(part) for part in (given.split(",") if isinstance(given, str) else given)
        )
    except (TypeError, ValueError):
        parts = ()
    if len(parts) not in (2, 3):
        raise ConfigurationError(
            f"--price takes IN,OUT[,CACHED] in US dollars per million tokens, not {given!r}"
        )
    return parts


def config_file(path: Path | None, known: Iterable[str]) -> dict[str, Any]:
    """Read a TOML file whose keys are the names of flags, with tables `set` and `fields`.

    How the server is reached (headers, certificates, proxy, ...) may be given beside the flags.

    Lists may be lists, `model` a table by role, `tools` tables by the tool's name, and `models`
    tables, each with the settings of one model, by its role or by the name that `--model` takes.
    """
    if path is None:
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"--config {path}: {error}") from error
    # the file may spell flags as the command line does
    flat = {key.replace("-", "_"): value for key, value in content.items()}
    allowed = sorted({*known, "models", "endpoints", *EndpointSettings.model_fields})
    for key in flat:
        if key in allowed:
            continue
        if key in (*SETTABLE, *LOADED):
            raise ConfigurationError(f"--config {path}: {key!r} belongs below [set]")
        raise UnknownName("key", key, allowed, where=str(path))
    for key in ("set", "fields"):
        if not isinstance(flat.get(key, {}), dict):
            raise ConfigurationError(
                f"--config {path}: {key!r} must be a table of settings, not {flat[key]!r}"
            )
    if not isinstance(flat.get("endpoints", []), list):
        raise ConfigurationError(
            f"--config {path}: endpoints must be tables, each beginning with [[endpoints]] in two "
            "brackets"
        )
    if "models" in flat:
        named, flat["roles"] = role_tables(flat.pop("models"), path)
        flat["model"] = {**models(flat.get("model") or {}), **named}
    for key, reader in READERS.items():
        try:
            if key in flat:
                flat[key] = reader(flat[key])
        except (AttributeError, TypeError) as error:
            raise ConfigurationError(f"--config {path}: {key!r} cannot be {flat[key]!r}") from error
    return flat


def role_tables(given: Any, path: Path) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Read `[models.NAME]` tables: the models that they name, and their settings, by name."""
    names_by_role: dict[str, str] = {}
    settings_by_role: dict[str, dict[str, Any]] = {}
    tables = given if isinstance(given, Mapping) else {"": given}
    for role, table in tables.items():
        if not isinstance(table, Mapping):
            raise ConfigurationError(
                f"--config {path}: models must consist of tables, such as [models.scorer], not "
                f"{table!r}"
            )
        own = {key.replace("-", "_"): value for key, value in table.items()}
        if "model" in own:
            names_by_role[role] = own.pop("model")
        settings_by_role[role] = own
    return names_by_role, settings_by_role


def tools(
    given: str | Iterable[str] | Mapping[str, Mapping[str, Any]],
) -> tuple[str, ...] | dict[str, str]:
    """Read the names of tools, or `[tools.NAME]` tables, which become specs by name."""
    if isinstance(given, Mapping):
        from textassay.tools import as_text, from_table  # the commands' help needs none of it

        return {name: as_text(from_table(name, table)) for name, table in given.items()}
    return names(given) or ()


def marks(given: str | Iterable[str]) -> tuple[str, ...]:
    """Return marks of missing values; a TOML file may have one alone."""
    return (given,) if isinstance(given, str) else tuple(given)


LISTS = ("aspects", "features", "tools")
"""Flags that take `A,B` and may repeat."""

READERS: Mapping[str, Callable[[Any], Any]] = {
    "model": models,
    "aspects": names,
    "features": names,
    "tools": tools,
    "extra": extra,
    "missing": marks,
    "price": price,
}
"""How values are read that are more than one word, on the command line and in a file."""


def read(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags with their values read; those that were not given are left out."""
    return {
        key: typed_names(value) if key in LISTS
        else READERS[key](value) if key in READERS else value
        for key, value in given(flags).items()
    }  # fmt: skip


def with_config(
    flags: Mapping[str, Any], known: Iterable[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return flags, laid over those of the file of `--config`, and the pairs of `--set`."""
    typed = dict(flags)
    path, pairs_set = typed.pop("config", None), typed.pop("set", None)
    mapped = pairs(typed.pop("field", None) or (), "--field")
    configured = config_file(path, [key for key in known if key not in ("config", "field")])
    if typed.get("api_base") is not None and configured.get("endpoints"):
        raise ConfigurationError(
            f"--api-base would not be used beside the [[endpoints]] of {path}: leave out one"
        )
    if mapped:
        configured["fields"] = {**configured.get("fields", {}), **mapped}
    in_file, chosen = configured.pop("set", {}), settings(pairs_set or ())
    _check_given_once(in_file, configured, f"{path} gives {{0}} twice, in [set] and outside it")
    _check_given_once(chosen, given(typed), "{0} is given twice, by its flag and by --set {0}=")
    for role, own in configured.get("roles", {}).items():
        _say_own(role, own, typed)
    # what is typed wins, in whichever form it and the file have it
    general = {name: value for name, value in configured.items() if name not in chosen}
    flags = merged(read(typed), general)
    return _with_described_models(flags, configured.get("model", {})), {**in_file, **chosen}


def reading(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return how data are read, the arguments `fields` and `missing` of `Examples`, if given."""
    return {name: flags[name] for name in ("fields", "missing") if name in flags}


def data_reading(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return how data are read by a command that scores nothing; its file may have any key."""
    return reading(with_config(given, CONFIG_KEYS)[0])


def _with_described_models(flags: dict[str, Any], described: Mapping[str, str]) -> dict[str, Any]:
    """Return flags with models that are named like a `[models.NAME]` table as it describes them."""
    tables, asked = flags.get("roles", {}), flags.get("model", {})
    by_role = {role: name for role, name in asked.items() if name in tables and name != role}
    if not by_role:
        return flags
    # what a model is called is no role
    models = {role: name for role, name in asked.items() if role not in by_role.values()}
    roles = {role: own for role, own in tables.items() if role not in by_role.values()}
    for role, name in by_role.items():
        models[role] = described.get(name, name)
        roles[role] = {**tables[name], **tables.get(role, {})}
    return {**flags, "model": models, "roles": roles}


def with_model_tables(flags: Mapping[str, Any], models: Mapping[str, str]) -> dict[str, Any]:
    """Return flags in which tables that describe the models of a run are those of its roles."""
    tables, described = flags.get("roles", {}), flags.get("model", {})
    roles = dict(tables)
    for name, own in tables.items():
        if name not in models:
            for role in [r for r, model in models.items() if model == described.get(name, name)]:
                roles[role] = {**own, **tables.get(role, {})}
                roles.pop(name, None)
    return {**flags, "roles": roles} if tables else dict(flags)


def _check_given_once(pairs_set: Iterable[str], flags: Container[str], problem: str) -> None:
    for name in pairs_set:
        if name in flags:
            raise ConfigurationError(f"{problem.format(name)}: leave out one")


def _say_own(role: str, own: Mapping[str, Any], typed: Mapping[str, Any]) -> None:
    """Say which typed flags do not hold for a role, as the file gives it settings of its own."""
    places = {"api_base"} if "endpoints" in own else set[str]()
    unused = [name for name in (*own, *places - own.keys()) if typed.get(name) is not None]
    if unused:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(unused))
        say(f"[models.{role}] has settings of its own in place of {flags}")


def for_models(flags: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], Settings]:
    """Return flags, method options and settings of a command that asks models without a run."""
    typed, chosen = with_config(flags)
    runtime, options = split_settings(chosen)
    runtime |= settings_in(typed)
    return typed, options, Settings(**runtime)


def merged(typed: Mapping[str, Any], configured: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags of the command line laid over those of the file.

    Tools that the file describes are used under their names: those that the command line names, or
    else all.
    """
    # what is typed wins: the file is the general case, the command line the exception
    flags = {**configured, **typed}
    if "extra" in configured:
        flags["extra"] = {**configured["extra"], **typed.get("extra", {})}
    described = configured.get("tools")
    if isinstance(described, Mapping):
        flags["tools"] = tuple(described.get(name, name) for name in flags["tools"])
    return flags


def allow_change(items: Iterable[str] | None) -> bool:
    """Read `--set allow_change=true`, the one setting of the commands from scores to decisions."""
    chosen = settings(items or ())
    for name in chosen:
        if name != "allow_change":
            raise UnknownName("setting", name, ["allow_change"])
    value = chosen.get("allow_change", False)
    if not isinstance(value, bool):
        raise ConfigurationError(f"--set allow_change must be true or false, not {value!r}")
    return value


def check_confidence(confidence: float) -> None:
    """Refuse a confidence that is none."""
    if not 0 < confidence < 1:
        raise ConfigurationError(f"--confidence must be between 0 and 1, not {confidence!r}")
