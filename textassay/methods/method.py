"""What a method is: a graph from an assignment to scores, with a name, options and a signature.

A run needs no more than `Method`. The built-in methods also share how options are read and models
are chosen by role.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, runtime_checkable

from pydantic import Field, ValidationError

from textassay.agents.prompt_template import Layout, Task
from textassay.agents.reading.grammar import RatingForm
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.graph import Graph
from textassay.runtime.messages import Aspect, Example, How
from textassay.runtime.model import Model
from textassay.runtime.settings import DescribedMessage

if TYPE_CHECKING:
    from textassay.agents.ask import LogprobsOrSamples
    from textassay.agents.likelihood import LikelihoodReader
    from textassay.runtime.data.dataset import DataInfo

Models = Model | Mapping[str, Model]
"""One model for every role, or models by role; the role `""` serves every role that is not
named."""


@runtime_checkable
class Method(Protocol):
    """One recipe for judging: what `evaluate` runs."""

    @property
    def name(self) -> str:
        """Name as the command line takes it."""
        ...

    @property
    def task(self) -> str | None:
        """Name of the task, `None` if the method has none."""
        ...

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """What is judged, in the order of the scores."""
        ...

    @property
    def how(self) -> How:
        """How its scores are obtained."""
        ...

    @property
    def graph(self) -> Graph:
        """From an `Assignment` to a list of one `Score` or `Failure` per aspect, in order."""
        ...

    @property
    def signature(self) -> str:
        """What its scores carry; scores with equal signatures are comparable."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return JSON values that tell in a manifest how the method was set up.

        Options and prompts.
        """
        ...


class TaskMethod:
    """Base of methods for aspects of one task: what they tell of these."""

    _task: Task
    shows_source: bool = True

    @property
    def task(self) -> str:
        """Name of the task."""
        return self._task.name

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The task's chosen aspects."""
        return self._task.aspects

    def lacking(self, example: Example, aspect: Aspect) -> str | None:
        """Return the field that an aspect needs and an example lacks, or `None`."""
        return self._task.lacking(example, aspect)

    def describe_task(self) -> dict[str, Any]:
        """Return task and aspects as JSON values."""
        return {
            "task": {"name": self._task.name, "digest": self._task.digest},
            "aspects": [
                {"name": a.label, "scale": list(a.scale), "higher_is_better": a.higher_is_better}
                | ({"labels": list(a.labels), "ordered": a.ordered} if a.labels else {})
                | ({"member": a.name, "member_of": a.member_of} if a.member_of else {})
                for a in self.aspects
            ],
        }


@runtime_checkable
class ChecksData(Protocol):
    """A method that needs more of the data than their texts."""

    def check_data(self, info: DataInfo) -> None:
        """Refuse data that lack it, before anything is asked."""
        ...


@runtime_checkable
class AsksInTurn(Protocol):
    """A method whose questions about one example may form a chain, as long as the example is."""

    @property
    def chain(self) -> str | None:
        """What the method does in a chain, and how to avoid it; `None` if there is no chain.

        Completes a sentence that begins with the method's name.
        """
        ...


@runtime_checkable
class ShowsSource(Protocol):
    """A method that may show an example's source as it stands."""

    shows_source: bool
    """Whether it does; of a long conversation the source is shortened."""


@runtime_checkable
class ShowsImages(Protocol):
    """A method that says whether its judge is shown the images of an example."""

    shows_images: bool
    """Whether it is; data with images are refused if not."""


@runtime_checkable
class EndsEarly(Protocol):
    """A method that asks until it knows enough, so that a dry run counts the most it may ask."""

    @property
    def most_calls(self) -> int:
        """Most requests for one score."""
        ...


@runtime_checkable
class ReadsLikelihoods(Protocol):
    """A method that needs log-probabilities of given texts, which few servers of chats give."""

    reader: LikelihoodReader


@runtime_checkable
class ReadsProbabilities(Protocol):
    """A method that reads log-probabilities, or samples if the model sends none."""

    @property
    def probabilities(self) -> LogprobsOrSamples | None:
        """Which of them; `None` if the options say it."""
        ...

    @property
    def signatures(self) -> tuple[str, ...]:
        """The signatures that its scores can carry."""
        ...


def max_calls(method: Method) -> int | None:
    """Return the most requests for one score of a method that may need fewer."""
    return method.most_calls if isinstance(method, EndsEarly) else None


def probabilities_of(method: Method) -> LogprobsOrSamples | None:
    """Return what a method reads, if the model decides on it."""
    return method.probabilities if isinstance(method, ReadsProbabilities) else None


class CheckedOptions(DescribedMessage, defer_build=True):
    """Base of a method's options; an unknown option is an error that lists the known ones."""

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        """Check options as the user gave them."""
        for key in given:
            # before pydantic sees it, so that the error can list the options there are
            if key not in cls.model_fields:
                raise UnknownName("option", key, list(cls.model_fields))
        try:
            return cls(**given)
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
        """What the user set of the sampling, which is never left out in silence."""
        names = ("temperature", "seed")
        return tuple(
            n for n in names if n in self.model_fields_set and getattr(self, n) is not None
        )

    prompt_layout: Layout = "paper"
    """Order of prompts."""
    prompt: str | None = None
    """Path of a prompt file (`.jinja`) in place of the method's own."""
    profile: str = "auto"
    """How the judge is asked: `auto`, by the profile with the model's name, if there is one;
    `none`; a profile's name or folder."""


class RatingOptions(PromptOptions):
    """Options that all methods share whose judge writes a rating."""

    n: int = Field(default=1, ge=1, le=1000)
    """Number of sampled answers."""
    temperature: float | None = Field(default=None, ge=0)
    """Sampling temperature; by default 0 for one sample and 1 for several."""
    seed: int | None = None
    """Seed of the sampling."""
    form: RatingForm = "number"
    """How ratings are asked for."""
    parse_retries: int = Field(default=1, ge=0, le=100)
    """How often an unusable answer is asked for again."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Longest answer in tokens; by default what the prompt needs."""

    @property
    def effective_temperature(self) -> float:
        """The temperature that is used."""
        if self.temperature is not None:
            return self.temperature
        # several samples at temperature 0 would be the same answer several times
        return 0.0 if self.n == 1 else 1.0

    @property
    def how(self) -> Literal["text", "sampled"]:
        """How a value is obtained without log-probabilities."""
        return "text" if self.n == 1 else "sampled"


def model_or_none(models: Models, role: str) -> Model | None:
    """Return the model of a role, if there is one."""
    return (models.get(role) or models.get("")) if isinstance(models, Mapping) else models


def model_for(models: Models, role: str) -> Model:
    """Return the model of a role."""
    model = model_or_none(models, role)
    if model is None:
        raise ConfigurationError(
            f"no model for the role {role!r}; give one with model=NAME or model={{{role!r}: NAME}}"
        )
    return model
