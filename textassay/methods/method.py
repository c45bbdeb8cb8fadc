"""The protocol of methods: a graph from an assignment to scores, with a name and a signature.

A run needs a `Method`, and uses its `MethodTraits` if it has any. This module also has the shared
classes of options, and the choice of models by role.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, runtime_checkable

from pydantic import Field, ValidationError

from textassay.agents.prompt_template import Layout, Task, TaskNeed
from textassay.agents.reading.outcomes import RatingForm
from textassay.runtime.base import Message
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.graph import Graph
from textassay.runtime.messages import Aspect, How, Scale
from textassay.runtime.model import Model

if TYPE_CHECKING:
    from textassay.runtime.calls.logprobs_or_samples import LogprobsOrSamples
    from textassay.runtime.data.dataset import DataInfo

Models = Model | Mapping[str, Model]
"""One model for every role, or models by role; the role `""` is the default for other roles."""


@runtime_checkable
class Method(Protocol):
    """A method of judging, which `evaluate` runs."""

    @property
    def name(self) -> str:
        """Name on the command line."""

    @property
    def task(self) -> str | None:
        """Name of the task, `None` if the method has none."""

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The aspects, in the order of the scores."""

    @property
    def how(self) -> How:
        """How its scores are obtained."""

    @property
    def graph(self) -> Graph:
        """From an `Assignment` to a list of one `Score` or `Failure` per aspect, in order."""

    @property
    def signature(self) -> str:
        """Signature of its scores; scores with equal signatures are comparable."""

    def describe(self) -> dict[str, Any]:
        """Return its options and prompts as JSON values, for the manifest."""


@dataclass(frozen=True)
class MethodTraits:
    """Properties of a method that a run uses before or during its requests.

    The defaults are for methods without traits, such as objects of other packages.
    """

    shows_source: bool = False
    """Whether prompts show an example's source; a long conversation is shortened, with a note in
    the scores.
    """
    shows_images: bool = True
    """Whether prompts show the images of an example; if not, data with images are refused."""
    most_calls: int | None = None
    """Maximum number of requests for one score, if their number varies."""
    chain: str | None = None
    """How its requests about one example depend on earlier answers, and how to avoid it: the rest
    of a sentence that begins with the method's name.
    """
    likelihoods_of: Model | None = None
    """The model that must return log-probabilities of given texts; few chat servers return them."""
    probabilities: LogprobsOrSamples | None = None
    """The choice between log-probabilities and samples, if the first answer decides it."""
    signatures: tuple[str, ...] = ()
    """The signatures that its scores can carry, if there may be several."""
    check_data: Callable[[DataInfo], None] = lambda info: None
    """Raises `ConfigurationError` for data that it cannot judge, before the first request."""
    needs: Mapping[str, tuple[TaskNeed, ...]] = field(default_factory=dict)
    """Required fields of an example, by aspect name."""
    has_scale: bool = True
    """Whether values have a scale; counts and log-probabilities have none."""
    judges_jointly: bool = False
    """Whether a score may depend on the other aspects, since one request asks about all: a resumed
    run then judges an example on all aspects, and keeps only the missing scores."""


def traits_of(method: object) -> MethodTraits:
    """Return the traits of a method; the defaults for an object without `traits`."""
    traits: MethodTraits = getattr(method, "traits", MethodTraits())
    return traits


class TaskMethod:
    """Base of methods for aspects of one task: task, aspects and traits.

    A subclass overrides the default of a trait by an attribute with its name.
    """

    _task: Task
    shows_source: bool = True
    has_scale: bool = True
    scale: ClassVar[Scale | tuple[()]] = ()
    """Scale of all values, if it is not the aspect's own."""

    @property
    def traits(self) -> MethodTraits:
        """The attributes with the names of traits."""
        attributes: dict[str, Any] = {
            trait.name: getattr(self, trait.name, trait.default) for trait in fields(MethodTraits)
        }
        return MethodTraits(**attributes)

    @property
    def needs(self) -> Mapping[str, tuple[TaskNeed, ...]]:
        """The fields that the task's aspects need."""
        return self._task.needs

    @property
    def task(self) -> str:
        """Name of the task."""
        return self._task.name

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The task's chosen aspects, on the scale of the values."""
        aspects, scale = self._task.aspects, self.scale
        return tuple(a.model_copy(update={"scale": scale}) for a in aspects) if scale else aspects

    def describe_task(self) -> dict[str, Any]:
        """Return task and aspects as JSON values."""
        return {
            "task": {"name": self._task.name, "digest": self._task.digest},
            "aspects": [
                {"name": a.label, "scale": list(a.scale) if self.has_scale else None}
                | {"higher_is_better": a.higher_is_better}
                | ({"labels": list(a.labels), "ordered": a.ordered} if a.labels else {})
                | ({"member": a.name, "member_of": a.member_of} if a.member_of else {})
                for a in self.aspects
            ],
        }


