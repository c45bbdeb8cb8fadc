"""What `fit` was asked for, in Python or on the command line: one type for each way to learn.

What cannot go together is no field of the same type, so that no request can say it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, model_validator

from textassay.evaluation.api import check_settings
from textassay.fitting.alignment import MAX_KEEP, Growth
from textassay.fitting.alignment_order import AlignmentOrder
from textassay.fitting.fit_from_scores import Learning
from textassay.fitting.fit_rubric import Rubric, RubricOrder
from textassay.fitting.fit_tree import Alignment
from textassay.fitting.raters import Raters
from textassay.fitting.report import Depth
from textassay.fitting.rubric import RubricGrowth
from textassay.learning import NAMES
from textassay.methods.fitted.features import ScoreSource
from textassay.methods.hd_eval import BY_MODEL, HDEvalOptions
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, UnknownName, parameter
from textassay.runtime.messages import Aspect
from textassay.runtime.model import Model
from textassay.runtime.settings import Settings

Split = Literal["group", "row"]
ScoreSources = ScoreSource | Sequence[ScoreSource] | Mapping[str, ScoreSource]

MAX_SEED = 2**31 - 1
"""LightGBM's limit; scikit-learn's is larger."""

# Checks of single values, which come from Python, from flags or from config files. Pydantic passes
# their errors on as they are.


def whole(least: int, most: int | None = None) -> BeforeValidator:
    """Return the check of a whole number within limits."""
    limits = f"at least {least}" if most is None else f"between {least} and {most}"

    def check(value: Any, info: ValidationInfo) -> int:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise _wrong(info, f"a whole number, {limits}", value)
        if int(value) < least or (most is not None and int(value) > most):
            raise _wrong(info, limits, value)
        return int(value)  # numpy's are no JSON

    return BeforeValidator(check)


def one_of(*known: str, kind: str = "") -> BeforeValidator:
    """Return the check of a name; messages call what it names `kind`, or else as the field."""

    def check(value: Any, info: ValidationInfo) -> Any:
        if value not in known:
            raise UnknownName(kind or str(info.field_name), value, list(known))
        return value

    return BeforeValidator(check)


def instance(kind: type) -> BeforeValidator:
    """Return the check of a type."""

    def check(value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, kind):
            raise _wrong(info, f"a {kind.__name__}", value)
        return value

    return BeforeValidator(check)


def _wrong(info: ValidationInfo, expected: str, value: Any) -> ConfigurationError:
    return ConfigurationError(
        f"{parameter(str(info.field_name))} must be {expected}, not {value!r}"
    )


def _share(value: Any, info: ValidationInfo) -> Any:
    # its limits depend on the other share
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise _wrong(info, "a number between 0 and 1", value)
    return float(value)


def _folder(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, str | PathLike) or not str(value).strip():
        raise _wrong(info, "the path of a folder", value)
    return value


def _names(value: Any, info: ValidationInfo) -> tuple[str, ...]:
    """Return the names that an argument gives; one text alone is one name."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Iterable) or isinstance(value, Mapping | bytes):
        raise _wrong(info, "a name or several", value)
    names = tuple(value)
    for one in names:
        if not isinstance(one, str):
            raise ConfigurationError(
                f"{parameter(str(info.field_name))} must hold names, not {one!r}"
            )
    return names


def _aggregators(value: Any, info: ValidationInfo) -> tuple[str, ...]:
    names = _names(value, info)
    if not names:
        raise ConfigurationError(f"{parameter('aggregator')} is empty; leave it out for auto")
    for name in names:
        if name not in NAMES:
            raise UnknownName("aggregator", name, list(NAMES))
    return names


def _aspects(value: Any, info: ValidationInfo) -> tuple[str, ...]:
    given = (value,) if isinstance(value, Aspect) else value
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        given = [one.name if isinstance(one, Aspect) else one for one in given]
    names = _names(given, info)
    if not names:
        raise ConfigurationError(f"{parameter('aspects')} is empty; leave it out for all")
    return names


