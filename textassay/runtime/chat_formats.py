"""Reads messages and passages as other tools write them.

It reads the forms of OpenAI (chat and responses), Anthropic, Inspect, Ragas, LangChain, DeepEval's
turns, OpenInference, Gemini and ShareGPT.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from textassay.runtime.column_names import RETRIEVED
from textassay.runtime.conversation import (
    ConversationMessage,
    Passage,
    ToolCall,
    as_json_text,
    passages_text,
)
from textassay.runtime.images import ImageReader, is_image_name, is_image_part

_ROLES = {
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "gpt": "assistant",
    "bot": "assistant",
    "chatbot": "assistant",
    "developer": "system",
    "function": "tool",
}
_SPEAKER = ("role", "from", "speaker", "author")
_TEXT = ("content", "value", "text", "parts", "message", "utterance")
_WITHOUT_TEXT = (
    "tool_calls", "function_call", "contents", "refusal", "attachments", "experimental_attachments",
)  # fmt: skip
"""Fields that a message may have in place of a text."""
_IMAGES = ("images", "image", "image_url", "image_path")
"""Names of images in messages and passages, beside their text."""
_TOOLS = ("tools", "functions")
CALL_FIELDS = (
    "tool_calls", "calls", "tools_called", "toolsCalled", "mcp_tools_called", "toolInvocations",
    "function_call",
)  # fmt: skip
READ_IN_MESSAGES = frozenset({
    *_SPEAKER, *_TEXT, *_WITHOUT_TEXT, *_IMAGES, *RETRIEVED, *_TOOLS, *CALL_FIELDS, "citations",
    "name", "function", "source", "type", "id", "data", "kwargs", "lc", "error", "tool_call_id",
    "call_id", "arguments", "output",
})  # fmt: skip
"""Fields of messages that are read: parts that a judge is shown, and those that name their kind.
`source` is Inspect's name for the author."""
_CALL_TYPES = ("tool_use", "tool_call", "function_call", "tool_invocation")
_RESULT_TYPES = ("tool_result", "function_response")
"""Endings of the types of parts that are calls of tools, and of those that are their results."""


def looks_like_messages(value: Any) -> bool:
    """Return whether a value is a list of messages, in any known form."""
    return (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(isinstance(item, ConversationMessage) or _is_message(item) for item in value)
    )


def read_messages(value: Any, images: ImageReader | None = None) -> tuple[ConversationMessage, ...]:
    """Return the messages of a list, read from any known form.

    Raises:
        ValueError: An item is not a message; its number is named.
    """
    if not isinstance(value, list | tuple):
        raise ValueError("should be a list of messages, each with a role and its content")
    messages: list[ConversationMessage] = []
    for number, item in enumerate(value, start=1):
        if isinstance(item, ConversationMessage):
            messages.append(item)
            continue
        if not isinstance(item, Mapping) or not _is_message(item):
            raise ValueError(
                f"message {number} should be an object with a role and its content, in the form of"
                f" OpenAI, Inspect, Ragas, LangChain or DeepEval, not {short_repr(item)}"
            )
        try:
            messages += _messages_of(item, images)
        except ValueError as error:
            raise ValueError(f"message {number}: {error}") from None
    return tuple(messages)


def read_passages(value: Any) -> tuple[Passage, ...]:
    """Return passages: a text, or a list of texts or objects with text, id, title and score."""
    items = [value] if isinstance(value, str | Mapping | Passage) else value
    if not isinstance(items, list | tuple):
        raise ValueError(f"should be a text or a list of passages, not {short_repr(value)}")
    passages: list[Passage] = []
    for number, item in enumerate(items, start=1):
        if item is None:
            continue
        text = _passage_text(item)
        if text is None:
            raise ValueError(
                f"passage {number} should be a text, or an object with a text, not"
                f" {short_repr(item)}"
            )
        if isinstance(item, Mapping) and any(item.get(name) for name in _IMAGES):
            raise ValueError(
                f"passage {number} has an image, which would not be shown; put it into the field"
                " 'images', or remove it"
            )
        if isinstance(item, Passage):
            passages.append(item)
        elif any(map(str.isalnum, text)):
            passages.append(_passage(item, text))
    return tuple(passages)


