"""Run-time settings: limits, attempts, time limits, budget and cache.

Settings change the course of a run, never its scores.

This module has each setting's name, type, default and help: fields with a `Flag` are flags of the
command line, `--set` accepts the others, and `connect` has all as keyword arguments (see
`api.takes_settings`).
"""

from __future__ import annotations

import inspect
import linecache
import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from textassay.runtime.base import Effort, Message, P, R
from textassay.runtime.errors import ConfigurationError, UnknownParameter

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]

SHARED_BY_ROLES = frozenset({"max_cost", "cache", "submit_only", "local", "transformers", "roles"})
"""Settings that all models of a run share."""


Panel = Literal["Data", "Judging", "Scale", "Server", "Limits and budget", "Cache", "Batches"]


class Flag(NamedTuple):
    """Marks a field that is a flag (`--name`) of the command line.

    The first sentence of the field's docstring is its help. Settings without one are keys of
    `--set`.
    """

    panel: Panel | None = None
    """Heading of the help under which it is listed."""
    metavar: str = ""
    """Placeholder of its value in the help."""
    short: str = ""
    """A one-letter form, such as `-c`."""
    name: str = ""
    """Its name, if it differs from the field's."""


_DOCUMENTED = re.compile(
    r'^    (\w+): .*\n(?:    [ )\]}].*\n)*    """(\S(?:.|\n)*?)"""', re.MULTILINE
)


