"""Names of fields, and the names that other tools use for them."""

from __future__ import annotations

from textassay.runtime.messages import Example

NAMES = tuple(Example.model_fields)
"""The names that need no alias."""
ALIASES = {
    "output": (
        "response",
        "hypothesis",
        "summary",
        "prediction",
        "actual_output",
        "system_output",
        "model_output",
    ),
    "source": (
        "document",
        "input",
        "article",
        "question",
        "prompt",
        "query",
        "src",
        "source_text",
        "dialogue",
    ),
    "references": (
        "reference",
        "expected",
        "expected_output",
        "target",
        "ground_truth",
        "gold",
        "ref",
        "refs",
    ),
}
"""Names that other tools use, by ours."""
LAST_RESORT = {
    "output": (
        "text",
        "answer",
        "reply",
        "completion",
        "generated_text",
        "generation",
        "translation",
        "candidate",
    ),
    "system": ("version", "model", "model_name", "system_name"),
    "group": ("group_id", "source_id", "doc_id", "document_id"),
}
"""Names that often mean something else: they count only if no other column claims the field, the
first listed before the others."""
RATERS = ("rater", "annotator", "rater_id", "annotator_id", "worker_id")
"""Columns that say who rated, in data with one row per rater."""

MEANING = {
    **{alias: (name, 2) for name, aliases in ALIASES.items() for alias in aliases},
    **{
        alias: (name, 3 + place)
        for name, aliases in LAST_RESORT.items()
        for place, alias in enumerate(aliases)
    },
}
"""What an alias means, and the rank of its claim."""
