"""Names of fields, and the names that other tools use for them."""

from __future__ import annotations

from textassay.runtime.chat_formats import RETRIEVED
from textassay.runtime.data.tables import KEYED
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
    "context": RETRIEVED,
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
LOOKS_LIKE = {
    "context": (
        "context contexts passage passages chunk chunks document documents doc docs retrieved"
        " retrieval evidence evidences knowledge snippet snippets facts grounding",
        "search_results search_result web_results excerpts excerpt sources hits corpus kb"
        " paragraphs paragraph citations premise premises story policy policies guidelines memory"
        " memories",
    ),
    "question": (
        "question questions query queries prompt prompts input inputs article source",
        "problem problems task tasks",
    ),
    "messages": (
        "message messages conversation conversations dialog dialogue dialogues chat history"
        " transcript turns trajectory trace traces thread",
        "observations intermediate_steps steps spans events logs",
    ),
    "images": (
        "image images img imgs picture pictures photo photos screenshot screenshots",
        "",
    ),
    "tools": ("tool tools", "functions"),
    "calls": ("", "function_calls actions"),
    "references": (
        "reference references truth truths gold golden expected target targets",
        "ideal_answer ideal_answers correct_answer correct_answers best_answer best_answers"
        " answer_key solution solutions",
    ),
    "files": ("", "attachment attachments audio audios video videos"),
}
"""Words of other names that look like material, by its kind; then words, or two of them, that are
labels, tags or numbers as often."""
NO_MATERIAL = frozenset(
    ["id", "ids", "uid", "uuid", "name", "names", "type", "types", "kind", "count", "counts", "num",
     "number", "n", "length", "len", "size", "tokens", "token", "score", "scores", "model",
     "version", "url", "urls", "uri", "path", "paths", "file", "files", "date", "time", "timestamp",
     "at", "index", "idx", "lang", "language", "hash", "template", "digest", "label", "labels",
     "metadata", "meta", "config", "params", "parameters", "cost", "usage", "level", "category",
     "topic", "topics", "precision", "recall", "relevance", "relevancy", "rate", "ratio", "mode",
     "status", "flag", "k", "rank", "ranks", "format", "title", "embedding", "embeddings",
     "similarity", "distance"]
)  # fmt: skip
"""Last words of names that say something about material: `context_id`, `question_type`."""
WHERE = frozenset(["url", "urls", "uri", "path", "paths", "file", "files"])
"""Last words of names that say where something is, which is how images are given."""
MEASURES = frozenset(["n", "num", "is", "has", "avg", "mean", "max", "min", "total"])

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