@cache
def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring below each field of a class and of its bases, by name of the field.

    They are read from the source, if it exists, as formatted by ruff. A pattern is much faster than
    a parser, and each start of the command line reads the help of its flags.
    """
    docstrings: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, Message):
            body = re.search(rf"^class {cls.__name__}\b.*\n((?: .*\n|\n)*)", _source(cls), re.M)
            texts = _DOCUMENTED.findall(body[1]) if body else ()
            docstrings |= {name: inspect.cleandoc(text) for name, text in texts}
    return docstrings


def _source(cls: type) -> str:
    # also in a zip archive; a class that was typed into an interpreter has none
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    return "".join(linecache.getlines(file, vars(module))) if file else ""


class LocalSettings(Message, defer_build=True):
    """How a local model is loaded.

    Unlike the other settings, these may change answers; they are part of a model's identity.
    """

    n_ctx: int | None = Field(default=None, ge=1)
    """Maximum length of prompt and answer together, in tokens; by default the model's own, at most
    8192."""
    n_gpu_layers: int | None = Field(default=None, ge=-1)
    """Layers on the GPU, -1 for all; by default all that the build can put there."""
    threads: int | None = Field(default=None, ge=1)
    """Threads per evaluation; by default as many as this process may use."""
    mode: Literal["exact", "throughput"] = "exact"
    """`exact`: other requests do not change a bit of the result; `throughput`: several sequences in
    one batch, for GPUs."""
    kv: Literal["f16", "f32"] = "f16"
    """Number format of the cached keys and values."""
    sequences: int | None = Field(default=None, ge=2, le=64)
    """Answers written, or texts scored, in one batch in throughput mode, 8 by default; each takes
    the memory of a context."""
    batch: int = Field(default=512, ge=36, le=8192)
    """Maximum tokens that llama.cpp evaluates together; 2048 and more suit GPUs."""
    flash_attention: bool = False
    """Attention in blocks, faster on long prompts; in throughput mode only, since its rounding
    depends on how a prompt was cut."""
    truncate: Literal["error", "source"] | None = None
    """Handling of a prompt that does not fit: refuse it (`error`, the default), or cut the source
    and record it in the score (`source`, the default of the embedded model)."""


class TransformersSettings(Message, defer_build=True):
    """How a model of the transformers library is loaded.

    Part of a model's identity, as `LocalSettings` is.
    """

    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    """Number format; `auto` is the file's own on a GPU and float32 on a CPU."""
    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`, `mps`; `auto` takes a GPU if there is one."""
    device_map: str | None = None
    """How accelerate spreads the layers over devices, such as `auto`; in place of `device`."""
    batch_tokens: int = Field(default=8192, ge=64)
    """Maximum tokens in one batch, padding included."""


class EndpointSettings(Message):
    """How a server is reached: address, key, headers, certificates and proxy.

    Only the names of the variables that hold secrets are kept, never the secrets: a value of
    `headers`, `query` or `proxy` may name environment variables as `${NAME}`, which are replaced
    when the model is connected.
    """

    # addresses and headers may hold passwords, and errors are printed and logged
    model_config = ConfigDict(hide_input_in_errors=True)

    api_base: Annotated[str | None, Flag("Server", "URL")] = None
    """Base URL of the server, ending in `/v1` if its documentation says so. A query in it is
    sent with every request."""
    api_key_env: Annotated[str | None, Flag("Server", "NAME")] = None
    """Name of the environment variable that holds the API key. Without it, litellm looks for the
    variable of its provider."""
    api_key_header: str | None = None
    """Header that carries the bare key, such as `api-key`, instead of `Authorization: Bearer`."""
    headers: dict[str, str] = {}
    """Further headers of every request; values may contain `${NAME}` of environment variables."""
    query: dict[str, str] = {}
    """Further query parameters of every request; values may contain `${NAME}`."""
    ca: Path | None = None
    """PEM file of certificate authorities to trust, in place of the system's."""
    client_cert: Path | None = None
    """PEM file of the certificate that identifies this client to the server (mutual TLS)."""
    client_key: Path | None = None
    """PEM file of the private key of `client_cert`, if it is not in the same file."""
    proxy: str | None = None
    """Address of the proxy; by default `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` set it."""


class OneOfEndpoints(EndpointSettings, defer_build=True):
    """One of several endpoints of a model: address, share of the requests and limits.

    Other settings are the model's.
    """

    weight: Positive = 1.0
    """Its share of the requests, relative to the others."""
    concurrency: int | None = Field(default=None, ge=1)
    """Maximum concurrent calls to this endpoint."""
    rpm: Positive | None = None
    """Maximum requests per minute to this endpoint."""
    tpm: Positive | None = None
    """Maximum tokens per minute to this endpoint."""

    @model_validator(mode="before")
    @classmethod
    def _names_settings(cls, value: Any) -> Any:
        unknown = value.keys() - cls.model_fields.keys() if isinstance(value, dict) else ()
        if unknown:
            raise ValueError(
                f"unknown setting {min(unknown)!r}; known: {', '.join(sorted(cls.model_fields))}"
            )
        return value

    @model_serializer(mode="wrap")
    def _only_what_was_set(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Written defaults, for a role or another process, would be read as set there, and replace
        # the model's settings.
        names = self.model_fields_set | {"weight"}
        return {name: value for name, value in serialize(self).items() if name in names}


class Settings(EndpointSettings):
    """Frozen run-time settings, passed down from the top."""

    concurrency: Annotated[int, Flag("Limits and budget", "N", "-c")] = Field(default=64, ge=1)
    """Maximum concurrent calls per model. Fewer are used while the server asks for fewer. A local
    model queues calls itself: this is then only the number of examples in progress."""
    rpm: Annotated[Positive | None, Flag("Limits and budget", "N")] = None
    """Maximum requests per minute."""
    tpm: Annotated[Positive | None, Flag("Limits and budget", "N")] = None
    """Maximum tokens per minute, prompt and answer together."""
    effort: Annotated[Effort | None, Flag("Judging", "LEVEL")] = None
    """How much the model thinks before it answers: none, minimal, low, medium, high, xhigh or max.
    The default is the provider's."""
    thinking_tokens: int | None = Field(default=None, ge=0)
    """Maximum tokens of a thought, for models that take a number instead of `effort`."""
    extra: Annotated[dict[str, Any], Flag("Server", "KEY=JSON")] = {}
    """Further field of the body of every request; may repeat."""
    temperature: float | None = Field(default=None, ge=0)
    """Sampling temperature of the model of one role."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Nucleus sampling: total probability of the likeliest tokens to sample from."""
    seed: int | None = None
    """Seed of the sampling of the model of one role."""
    keep_rows: bool = True
    """Whether a run of data from memory keeps its rows in the run folder, for reports and for
    comparing runs."""
    attempts: int = Field(default=6, ge=1)
    """Maximum attempts per call."""
    timeout: Positive | None = None
    """Time limit of one attempt in seconds, queueing excluded; by default 120, and 600 for models
    that think."""
    total_timeout: Positive = 1800.0
    """Time limit of one call in seconds, all attempts and waits included."""
    outage_wait: NotNegative = 300.0
    """Seconds to wait, with growing pauses, for a server that fails every call after it has
    answered; then the run stops and can be resumed. 0 stops at once."""
    max_cost: Annotated[Positive | None, Flag("Limits and budget", "USD")] = None
    """Stop before the run costs more than this (USD); it can be resumed."""
    price: Annotated[
        Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=2, max_length=4)]
        | None,
        Flag("Limits and budget", "IN,OUT[,CACHED[,WRITTEN]]"),
    ] = None
    """US dollars per million prompt tokens, completion tokens and, if their prices differ, prompt
    tokens read from the provider's cache and written to it; for models without a known price."""
    cache: Annotated[Path | Literal[False] | None, Flag("Cache", "DIR")] = None
    """Folder of cached answers, which runs may share. By default answers are kept in the run
    folder, if there is one; `False` keeps none on disk."""
    batch: Annotated[bool, Flag("Batches")] = False
    """Ask through the provider's batch API: half the price, answers within 24 hours. Needs a run
    folder."""
    submit_only: Annotated[bool, Flag("Batches")] = False
    """Submit every batch that is ready, then stop; resume the run later."""
    batch_window: str = Field(default="24h", pattern=r"^\d+[hd]$")
    """Time in which a provider runs a batch before it expires, such as `24h` or `7d`: Groq takes
    up to 7 days, others take only 24 hours."""
    local: LocalSettings = LocalSettings()
    """How a local model is loaded."""
    transformers: TransformersSettings = TransformersSettings()
    """How a model of the transformers library is loaded."""
    endpoints: tuple[OneOfEndpoints, ...] = ()
    """Several endpoints of one model, each with its own address or key, weight and limits;
    `[[endpoints]]` and `[[models.ROLE.endpoints]]` tables of a config file."""
    roles: dict[str, dict[str, Any]] = {}
    """Settings that differ for the model of one role, by role: any of the fields above but the
    budget and the cache, which all models share. `[models.ROLE]` tables of a config file."""

    def at(self, endpoint: OneOfEndpoints) -> Settings:
        """Return the settings of one of the endpoints."""
        changes = endpoint.model_dump(exclude={"weight"})
        if changes.get("concurrency", 1) is None:  # the model's own limit always is a number
            del changes["concurrency"]
        return self.model_copy(update={**changes, "endpoints": ()})

    @property
    def batches_anywhere(self) -> bool:
        """Whether the model of any role is asked in batches."""
        return self.batch or any(overrides.get("batch") for overrides in self.roles.values())

    def for_role(self, role: str) -> Settings:
        """Return the settings of the model that serves `role`, without the settings of other roles.

        Raises:
            ValidationError: A setting of the role has a wrong value.
        """
        table = self.roles.get(role, {})
        merged = {**self.model_dump(exclude={"roles"}), **table}
        if not merged["batch"] and "submit_only" not in table:  # it is for the roles with batches
            del merged["submit_only"]
        return type(self)(**merged)

    @model_validator(mode="before")
    @classmethod
    def _names_settings(cls, value: Any) -> Any:
        for name in value.keys() - cls.model_fields.keys() if isinstance(value, dict) else ():
            raise UnknownParameter("Settings", name, [*cls.model_fields])
        return value

    @model_validator(mode="after")
    def _roles_name_settings(self) -> Self:
        for role, overrides in self.roles.items():
            known = sorted(set(type(self).model_fields) - SHARED_BY_ROLES)
            for name in overrides:
                if name not in known:
                    raise ValueError(
                        f"models.{role}: unknown setting {name!r}; known: {', '.join(known)}"
                    )
            # Validated now, since a wrong value for a role that is used late would stop a paid run.
            try:
                self.for_role(role)
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                reason = str(first["msg"]).removeprefix("Value error, ")
                raise ValueError(f"models.{role}: {place_of(first['loc'])}{reason}") from error
        return self

    @field_validator("cache", mode="before")
    @classmethod
    def _cache_is_a_folder(cls, value: object) -> object:
        # an address would create a folder of its name; as a path it has only one slash, and a
        # single letter is a Windows drive
        if re.match(r"[A-Za-z][\w+.-]+:/", str(value)):
            raise ValueError("answers are kept in a folder, not at an address")
        return value

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        if self.batch and self.endpoints:
            raise ValueError("`batch` works with a single endpoint: leave out endpoints")
        if self.batch and self.cache is False:
            raise ValueError("`batch` needs a place for its answers, and the cache is off")
        if self.submit_only and not self.batches_anywhere:
            # otherwise the requests would be sent singly, at the full price
            raise ValueError("`submit_only` needs `batch`")
        return self


def place_of(place: tuple[int | str, ...]) -> str:
    """Return the place of a wrong value, as a prefix of the reason: `endpoint 2: weight: `."""
    if len(place) > 1 and place[0] == "endpoints":
        place = (f"endpoint {int(place[1]) + 1}", *place[2:])
    return "".join(f"{name}: " for name in place)


VARIABLE = re.compile(r"\$\{(\w+)\}")


def expand(text: str, place: str, secrets: list[str]) -> str:
    """Return `text` with each `${NAME}` replaced by the variable's value."""

    def value(match: re.Match[str]) -> str:
        variable = os.environ.get(match[1])
        if not variable:
            raise ConfigurationError(f"{place} names ${{{match[1]}}}, but that variable is not set")
        secrets.append(variable)
        return variable

    return VARIABLE.sub(value, text)


def flag_of(model: type[BaseModel], name: str) -> Flag | None:
    """Return the flag of a field; `None` for settings of `--set`."""
    metadata = model.model_fields[name].metadata
    return next((item for item in metadata if isinstance(item, Flag)), None)


FLAGGED = tuple(name for name in Settings.model_fields if flag_of(Settings, name) is not None)
"""Settings that are flags of the command line."""
TABLES = ("headers", "query", "endpoints", "local", "transformers", "roles")
"""Settings that are tables of a config file; the keys of local models' tables are also keys of
`--set`."""
OF_ROLES = ("temperature", "seed")
"""Settings of single roles; for all roles, they are options of a method."""
SETTABLE = tuple(
    name for name in Settings.model_fields if name not in (*FLAGGED, *TABLES, *OF_ROLES)
)
"""Settings that `--set` takes, beside the keys of `LOADING`."""
LOADING: dict[str, type[Message]] = {"local": LocalSettings, "transformers": TransformersSettings}
"""Tables of settings for loading a model, whose keys `--set` accepts directly."""
LOADED = tuple(key for fields in LOADING.values() for key in fields.model_fields)
"""Keys of these tables."""


def settings_in(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run-time settings among flags and keys of a config file."""
    return {
        name: flags[name]
        for name in Settings.model_fields
        if name not in OF_ROLES and flags.get(name) is not None
    }


def split_settings(pairs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return run-time settings and method options from the pairs of `--set`."""
    runtime = {key: value for key, value in pairs.items() if key in SETTABLE}
    used = set(runtime)
    for table, fields in LOADING.items():
        if values := {key: value for key, value in pairs.items() if key in fields.model_fields}:
            runtime[table] = values
            used |= values.keys()
    return runtime, {key: value for key, value in pairs.items() if key not in used}


def strict_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse unknown keyword arguments as `UnknownParameter`, before anything else happens.

    Python's own `TypeError` names the nearest parameter from 3.13 on only, and one misspelled limit
    (`max_cots=1`) can cost money.
    """
    parameters = inspect.signature(function).parameters
    takes_keywords = [
        name for name, item in parameters.items() if item.kind is not inspect.Parameter.VAR_KEYWORD
    ]

    def check(keywords: dict[str, Any]) -> None:
        for name in keywords:
            if name in takes_keywords:
                continue
            is_setting = "settings" in takes_keywords and name in Settings.model_fields
            known = [f"settings=Settings({name}=...)"] if is_setting else takes_keywords
            raise UnknownParameter(function.__name__, name, known)

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def call_async(*args: P.args, **keywords: P.kwargs) -> Any:
            check(keywords)
            return await function(*args, **keywords)

        return cast("Callable[P, R]", call_async)

    @wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        check(keywords)
        return function(*args, **keywords)

    return call


def takes_arguments_of(source: Callable[P, Any]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Give a function the signature of another function, and check its arguments.

    For a function that only passes its arguments on, such as a synchronous version.
    """

    def decorate(function: Callable[..., R]) -> Callable[P, R]:
        returned = inspect.signature(function).return_annotation
        signature = inspect.signature(source).replace(return_annotation=returned)

        @wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> R:
            # so that a missing argument is reported in the caller's terms
            signature.bind(*args, **keywords)
            return function(*args, **keywords)

        target = cast("Any", call)
        target.__signature__ = signature
        return strict_keywords(call)

    return decorate
