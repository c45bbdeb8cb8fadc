"""Requests to `fit`, from Python or the command line: one type for each way to learn.

Fields that exclude each other are in different types. Imports nothing heavy, since the command line
makes flags of the fields for every help.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from textassay.evaluation.request import DataRequest, ModelRequest, build_request, one_or_several
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.settings import Flag

Names = Annotated[tuple[str, ...], BeforeValidator(one_or_several)]


def _aggregators(value: Any) -> Any:
    from textassay.learning import NAMES

    names = one_or_several(value)
    for name in names if isinstance(names, list | tuple) else ():
        if name not in NAMES:
            raise UnknownName("aggregator", str(name), list(NAMES))
    return names


def _sources(value: Any) -> Any:
    """Return runs and files of scores, by name or in order; one alone is one source."""
    if isinstance(value, str | Path) or hasattr(value, "scores"):
        return (value,)
    if not isinstance(value, Iterable):
        raise ValueError("must be a run, a run folder or a file of scores, or several of these")
    sources = dict(value) if isinstance(value, Mapping) else tuple(value)
    for source in sources.values() if isinstance(sources, dict) else sources:
        if not isinstance(source, str | Path) and not hasattr(source, "scores"):
            raise ValueError(f"must contain runs, run folders or files of scores, not {source!r}")
    for key in sources if isinstance(sources, dict) else ():
        if not isinstance(key, str) or not key:
            raise ValueError(f"must map names, not {key!r}")
    return sources


def _scales(value: Any) -> Any:
    example = "{'ASPECT': (1, 5)}"
    if not isinstance(value, Mapping):
        raise ValueError(f"must be like {example}")
    for aspect, ends in value.items():
        pair = tuple(ends) if isinstance(ends, list | tuple) else ()
        if (
            len(pair) != 2
            or not all(isinstance(end, Real) and math.isfinite(end) for end in pair)
            or not pair[0] < pair[1]
        ):
            raise ValueError(
                f"the scale of {aspect!r} must be its lowest and its highest rating, as in "
                f"{example}, not {ends!r}"
            )
    return dict(value)


LEARNING, GROWING = "Learning", "Criteria tree"
"""Panels of the help."""
Depth = Literal["basic", "full"]
Saliency = Literal["permutation", "shapley"]
Noise = Literal["stop", "prune"]
MAX_KEEP = 1000
"""Most criteria of a layer that can be decomposed."""


class FitRequest(DataRequest):
    """Fields of all ways to learn."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    method: ClassVar[str | None] = None
    """Value of `method=` for this way to learn."""

    aggregator: Annotated[Names, BeforeValidator(_aggregators), Flag(LEARNING, "NAME")] = ("auto",)
    """Aggregator: auto (default), avg, corrw, linear, nnls, ridge, kernel, tree, forest, mlp,
    lightgbm, or for all aspects at once tree-joint, forest-joint, mlp-joint; may repeat."""
    scales: Annotated[
        dict[str, tuple[float, float]],
        BeforeValidator(_scales),
        Flag(LEARNING, "ASPECT=LOW,HIGH", name="scale"),
    ] = {}
    """Scale of the human ratings; may repeat."""
    split: Annotated[Literal["group", "row"], Flag(LEARNING)] = "group"
    """Split by group or by row."""
    train_fraction: Annotated[float | None, Flag(LEARNING, "F")] = None
    """Share of the rows to learn from; others are held out (default: learn from all)."""
    test_fraction: Annotated[float | None, Flag(LEARNING, "F")] = None
    """Share of the rows to hold out, for every --train-fraction (default: the rest)."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """Seed of everything random, at most what LightGBM takes."""
    report: Annotated[Depth, Flag(LEARNING)] = "basic"
    """full adds curves and ablations."""
    repeats: Annotated[int | None, Field(ge=1, le=100), Flag(LEARNING, "N")] = None
    """Samples per point of each curve of --report full (default: 3 for data, 1 for criteria)."""

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for name in ("aggregator", "aspects"):
            if getattr(self, name) == ():
                raise ConfigurationError(f"{name}= is empty; leave it out for the default")
        return self

    @model_validator(mode="after")
    def _check_repeats(self) -> Self:
        if self.repeats is not None and self.report == "basic":
            raise ConfigurationError(
                "repeats= is for the curves of report='full'; add it, or leave repeats= out"
            )
        return self

    @property
    def aspect_names(self) -> tuple[str, ...] | None:
        """The aspects by name; `None` for all."""
        if self.aspects is None:
            return None
        return tuple(aspect if isinstance(aspect, str) else aspect.name for aspect in self.aspects)

    @property
    def holds_out(self) -> bool:
        """Whether a fixed part of the rows is held out, rather than each fold in turn."""
        return self.train_fraction is not None or self.test_fraction is not None

    @property
    def share(self) -> float:
        """Share of the rows to learn from if rows are held out: half by default."""
        return 0.5 if self.train_fraction is None else self.train_fraction


class FitFromScores(FitRequest):
    """Learn from recorded scores, without a model."""

    features: Annotated[Names, Flag(LEARNING, "NAME,GLOB*")] = ()
    """Learn from metrics in the data, without calling a model; may repeat."""
    scores: Annotated[
        tuple[Any, ...] | dict[str, Any], BeforeValidator(_sources), Flag(LEARNING, "[NAME=]FILE")
    ] = ()
    """Learn from files of scores or from runs; may repeat."""
    new_systems: Annotated[bool, Flag(LEARNING)] = False
    """Prepare for texts of systems without ratings: folds leave out systems too."""


class FitByModel(ModelRequest, FitRequest):
    """Have a model rate texts and find criteria."""

    model: Any = None

    @property
    def models(self) -> dict[str, Any]:
        """Models or their names by role (`scorer`, `decomposer`; `""` serves both)."""
        return dict(self.model) if isinstance(self.model, Mapping) else {"": self.model}

    @model_validator(mode="after")
    def _require_model(self) -> Self:
        if not self.model:
            raise ConfigurationError(f"fit by {self.method} needs model=MODEL")
        return self


class FitTree(FitByModel):
    """HD-Eval's iterative alignment: a tree of criteria."""

    method = "hd-eval"
    layers: Annotated[int, Field(ge=1, le=6), Flag(GROWING, "N")] = 3
    """Layers of criteria."""
    children: Annotated[int, Field(ge=1, le=26), Flag(GROWING, "N")] = 4
    """Maximum sub-criteria per criterion, or criteria per round."""
    keep: Annotated[int | None, Field(ge=1, le=MAX_KEEP), Flag(GROWING, "N")] = None
    """Criteria expanded per layer, from layer 2 on (default: 4; all with --tree)."""
    tree: Annotated[Any, Flag(GROWING, "TREE")] = "model"
    """Tree to learn on: a file, the name of a published one, published (the task's own), or model,
    which has the model grow one."""
    saliency: Annotated[Saliency, Flag(GROWING)] = "permutation"
    """Measure to rank criteria by."""
    noise: Annotated[Noise, Flag(GROWING)] = "stop"
    """If no importance differs from 0: stop growing, or prune anyway."""

    @model_validator(mode="after")
    def _given_trees_do_not_grow(self) -> Self:
        if self.tree != "model" and "children" in self.model_fields_set:
            raise ConfigurationError("children= is for a tree that the model grows; leave it out")
        return self


