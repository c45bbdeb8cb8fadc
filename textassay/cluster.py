"""Runs on a cluster, in Python: workers on other machines judge, this process records the scores.

run = await textassay.cluster.evaluate("data.jsonl", cluster="ray", method="g-eval",
model="openai/gpt-4.1-mini", out="runs/large")
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from textassay.evaluation.api import data_path, without_resume
from textassay.evaluation.defaults import check_keys, default_method, with_default_model
from textassay.evaluation.progress import OnProgress, display_progress
from textassay.evaluation.request import RunRequest, build_request
from textassay.evaluation.run import Run
from textassay.methods.library.criteria import Criteria, with_criteria
from textassay.runtime.concurrency import in_thread
from textassay.runtime.conversation import Unit
from textassay.runtime.messages import Aspect
from textassay.runtime.settings import Settings, strict_keywords
from textassay.workers.driver import Cluster, Followed, run_with_workers

__all__ = ["evaluate"]

_log = logging.getLogger(__name__)


@strict_keywords
async def evaluate(
    examples: Any,
    *,
    cluster: str = "ray",
    workers: int | None = None,
    method: str | None = None,
    model: str | Mapping[str, str] | None = None,
    task: str | None = None,
    aspects: str | Aspect | Sequence[str | Aspect] | None = None,
    criteria: Criteria | None = None,
    scale: str | None = None,
    out: str | Path,
    resume: bool = False,
    options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    fields: Mapping[str, str] | None = None,
    missing: Sequence[str] = (),
    unit: Unit | None = None,
    conversation_chars: int | None = None,
    limit: int | None = None,
    tools: str | Sequence[str] = (),
    progress: OnProgress = None,
) -> Run:
    """Judge every example on the workers of a cluster and return the run.

    What is not described here is as for `textassay.evaluate`; methods, models and tools are given
    by name, as each worker opens its own.

    Args:
        examples: What to judge; read by this process alone.
        cluster: `"ray"` for the cluster that Ray finds (`RAY_ADDRESS`, one on this machine, or else
            a new one on this machine), or `"ray://HOST:PORT"` of a Ray Client server.
        workers: Number of workers; by default one on each node, or on each GPU for local models.
        method: Name of a method, or folder of a fitted evaluator, which each node must have; by
            default as for `textassay.evaluate`.
        model: Name of a model, or names by role.
        task: A built-in task, or the path of a TOML file, which each node must have.
        aspects: Names of the task's aspects, or aspects of your own.
        criteria: Sentences to judge by.
        scale: Scale of the criteria.
        out: Run folder, on this machine.
        resume: Continue the run in `out`, or begin it if there is none.
        options: Options of the method.
        settings: How models are asked; limits and budget hold for all workers together.
        fields: Field map from the data's names to ours.
        missing: Cells that are missing values.
        unit: What of a conversation is judged: all of it, each turn or each call.
        conversation_chars: Longest text of a conversation that a judge is shown.
        limit: Maximum number of examples to read.
        tools: Names of metrics that assist the judge.
        progress: As for `textassay.evaluate`.

    Raises:
        ConfigurationError: Something does not fit, or Ray is not installed or not reached; nothing
            was asked.
        TextassayError: What stopped the run, which can be resumed; `ClusterLost` if the cluster is
            lost.
    """
    requested = with_default_model({"": model} if isinstance(model, str) else (model or {}), method)
    request = build_request(
        RunRequest,
        method=method or await in_thread(lambda: default_method(requested)),
        task=task,
        aspects=with_criteria(aspects, criteria, scale),
        models=requested,
        options=options,
        tools=tools,
        data=data_path(examples),
        fields=fields,
        missing=missing,
        unit=unit,
        conversation_chars=conversation_chars,
        limit=limit,
        settings=settings,
        out=out,
        resume=resume,
    )
    if not resume:
        await in_thread(lambda: check_keys(request.models, request.settings))
    followed = Followed()
    async with display_progress(lambda: followed.progress, progress):
        return await run_with_workers(
            examples,
            without_resume(request),
            Cluster.parse(cluster, workers),
            followed=followed,
            notify=_log.warning,
        )
