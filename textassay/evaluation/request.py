"""The request for a run, for Python, the command line, config files, manifests and workers.

Imports nothing heavy, since the command line makes flags of the fields for every help.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
)

from textassay.runtime.base import Message, T
from textassay.runtime.conversation import Unit
from textassay.runtime.errors import ConfigurationError, RunFolderError, UnknownName
from textassay.runtime.messages import Aspect
from textassay.runtime.settings import Flag, Settings

NOT_RECORDED = frozenset({"settings", "out", "resume"})
"""Fields that do not affect the scores; a manifest keeps the settings, without secrets, in a
separate entry.
"""


def one_or_several(value: Any) -> Any:
    """Return a single name or aspect as a list."""
    return (value,) if isinstance(value, str | Aspect) else value


def _check_out(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        raise ValueError("must be the path of a folder")
    return value


def _accept_settings(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Accept settings unchanged: pydantic would run their validators again."""
    return value if isinstance(value, Settings) else validate(value)


@dataclass(frozen=True)
class Shard:
    """The `number`-th of `count` parts, counted from 1; written `number/count`."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read `I/N`."""
        match = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", text)
        shard = cls(int(match[1]), int(match[2])) if match else None
        if shard is None or not 1 <= shard.number <= shard.count <= 10_000:
            raise ConfigurationError(
                "a shard must be I/N with I from 1 to N, such as 1/4, and N at most 10000; not"
                f" {text!r}"
            )
        return shard

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def bounds(self, total: int) -> tuple[int, int]:
        """Return the first example of the shard, from 0, and the one after its last.

        A shard contains consecutive examples: texts of one source are mostly consecutive, and their
        prompts share a prefix that servers cache.
        """
        return (
            # integer arithmetic: the end of one shard is exactly the start of the next, for any
            # count
            total * (self.number - 1) // self.count,
            total * self.number // self.count,
        )


class DataRequest(Message, defer_build=True):
    """Texts, aspects and output folder of runs and fits."""

    aspects: Annotated[
        tuple[str | Aspect, ...] | None,
        BeforeValidator(one_or_several),
        Flag("Judging", "A,B", "-a"),
    ] = None
    """Aspects to judge (default: all of the task); may repeat. They are names of the task's
    aspects, or aspects of the caller's own."""
    fields: Annotated[dict[str, str], Flag("Data", "THEIRS=OURS", name="field")] = {}
    """Column of the data and its field, such as text=output or coh=human.coherence; may repeat."""
    missing: Annotated[tuple[str, ...], BeforeValidator(one_or_several), Flag("Data", "MARK")] = ()
    """Treat this cell text (such as N/A) as missing, ignoring case; may repeat."""
    strict_columns: Annotated[bool, Flag("Data")] = False
    """Refuse data with a column that no judge sees, unless the field map sends it to meta."""
    unit: Annotated[Unit | None, Flag("Data")] = None
    """Part of a conversation to judge, with its history."""
    out: Annotated[Path | None, BeforeValidator(_check_out), Flag(metavar="DIR", short="-o")] = None
    """Folder to create for the result."""


class ModelRequest(Message, defer_build=True):
    """Models, task and options of runs, and of fits that ask a model."""

    task: Annotated[str | None, Flag("Judging", "TASK", "-t")] = None
    """Task that defines the aspects, such as summarization (see `textassay list tasks`), or a TOML
    file."""
    options: dict[str, Any] = {}
    """Options of the method."""
    limit: Annotated[int | None, Field(ge=1), Flag("Data", "N")] = None
    """Read only the first N examples."""
    settings: Annotated[Settings, WrapValidator(_accept_settings)] = Settings()
    """How models are asked."""


class RunRequest(ModelRequest, DataRequest):
    """The whole description of a run, by names, so that it can be repeated."""

    method: Annotated[str, Flag(metavar="METHOD")]
    """Method, such as g-eval, or the folder of a fitted evaluator (default: decide on a decision
    model, jury for jurors, otherwise llm-score)."""
    models: Annotated[dict[str, str], Flag(metavar="[ROLE=]MODEL", short="-m", name="model")] = {}
    """Model to ask, or models by role: repeat it as ROLE=MODEL. The role `""` serves every role
    that is not named."""
    tools: Annotated[tuple[str, ...], BeforeValidator(one_or_several), Flag("Judging", "A,B")] = ()
    """Metrics that assist the judge, such as rouge,nli; may repeat."""
    data: str | None = None
    """Path of the data; `None` if they came from memory."""
    conversation_chars: int | None = None
    """Longest text of a conversation that is shown; `None` for the default."""
    pair: Annotated[Literal["system"] | None, Flag("Data")] = None
    """Compare the systems of each group in pairs (for --method pairwise)."""
    calibration: Annotated[str | None, Flag(metavar="DIR")] = None
    """Apply this calibration to every score."""
    shard: Annotated[str | None, Flag("Scale", "I/N")] = None
    """Judge only the I-th of N parts of the data, counted from 1; `textassay merge` combines the
    parts into one run."""
    stress: dict[str, Any] | None = None
    """Request for stress tests, if the run judges edited copies of the data."""
    resume: bool = False
    """Whether to continue the run in `out`."""

    @field_validator("shard")
    @classmethod
    def _shard_is_one(cls, value: str | None) -> str | None:
        return None if value is None else str(Shard.parse(value))

    @property
    def recorded(self) -> dict[str, Any]:
        """The part that the manifest keeps: all fields that affect the scores."""
        return self.model_dump(mode="json", exclude=set(NOT_RECORDED))


Built = TypeVar("Built", bound=BaseModel)


def build_request(kind: type[Built], **arguments: Any) -> Built:
    """Return a request from arguments of a call in Python; `None` means the default."""
    try:
        return kind(**{name: value for name, value in arguments.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        reason = str(first["msg"]).removeprefix("Value error, ")
        name = str(first["loc"][0])
        if first["type"] == "literal_error":
            choices = re.findall("'(.+?)'", first["ctx"]["expected"])
            raise UnknownName(name, str(first["input"]), choices) from None
        raise ConfigurationError(f"{name}=: {reason} (given: {first['input']!r})") from None


def in_every_role(models: Mapping[str, T], roles: Iterable[str]) -> dict[str, T]:
    """Return models by role, with the general model for the other `roles`."""
    general = models.get("")
    if not isinstance(general, str):
        return dict(models)
    return {**models, **{role: models.get(role, general) for role in roles}}


def with_kept_rows(request: RunRequest, folder: Path) -> RunRequest:
    """Return the request with the run folder's rows as data, if the data came from memory."""
    from textassay.runtime.storage.run_files import kept_rows  # help does not need it

    rows = kept_rows(folder) if request.data is None else None
    if rows is None:
        return request
    # the kept rows are examples already
    unset: dict[str, Any] = {"fields": {}, "missing": (), "unit": None, "pair": None, "limit": None}
    return request.model_copy(update={**unset, "data": str(rows)})


def request_from_manifest(manifest: Mapping[str, Any]) -> RunRequest:
    """Read the request back from a manifest, without settings and folder."""
    try:
        recorded = manifest["spec"]
        if not NOT_RECORDED.isdisjoint(recorded):  # a manifest never contains these fields
            raise TypeError(f"unexpected {', '.join(sorted(NOT_RECORDED & recorded.keys()))}")
        return RunRequest(**recorded)
    except (KeyError, TypeError, ValidationError) as error:
        raise RunFolderError(f"manifest.json does not say how the run was made: {error}") from error
