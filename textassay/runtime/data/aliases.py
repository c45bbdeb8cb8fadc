"""Names of fields, and the names that other tools use for them."""

from __future__ import annotations

from textassay.runtime.data.cells import KEYED
from textassay.runtime.messages import Example

NAMES = (*Example.model_fields, "tools", "tools_called")
"""The names that need no alias: the fields of an example, and two that become a part of its
messages."""
ALIASES = {
    "output": (
        "response",
        "hypothesis",
        "summary",
        "prediction",
        "actual_output",
        "system_output",
        "model_output",
        "actualOutput",
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
        "user_input",
    ),
    "context": (
        "contexts",
        "retrieved_contexts",
        "retrieved_context",
        "retrieval_context",
        "retrievalContext",
        "retrieved_documents",
        "retrieved_passages",
        "documents",
        "chunks",
    ),
    "messages": (
        "turns",
        "conversation",
        "conversations",
        "chat",
        "chat_history",
        "history",
        "transcript",
        "trajectory",
        "traj",
    ),
    "images": (
        "image",
        "image_url",
        "image_urls",
        "image_path",
        "image_paths",
        "image_file",
        "image_files",
        "img",
        "img_path",
        "imgs",
        "picture",
        "pictures",
    ),
    "tools": ("available_tools", "tool_definitions"),
    "tools_called": ("toolsCalled", "tool_calls"),
    "rubric": ("rubrics", "rubric_items"),
    "references": (
        "reference",
        "expected",
        "expected_output",
        "expectedOutput",
        "expected_outcome",
        "expectedOutcome",
        "target",
        "ground_truth",
        "ground_truths",
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
    "source": ("instruction", "instructions", "scenario"),
    "system": ("version", "model", "model_name", "system_name"),
    "group": ("group_id", "source_id", "doc_id", "document_id"),
}
"""Names that often mean something else: they count only if no other column claims the field, the
first listed before the others."""
JOINED = frozenset({"context", "images"})
"""Fields that take all the columns that mean them."""
NOT_SHOWN = frozenset(
    ["expected_tools", "expectedTools", "expected_actions", "reference_tool_calls",
     "reference_contexts", "reference_context_ids", "retrieved_context_ids", "reference_topics",
     "user_description", "userDescription", "chatbot_role", "chatbotRole", "persona",
     "multi_responses"]
)  # fmt: skip
"""Columns of other tools that no judge is shown: they are kept in `meta`, and a run names them."""
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


def meaning_of(name: str) -> tuple[str, int]:
    """Return which field a column stands for, and the rank of its claim; `""` and 0 if none.

    Our own names come first. Headings of spreadsheets such as `Source` and `Doc ID` mean what
    `source` and `doc_id` do; only names of ratings, metrics and `meta` must be written as they are.
    """
    if name in NAMES:
        return name, 1
    if name in MEANING:
        return MEANING[name]
    plain = name.strip().casefold().replace(" ", "_")
    if plain in NAMES and plain not in KEYED:
        return plain, 1
    return MEANING.get(plain, ("", 0))