class CheckedOptions(Message, defer_build=True):
    """Base of a method's options; an unknown option is an error that lists the known ones."""

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Check options as the user gave them."""
        for key in values:
            # before pydantic's validation, so that the error can list the known options
            if key not in cls.model_fields:
                raise UnknownName("option", key, list(cls.model_fields))
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "options"
            raise ConfigurationError(
                f"option {where}: {first['msg']} (given: {first['input']!r})"
            ) from None


class PromptOptions(CheckedOptions):
    """Options that all methods with prompts share."""

    @property
    def explicit_sampling(self) -> tuple[str, ...]:
        """The sampling parameters that the user set, which are never left out silently."""
        sampling = self.model_dump(include={"temperature", "seed"}, exclude_unset=True)
        return tuple(n for n in ("temperature", "seed") if sampling.get(n) is not None)

    prompt_layout: Layout = "paper"
    """Order of prompts."""
    prompt: str | None = None
    """Path of a prompt file (`.jinja`) in place of the method's own."""
    profile: str = "auto"
    """Profile of the judge's prompts: `auto`, the profile with the model's name, if there is one;
    `none`; a profile's name or folder. `typed`: a chat model gets all questions about a text in one
    request, as a decision model does; in `decide` this is the default.
    """


class WritingOptions(PromptOptions):
    """Options of all methods whose judge writes."""

    seed: int | None = None
    """Seed of the sampling."""
    parse_retries: int = Field(default=1, ge=0, le=100)
    """How often an unusable answer is requested again."""


class SourcedOptions(WritingOptions):
    """Options of methods that check answers against an example's own texts."""

    evidence: Literal["all"] | None = None
    """`all`: the source is evidence even if it is a question. By default it is not evidence if the
    context consists of passages; in `claims` also if the context has results of tools, or if the
    source ends with a question mark beside a context. In dialogue the source is the conversation,
    which is always evidence.
    """

    def question_counts(self, task: Task) -> bool:
        """Return whether the source is evidence even where it is a question."""
        return self.evidence == "all" or bool(task.asks)


class SamplingOptions(WritingOptions):
    """Options of all methods whose judge writes its verdict."""

    temperature: float | None = Field(default=None, ge=0)
    """Sampling temperature; by default 0 for one sample and 1 for several."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Longest answer in tokens; the default depends on the prompt."""


class RatingOptions(SamplingOptions):
    """Options of all methods whose judge writes a rating."""

    n: int = Field(default=1, ge=1, le=1000)
    """Number of sampled answers."""
    form: RatingForm = "number"
    """Form of the ratings."""

    @property
    def effective_temperature(self) -> float:
        """The temperature that is used."""
        # several samples at temperature 0 would be equal answers
        default = 0.0 if self.n == 1 else 1.0
        return default if self.temperature is None else self.temperature

    @property
    def how(self) -> Literal["text", "sampled"]:
        """How a value is obtained without log-probabilities."""
        return "text" if self.n == 1 else "sampled"


def model_or_none(models: Models, role: str) -> Model | None:
    """Return the model of a role, if there is one."""
    return (models.get(role) or models.get("")) if isinstance(models, Mapping) else models


def judges_of(models: Models, role: str) -> dict[str, Model]:
    """Return the models of a role or of numbered ones, such as `juror1`, by number; or the default.

    Empty if there is none.
    """
    if not isinstance(models, Mapping):
        return {"": models}
    # by number, not by order in the mapping: a resumed run must seat them in the same order
    seats = (re.fullmatch(rf"{role}(\d*)", name) for name in models)
    numbers = {seat[0]: int(seat[1] or 0) for seat in seats if seat}
    names = sorted(numbers, key=numbers.__getitem__) or [""]
    return {name: models[name] for name in names if name in models}


def model_for(models: Models, role: str) -> Model:
    """Return the model of a role."""
    model = model_or_none(models, role)
    if not model:
        raise ConfigurationError(
            f"no model for the role {role!r}; give one with model=NAME or model={{{role!r}: NAME}}"
        )
    return model
