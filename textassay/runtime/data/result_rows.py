"""Helpers of the readers of result files: rows, numbers from verdicts, texts from chats."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

ResultRow = dict[str, Any]
VERDICTS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's letters: correct, partially correct, incorrect, no answer."""


def row(
    *,
    id: Any,
    output: Any,
    source: Any = None,
    references: Any = None,
    context: Any = None,
    system: Any = None,
    group: Any = None,
    metrics: Mapping[str, float] | None = None,
    messages: Any = None,
) -> ResultRow:
    """Return a row in our format without what is not there."""
    given: ResultRow = {
        "id": str(id),
        "output": output if isinstance(output, str) else None,
        "source": source,
        "references": references,
        "context": context,
        "system": None if system is None else str(system),
        "group": None if group is None else str(group),
        "metrics": dict(metrics or {}),
        "messages": messages,
    }
    return {name: value for name, value in given.items() if value not in (None, [], {}, "")}


def finite_number(value: Any) -> float | None:
    """Return a score as a number; `None` if it is not a finite number."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        if value in VERDICTS:
            return VERDICTS[value]
        try:
            value = float(value)
        except ValueError:
            return None
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def scores_in(values: Mapping[str, Any]) -> dict[str, float]:
    """Return those of the values that are numbers; a mapping in them gives a score per key."""
    metrics: dict[str, float] = {}
    for name, value in values.items():
        inner = (
            {f"{name}.{key}": one for key, one in value.items()}
            if isinstance(value, Mapping)
            else {name: value}
        )
        for key, one in inner.items():
            if (known := finite_number(one)) is not None:
                metrics[str(key)] = known
    return metrics


def text(content: Any) -> str | None:
    """Return the text of a chat, a message, its content or a plain string."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return text(content.get("content", content.get("text")))
    if isinstance(content, list):
        parts = [part for part in map(text, content) if part]
        return "\n\n".join(parts) or None
    return None


def listed(value: Any) -> list[str]:
    """Return a reference, or several, as a list."""
    items = value if isinstance(value, list) else [value]
    return [str(item) for item in items if item not in (None, "")]