class FitRubric(FitByModel):
    """A rubric of criteria that are proposed from rated texts."""

    method = "rubric"
    rounds: Annotated[int, Field(ge=1, le=20), Flag(GROWING, "N")] = 3
    """Rounds of proposals of a rubric."""
    labels: Annotated[int, Field(ge=10, le=10_000), Flag(GROWING, "N")] = 60
    """Maximum number of rated rows that a rubric learns from."""
    children: Annotated[int, Field(ge=1, le=26)] = 4
    """Most criteria that are proposed for an aspect in a round."""


KINDS: dict[str | None, type[FitRequest]] = {
    kind.method: kind for kind in (FitFromScores, FitTree, FitRubric)
}
"""The ways to learn, by `method`."""
_DEFAULTS = {
    name: field.get_default(call_default_factory=True)
    for kind in (FitFromScores, FitByModel)
    for name, field in kind.model_fields.items()
}
"""Defaults of the parameters of `fit` that are not `None` by default."""


def fit_request(method: str | None = None, **arguments: Any) -> FitRequest:
    """Return the request for the arguments of `fit`; `None` means the default."""
    kind = KINDS.get(method)
    if kind is None:
        names = [name for name in KINDS if name]
        raise UnknownName("method of fit", str(method), names)
    present = {name: value for name, value in arguments.items() if value is not None}
    for name, value in present.items():
        # by type first, since rows and runs may define equality
        default = _DEFAULTS.get(name)
        is_default = type(value) is type(default) and value == default
        if name not in kind.model_fields and not is_default:
            raise ConfigurationError(_misplaced_error(name, method))
    return build_request(
        kind, **{name: value for name, value in present.items() if name in kind.model_fields}
    )


def _misplaced_error(name: str, method: str | None) -> str:
    """Return why an argument does not go with a method."""
    if method is None:
        return (
            f"{name}= needs method='hd-eval' or 'rubric'; recorded scores are learned from"
            " without a model"
        )
    if name in ("features", "scores"):
        return "method= learns from a model's ratings, features= and scores= from recorded ones"
    if name in FitFromScores.model_fields:
        return f"{name}= is for recorded scores (features=, scores=)"
    return f"{name}= has no effect with method={method!r}; leave it out"
