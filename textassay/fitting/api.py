"""The Python API, `fit` and `fit_sync`, and their request: checked and turned into work.

`FitRequest` serves the command line, too; values come from Python, from flags or from configuration
files.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from textassay.evaluation.api import refuse_running_loop, run_sync
from textassay.evaluation.request import ModelsByRole, check_settings
from textassay.evaluation.session import Session
from textassay.evaluation.watching import Watch, watched
from textassay.fitting.alignment import MAX_KEEP, Growth, Noise, Saliency
from textassay.fitting.cross_fitting import Watch as Steps
from textassay.fitting.fit_from_scores import RecordedFit, read_recorded
from textassay.fitting.fit_rubric import Rubric, RubricGrowth, RubricRequest
from textassay.fitting.fit_tree import Alignment, AlignmentRequest, WatchSession
from textassay.fitting.learn import Depth, Learning, Raters
from textassay.fitting.report import Fit
from textassay.fitting.tree_folder import check_out
from textassay.learning.learners import NAMES
from textassay.methods.fitted.features import ScoreSource
from textassay.methods.hd_eval import BY_MODEL, HDEvalOptions
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import (
    ConfigurationError,
    DataError,
    RunFolderError,
    TextassayError,
    UnknownName,
    parameter,
)
from textassay.runtime.keywords import strict_keywords, takes_arguments_of
from textassay.runtime.messages import Aspect
from textassay.runtime.model import Model
from textassay.runtime.settings import Settings

MAX_SEED = 2**31 - 1
"""LightGBM's limit; scikit-learn's is larger."""
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


def check_whole(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Refuse what is no whole number within limits.

    Raises:
        ConfigurationError: It is another value.
    """
    limits = f"at least {least}" if most is None else f"between {least} and {most}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        limits = f"a whole number, {limits}"
    elif least <= int(value) and (most is None or int(value) <= most):
        return
    raise ConfigurationError(f"{parameter(name)} must be {limits}, not {value!r}")


