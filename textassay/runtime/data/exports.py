"""Rows as other tools export them, in our names.

OpenInference's spans, Inspect's samples and DeepEval's joined cells; names that need no more than
another name stand in `aliases`. And numbers and texts of verdicts and chats, which readers of
`results` need as well.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from textassay.runtime.chat_formats import looks_like_messages, message_text
from textassay.runtime.data.tables import FieldError, short_repr

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


Row = Mapping[str, Any]

_SPAN = re.compile(
    r"(?:attributes\.)?(?:(?:input|output)\.(?:value|mime_type)$|llm\.(?:input|output)_messages\b"
    r"|llm\.(?:tools|prompts|choices)\b|retrieval\.documents\b"
    r"|reranker\.(?:query$|(?:input|output)_documents\b))"
)
_NESTED = frozenset({"input", "output", "llm", "retrieval", "reranker"})
_SAMPLE = frozenset({"id", "input", "messages", "output"})
_IN_LOG_ONLY = frozenset({"events", "attachments", "store", "timelines"})
"""What Inspect logs besides the conversation and its scores, which can be megabytes."""
_MARKER = re.compile(r"deepeval_source=(?P<source>.*?),deepeval_context=(?P<text>.*)", re.DOTALL)


def reader_for(keys: frozenset[str]) -> Callable[[Row], Row] | None:
    """Return what puts rows with these keys into our names; `None` if they are no export."""
    if any(map(_SPAN.match, keys)) or {"attributes", "context"} <= keys:
        return _from_span
    if keys >= _SAMPLE and keys & {"scores", "epoch", "target"}:
        return _from_sample
    if "actual_output" in keys and "retrieval_context" in keys:
        return _from_test_case
    if {"conversations", "system"} <= keys:
        return _from_sharegpt
    return None


def _from_span(row: Row) -> Row:
    """Read a span of OpenInference: attributes flat, nested or in columns of a data frame."""
    flat: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in row.items():
        if key == "attributes" and isinstance(value, Mapping):
            flat |= value
            others = {k: v for k, v in value.items() if not _SPAN.match(k) and k not in _NESTED}
            rest |= {key: others} if others else {}
        elif _SPAN.match(key):
            flat[key.removeprefix("attributes.")] = value
        else:
            rest[key] = value
    tree = _tree(flat)
    llm, retrieval = _at(tree, "llm"), _at(tree, "retrieval")
    reranker = _at(tree, "reranker")
    documents = retrieval.get("documents") or reranker.get("output_documents")
    documents = _nested(_parsed(documents))
    sent, received = _messages(llm, "input_messages"), _messages(llm, "output_messages")
    source, output = _value(tree, "input") or reranker.get("query"), _value(tree, "output")
    found: dict[str, Any] = {
        "messages": [*sent, *received] or None,
        "context": documents,
        "tools": [_tool(tool) for tool in _as_list(_parsed(llm.get("tools")))] or None,
        # the JSON of a request says what its messages say
        "source": None
        if sent and _is_json(tree, "input")
        else source or _joined(llm.get("prompts")),
        "output": received or output or _joined(llm.get("choices")),
    }
    # a span that retrieves has no answer but its documents
    if found["output"] is None and documents:
        found["output"] = ""
    ids = rest.get("context")
    if isinstance(ids, Mapping) and "span_id" in ids:
        del rest["context"]
        found |= {"id": ids["span_id"], "group": ids.get("trace_id")}
    for ours, theirs in (("id", "context.span_id"), ("group", "context.trace_id")):
        if rest.get(theirs) is not None:
            found[ours] = rest.pop(theirs)
    return {**rest, **{name: value for name, value in found.items() if value is not None}}


def _tree(flat: Row) -> dict[str, Any]:
    """Return names with dots as nested objects, and objects with numbers as lists."""
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        if value is None:  # columnar files have a null for each name that a row lacks
            continue
        *path, last = name.split(".")
        place = tree
        for part in path:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                break
            place = inner
        else:
            nested = _nested(value)
            known = place.get(last)
            both = isinstance(known, dict) and isinstance(nested, dict)
            place[last] = {**known, **nested} if both else nested  # type: ignore[dict-item]
    return {name: _as_lists(value) for name, value in tree.items()}


def _nested(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _tree(value)
    return [_nested(item) for item in value] if isinstance(value, list) else value


def _as_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {name: _as_lists(item) for name, item in value.items()}
    if inner and all(name.isdigit() for name in inner):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner


def _at(tree: Row, name: str) -> dict[str, Any]:
    value = tree.get(name)
    return value if isinstance(value, dict) else {}


def _messages(llm: Row, name: str) -> list[Any]:
    messages = _parsed(llm.get(name) or [])
    if not isinstance(messages, list):
        raise FieldError(f"llm.{name}", f"should be a list of messages, not {short_repr(messages)}")
    return messages


def _value(tree: Row, name: str) -> Any:
    """Return the text of `input.value` or `output.value`, or the messages that its JSON holds."""
    value = _at(tree, name).get("value")
    if not _is_json(tree, name):
        return value
    parsed = _parsed(value)
    held = parsed.get("messages") if isinstance(parsed, Mapping) else parsed
    if looks_like_messages(held):
        return held
    if isinstance(parsed, Mapping) and len(parsed) == 1:
        (only,) = parsed.values()
        return only if isinstance(only, str) else value
    return value


def _is_json(tree: Row, name: str) -> bool:
    return _at(tree, name).get("mime_type") == "application/json"


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _tool(tool: Any) -> Any:
    inner = _at(tool, "tool") if isinstance(tool, Mapping) else {}
    return _parsed(inner.get("json_schema")) or inner or tool


def _joined(items: Any) -> str | None:
    """Return the texts of `llm.prompts` or `llm.choices`."""
    texts = [next(iter(_at(item, name).values()), None) for item in _as_list(items)
             for name in ("prompt", "completion") if isinstance(item, Mapping)]  # fmt: skip
    return "\n\n".join(text for text in texts if isinstance(text, str)) or None


def _from_sample(row: Row) -> Row:
    """Read a sample of an Inspect log."""
    output = row["output"]
    if not isinstance(output, Mapping) or not isinstance(row["messages"], list):
        return row
    attachments = row.get("attachments")
    found = {key: value for key, value in row.items() if key not in _IN_LOG_ONLY}
    if isinstance(attachments, Mapping) and attachments:
        found = attached(found, attachments)
    output = found["output"]
    choices = output.get("choices") or [{}]
    message = choices[0].get("message") or {}
    epoch = row.get("epoch") or 1
    scores = found.pop("scores", None) or {}
    found |= {
        # Inspect repeats a sample in epochs under one id
        "id": str(row["id"]) if epoch == 1 else f"{row['id']}#{epoch}",
        "group": found.get("group", str(row["id"])),
        "output": output.get("completion") or message_text(message.get("content")) or None,
        "system": output.get("model"),
        "metrics": scores_in({name: one.get("value") for name, one in scores.items()}),
    }
    if found["output"] is None:  # the last thing it did was a call
        found["output"] = output
    if "target" in found:
        found["target"] = listed(found["target"])
    if not isinstance(found["input"], str):  # its messages are the first of all messages
        del found["input"]
    return found


def attached(value: Any, attachments: Row) -> Any:
    """Return a value with the long texts that Inspect keeps in one place of a sample."""
    if isinstance(value, str):
        found = attachments.get(value.removeprefix("attachment://"))
        return found if found is not None and value.startswith("attachment://") else value
    if isinstance(value, Mapping):
        return {key: attached(item, attachments) for key, item in value.items()}
    return [attached(item, attachments) for item in value] if isinstance(value, list) else value


def _from_test_case(row: Row) -> Row:
    """Read a test case of DeepEval, whose passages are joined by `|` in .jsonl and .csv files."""
    found = dict(row)
    for name in ("retrieval_context", "context"):
        value = found.get(name)
        if isinstance(value, str) and value.strip():
            value = value.split("|")
        if isinstance(value, list):
            found[name] = [_marked(item) for item in value]
    return found


def _from_sharegpt(row: Row) -> Row:
    """Read a row of ShareGPT's, which has the prompt of the system beside the messages."""
    turns, prompt = _parsed(row["conversations"]), row["system"]
    if not (isinstance(turns, list) and turns and isinstance(turns[0], Mapping)):
        return row
    if not isinstance(prompt, str) or "from" not in turns[0]:
        return row
    rest = {name: value for name, value in row.items() if name != "system"}
    return rest | {"conversations": [{"from": "system", "value": prompt}, *turns]}


def _marked(item: Any) -> Any:
    match = _MARKER.fullmatch(item) if isinstance(item, str) else None
    return item if match is None else {"text": match["text"], "title": match["source"]}
