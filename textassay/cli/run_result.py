"""Prints what a run amounts to, or what a dry run counted."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import typer
from rich.text import Text

from textassay.cli.console import results
from textassay.cli.exits import UNSCORED
from textassay.display import plain_table, printable, to_terminal
from textassay.evaluation.progress import known_cost
from textassay.evaluation.run import Run
from textassay.runtime.backends.scripted import ASSUMED_THOUGHT_TOKENS
from textassay.runtime.messages import Usage
from textassay.runtime.storage.run_files import read_manifest, read_summary, token_details
from textassay.table import Column, Table

MAX_MESSAGE_LENGTH, MAX_MESSAGES = 300, 3
"""Characters and number of messages that are shown of what could not be scored."""

_MEANS = (
    Column("aspect", "aspect"), Column("n", "n", "count"), Column("mean", "mean", "number", 4),
)  # fmt: skip


def print_estimate(
    usage: Usage,
    examples: int,
    *,
    costs: Mapping[str, float | None] | None = None,
    waves: int | None = None,
    by_samples: Usage | None = None,
    most_calls: int | None = None,
    as_json: bool = False,
) -> None:
    """Print what a dry run counted."""
    if as_json:
        found: dict[str, Any] = {"examples": examples, "estimate": usage.model_dump(mode="json")}
        if costs is not None:
            found["costs"] = costs
        if most_calls is not None:
            found["most_calls_per_score"] = most_calls
        if by_samples is not None:
            found["without_logprobs"] = by_samples.model_dump(mode="json")
        typer.echo(json.dumps(found if waves is None else {**found, "waves": waves}))
        return
    thoughts = usage.reasoning_tokens
    cost = _partly_known(costs or {}) if usage.cost is None else _estimated_cost(usage, usage.cost)
    completion = "estimate" if thoughts else "upper bound, if the model does not think"
    table = plain_table("", "")
    for name, value in (
        ("examples", f"{examples}"),
        ("calls", f"{usage.calls}" if most_calls is None else f"up to {usage.calls}"),
        ("answers in the cache", f"{usage.cached_calls}"),
        ("prompt tokens", f"{usage.prompt_tokens} (estimate)"),
        ("completion tokens", f"{usage.completion_tokens} ({completion})"),
        ("cost", cost),
        *(() if waves is None else [("waves of batches", f"{waves}, of up to 24 hours each")]),
    ):
        table.add_row(name, value)
    results().print("dry run: no model was asked; the run would take", table, sep="\n")
    if most_calls is not None:
        results().print(f"up to {most_calls} calls per score: the judge ends when it knows enough")
    results().print("an answer that cannot be used is asked for again, which is not counted")
    if thoughts:
        results().print(
            f"assumes {ASSUMED_THOUGHT_TOKENS} tokens of thought per answer, {thoughts} in all; how"
            " much a model thinks is not known before it has answered"
        )
    if by_samples is not None:
        cost = (
            "" if by_samples.cost is None else f", {_estimated_cost(by_samples, by_samples.cost)}"
        )
        results().print(
            f"without log-probabilities: up to {by_samples.calls} calls,"
            f" {by_samples.prompt_tokens} + {by_samples.completion_tokens} tokens{cost}"
        )


def _partly_known(costs: Mapping[str, float | None]) -> str:
    """Say what is known of a cost, and for which models the price is missing."""
    known, unpriced = known_cost(costs)
    if not known:
        return "unknown (give --price IN,OUT)"
    return (
        f"${known:.4f} without {', '.join(unpriced)} (price unknown: give it to the model's role in"
        " --config)"
    )


def _estimated_cost(usage: Usage, cost: float) -> str:
    # any model may think more than is assumed, so with thoughts there is no bound
    bound = "(estimate)" if usage.reasoning_tokens else "at most, if the model does not think"
    return f"${cost:.4f} {bound}"


def print_result(run: Run, *, as_json: bool = False) -> int:
    """Print means by aspect and what is unscored and why; return the exit status."""
    summary = _summary_of(run)
    if as_json:
        progress = run.progress
        session = {
            "failed_calls": {} if progress is None else progress.failures,
            "costs": {} if progress is None else progress.costs,
        }
        typer.echo(json.dumps({"run": str(run.folder), **summary, **session}))
        # judged by the summary of the whole run, resumed sessions included, not by what this one
        # did
        scored = summary["outcomes"].get("scored", 0)
        return 0 if scored == sum(summary["outcomes"].values()) else UNSCORED
    console = results()
    console.print(Text(printable(str(run.folder))))
    means = [(name, one["n"], one["mean"]) for name, one in summary["aspects"].items()]
    console.print(to_terminal(Table(_MEANS, means), console.width))
    for line in _cascade(run):
        console.print(Text(printable(line)))
    usage = summary["usage"]
    # of earlier sessions of the run, the costs by model are not known
    now = run.progress
    costs = now.costs if now is not None and now.usage.calls == usage["calls"] else {}
    cost = _partly_known(costs) if usage["cost"] is None else f"${usage['cost']:.4f}"
    if now is not None and now.failures and not usage["calls"]:
        cost = "unknown (no request was answered; what ran out of time may be charged)"
    console.print(
        f"{usage['calls']} calls answered{_failed(run)}, {usage['cached_calls']} from the cache,"
        f" {usage['prompt_tokens']} + {usage['completion_tokens']} tokens{token_details(usage)},"
        f" cost {cost}"
    )
    if run.progress is not None and run.progress.samples_never_differ:
        console.print(
            f"in each of {run.progress.sampled} scores all samples agree: the server may "
            "ignore the temperature, so more than one sample adds nothing",
            style="yellow",
        )
    unscored = {
        kind: count for kind, count in summary["outcomes"].items() if kind != "scored" and count
    }
    if not unscored:
        return 0
    reasons = ", ".join(f"{kind} x{count}" for kind, count in summary["errors"].items())
    counts = ", ".join(f"{count} {kind}" for kind, count in unscored.items())
    console.print(Text(printable(f"unscored: {counts} ({reasons})"), style="yellow"))
    if unscored.get("error"):
        for line in _commonest_messages(run):
            console.print(Text(printable(line)))
        console.print(Text(printable(f"retry the errors with: textassay resume {run.folder}")))
    return UNSCORED


def _summary_of(run: Run) -> dict[str, Any]:
    """Return outcomes, errors, means and usage.

    From `summary.json`, since reading all scores again would take a seventh of a cached run.
    """
    if run.folder is None:
        return run.summary()
    written = read_summary(run.folder)
    return {name: written[name] for name in ("outcomes", "errors", "aspects", "usage")}


def _cascade(run: Run) -> list[str]:
    """Return per aspect how much of a cascade's texts the cheap juror decided, and the bound."""
    promised = {} if run.folder is None else read_manifest(run.folder)["method"].get("cascade", {})
    if not promised:
        return []
    decided = dict.fromkeys(promised, 0)
    judged = dict.fromkeys(promised, 0)
    for score in run:
        judged[score.aspect] += 1
        decided[score.aspect] += any(one.get("decides") for one in score.evidence[:1])
    return [
        f"cascade, {aspect}: the first juror decided on {decided[aspect]} of {judged[aspect]}"
        f" ({one['share']:.0%} of the rated texts)"
        + ("" if one["bound"] is None else
           f"; people's rating is further than {one['tolerance']:g} from these on at most"
           f" {math.ceil(100 * one['bound'] - 1e-9)}% of the texts of as many new sources, with"
           f" confidence {one['confidence']:.0%}")
        for aspect, one in promised.items() if judged[aspect]
    ]  # fmt: skip


def _failed(run: Run) -> str:
    """Return how many calls of this session had no answer, which usage does not count."""
    count = 0 if run.progress is None else sum(run.progress.failures.values())
    return f", {count} failed" if count else ""


def _commonest_messages(run: Run) -> list[str]:
    """Return the commonest message of each type of error, the commonest type first."""
    messages = Counter(
        (score.error.type, score.error.message) for score in run if score.error is not None
    )
    by_type: dict[str, str] = {}
    for (kind, message), count in messages.most_common():
        by_type.setdefault(kind, f"  {kind} x{count}: {message[:MAX_MESSAGE_LENGTH]}")
    # one message per type: a thousand timeouts must not hide the one wrong key
    return list(by_type.values())[:MAX_MESSAGES]