def check_share(name: str, value: Any) -> None:
    """Refuse what is no number; its limits depend on the other share.

    Raises:
        ConfigurationError: It is another value.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ConfigurationError(
            f"{parameter(name)} must be a number between 0 and 1, not {value!r}"
        )


def check_folder(name: str, value: Any) -> None:
    """Refuse what names no folder.

    Raises:
        ConfigurationError: It is empty, or not a path.
    """
    if not isinstance(value, str | PathLike) or not str(value).strip():
        raise ConfigurationError(f"{parameter(name)} must be the path of a folder, not {value!r}")


def names_in(name: str, value: Any) -> tuple[str, ...]:
    """Return the names that an argument gives; one text alone is one name.

    Raises:
        ConfigurationError: It holds something else than texts.
    """
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Iterable) or isinstance(value, Mapping | bytes):
        raise ConfigurationError(f"{parameter(name)} must be a name or several, not {value!r}")
    names = tuple(value)
    for one in names:
        if not isinstance(one, str):
            raise ConfigurationError(f"{parameter(name)} must hold names, not {one!r}")
    return names


def check_sources(name: str, value: Any) -> None:
    """Refuse what holds something else than runs and paths.

    Raises:
        ConfigurationError: A source is neither, or its name is no text.
    """
    for one in value.values() if isinstance(value, Mapping) else value:
        if not isinstance(one, str | Path) and not hasattr(one, "scores"):
            raise ConfigurationError(
                f"{parameter(name)} must hold runs, run folders or files of scores, not {one!r}"
            )
    for key in value if isinstance(value, Mapping) else ():
        if not isinstance(key, str) or not key:
            raise ConfigurationError(f"{parameter(name)} must map names, not {key!r}")


def check_scales(name: str, value: Any) -> None:
    """Refuse what does not give a lowest and a higher highest rating by aspect.

    Raises:
        ConfigurationError: It does not.
    """
    example = "{'ASPECT': (1, 5)}"
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{parameter(name)} must be like {example}, not {value!r}")
    for aspect, ends in value.items():
        pair = tuple(ends) if isinstance(ends, list | tuple) else ()
        if (
            len(pair) != 2
            or not all(isinstance(end, Real) and math.isfinite(end) for end in pair)
            or not pair[0] < pair[1]
        ):
            raise ConfigurationError(
                f"{parameter(name)}: the scale of {aspect!r} must be its lowest and its highest "
                f"rating, as in {example}, not {ends!r}"
            )


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
    train_fraction: float | None = None
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
        """Refuse values of the wrong kind."""
        self._check_lists()
        if self.scales is not None:
            check_scales("scales", self.scales)
        if self.out is not None:
            check_folder("out", self.out)
        for name in ("train_fraction", "test_fraction"):
            if getattr(self, name) is not None:
                check_share(name, getattr(self, name))
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
        """Refuse what has no effect with a method."""
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
            return Rubric(RubricRequest(**requested, rubric=RubricGrowth(**growth)))
        return Alignment(AlignmentRequest(**requested, growth=Growth(**growth), tree=tree))

    def _models(self) -> dict[str, str | Model]:
        assert self.model is not None  # checked when constructed
        models = dict(self.model) if isinstance(self.model, Mapping) else {"": self.model}
        opened = {role: one for role, one in models.items() if not isinstance(one, str)}
        if len(opened) == len(models):
            check_settings(self.settings, opened)
        return models


@strict_keywords
async def fit(
    examples: Any,
    *,
    method: str | None = None,
    model: ModelsByRole | None = None,
    out: str | PathLike[str] | None = None,
    features: str | Sequence[str] = (),
    scores: ScoreSources = (),
    aggregator: str | Sequence[str] = "auto",
    task: str | None = None,
    aspects: str | Aspect | Sequence[str | Aspect] | None = None,
    scales: Mapping[str, tuple[float, float]] | None = None,
    split: Split = "group",
    train_fraction: float | None = None,
    test_fraction: float | None = None,
    seed: int = 0,
    raters: Raters = "mean",
    new_systems: bool = False,
    report: Depth = "basic",
    repeats: int | None = None,
    tree: str | None = None,
    layers: int | None = None,
    children: int | None = None,
    keep: int | None = None,
    saliency: Saliency | None = None,
    noise: Noise | None = None,
    rounds: int | None = None,
    labels: int | None = None,
    options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    fields: Mapping[str, str] | None = None,
    limit: int | None = None,
    progress: Watch = None,
) -> Fit:
    """Learn from human ratings how to judge; what it returns is a method of `evaluate` once saved.

    Without `method`, an evaluator is learned from `features` and `scores` that exist already, and
    no model is asked. With it, a model rates the texts and finds the criteria; the ratings stay in
    `out`, so that the same call continues a fit that was stopped, and pays for nothing twice.
    `"hd-eval"` is HD-Eval's iterative alignment (Liu et al. 2024, arXiv 2402.15754, algorithm 1);
    `"rubric"` follows HypoEval (Li et al. 2025, arXiv 2504.07174).

    Args:
        examples: What people rated: a path, an iterable of `Example` or dicts, or a table.
        method: `"hd-eval"`: decompose the aspects and let a model rate them; `"rubric"`: have
            criteria proposed from rated texts.
        model: A connected model, the name of a model, or a mapping of these by role (`"scorer"`,
            `"decomposer"`); needed with `method`.
        out: Folder of the evaluator; needed with `method`. Without one nothing is written.
        features: Names or globs of `metrics` in the data to learn from.
        scores: Runs to learn from: a `Run`, a run folder or a file of scores, several of these, or
            several by name. A path given as text may be `"NAME=FILE"`.
        aggregator: Name of an aggregator; of several, the one with the lowest cross-validation
            error.
        task: A built-in task or the path of a TOML file; by default the one that defines most of
            what people rated.
        aspects: What people rated, by name; of an `Aspect` the name counts; by default all of it.
        scales: Lowest and highest rating by aspect; by default the whole numbers around the
            ratings.
        split: Whether whole groups or single rows are held out.
        train_fraction: Share of the rows to learn from, between 0 and 1, if a fixed part is to be
            held out; by default all are learned from, and the report is cross-fitted.
        test_fraction: Share of the rows to hold out, between 0 and 1; by default the rest.
        seed: Seed of the split and of everything random, at least 0.
        raters: `"mean"` learns from mean ratings, `"model"` takes off each rater's severity and
            noise; for recorded scores.
        new_systems: Prepare for texts of systems without ratings; for recorded scores.
        report: `"full"` adds curves and ablations.
        repeats: Samples per point of the curves of a full report; by default 3 for data, 1 for
            criteria.
        tree: Tree to learn on: a file, `"published"`, the name of a published tree, or `"model"`
            (default), which has the model grow one.
        layers: Layers of criteria; by default 3.
        children: Maximum sub-criteria per criterion, or criteria per aspect and round of a rubric;
            by default 4.
        keep: Criteria decomposed per layer from layer 2 on; by default 4, or all with `tree`.
        saliency: What criteria are ranked by; by default `"permutation"`.
        noise: If no importance differs from 0, `"stop"` growing (default) or `"prune"` anyway.
        rounds: Maximum rounds of proposals of a rubric; by default 3.
        labels: Maximum rated rows that a rubric is learned from; by default 60.
        options: How the model is asked, such as `{"n": 5, "temperature": 1.0}`.
        settings: How models that are given by name are asked; see `Settings`.
        fields: Field map from the data's names to ours.
        limit: Maximum number of rated examples, the first ones in the data; with `method`.
        progress: As for `evaluate`; with `method`.

    Raises:
        ConfigurationError: Something does not fit, or would have no effect; nothing was asked.
        DataError: The ratings do not allow to learn from them; a note says what is kept.
        ModelError: A failure that would hit every call; the same call continues.
        BudgetReached: The cost limit is reached; the same call with a higher one continues.
        StorageError: Something cannot be written; the same call continues.
    """
    request = FitRequest(
        method=method, model=model, out=out, features=features, scores=scores,
        aggregator=aggregator, task=task, aspects=aspects, scales=scales, split=split,
        train_fraction=train_fraction, test_fraction=test_fraction, seed=seed, raters=raters,
        new_systems=new_systems, report=report, repeats=repeats, tree=tree, layers=layers,
        children=children, keep=keep, saliency=saliency, noise=noise, rounds=rounds, labels=labels,
        options=options, settings=settings, fields=fields, limit=limit,
    )  # fmt: skip
    if method is None:
        _refuse_progress(progress)
        # read here: what yields the rows may belong to this thread, such as a database cursor
        recorded = _read(examples, request)
        # in a thread: learning takes seconds to minutes, in which a web server has to answer; what
        # it learns after a cancellation is dropped, since the folder is written here
        return _saved(await asyncio.to_thread(recorded.learn), request.out)

    def watch(session: Session) -> AbstractAsyncContextManager[None]:
        return watched(lambda: session.engine.progress, progress)

    return await align_with_people(request.alignment(examples), watch)


@takes_arguments_of(fit)
def fit_sync(*args: Any, **arguments: Any) -> Fit:
    """Do what `fit` does, with the same arguments, from code that is not async.

    Without `method` it waits in the calling thread, so that Ctrl-C stops it once the fits under way
    are done.

    Raises:
        ConfigurationError: An event loop is running in this thread already (a notebook, a web
            server).
        TextassayError: As `fit`.
    """
    if arguments.get("method") is not None:
        return run_sync(fit, *args, **arguments)
    refuse_running_loop(fit.__name__)
    given = inspect.signature(fit).bind(*args, **arguments).arguments
    examples = given.pop("examples")
    _refuse_progress(given.pop("progress", None))
    return learn_recorded(examples, FitRequest(**given))


def learn_recorded(examples: Any, request: FitRequest, watch: Steps = lambda _: None) -> Fit:
    """Learn from recorded scores, and write the folder if one is named.

    Args:
        examples: What people rated.
        request: How to learn.
        watch: Is told what is being done.

    Raises:
        ConfigurationError: Something does not fit; nothing was written.
        StorageError: The folder cannot be written.
    """
    return _saved(_read(examples, request).learn(watch), request.out)


def _read(examples: Any, request: FitRequest) -> RecordedFit:
    """Read and check what a request without a method names, and that its folder can be made."""
    if request.out is not None:
        check_out(Path(request.out))
    return read_recorded(
        Examples(examples, fields=request.fields),
        features=request.chosen_features,
        scores=request.chosen_scores,
        learning=request.learning,
    )


def _refuse_progress(progress: Watch) -> None:
    # `False` has its effect: nothing is shown
    if progress:
        raise ConfigurationError(
            f"{parameter('progress')} needs {parameter('method')}; recorded scores are learned "
            "from without calls that could be counted"
        )


async def align_with_people(
    alignment: Alignment,
    watch: WatchSession,
    *,
    again: str = "call fit with the same arguments to continue",
) -> Fit:
    """Perform an alignment, or continue it, and write its folder.

    Args:
        alignment: What to do.
        watch: Shows how it goes.
        again: What a note tells the user to do if it is stopped.

    Raises:
        RunFolderError: The folder holds an evaluator, something else, or another alignment.
        TextassayError: What stopped it; notes say what is kept.
    """
    out = alignment.request.out
    if out is None:
        raise ConfigurationError(f"fit needs {parameter('out', 'EVALUATOR_DIR')}")
    try:
        found = await alignment.run(watch)
    # repeating helps against none of these; the notes of a `DataError` say what would
    except (RunFolderError, UnknownName, DataError):
        raise
    except TextassayError as error:
        if alignment.begun:
            # in place of the notes of a layer's run, which cannot be resumed on its own
            error.__notes__ = [f"finished work is kept; {again}"]
        raise
    return _saved(replace(found, unscored=alignment.unscored), out)


def _saved(found: Fit, out: str | PathLike[str] | None) -> Fit:
    if out is not None:
        found.save(out)
    return found