def _sources(value: Any, info: ValidationInfo) -> Any:
    """Return runs and files of scores, by name or in order; one alone is one source."""
    shown = parameter(str(info.field_name))
    if isinstance(value, str | Path) or hasattr(value, "scores"):
        return (value,)
    if not isinstance(value, Iterable):
        raise _wrong(info, "a run, a run folder or a file of scores, or several of these", value)
    sources = dict(value) if isinstance(value, Mapping) else tuple(value)
    for one in sources.values() if isinstance(sources, dict) else sources:
        if not isinstance(one, str | Path) and not hasattr(one, "scores"):
            raise ConfigurationError(
                f"{shown} must hold runs, run folders or files of scores, not {one!r}"
            )
    for key in sources if isinstance(sources, dict) else ():
        if not isinstance(key, str) or not key:
            raise ConfigurationError(f"{shown} must map names, not {key!r}")
    return sources


def _scales(value: Any, info: ValidationInfo) -> dict[str, tuple[float, float]]:
    example = "{'ASPECT': (1, 5)}"
    if not isinstance(value, Mapping):
        raise _wrong(info, f"like {example}", value)
    for aspect, ends in value.items():
        pair = tuple(ends) if isinstance(ends, list | tuple) else ()
        if (
            len(pair) != 2
            or not all(isinstance(end, Real) and math.isfinite(end) for end in pair)
            or not pair[0] < pair[1]
        ):
            raise ConfigurationError(
                f"{parameter('scales')}: the scale of {aspect!r} must be its lowest and its "
                f"highest rating, as in {example}, not {ends!r}"
            )
    return {name: (low, high) for name, (low, high) in value.items()}


Share = Annotated[float, BeforeValidator(_share)]


class FitRequest(BaseModel):
    """What all ways to learn share; `fit` documents the fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    method: ClassVar[str | None] = None
    """How `fit` is told to learn so."""

    out: Annotated[Path | None, BeforeValidator(_folder)] = None
    aggregator: Annotated[tuple[str, ...], BeforeValidator(_aggregators)] = ("auto",)
    aspects: Annotated[tuple[str, ...] | None, BeforeValidator(_aspects)] = None
    scales: Annotated[dict[str, tuple[float, float]] | None, BeforeValidator(_scales)] = None
    split: Annotated[Split, one_of("group", "row")] = "group"
    train_fraction: Share = 0.5
    test_fraction: Share | None = None
    seed: Annotated[int, whole(0, MAX_SEED)] = 0
    report: Annotated[Depth, one_of("basic", "full")] = "basic"
    repeats: Annotated[int | None, whole(1, 100)] = None
    fields: Annotated[Any, instance(Mapping)] = None

    @model_validator(mode="after")
    def _curves_are_drawn(self) -> Self:
        if self.repeats is not None and self.report == "basic":
            full = parameter("report", "'full'", typed="full")
            raise ConfigurationError(
                f"{parameter('repeats')} is for the curves of {full}; add it, or leave"
                f" {parameter('repeats')} out"
            )
        return self

    @property
    def learning(self) -> Learning:
        """How to learn.

        Raises:
            ConfigurationError: Values do not go together.
        """
        return Learning(
            aggregators=self.aggregator,
            train_fraction=self.train_fraction,
            seed=self.seed,
            depth=self.report,
            aspects=self.aspects,
            scales=self.scales or {},
            by_row=self.split == "row",
            test_fraction=self.test_fraction,
            repeats=self.repeats,
        )


class FitFromScores(FitRequest):
    """Learn from recorded scores, without a model."""

    features: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()
    scores: Annotated[Any, BeforeValidator(_sources)] = ()
    raters: Annotated[Raters, one_of("mean", "model", kind="target of several raters")] = "mean"
    new_systems: bool = False

    @property
    def learning(self) -> Learning:
        """How to learn, from whose ratings and for which systems."""
        return replace(super().learning, new_systems=self.new_systems, raters=self.raters)


class FitByModel(FitRequest):
    """Have a model rate texts and find criteria."""

    model: Any = None
    task: Annotated[str | None, instance(str)] = None
    options: Annotated[Any, instance(Mapping)] = None
    settings: Annotated[Any, instance(Settings)] = None
    limit: Annotated[int | None, whole(1)] = None

    @model_validator(mode="after")
    def _there_is_a_model(self) -> Self:
        if not self.model:
            raise ConfigurationError(f"fit by {self.method} needs {parameter('model', 'MODEL')}")
        return self

    def alignment(self, examples: Any) -> Alignment:
        """Return what is to be done, checked against the data.

        Raises:
            ConfigurationError: Something does not fit; nothing was asked.
            DataError: The ratings do not allow to learn from them.
        """
        raise NotImplementedError

    def _shared(self, examples: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the orders of all alignments hold."""
        models = dict(self.model) if isinstance(self.model, Mapping) else {"": self.model}
        opened: dict[str, Model] = {
            role: one for role, one in models.items() if not isinstance(one, str)
        }
        if len(opened) == len(models):
            check_settings(self.settings, opened)
        return {
            "data": Examples(examples, fields=self.fields),
            "models": models,
            "out": self.out,
            "task": self.task,
            "options": HDEvalOptions.read(options),
            "learning": self.learning,
            "settings": self.settings or Settings(),
            "limit": self.limit,
        }

    def _chosen(self, *names: str) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}


