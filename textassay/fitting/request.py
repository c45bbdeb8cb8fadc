"""What `fit` was asked for, in Python or on the command line, checked and turned into work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from textassay.evaluation.api import ModelsByRole, check_settings
from textassay.fitting.alignment import MAX_KEEP, Growth, Noise, Saliency
from textassay.fitting.alignment_order import AlignmentOrder
from textassay.fitting.fit_from_scores import Learning
from textassay.fitting.fit_rubric import Rubric, RubricOrder
from textassay.fitting.fit_tree import Alignment
from textassay.fitting.raters import Raters
from textassay.fitting.report import Depth
from textassay.fitting.request_checks import (
    MAX_SEED,
    check_folder,
    check_scales,
    check_share,
    check_sources,
    check_whole,
    names_in,
)
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

HD_EVAL, RUBRIC = "hd-eval", "rubric"
METHODS = (HD_EVAL, RUBRIC)
"""Methods by which a model finds the criteria."""
OF_A_TREE = {name: name for name in ("layers", "children", "keep", "saliency", "noise", "tree")}
OF_A_RUBRIC = {"rounds": "rounds", "labels": "labels", "children": "count"}
"""Parameters that shape what grows, with the fields that they set."""
OF_A_MODEL = ("model", "task", "options", "settings", "limit", *OF_A_TREE, "rounds", "labels")
"""Parameters without effect if no model is asked."""
WHOLE = {
    "layers": (1, 6), "children": (1, 26), "keep": (1, MAX_KEEP), "rounds": (1, 20),
    "labels": (10, 10_000), "repeats": (1, 100), "limit": (1, None),
}  # fmt: skip
"""Parameters that are whole numbers, with the least and the greatest allowed."""
KINDS: dict[str, type] = {"task": str, "options": Mapping, "fields": Mapping, "settings": Settings}
"""Types of other parameters."""


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """The arguments of `fit` beside the examples; it documents them."""

    method: str | None = None
    model: ModelsByRole | None = None
    out: str | PathLike[str] | None = None
    features: str | Sequence[str] = ()
    scores: ScoreSources = ()
    aggregator: str | Sequence[str] = "auto"
    task: str | None = None
    aspects: str | Aspect | Sequence[str | Aspect] | None = None
    scales: Mapping[str, tuple[float, float]] | None = None
    split: Split = "group"
    train_fraction: float = 0.5
    test_fraction: float | None = None
    seed: int = 0
    raters: Raters = "mean"
    new_systems: bool = False
    report: Depth = "basic"
    repeats: int | None = None
    tree: str | None = None
    layers: int | None = None
    children: int | None = None
    keep: int | None = None
    saliency: Saliency | None = None
    noise: Noise | None = None
    rounds: int | None = None
    labels: int | None = None
    options: Mapping[str, Any] | None = None
    settings: Settings | None = None
    fields: Mapping[str, str] | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        self._check_values()
        recorded = self.chosen_features or self.chosen_scores
        if self.method is None:
            self._refuse(OF_A_MODEL, "needs " + parameter("method", "'hd-eval' or 'rubric'",
                         typed="hd-eval or rubric") + "; recorded scores are learned from without"
                         " a model")  # fmt: skip
            return
        if self.method not in METHODS:
            raise UnknownName("method with alignment", self.method, METHODS)
        if recorded:
            raise ConfigurationError(
                f"{parameter('method')} learns from a model's ratings, {parameter('features')} and "
                f"{parameter('scores')} from recorded ones"
            )
        self._check_method(self.method)

    def _check_values(self) -> None:
        """Refuse values of the wrong kind.

        Raises:
            ConfigurationError: A value does not fit.
        """
        self._check_lists()
        if self.scales is not None:
            check_scales("scales", self.scales)
        if self.out is not None:
            check_folder("out", self.out)
        check_share("train_fraction", self.train_fraction)
        if self.test_fraction is not None:
            check_share("test_fraction", self.test_fraction)
        check_whole("seed", self.seed, 0, MAX_SEED)
        for name, limits in WHOLE.items():
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), *limits)
        for name, kind in KINDS.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise ConfigurationError(
                    f"{parameter(name)} must be a {kind.__name__}, not {value!r}"
                )
        if self.repeats is not None and self.report == "basic":
            full = parameter("report", "'full'", typed="full")
            raise ConfigurationError(
                f"{parameter('repeats')} is for the curves of {full}; add it, or leave"
                f" {parameter('repeats')} out"
            )

    def _check_lists(self) -> None:
        for name in ("features", "aggregator", "aspects", "scores"):
            value = getattr(self, name)
            if isinstance(value, Iterator):  # which can be read only once
                object.__setattr__(self, name, tuple(value))
        names_in("features", self.features)
        if not names_in("aggregator", self.aggregator):
            raise ConfigurationError(f"{parameter('aggregator')} is empty; leave it out for auto")
        if self.aspects is not None and not self.chosen_aspects:
            raise ConfigurationError(f"{parameter('aspects')} is empty; leave it out for all")
        check_sources("scores", self.chosen_scores)

    def _check_method(self, method: str) -> None:
        """Refuse what has no effect with a method.

        Raises:
            ConfigurationError: Something has none, or the model is missing.
        """
        if not self.model:
            raise ConfigurationError(f"fit by {method} needs {parameter('model', 'MODEL')}")
        if self.raters == "model":
            raise ConfigurationError(
                f"{parameter('raters', repr('model'), typed='model')} is for recorded scores "
                f"({parameter('features')}, {parameter('scores')})"
            )
        if self.new_systems:
            raise ConfigurationError(
                f"{parameter('new_systems')} is for recorded scores ({parameter('features')}, "
                f"{parameter('scores')}): a model's ratings of a new system are not known before "
                "its texts are judged"
            )
        other = OF_A_TREE if method == RUBRIC else OF_A_RUBRIC
        self._refuse([name for name in other if name not in self._shapes],
                     f"has no effect with {parameter('method', repr(method), typed=method)}; leave"
                     " it out")  # fmt: skip
        if self.tree not in (None, BY_MODEL) and self.children is not None:
            raise ConfigurationError(
                f"{parameter('children')} is for a tree that the model grows; leave it out"
            )

    def _refuse(self, names: Iterable[str], why: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise ConfigurationError(f"{parameter(name)} {why}")

    @property
    def _shapes(self) -> dict[str, str]:
        return OF_A_RUBRIC if self.method == RUBRIC else OF_A_TREE

    @property
    def chosen_features(self) -> tuple[str, ...]:
        """Names or globs of recorded metrics; one alone is one name."""
        return names_in("features", self.features)

    @property
    def chosen_aspects(self) -> tuple[str, ...] | None:
        """Names of human aspects; `None` for all that people rated."""
        if self.aspects is None:
            return None
        given = (self.aspects,) if isinstance(self.aspects, Aspect) else self.aspects
        if isinstance(given, Sequence) and not isinstance(given, str):
            given = [one.name if isinstance(one, Aspect) else one for one in given]
        return names_in("aspects", given)

    @property
    def chosen_scores(self) -> tuple[ScoreSource, ...] | Mapping[str, ScoreSource]:
        """Runs and files of scores; one alone is one source."""
        if isinstance(self.scores, Mapping):
            return self.scores
        single = isinstance(self.scores, str | Path) or hasattr(self.scores, "scores")
        if single:
            return (self.scores,)  # type: ignore[return-value]
        if not isinstance(self.scores, Iterable):
            raise ConfigurationError(
                f"{parameter('scores')} must be a run, a run folder or a file of scores, or several"
                f" of these, not {self.scores!r}"
            )
        return tuple(self.scores)

    @property
    def learning(self) -> Learning:
        """How to learn.

        Raises:
            UnknownName: There is no such aggregator, split or report.
            ConfigurationError: A value does not fit.
        """
        names = names_in("aggregator", self.aggregator)
        # checked here although the command line has choices: values may come from a config file
        for kind, given, known in (
            *(("aggregator", name, NAMES) for name in names),
            ("split", self.split, ("group", "row")),
            ("report", self.report, ("basic", "full")),
        ):
            if given not in known:
                raise UnknownName(kind, given, list(known))
        return Learning(
            aggregators=names,
            train_fraction=self.train_fraction,
            seed=int(self.seed),  # of numpy's, which JSON has not
            depth=self.report,
            aspects=self.chosen_aspects,
            scales={name: (low, high) for name, (low, high) in (self.scales or {}).items()},
            by_row=self.split == "row",
            test_fraction=self.test_fraction,
            repeats=self.repeats,
            new_systems=self.new_systems,
            raters=self.raters,
        )

    def alignment(self, examples: Any) -> Alignment:
        """Return the alignment that a request with a method describes, checked against the data.

        Raises:
            ConfigurationError: Something does not fit; nothing was asked.
            DataError: The ratings do not allow to learn from them.
        """
        options = dict(self.options or {})
        tree = options.pop("tree", BY_MODEL) if self.tree is None else self.tree
        growth = {
            held: getattr(self, name)
            for name, held in self._shapes.items()
            if name != "tree" and getattr(self, name) is not None
        }
        requested: dict[str, Any] = {
            "data": Examples(examples, fields=self.fields),
            "models": self._models(),
            "out": None if self.out is None else Path(self.out),
            "task": self.task,
            "options": HDEvalOptions.read(options),
            "learning": self.learning,
            "settings": self.settings or Settings(),
            "limit": self.limit,
        }
        if self.method == RUBRIC:
            return Rubric(RubricOrder(**requested, rubric=RubricGrowth(**growth)))
        return Alignment(AlignmentOrder(**requested, growth=Growth(**growth), tree=tree))

    def _models(self) -> dict[str, str | Model]:
        assert self.model is not None  # checked when constructed
        models = dict(self.model) if isinstance(self.model, Mapping) else {"": self.model}
        opened = {role: one for role, one in models.items() if not isinstance(one, str)}
        if len(opened) == len(models):
            check_settings(self.settings, opened)
        return models
