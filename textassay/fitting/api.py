"""The Python API: `fit` and `fit_sync`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from os import PathLike
from typing import Any, Literal

from textassay.agreement.records import ScoreSource
from textassay.evaluation.api import ModelsByRole, check_no_running_loop, check_settings, run_sync
from textassay.evaluation.progress import OnProgress, display_progress
from textassay.evaluation.session import Session
from textassay.fitting.alignment import Alignment, WatchSession, check_out
from textassay.fitting.fit_from_scores import RecordedFit, read_recorded
from textassay.fitting.fit_rubric import Rubric
from textassay.fitting.fit_tree import GivenTreeAlignment, TreeAlignment
from textassay.fitting.learn import FitObserver
from textassay.fitting.report import Fit
from textassay.fitting.request import (
    Depth,
    FitByModel,
    FitFromScores,
    FitRequest,
    FitTree,
    Noise,
    Saliency,
    fit_request,
)
from textassay.methods.library.trees import BY_MODEL
from textassay.runtime.conversation import Unit
from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.ratings import LabelReader
from textassay.runtime.errors import (
    ConfigurationError,
    DataError,
    RunFolderError,
    TextassayError,
    UnknownName,
)
from textassay.runtime.messages import Aspect
from textassay.runtime.settings import Settings, strict_keywords, takes_arguments_of

ScoreSources = ScoreSource | Sequence[ScoreSource] | Mapping[str, ScoreSource]


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
    split: Literal["group", "row"] = "group",
    train_fraction: float | None = None,
    test_fraction: float | None = None,
    seed: int = 0,
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
    missing: Sequence[str] = (),
    strict_columns: bool = False,
    limit: int | None = None,
    unit: Unit | None = None,
    progress: OnProgress = None,
) -> Fit:
    """Learn from human ratings how to judge; the result is a method of `evaluate` once saved.

    Without `method`, an evaluator is learned from `features` and `scores` that exist already, and
    no model is asked. With `method`, a model rates the texts and finds the criteria; the ratings
    stay in `out`, so that the same call continues a stopped fit without paying twice. `"hd-eval"`
    is HD-Eval's iterative alignment (Liu et al. 2024, arXiv 2402.15754, algorithm 1); `"rubric"`
    follows HypoEval (Li et al. 2025, arXiv 2504.07174).

    Args:
        examples: The rated texts: a path, an iterable of `Example` or dicts, or a table.
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
            the rated aspects.
        aspects: Names of rated aspects (or `Aspect` objects, whose names are used); by default
            all.
        scales: Lowest and highest rating by aspect; by default the whole numbers around the
            ratings.
        split: Whether whole groups or single rows are held out.
        train_fraction: Share of the rows to learn from, between 0 and 1, if a fixed part is to be
            held out; by default all are learned from, and the report is cross-fitted.
        test_fraction: Share of the rows to hold out, between 0 and 1; by default the rest.
        seed: Seed of the split and of everything random, at least 0.
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
        saliency: Measure by which criteria are ranked; by default `"permutation"`.
        noise: If no importance differs from 0, `"stop"` growing (default) or `"prune"` anyway.
        rounds: Maximum rounds of proposals of a rubric; by default 3.
        labels: Maximum rated rows that a rubric is learned from; by default 60.
        options: How the model is asked, such as `{"n": 5, "temperature": 1.0}`.
        settings: How models that are given by name are asked; see `Settings`.
        fields: Field map from the data's names to ours.
        missing: Cells that are missing values, such as `("N/A", "-")`, in any case.
        strict_columns: Whether a column that no judge would see is an error; with `method`.
        limit: Maximum number of rated examples, the first ones in the data; with `method`.
        unit: Part of a conversation that is an example, as for `evaluate`. Ratings of turns and
            calls are joined by id (`--ratings`), since the data have ratings of whole
            conversations.
        progress: As for `evaluate`; with `method`.

    Raises:
        ConfigurationError: An argument is wrong or would have no effect; no model was called.
        DataError: `fit` cannot learn from the ratings; a note lists the kept files.
        ModelError: A failure that would hit every call; the same call continues.
        BudgetReached: The cost limit is reached; the same call with a higher one continues.
        StorageError: Something cannot be written; the same call continues.
    """
    arguments = {**locals()}
    del arguments["examples"], arguments["progress"]
    request = fit_request(**arguments)
    if isinstance(request, FitFromScores):
        _check_progress(progress)
        # read here: the source of the rows may belong to this thread, such as a database cursor
        recorded = _read(examples, request)
        # in a thread: learning takes seconds to minutes, while a web server has to answer; a result
        # after a cancellation is dropped, since the folder is written here
        return _save(await asyncio.to_thread(recorded.learn), request.out)

    def watch(session: Session) -> AbstractAsyncContextManager[None]:
        return display_progress(lambda: session.engine.progress, progress)

    assert isinstance(request, FitByModel)
    return await align_with_people(alignment_of(request, examples), watch)


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
    check_no_running_loop(fit.__name__)
    parameters = inspect.signature(fit).bind(*args, **arguments).arguments
    examples = parameters.pop("examples")
    _check_progress(parameters.pop("progress", None))
    request = fit_request(**parameters)
    assert isinstance(request, FitFromScores)  # like fit without a method
    return learn_recorded(examples, request)


def learn_recorded(
    examples: Any, request: FitFromScores, watch: FitObserver = lambda _: None
) -> Fit:
    """Learn from recorded scores, and write the folder if one is named."""
    return _save(_read(examples, request).learn(watch), request.out)


def _read(examples: Any, request: FitFromScores) -> RecordedFit:
    """Read and check the inputs of a request without a method, and its folder."""
    if request.out is not None:
        check_out(request.out)
    return read_recorded(_examples(examples, request), request)


def _examples(examples: Any, request: FitRequest) -> Examples:
    by_model = isinstance(request, FitByModel)
    return Examples(
        examples,
        fields=request.fields or None,
        missing=request.missing,
        unit=request.unit,
        strict_columns=by_model and request.strict_columns,
        # recorded scores and ratings are numbers: no judge sees the texts
        needs_output=by_model,
        labels=LabelReader(any_word=not by_model),
    )


def alignment_of(request: FitByModel, examples: Any) -> Alignment:
    """Return the alignment that is requested, checked against the data."""
    opened = {role: model for role, model in request.models.items() if not isinstance(model, str)}
    if len(opened) == len(request.models):
        check_settings(request.settings, opened)
    data = _examples(examples, request)
    kind: type[Alignment] = Rubric
    if isinstance(request, FitTree):
        kind = TreeAlignment if request.tree == BY_MODEL else GivenTreeAlignment
    return kind(request, data)


def _check_progress(progress: OnProgress) -> None:
    # `False` has an effect: nothing is shown
    if progress:
        raise ConfigurationError(
            "progress= needs method=; recorded scores are learned "
            "from without calls that could be counted"
        )


async def align_with_people(
    alignment: Alignment,
    watch: WatchSession,
    *,
    again: str = "call fit with the same arguments to continue",
) -> Fit:
    """Run or continue an alignment, and write its folder."""
    try:
        result = await alignment.run(watch)
    # repeating does not help here; the notes of a `DataError` say what does
    except (RunFolderError, UnknownName, DataError):
        raise
    except TextassayError as error:
        if alignment.begun:
            # in place of the notes of a layer's run, which cannot be resumed on its own
            error.__notes__ = [f"finished work is kept; {again}"]
        raise
    return _save(result, alignment.request.out)


def _save(result: Fit, out: str | PathLike[str] | None) -> Fit:
    if out is not None:
        result.save(out)
    return result
