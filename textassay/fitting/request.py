"""What `fit` was asked for, in Python or on the command line: one type for each way to learn.

What cannot go together is no field of the same type, so that no request can say it. Imports nothing
heavy, since the command line makes flags of the fields for every help.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, ConfigDict, ValidationInfo, model_validator

from textassay.runtime.data.units import Unit
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Aspect
from textassay.runtime.settings import DescribedMessage, Flag, Settings

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
    return ConfigurationError(f"{info.field_name}= must be {expected}, not {value!r}")


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
            raise ConfigurationError(f"{info.field_name}= must hold names, not {one!r}")
    return names


def _aggregators(value: Any, info: ValidationInfo) -> tuple[str, ...]:
    from textassay.learning import NAMES

    names = _names(value, info)
    if not names:
        raise ConfigurationError("aggregator= is empty; leave it out for auto")
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
        raise ConfigurationError("aspects= is empty; leave it out for all")
    return names


def _sources(value: Any, info: ValidationInfo) -> Any:
    """Return runs and files of scores, by name or in order; one alone is one source."""
    shown = f"{info.field_name}="
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
                f"scales=: the scale of {aspect!r} must be its lowest and its "
                f"highest rating, as in {example}, not {ends!r}"
            )
    return {name: (low, high) for name, (low, high) in value.items()}


LEARNING, GROWING = "Learning", "Criteria tree"


class FitRequest(DescribedMessage):
    """What all ways to learn share."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    method: ClassVar[str | None] = None
    """How `fit` is told to learn so."""

    out: Annotated[Path | None, BeforeValidator(_folder)] = None
    aggregator: Annotated[
        tuple[str, ...], BeforeValidator(_aggregators), Flag(LEARNING, "NAME")
    ] = ("auto",)
    """Aggregator: auto (default), avg, corrw, linear, nnls, ridge, kernel, tree, forest, mlp,
    lightgbm, or for all aspects at once tree-joint, forest-joint, mlp-joint; may repeat."""
    aspects: Annotated[tuple[str, ...] | None, BeforeValidator(_aspects)] = None
    scales: Annotated[
        dict[str, tuple[float, float]] | None,
        BeforeValidator(_scales),
        Flag(LEARNING, "ASPECT=LOW,HIGH", name="scale"),
    ] = None
    """Scale of the human ratings; may repeat."""
    split: Annotated[Literal["group", "row"], one_of("group", "row"), Flag(LEARNING)] = "group"
    """Split by group or by row."""
    train_fraction: Annotated[float | None, BeforeValidator(_share), Flag(LEARNING, "F")] = None
    """Share of the rows to learn from; others are held out (default: learn from all)."""
    test_fraction: Annotated[float | None, BeforeValidator(_share), Flag(LEARNING, "F")] = None
    """Share of the rows to hold out, whatever --train-fraction is (default: the rest)."""
    seed: Annotated[int, whole(0, MAX_SEED)] = 0
    report: Annotated[Literal["basic", "full"], one_of("basic", "full"), Flag(LEARNING)] = "basic"
    """full adds curves and ablations."""
    repeats: Annotated[int | None, whole(1, 100), Flag(LEARNING, "N")] = None
    """Samples per point of the curves of --report full (default: 3 data, 1 criteria)."""
    fields: Annotated[Any, instance(Mapping)] = None
    missing: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()
    unit: Unit | None = None

    @model_validator(mode="after")
    def _curves_are_drawn(self) -> Self:
        if self.repeats is not None and self.report == "basic":
            raise ConfigurationError(
                "repeats= is for the curves of report='full'; add it, or leave repeats= out"
            )
        return self


class FitFromScores(FitRequest):
    """Learn from recorded scores, without a model."""

    features: Annotated[tuple[str, ...], BeforeValidator(_names), Flag(LEARNING, "NAME,GLOB*")] = ()
    """Learn from metrics in the data, without calling a model; may repeat."""
    scores: Annotated[
        tuple[Any, ...] | dict[str, Any], BeforeValidator(_sources), Flag(LEARNING, "[NAME=]FILE")
    ] = ()
    """Learn from files of scores or from runs; may repeat."""
    raters: Annotated[
        Literal["mean", "model"],
        one_of("mean", "model", kind="target of several raters"),
        Flag(LEARNING),
    ] = "mean"
    """Learn from mean ratings, or model each rater's severity and noise."""
    new_systems: Annotated[bool, Flag(LEARNING)] = False
    """Prepare for texts of systems without ratings: folds leave out systems too."""


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
            raise ConfigurationError(f"fit by {self.method} needs model=MODEL")
        return self


class FitTree(FitByModel):
    """HD-Eval's iterative alignment: a tree of criteria."""

    method = "hd-eval"
    layers: Annotated[int | None, whole(1, 6), Flag(GROWING, "N")] = None
    """Layers of criteria (default: 3)."""
    children: Annotated[int | None, whole(1, 26), Flag(GROWING, "N")] = None
    """Maximum sub-criteria per criterion, or criteria per round (default: 4)."""
    keep: Annotated[int | None, whole(1, 1000), Flag(GROWING, "N")] = None
    """Criteria expanded per layer, from layer 2 on (default: 4; all with --tree)."""
    tree: Annotated[Any, Flag(GROWING, "TREE")] = None
    """Tree to learn on: a file, published, a published tree, or model (default)."""
    saliency: Annotated[
        Literal["permutation", "shapley"] | None,
        one_of("permutation", "shapley"),
        Flag(GROWING),
    ] = None
    """Measure to rank criteria by (default: permutation)."""
    noise: Annotated[Literal["stop", "prune"] | None, one_of("stop", "prune"), Flag(GROWING)] = None
    """If no importance differs from 0: stop growing (default), or prune anyway."""

    @model_validator(mode="after")
    def _given_trees_do_not_grow(self) -> Self:
        if self.tree not in (None, "model") and self.children is not None:
            raise ConfigurationError("children= is for a tree that the model grows; leave it out")
        return self


class FitRubric(FitByModel):
    """A rubric of criteria that are proposed from rated texts."""

    method = "rubric"
    rounds: Annotated[int | None, whole(1, 20), Flag(GROWING, "N")] = None
    """Rounds of proposals of a rubric (default: 3)."""
    labels: Annotated[int | None, whole(10, 10_000), Flag(GROWING, "N")] = None
    """Rated rows that a rubric is learned from at most (default: 60)."""
    children: Annotated[int | None, whole(1, 26)] = None


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
        return (
            f"{name}= needs method='hd-eval' or 'rubric'; recorded scores are learned from"
            " without a model"
        )
    if name in ("features", "scores"):
        return "method= learns from a model's ratings, features= and scores= from recorded ones"
    if name in FitFromScores.model_fields:
        shown = "raters='model'" if name == "raters" else f"{name}="
        return f"{shown} is for recorded scores (features=, scores=)"
    return f"{name}= has no effect with method={method!r}; leave it out"