def read_tools(value: Any) -> str:
    """Return definitions of tools as the text of a system message.

    Raises:
        ValueError: One of them is neither a text nor an object with the name of a tool.
    """
    if isinstance(value, str):
        return f"Tools:\n{value}"
    items = [value] if isinstance(value, Mapping) else value
    if not isinstance(items, list | tuple):
        raise ValueError(f"should be a list of tools, not {short_repr(value)}")
    lines = []
    for number, item in enumerate(items, start=1):
        if not _has_tool_name(item):
            raise ValueError(
                f"tool {number} should be a text, or an object with the name of a tool, not"
                f" {short_repr(item)}"
            )
        tool = _inner(item, "tool")
        tool = _inner(tool, "function") if isinstance(tool, Mapping) else tool
        if not isinstance(tool, Mapping) or "name" not in tool:
            lines.append(f"- {as_json_text(item)}")
            continue
        rest = {k: v for k, v in tool.items() if k not in ("name", "description", "type")}
        about = f": {tool['description']}" if tool.get("description") else ""
        lines.append(f"- {tool['name']}{about}{f' {as_json_text(rest)}' if rest else ''}")
    return "\n".join(["Tools:", *lines])


def _has_tool_name(item: Any) -> bool:
    """Return whether a definition is a text, or has a name or a type, which hosted tools have."""
    if not isinstance(item, Mapping):
        return isinstance(item, str)
    named = any(isinstance(item.get(name), str) for name in ("name", "type", "title"))
    inside = (part if isinstance(part, list | tuple) else [part] for part in item.values())
    return named or any(isinstance(p, Mapping) and _has_tool_name(p) for ps in inside for p in ps)


def message_text(content: Any, images: ImageReader | None = None) -> str:
    """Return the text of a message's content: a text, or parts.

    Thoughts are left out; the text names images and files in their places, an image by its number
    if `images` accepts it.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return _part_text(content, images)
    if isinstance(content, list | tuple):
        return "\n".join(text for part in content if (text := message_text(part, images)))
    return as_json_text(content)


def _inner(item: Any, name: str) -> Any:
    """Return the object in a field of the item; the item itself if there is no object."""
    if isinstance(item, Mapping) and isinstance(item.get(name), Mapping):
        return item[name]
    return item


def _is_message(item: Any) -> bool:
    if not isinstance(item, Mapping):
        return False
    item = _inner(item, "message")
    if any(isinstance(item.get(name), str) for name in _SPEAKER):
        # `ConversationMessage` as in files of ratings, which omit empty fields
        is_ours = isinstance(item.get("calls"), list | tuple) or (
            item.get("role") == "tool" and "call_id" in item
        )
        return is_ours or any(name in item for name in (*_TEXT, *_WITHOUT_TEXT))
    kind = str(item.get("type"))
    if kind in ("human", "ai", "tool", "system", "function"):
        return "content" in item or isinstance(item.get("data"), Mapping)
    if kind in ("function_call", "function_call_output", "reasoning"):
        return True
    return "lc" in item and isinstance(item.get("kwargs"), Mapping)


def _messages_of(item: Mapping[str, Any], images: ImageReader | None) -> list[ConversationMessage]:
    """Return the messages in one object, usually one."""
    item = _inner(item, "message")
    kind = item.get("type")
    if kind == "reasoning" and "role" not in item:
        return []
    if kind in ("function_call", "function_call_output"):
        return [_responses_item(item, images)]
    role, item = _role_and_fields(item)
    # `contents` is OpenInference's name; in messages of AI SDK it may be empty beside another field
    names = (*_TEXT, "contents")
    content = next((item[name] for name in names if item.get(name)), None)
    parts = content if isinstance(content, list | tuple) else ()
    results = [part for part in parts if _kind(part).endswith(_RESULT_TYPES)]
    messages = [_result_part(part, images) for part in results]
    calls = [*_calls_in_fields(item, images), *_calls_in_parts(parts, images)]
    rest = [part for part in parts if part not in results] if results else content
    text = _text_with_fields(message_text(rest, images), role, item, images)
    if messages and not text.strip() and not calls:
        return messages
    call_id = item.get("tool_call_id", item.get("call_id"))
    tool_name = item.get("name") or item.get("function") if role == "tool" else item.get("name")
    passages = _passages_in(item)
    tools = [read_tools(item[name]) for name in _TOOLS if item.get(name)]
    if role == "system":
        text = "\n\n".join(part for part in (text, *tools, passages_text(passages)) if part)
        tools, passages = [], ()
    messages += [ConversationMessage(role="system", content=about) for about in tools]
    message_with_calls = ConversationMessage(
        role=role,
        content=text,
        name=_text_or_none(tool_name),
        calls=tuple(call for call, _ in calls),
        call_id=_text_or_none(call_id) if role == "tool" else None,
        passages=passages,
    )
    answers = [
        ConversationMessage(role="tool", content=result, name=call.name, call_id=call.id)
        for call, result in calls
        if result is not None
    ]
    if answers and text.strip():
        # a turn that has calls, their results and a text: the text was written last
        calling = message_with_calls.model_copy(update={"content": ""})
        closing = message_with_calls.model_copy(update={"calls": (), "passages": ()})
        return [*messages, calling, *answers, closing]
    return [*messages, message_with_calls, *answers]


def _responses_item(item: Mapping[str, Any], images: ImageReader | None) -> ConversationMessage:
    """Return the message of a call, or of its output, in OpenAI's responses."""
    if item["type"] == "function_call":
        call = ToolCall(
            name=str(item.get("name", "")),
            arguments=as_json_text(item.get("arguments")),
            id=_text_or_none(item.get("call_id") or item.get("id")),
        )
        return ConversationMessage(role="assistant", calls=(call,))
    output = message_text(item.get("output"), images)
    call_id = _text_or_none(item.get("call_id"))
    return ConversationMessage(role="tool", content=output, call_id=call_id)