class FitTree(FitByModel):
    """HD-Eval's iterative alignment: a tree of criteria."""

    method = "hd-eval"
    layers: Annotated[int | None, whole(1, 6)] = None
    children: Annotated[int | None, whole(1, 26)] = None
    keep: Annotated[int | None, whole(1, MAX_KEEP)] = None
    tree: Any = None
    saliency: Any = None
    noise: Any = None

    @model_validator(mode="after")
    def _given_trees_do_not_grow(self) -> Self:
        if self.tree not in (None, BY_MODEL) and self.children is not None:
            raise ConfigurationError(
                f"{parameter('children')} is for a tree that the model grows; leave it out"
            )
        return self

    def alignment(self, examples: Any) -> Alignment:
        """Return the alignment of a tree, checked against the data."""
        options = dict(self.options or {})
        tree = options.pop("tree", BY_MODEL) if self.tree is None else self.tree
        growth = Growth(**self._chosen("layers", "children", "keep", "saliency", "noise"))
        return Alignment(
            AlignmentOrder(**self._shared(examples, options), growth=growth, tree=tree)
        )


class FitRubric(FitByModel):
    """A rubric of criteria that are proposed from rated texts."""

    method = "rubric"
    rounds: Annotated[int | None, whole(1, 20)] = None
    labels: Annotated[int | None, whole(10, 10_000)] = None
    children: Annotated[int | None, whole(1, 26)] = None

    def alignment(self, examples: Any) -> Alignment:
        """Return the alignment of a rubric, checked against the data."""
        options = {key: value for key, value in (self.options or {}).items() if key != "tree"}
        growth = self._chosen("rounds", "labels")
        if self.children is not None:
            growth["count"] = self.children
        return Rubric(RubricOrder(**self._shared(examples, options), rubric=RubricGrowth(**growth)))


KINDS: dict[str | None, type[FitRequest]] = {
    kind.method: kind for kind in (FitFromScores, FitTree, FitRubric)
}
"""The ways to learn, by the method that says so."""
_DEFAULTS = {
    name: field.default for kind in KINDS.values() for name, field in kind.model_fields.items()
}


def fit_request(method: str | None = None, **arguments: Any) -> FitRequest:
    """Return the request that the arguments of `fit` make.

    Raises:
        ConfigurationError: A value does not fit, or an argument does not go with the method.
    """
    kind = KINDS.get(method)
    if kind is None:
        known = [name for name in KINDS if name]
        raise UnknownName("method with alignment", str(method), known)
    given = {name: one for name, one in arguments.items() if not _is_default(name, one)}
    for name in given:
        if name not in kind.model_fields:
            raise ConfigurationError(_misplaced(name, method))
    return kind(**given)


def _is_default(name: str, value: Any) -> bool:
    default = _DEFAULTS[name]
    # by type first: what rows and runs are equal to is their own matter
    return value is default or (type(value) is type(default) and bool(value == default))


def _misplaced(name: str, method: str | None) -> str:
    """Return why an argument does not go with a method."""
    if method is None:
        by_model = parameter("method", "'hd-eval' or 'rubric'", typed="hd-eval or rubric")
        return (
            f"{parameter(name)} needs {by_model}; recorded scores are learned from without a model"
        )
    recorded = parameter("features"), parameter("scores")
    if name in ("features", "scores"):
        return (
            f"{parameter('method')} learns from a model's ratings, {recorded[0]} and {recorded[1]} "
            "from recorded ones"
        )
    if name in FitFromScores.model_fields:
        shown = parameter(name, "'model'", typed="model") if name == "raters" else parameter(name)
        return f"{shown} is for recorded scores ({recorded[0]}, {recorded[1]})"
    with_method = parameter("method", repr(method), typed=method)
    return f"{parameter(name)} has no effect with {with_method}; leave it out"
