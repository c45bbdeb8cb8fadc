"""What was judged, by whom, at what cost, and what could not be scored and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from textassay.report import svg
from textassay.report.score_table import OUTCOMES
from textassay.report.source import DataSource, RunSource
from textassay.runtime.storage.run_files import token_details

REASONS = {
    "scored": "has a value",
    "abstained": "the judge declined",
    "invalid": "the judge answered, but not usably",
    "error": "the judge could not be asked",
}


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run.

    Attributes:
        name: The run's name.
        facts: Label and value, in order.
        outcomes: Outcome, number of scores, and what it means.
        bar: The outcomes drawn.
        errors: Type of error and number of scores, most frequent first.
        signatures: Signature and number of lines.
    """

    name: str
    facts: list[tuple[str, str]]
    outcomes: list[tuple[str, int, str]]
    bar: Markup
    errors: list[tuple[str, int]]
    signatures: list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Overview:
    """All runs.

    Attributes:
        runs: In the order given.
        data: Name of the data.
        missing: Why texts are absent; `None` if they are there.
    """

    runs: list[RunFacts]
    data: str
    missing: str | None


def overview(runs: Sequence[RunSource], data: DataSource) -> Overview:
    """Return the facts, outcomes and errors of each run."""
    return Overview([_facts(run) for run in runs], data.name, data.missing)


def _facts(run: RunSource) -> RunFacts:
    summary = run.table.summary.summary()
    outcomes: list[tuple[str, int, str]] = [
        (name, summary["outcomes"][name], REASONS[name]) for name in OUTCOMES
    ]
    return RunFacts(
        name=run.name,
        # runs of older versions lack some facts, and an empty row would look like a fault
        facts=[(label, value) for label, value in _list(run, summary["usage"]) if value],
        outcomes=outcomes,
        bar=svg.shares((name, count) for name, count, _ in outcomes),
        errors=sorted(summary["errors"].items(), key=lambda item: (-item[1], item[0])),
        signatures=list(run.table.signatures.items()),
    )


def _list(run: RunSource, usage: dict[str, Any]) -> list[tuple[str, str]]:
    spec, data = run.manifest.get("spec") or {}, run.manifest.get("data") or {}
    models = [f"{role}: {name}" if role else name for role, name in run.models.items()]
    cost = "unknown price" if usage["cost"] is None else f"${usage['cost']:,.4f}"
    calls = f"{usage['calls']:,} made, {usage['cached_calls']:,} from the cache"
    tokens = f"{usage['prompt_tokens']:,} prompt, {usage['completion_tokens']:,} completion"
    tokens += token_details(usage)
    count = data.get("count")
    return [
        ("Method", run.method),
        ("Model", ", ".join(models) or "none asked"),
        ("Task", str(spec.get("task") or "")),
        ("Examples", f"{len(run.table.ids):,} judged" + (f" of {count:,}" if count else "")),
        ("Aspects", ", ".join(run.table.aspects)),
        ("Tools", ", ".join(map(str, spec.get("tools") or ()))),
        ("Calls", calls),
        ("Tokens", tokens),
        ("Cost", cost),
        (
            "Began",
            str(run.manifest.get("created") or "").replace("T", " ").replace("+00:00", " UTC"),
        ),
        ("Version", f"textassay {run.manifest.get('textassay', 'unknown')}"),
    ]
