"""The request for a run: of Python, the command line, config files, manifests and workers.

Imports nothing heavy, since the command line makes flags of the fields for every help.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
)

from textassay.runtime.data.units import Unit
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Aspect
from textassay.runtime.settings import DATA, JUDGING, SCALE, DescribedMessage, Flag, Settings

NOT_RECORDED = frozenset({"settings", "out", "resume"})
"""Fields that say how and where a run is made, not what it yields; a manifest keeps the settings,
without secrets, as an entry of their own."""


def _sound(given: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Take settings as they are: pydantic would run their validators once more."""
    return given if isinstance(given, Settings) else validate(given)


class RunRequest(DescribedMessage):
    """What is judged, how, and where the scores go, by names: enough to make the same run again."""

    method: Annotated[str, Flag(metavar="METHOD")]
    """Method, such as g-eval, or the folder of a fitted evaluator."""
    task: Annotated[str | None, Flag(JUDGING, "TASK", "-t")] = None
    """Task that defines the aspects: summarization, dialogue, data-to-text, translation, general,
    or a TOML file."""
    aspects: Annotated[tuple[str | Aspect, ...] | None, Flag(JUDGING, "A,B", "-a")] = None
    """Aspects to judge (default: all of the task); may repeat. They are names of the task's
    aspects, or aspects of the caller's own."""
    models: Annotated[dict[str, str], Flag(metavar="[ROLE=]MODEL", short="-m", name="model")] = {}
    """Model to ask, or models by role: repeat it as ROLE=MODEL. The role `""` serves every role
    that is not named."""
    options: dict[str, Any] = {}
    """Options of the method."""
    tools: Annotated[tuple[str, ...], Flag(JUDGING, "A,B")] = ()
    """Metrics that assist the judge, such as rouge,nli; may repeat."""
    data: str | None = None
    """Path of the data; `None` if they came from memory."""
    fields: Annotated[dict[str, str], Flag(DATA, "THEIRS=OURS", name="field")] = {}
    """Column of the data and the field that it stands for, such as text=output or
    coh=human.coherence; may repeat."""
    missing: Annotated[tuple[str, ...], Flag(DATA, "MARK")] = ()
    """Cell that is a missing value, such as N/A or -, in any case; may repeat."""
    limit: Annotated[int | None, Field(ge=1), Flag(DATA, "N")] = None
    """Read only the first N examples."""
    unit: Annotated[Unit | None, Flag(DATA)] = None
    """Part of a conversation that is judged, with its history."""
    conversation_chars: int | None = None
    """Longest text of a conversation that is shown; `None` for the default."""
    pair: Annotated[Literal["system"] | None, Flag(DATA)] = None
    """Compare the systems of each group in pairs (for --method pairwise)."""
    calibration: Annotated[str | None, Flag(metavar="DIR")] = None
    """Apply this calibration to every score."""
    shard: Annotated[str | None, Flag(SCALE, "I/N")] = None
    """Judge only the I-th of N parts of the data, counted from 1; `textassay merge` combines the
    parts into one run."""
    stress: dict[str, Any] | None = None
    """Request for stress tests, if the run judges edited copies of the data."""
    settings: Annotated[Settings, WrapValidator(_sound)] = Settings()
    """How models are asked."""
    out: Annotated[Path | None, Flag(metavar="DIR", short="-o")] = None
    """Folder to create for the result."""
    resume: bool = False
    """Whether to continue the run in `out`."""

    @field_validator("shard")
    @classmethod
    def _shard_is_one(cls, value: str | None) -> str | None:
        from textassay.evaluation.shards import Shard

        return None if value is None else str(Shard.parse(value))

    @property
    def recorded(self) -> dict[str, Any]:
        """What the manifest keeps: all that decides what a run yields."""
        return self.model_dump(mode="json", exclude=set(NOT_RECORDED))


def build_request(**fields: Any) -> RunRequest:
    """Return a request of what a caller in Python gave.

    Raises:
        ConfigurationError: A value is of the wrong kind.
    """
    try:
        return RunRequest(**fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ConfigurationError(
            f"{first['loc'][0]}=: {first['msg']} (given: {first['input']!r})"
        ) from None