def _text_with_fields(
    text: str, role: str, item: Mapping[str, Any], images: ImageReader | None
) -> str:
    """Return the text of a message with refusal, images and error from fields beside it."""
    if not text.strip() and isinstance(item.get("refusal"), str):
        text = item["refusal"]
    beside = next((item[name] for name in _IMAGES if item.get(name)), None)
    attached = beside if isinstance(beside, list) else [] if beside is None else [beside]
    attached = [*attached, *_attached_images(item)]
    if attached and images is not None:  # Ollama's messages, and AI SDK's
        text = "\n".join([*(images.mark(_as_part(image)) for image in attached), text])
    error = item.get("error")
    if role == "tool" and error:
        message = error.get("message") if isinstance(error, Mapping) else error
        text = "\n".join(part for part in (text, f"error: {message}") if part)
    return text


def _role_and_fields(item: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the role of a message, and the object that has its other fields."""
    if "lc" in item and isinstance(item.get("kwargs"), Mapping):
        path = item.get("id")
        name = str(path[-1]) if isinstance(path, Sequence) and path else ""
        classes = {"AI": "assistant", "System": "system", "Tool": "tool"}
        role = next((ours for start, ours in classes.items() if name.startswith(start)), "user")
        return role, item["kwargs"]
    spoken = next((item[name] for name in _SPEAKER if isinstance(item.get(name), str)), None)
    role = str(spoken if spoken is not None else item.get("type", "user"))
    if isinstance(item.get("data"), Mapping):  # LangChain's messages_to_dict
        item = item["data"]
    return _ROLES.get(role.lower(), role.lower()) or "user", item


def _attached_images(item: Mapping[str, Any]) -> list[Any]:
    """Return the attached images of a message."""
    names = ("attachments", "experimental_attachments")
    fields = [item[name] for name in names if item.get(name)]
    attached = [file for some in fields for file in (some if isinstance(some, list) else [some])]
    for file in attached:
        if is_image_file(file):
            continue
        named = file if isinstance(file, str) else None
        if isinstance(file, Mapping):
            named = next(
                (file[name] for name in ("name", "filename", "url") if file.get(name)), None
            )
        raise ValueError(
            f"has the attachment {short_repr(named or file)}, which is not an image and would not"
            " be shown; put its text into the message, or remove it"
        )
    return attached


def is_image_file(value: Any) -> bool:
    """Return whether a value is an image's name, or has its type or name (AI SDK)."""
    if isinstance(value, str):
        return is_image_name(value)
    if not isinstance(value, Mapping):
        return False
    kinds = (value.get(name) for name in ("contentType", "content_type", "mediaType", "mimeType"))
    kind = next((kind for kind in kinds if isinstance(kind, str)), None)
    if kind is not None:
        return kind.startswith("image/")
    return is_image_part(value) or any(
        is_image_name(str(value.get(name))) for name in ("url", "path", "name")
    )


def _passages_in(item: Mapping[str, Any]) -> tuple[Passage, ...]:
    """Return the passages of a message, each once."""
    names = (*RETRIEVED, "citations")
    values = [item[name] for name in names if _has_text(item.get(name))]
    return tuple({p.text: p for value in values for p in read_passages(value)}.values())


def _has_text(value: Any) -> bool:
    """Return whether a value contains more than numbers (of citations)."""
    items = value if isinstance(value, list | tuple) else [value]
    return any(item and isinstance(item, str | Mapping | Passage) for item in items)


def _as_part(image: Any) -> Mapping[str, Any]:
    return image if isinstance(image, Mapping) else {"image": image}


def _calls_in_fields(
    item: Mapping[str, Any], images: ImageReader | None
) -> list[tuple[ToolCall, str | None]]:
    """Return the calls in a message's own fields, each with its result if it has one."""
    found = (parse_text(item.get(name)) for name in CALL_FIELDS)
    return [
        call for value in found if not isinstance(value, str) for call in read_calls(value, images)
    ]


def parse_text(value: Any) -> Any:
    """Return the list or the object in a text, as JSON or Python writes it; other values unchanged.

    A blank text and a mark of a missing value are `None`.
    """
    if not isinstance(value, str):
        return value
    from textassay.runtime.literals import parse_literal

    text = value.strip()
    try:
        parsed = json.loads(text) if text else None
    except (ValueError, RecursionError):
        try:
            parsed = parse_literal(text, json.loads)
        except ValueError:
            return value
    return parsed if parsed is None or isinstance(parsed, list | dict) else value


def read_calls(value: Any, images: ImageReader | None = None) -> list[tuple[ToolCall, str | None]]:
    """Return the calls of a list, or one call, each with its result if it has one."""
    return [read_call(call, images) for call in _entries(value)]


def _entries(value: Any) -> Iterator[Any]:
    value = parse_text(value)
    if isinstance(value, list | tuple):
        for item in value:
            yield from _entries(item)
    elif value:
        yield value


def read_call(call: Any, images: ImageReader | None = None) -> tuple[ToolCall, str | None]:
    """Return a call of a tool, with its result if there is one.

    Raises:
        ValueError: It does not name a tool.
    """
    found = {"name": call} if isinstance(call, str) else call
    call = _inner(found, "tool_call") if isinstance(found, Mapping) else {}
    function = call.get("function")
    inner = function if isinstance(function, Mapping) else call
    name = inner.get("name") or inner.get("toolName")
    name = name or (function if isinstance(function, str) else "")
    if not name:
        raise ValueError(f"has a call without the name of a tool: {short_repr(found)}")
    names = ("arguments", "args", "input", "input_parameters", "inputParameters", "parameters")
    arguments = next((inner[key] for key in names if inner.get(key) is not None), None)
    output = call.get("output", call.get("result"))
    return (
        ToolCall(
            name=str(name),
            arguments=as_json_text(arguments),
            id=_text_or_none(call.get("id") or call.get("tool_call_id") or call.get("toolCallId")),
        ),
        None if output is None else message_text(output, images),
    )


def _calls_in_parts(
    parts: Iterable[Any], images: ImageReader | None
) -> list[tuple[ToolCall, str | None]]:
    """Return calls and results among the parts of a content (Anthropic, Gemini, Inspect)."""
    called = [part for part in parts if _kind(part).endswith(_CALL_TYPES)]
    wrappers = ("functionCall", "toolInvocation")
    inner = [next((part[w] for w in wrappers if w in part), part) for part in called]
    return [read_call(call, images) for call in inner if isinstance(call, Mapping)]


def _result_part(part: Mapping[str, Any], images: ImageReader | None) -> ConversationMessage:
    part = _inner(part, "functionResponse")
    names = ("content", "response", "output", "result")
    content = next((part[name] for name in names if part.get(name) is not None), None)
    call_id = part.get("tool_use_id") or part.get("tool_call_id") or part.get("toolCallId")
    is_object = isinstance(content, Mapping)
    return ConversationMessage(
        role="tool",
        content=as_json_text(content) if is_object else message_text(content, images),
        name=_text_or_none(part.get("name") or part.get("toolName")),
        call_id=_text_or_none(call_id),
    )


def _kind(part: Any) -> str:
    """Return the type of a content's part, with underscores; empty if it has none."""
    if not isinstance(part, Mapping):
        return ""
    if "functionCall" in part:  # Gemini's parts have no type
        return "function_call"
    if "functionResponse" in part:
        return "function_response"
    return str(part.get("type", "")).replace("-", "_")


def _part_text(part: Mapping[str, Any], images: ImageReader | None) -> str:
    part = _inner(part, "message_content")  # OpenInference
    kind = _kind(part)
    if kind.endswith((*_CALL_TYPES, *_RESULT_TYPES)):
        return ""
    if kind in ("reasoning", "thinking", "redacted_thinking") or part.get("thought") is True:
        return ""
    if images is not None and is_image_part(part):
        return images.mark(part)
    source = part.get("source")
    if kind == "document" and isinstance(source, Mapping):  # Anthropic
        document = source.get("data") if source.get("type") == "text" else source.get("content")
        if document is not None:
            texts = (part.get("title"), part.get("context"), message_text(document, images))
            return "\n".join(text for text in texts if isinstance(text, str) and text)
    for name in ("text", "content", "refusal", "transcript"):
        if name in part and part[name] is not None:
            return message_text(part[name], images)
    if not kind:
        return as_json_text(part)
    about = source if kind == "document" and isinstance(source, Mapping) else part
    return f"[{kind.removeprefix('input_').removesuffix('_url')}: {_reference(about)}]"


def _reference(part: Mapping[str, Any]) -> str:
    """Return the name of an image or a file, without its bytes."""
    for value in part.values():
        inner = next(iter(value.values()), "") if isinstance(value, Mapping) and value else value
        if isinstance(inner, str) and inner != part.get("type"):
            return inner.partition(",")[0] if inner.startswith("data:") else inner[:200]
    return "not shown"


def _passage_text(item: Any) -> str | None:
    if isinstance(item, str):
        return item
    if isinstance(item, Passage):
        return item.text
    if not isinstance(item, Mapping):
        return None
    item = _inner(item, "document")
    names = (
        "text", "content", "page_content", "pageContent", "passage", "chunk", "context", "body",
        "snippet", "document", "excerpt", "cited_text",
    )  # fmt: skip
    return next((item[key] for key in names if isinstance(item.get(key), str)), None)


def _passage(item: Any, text: str) -> Passage:
    if not isinstance(item, Mapping):
        return Passage(text=text)
    item = _inner(item, "document")
    metadata = item.get("metadata")
    about = {**(metadata if isinstance(metadata, Mapping) else {}), **item}
    scores = ("score", "similarity", "relevance_score", "distance")
    ids = ("id", "_id", "doc_id", "document_id", "chunk_id", "source", "url")
    score = next((about[key] for key in scores if _is_number(about.get(key))), None)
    name = next((about[key] for key in ids if about.get(key) not in (None, "")), None)
    title = about.get("title")
    return Passage(
        text=text,
        id=_text_or_none(name),
        title=title if isinstance(title, str) and title else None,
        score=None if score is None else float(score),
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text_or_none(value: Any) -> str | None:
    return None if value is None or isinstance(value, list | dict) else str(value)


def short_repr(value: Any) -> str:
    """Return a value for an error message: short, on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
